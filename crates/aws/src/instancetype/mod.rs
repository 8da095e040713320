//! Instance types for scheduling: labels, capacity, overhead and offerings, by EC2NodeClass.

mod capacity;
pub mod compatible;
mod devices;
pub mod expressions;
mod offerings;
mod overhead;
mod pods;
mod requirements;
pub mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleetwright_aws_api::ec2nodeclass::{CapacityReservation, Ec2NodeClassSpec, Ec2NodeClassStatus, Subnet};
use fleetwright_aws_api::{MaxPods, ParsedKubelet, labels};
use fleetwright_core::model::{
    Catalog, InstanceType, Labels, ObservedCapacity, Prediction, Requirement, ResourceName, Resources,
};

pub use offerings::OfferingInputs;
pub use pods::eni_limited;
pub use requirements::architecture;

use crate::calls::{InstanceTypeDescription, PlacementGroup};
use crate::families::traits;
use crate::images::choose;
use crate::settings::Settings;
use expressions::{Expression, Variables};
use pods::PodLimits;

/// A node class as instance types see it.
#[derive(Clone, Copy)]
pub struct ClassView<'a> {
    /// The operator's settings.
    pub settings: &'a Settings,
    /// The class's spec.
    pub spec: &'a Ec2NodeClassSpec,
    /// The EC2NodeClass's status.
    pub status: &'a Ec2NodeClassStatus,
    /// The class's kubelet block.
    pub kubelet: &'a ParsedKubelet,
    /// The class's placement group.
    pub group: Option<&'a PlacementGroup>,
}

impl<'a> ClassView<'a> {
    /// The class's subnets in a zone.
    pub fn subnets_in(&self, zone: &str) -> impl Iterator<Item = &'a Subnet> {
        self.status.subnets.iter().filter(move |subnet| subnet.zone == zone)
    }

    /// The EC2NodeClass's reservations, if the feature is on.
    pub fn reservations(&self) -> impl Iterator<Item = &'a CapacityReservation> {
        let on = self.settings.reserved_capacity;
        self.status.capacity_reservations.iter().filter(move |_| on)
    }
}

/// Resources that are predicted from built-in tables, which may lack a new type: observed even if the prediction is zero.
const TABLED: [&str; 2] = [labels::RESOURCE_POD_ENI, labels::RESOURCE_PRIVATE_IPV4];

/// An instance type as launched with an EC2NodeClass, without offerings.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedInstanceType {
    /// The type without offerings.
    pub instance_type: InstanceType,
    /// Its capacity without observations from running nodes.
    pub predicted: Resources,
    /// The image of its nodes.
    pub image: Option<String>,
    /// The kubelet's configuration, with expressions evaluated for the type.
    pub kubelet: ResolvedKubelet,
    /// Problems to report to users.
    pub problems: Vec<String>,
}

impl ResolvedInstanceType {
    /// The key of the capacity that its nodes report; `None` without an image.
    fn prediction(&self, annotations: &Labels) -> Option<Prediction> {
        let prediction = Prediction::new(self.image.as_deref()?, self.predicted.clone());
        Some(prediction.with_annotations(annotations.clone()).with_uncertain(&TABLED))
    }
}

/// The parts of the kubelet block that differ by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResolvedKubelet {
    /// Pods per node: the EC2NodeClass's limit, else the family's.
    pub pods: i64,
    /// kubeReserved, evaluated; `None` if the EC2NodeClass does not set it.
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// systemReserved, evaluated.
    pub system_reserved: Option<BTreeMap<String, String>>,
}

/// Why an instance type is left out of an EC2NodeClass's catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The expression for maxPods has no usable value.
    #[error("instance type {instance_type}: spec.kubelet.maxPods: {why}")]
    MaxPods {
        /// The type.
        instance_type: String,
        /// Why.
        why: String,
    },
    /// EC2 describes it with impossible figures.
    #[error("instance type {0}: EC2 describes no CPU or no memory")]
    Empty(String),
}

fn variables(info: &InstanceTypeDescription, pods: i64) -> Variables {
    Variables {
        vcpus: info.vcpus,
        memory_mib: info.memory_mib,
        default_enis: info.network.default_interfaces(),
        ips_per_eni: info.network.ipv4_per_interface,
        max_pods: pods,
        instance_type: info.name.clone(),
    }
}

fn max_pods(
    info: &InstanceTypeDescription,
    view: &ClassView<'_>,
    default: i64,
) -> Result<Option<i64>, Unusable> {
    let text = match &view.kubelet.max_pods {
        None => return Ok(None),
        Some(MaxPods::Count(count)) => return Ok(Some(i64::from(*count))),
        Some(MaxPods::Expression(_)) if !view.settings.node_class_cel => return Ok(None),
        Some(MaxPods::Expression(text)) => text,
    };
    let unusable = |why: String| Unusable::MaxPods { instance_type: info.name.clone(), why };
    let value =
        Expression::compile(text).and_then(|expression| expression.evaluate(&variables(info, default)));
    let value = value.map_err(|error| unusable(error.to_string()))?;
    if !(0..=i64::from(i32::MAX)).contains(&value) {
        return Err(unusable(format!("{value} is out of range: use 0 to {}", i32::MAX)));
    }
    Ok(Some(value))
}

/// Computes pods and reserved resources of a type.
///
/// # Errors
/// If the expression for maxPods has no usable value.
pub fn resolve_kubelet(
    info: &InstanceTypeDescription,
    view: &ClassView<'_>,
    problems: &mut Vec<String>,
) -> Result<ResolvedKubelet, Unusable> {
    let family = view.spec.family();
    let interfaces = view.spec.network_interfaces.as_deref();
    let pods_with = |max_pods: Option<i64>| {
        let limits = PodLimits { max_pods, pods_per_core: view.kubelet.pods_per_core.map(i64::from) };
        pods::pods(info, family, limits, view.settings.reserved_enis, interfaces)
    };
    let pods = pods_with(max_pods(info, view, pods_with(None))?);
    let mut failed = Vec::new();
    let mut resolve = |map: &Option<BTreeMap<String, String>>| {
        let enabled = view.settings.node_class_cel;
        map.as_ref().map(|map| expressions::reserved(map, enabled, || variables(info, pods), &mut failed))
    };
    let kube_reserved = resolve(&view.kubelet.kube_reserved);
    let system_reserved = resolve(&view.kubelet.system_reserved);
    problems.extend(failed.into_iter().map(|error| format!("instance type {}: {error}", info.name)));
    Ok(ResolvedKubelet { pods, kube_reserved, system_reserved })
}

/// Describes an instance type as launched with an EC2NodeClass. Figures observed on earlier nodes of the type and its image replace the
/// estimate, and overhead and eviction thresholds follow from them.
///
/// # Errors
/// If the type cannot be used with the EC2NodeClass.
pub fn resolve(
    info: &InstanceTypeDescription,
    sold_in: &BTreeSet<String>,
    view: &ClassView<'_>,
    observed: &ObservedCapacity,
) -> Result<ResolvedInstanceType, Unusable> {
    if info.vcpus <= 0 || info.memory_mib <= 0 {
        return Err(Unusable::Empty(info.name.clone()));
    }
    let mut problems = Vec::new();
    let family = view.spec.family();
    let reservations: Vec<&CapacityReservation> =
        view.reservations().filter(|reservation| reservation.instance_type == info.name).collect();
    let subnets = &view.status.subnets;
    let zones = requirements::zones(sold_in, subnets);
    let mut requirements =
        requirements::requirements(info, &view.settings.region, &zones, subnets, family, &reservations);
    if let Some(group) = view.group {
        requirements.replace(Requirement::is_in(labels::PLACEMENT_GROUP_ID, [group.id.as_str()]));
        let parts = (1..=group.partitions).map(|part| part.to_string());
        if group.partitions > 0 {
            requirements.replace(Requirement::is_in(labels::PLACEMENT_GROUP_PARTITION, parts));
        }
    }
    let choice = choose(&requirements, &view.status.amis);
    if let Some(rival) = choice.as_ref().and_then(|choice| Some((choice.image, choice.rival?))) {
        let (image, rival) = (&rival.0.id, &rival.1.id);
        problems
            .push(format!("instance type {}: images {image} and {rival} are equally specific", info.name));
    }
    let image = choice.map(|choice| choice.image.id.clone());
    let kubelet = resolve_kubelet(info, view, &mut problems)?;
    let estimate = capacity::estimated_memory(info, view.settings.memory_overhead_ppm);
    let predicted = capacity::capacity(info, view.spec, estimate, kubelet.pods);
    let corrected = |image: &str| observed.corrected(&info.name, image, &predicted);
    let capacity = image.as_deref().map_or_else(|| predicted.clone(), corrected);
    let overhead_pods = if traits(family).eni_limited_memory_overhead {
        eni_limited(info, 0, view.spec.network_interfaces.as_deref())
    } else {
        capacity.pods()
    };
    let overhead = overhead::overhead(&overhead::Basis {
        cpu: capacity.cpu(),
        memory: capacity.memory(),
        storage: capacity.get(&ResourceName::EphemeralStorage),
        pods: overhead_pods,
        kube_reserved: kubelet.kube_reserved.as_ref(),
        system_reserved: kubelet.system_reserved.as_ref(),
        eviction_hard: view.kubelet.eviction_hard.as_ref(),
    });
    let mut instance_type = InstanceType::new(info.name.as_str(), capacity).with_overhead(overhead);
    instance_type.requirements = requirements;
    instance_type.devices = devices::devices(info);
    instance_type.baseline = tables::baseline(&info.name);
    instance_type.advertised = Some(Arc::new(advertised(info)));
    Ok(ResolvedInstanceType { instance_type, predicted, image, kubelet, problems })
}

/// CPU and memory of a type as EC2 describes it.
fn advertised(info: &InstanceTypeDescription) -> Resources {
    Resources::of(info.vcpus.saturating_mul(1000), info.memory_mib.saturating_mul(1 << 20))
}

/// The instance types of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceTypeCatalogue {
    /// Types by name.
    pub types: BTreeMap<String, InstanceTypeDescription>,
    /// The zones that offer each.
    pub sold_in: BTreeMap<String, BTreeSet<String>>,
}

/// The catalogue of an EC2NodeClass and the details of its types.
#[derive(Clone, Debug, Default)]
pub struct ClassCatalog {
    /// The catalogue.
    pub catalog: Arc<Catalog>,
    /// The types by name, as launched.
    pub resolved: BTreeMap<String, ResolvedInstanceType>,
    /// Types that were left out, and other problems to report.
    pub problems: Vec<String>,
}

/// The annotations of NodeClaims that were launched by the EC2NodeClass as it is now.
fn class_annotations(view: &ClassView<'_>) -> Labels {
    let hash = view.spec.drift_hash(&view.settings.ca_bundle);
    let annotations = [(labels::HASH, &*hash), (labels::HASH_VERSION, labels::CURRENT_HASH_VERSION)];
    annotations.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Builds the catalogue of an EC2NodeClass. A type that cannot be described is left out and reported. A type that no zone of the
/// EC2NodeClass offers is not listed; one without any price is listed without offerings.
#[must_use]
pub fn catalog(
    instance_types: &InstanceTypeCatalogue,
    view: &ClassView<'_>,
    observed: &ObservedCapacity,
    market: &OfferingInputs<'_>,
) -> ClassCatalog {
    let mut all = ClassCatalog::default();
    let (mut types, mut unpriced) = (Vec::new(), Vec::new());
    let nowhere = BTreeSet::new();
    let annotations = class_annotations(view);
    for (name, info) in &instance_types.types {
        let sold_in = instance_types.sold_in.get(name).unwrap_or(&nowhere);
        match resolve(info, sold_in, view, observed) {
            Ok(mut resolved) => {
                let sold = offerings::offerings(info, &resolved, view, market);
                if sold.priced.is_empty() && sold.unpriced.is_empty() {
                    continue;
                }
                all.problems.append(&mut resolved.problems);
                let prediction = resolved.prediction(&annotations).map(Arc::new);
                for (offerings, into) in [(sold.priced, &mut types), (sold.unpriced, &mut unpriced)] {
                    if !offerings.is_empty() {
                        let mut sold = resolved.instance_type.clone();
                        (sold.offerings, sold.prediction) = (offerings, prediction.clone());
                        into.push(Arc::new(sold));
                    }
                }
                all.resolved.insert(name.clone(), resolved);
            }
            Err(error) => all.problems.push(error.to_string()),
        }
    }
    all.catalog = Arc::new(Catalog::new(types).with_unpriced(unpriced));
    all
}

#[cfg(test)]
mod tests;

pub(crate) use capacity::listed_efas;
