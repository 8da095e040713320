//! Instance types, their offerings, and the catalogue of a NodePool.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use super::{
    baseline::Baseline,
    device::DeviceTemplates,
    ids::Str,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, LabelSchema, Labels, RESERVED, ZONE},
    price::Price,
    requirement::Requirement,
    requirements::Requirements,
    resources::{ResourceName, Resources},
};

/// A kind of node.
///
/// ```
/// use fleetwright_core::model::{InstanceType, Offering, Price, Requirement, Resources, labels};
///
/// let offering = Offering::new("zone-a", labels::ON_DEMAND, Price::from_nanos(96_000_000));
/// let small = InstanceType::new("small", Resources::of(2000, 4 << 30).with("pods", 110))
///     .with_requirement(Requirement::is_in(labels::ARCH, ["amd64"]))
///     .with_offerings(vec![offering]);
/// assert!(small.requirements.allows(labels::ZONE, "zone-a"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InstanceType {
    /// `node.kubernetes.io/instance-type`.
    pub name: Str,
    /// What its nodes will carry as labels; among them the union over its offerings of zone and capacity type.
    pub requirements: Requirements,
    /// Where and how it can be bought, in the provider's order. Unavailable ones are listed too.
    pub offerings: Vec<Offering>,
    /// What the node has.
    pub capacity: Resources,
    /// What of it pods cannot have.
    pub overhead: Overhead,
    /// Devices for claims (DRA) that its nodes will have.
    pub devices: Arc<DeviceTemplates>,
    /// What a burstable type may use of its CPUs all the time; `None` for all other types.
    pub baseline: Option<Baseline>,
    /// The prediction behind its capacity. `None` if the provider does not name what it depends on: then the capacity that nodes report
    /// corrects nothing, and a node that is too small for its pods counts for the instance type as such, for a limited time.
    pub prediction: Option<Arc<Prediction>>,
    /// CPU and memory as the cloud advertises them, if a node reports less: shown, never decided by.
    pub advertised: Option<Arc<Resources>>,
}

/// A provider's prediction of capacity, with what it depends on beside the instance type: the key of observed capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prediction {
    /// The image of the nodes, as in `status.imageID` of their NodeClaims.
    pub image: Str,
    /// The capacity without observations.
    pub capacity: Resources,
    /// The annotations of the NodeClaims that were launched by the NodeClass as it is now, which this prediction is for.
    pub annotations: Labels,
    /// Resources that are observed although the prediction is zero: the provider's tables may lack a new instance type.
    pub uncertain: &'static [&'static str],
}

impl Prediction {
    /// The prediction for nodes of this image.
    #[must_use]
    pub fn new(image: impl Into<Str>, capacity: Resources) -> Self {
        Self { image: image.into(), capacity, ..Self::default() }
    }

    /// The same prediction, for NodeClaims with these annotations alone.
    #[must_use]
    pub fn with_annotations(self, annotations: Labels) -> Self {
        Self { annotations, ..self }
    }

    /// The same prediction, with resources that are observed although it is zero.
    #[must_use]
    pub fn with_uncertain(self, uncertain: &'static [&'static str]) -> Self {
        Self { uncertain, ..self }
    }

    /// Whether a NodeClaim with these annotations was launched by the NodeClass as it is now.
    #[must_use]
    pub fn is_of(&self, claim: &Labels) -> bool {
        self.annotations.iter().all(|(key, value)| claim.get(key) == Some(value))
    }

    /// Whether it describes a resource, so that nodes correct it.
    #[must_use]
    pub fn covers(&self, resource: &ResourceName) -> bool {
        self.capacity.get(resource) > 0 || self.uncertain.contains(&resource.as_str())
    }
}

/// What a node keeps for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overhead {
    /// For Kubernetes' own parts.
    pub kube_reserved: Resources,
    /// For the operating system.
    pub system_reserved: Resources,
    /// Held free, so that the kubelet evicts before the kernel does.
    pub eviction_threshold: Resources,
}

impl Overhead {
    /// What Kubernetes' own parts keep, and nothing else.
    #[must_use]
    pub fn new(kube_reserved: Resources) -> Self {
        Self { kube_reserved, ..Self::default() }
    }

    /// The same with what the operating system keeps.
    #[must_use]
    pub fn with_system_reserved(self, system_reserved: Resources) -> Self {
        Self { system_reserved, ..self }
    }

    /// The same with what is held free of pods, so that the kubelet evicts in time.
    #[must_use]
    pub fn with_eviction_threshold(self, eviction_threshold: Resources) -> Self {
        Self { eviction_threshold, ..self }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Resources {
        self.kube_reserved.plus(&self.system_reserved).plus(&self.eviction_threshold)
    }
}

/// Finite capacity that several offerings draw on together, as those of the instance types that one host can run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedCapacity {
    /// Its name, equal for all offerings that draw on it.
    pub name: Str,
    /// How many more instances all of them can have together, whatever their types.
    pub instances: u32,
}

/// Capacity that was bought for a later time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduledCapacity {
    /// What messages call it, such as `capacity block cr-0123456789abcdef0`.
    pub name: Str,
    /// From when instances can be launched in it.
    pub starts: Timestamp,
}

/// One way to buy an instance type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Offering {
    /// At least capacity type and zone, one value each; a reserved one has its reservation's id.
    pub requirements: Requirements,
    /// Price per hour.
    pub price: Price,
    /// Whether it can be launched now, as far as is known.
    pub available: bool,
    /// How many more instances a reservation can hold; `None` without a reservation.
    pub reservation_capacity: Option<u32>,
    /// The finite capacity that it draws on, if it is not reserved; `None` where the cloud has no such limit.
    pub shared_capacity: Option<SharedCapacity>,
    /// The capacity that it waits for, if it can be launched later only.
    pub scheduled: Option<Arc<ScheduledCapacity>>,
    /// Allocatable resources, if they differ from the type's.
    pub allocatable: Option<Resources>,
    /// Whether a NodeOverlay set the price.
    pub overlaid: bool,
}

impl Offering {
    /// An available offering of a zone and a capacity type.
    #[must_use]
    pub fn new(zone: &str, capacity_type: &str, price: Price) -> Self {
        let requirements =
            [Requirement::is_in(CAPACITY_TYPE, [capacity_type]), Requirement::is_in(ZONE, [zone])];
        Self::of(requirements.into_iter().collect(), price)
    }

    /// An available offering with these requirements, which have a zone and a capacity type.
    #[must_use]
    pub fn of(requirements: Requirements, price: Price) -> Self {
        Self {
            requirements,
            price,
            available: true,
            reservation_capacity: None,
            shared_capacity: None,
            scheduled: None,
            allocatable: None,
            overlaid: false,
        }
    }

    /// The same offering; whether it can be launched now.
    #[must_use]
    pub fn available(self, available: bool) -> Self {
        Self { available, ..self }
    }

    /// The same offering, which draws on capacity that it shares with the others of this name: `instances` more, of all of them together.
    /// Without any left it is not available. The provider counts: the figure falls with each launch and grows with each termination.
    ///
    /// ```
    /// use fleetwright_core::model::{Offering, Price, labels};
    ///
    /// let price = Price::from_dollars(0.10)?;
    /// let on_host = |left| Offering::new("rack-1", labels::ON_DEMAND, price).with_shared_capacity("host-7", left);
    /// assert!(on_host(2).available && !on_host(0).available);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_shared_capacity(self, name: impl Into<Str>, instances: u32) -> Self {
        let available = self.available && instances > 0;
        Self { shared_capacity: Some(SharedCapacity { name: name.into(), instances }), available, ..self }
    }

    /// The same offering, which is available from `starts` on: until then pods that only it can run are told so, under this name of the capacity.
    #[must_use]
    pub fn starting(self, name: impl Into<Str>, starts: Timestamp) -> Self {
        let scheduled = Some(Arc::new(ScheduledCapacity { name: name.into(), starts }));
        Self { scheduled, available: false, ..self }
    }

    /// The same offering at another price.
    #[must_use]
    pub fn at_price(self, price: Price) -> Self {
        Self { price, ..self }
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> Option<&Str> {
        self.requirements.get(ZONE).and_then(|requirement| requirement.single())
    }

    /// `spot`, `on-demand` or `reserved`.
    #[must_use]
    pub fn capacity_type(&self) -> Option<&Str> {
        self.requirements.get(CAPACITY_TYPE).and_then(|requirement| requirement.single())
    }

    /// The reservation's id under the schema's key.
    #[must_use]
    pub fn reservation_id(&self, schema: &LabelSchema) -> Option<&Str> {
        self.requirements.get(schema.reservation_id.as_deref()?).and_then(|requirement| requirement.single())
    }

    /// Whether it draws on reserved capacity.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.capacity_type().is_some_and(|capacity_type| &**capacity_type == RESERVED)
    }
}

impl InstanceType {
    /// An instance type without offerings, overhead and devices, whose nodes have no other label than its name.
    #[must_use]
    pub fn new(name: impl Into<Str>, capacity: Resources) -> Self {
        let name = name.into();
        Self {
            requirements: [Requirement::is_in(INSTANCE_TYPE, [name.clone()])].into_iter().collect(),
            name,
            offerings: Vec::new(),
            capacity,
            overhead: Overhead::default(),
            devices: Arc::default(),
            prediction: None,
            advertised: None,
            baseline: None,
        }
    }

    /// The same type with a label that its nodes carry, in place of an earlier one of this key.
    #[must_use]
    pub fn with_requirement(mut self, requirement: Requirement) -> Self {
        self.requirements.replace(requirement);
        self
    }

    /// The same type with these offerings. Its nodes carry their zones and capacity types as labels.
    #[must_use]
    pub fn with_offerings(mut self, offerings: Vec<Offering>) -> Self {
        let zones = offerings.iter().filter_map(Offering::zone).cloned();
        self.requirements.replace(Requirement::is_in(ZONE, zones));
        let capacity_types = offerings.iter().filter_map(Offering::capacity_type).cloned();
        self.requirements.replace(Requirement::is_in(CAPACITY_TYPE, capacity_types));
        Self { offerings, ..self }
    }

    /// The same type with the prediction behind its capacity.
    #[must_use]
    pub fn with_prediction(self, prediction: Prediction) -> Self {
        Self { prediction: Some(Arc::new(prediction)), ..self }
    }

    /// The same type, of whose capacity the node keeps `overhead`.
    #[must_use]
    pub fn with_overhead(self, overhead: Overhead) -> Self {
        Self { overhead, ..self }
    }

    /// What pods can have: capacity less overhead, memory also less hugepages, never below zero.
    #[must_use]
    pub fn allocatable(&self) -> Resources {
        allocatable(&self.capacity, &self.overhead)
    }

    /// The allocatable resources of a node launched as `offering`.
    #[must_use]
    pub fn allocatable_of(&self, offering: &Offering) -> Resources {
        offering.allocatable.clone().unwrap_or_else(|| self.allocatable())
    }

    /// The cheapest available offering that `requirements` allow; of equal ones the first.
    #[must_use]
    pub fn cheapest(&self, requirements: &Requirements) -> Option<&Offering> {
        let fitting = self.offerings.iter().filter(|o| o.available && requirements.overlaps(&o.requirements));
        fitting.min_by_key(|offering| offering.price)
    }
}

/// The prefix of resources that are part of the memory.
pub(crate) const HUGEPAGES: &str = "hugepages-";

/// Capacity less overhead, memory also less hugepages, never below zero.
#[must_use]
pub fn allocatable(capacity: &Resources, overhead: &Overhead) -> Resources {
    let mut rest = capacity.minus(&overhead.total());
    let hugepages = capacity.extended().iter().filter(|(name, _)| name.starts_with(HUGEPAGES));
    let held = hugepages.fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    rest.set(&ResourceName::Memory, rest.memory().saturating_sub(held));
    rest.floored()
}

/// All instance types that a NodePool can choose from, unavailable ones too.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Catalog {
    /// The types, by name.
    pub instance_types: Vec<Arc<InstanceType>>,
    /// Names of the types of which a NodeOverlay set the capacity.
    pub overlaid: BTreeSet<Str>,
    /// Instance types by name with only those offerings that are available but have no known price; their prices are meaningless. A type
    /// may be here and above. It can be launched once a NodeOverlay sets a price.
    pub unpriced: Vec<Arc<InstanceType>>,
    /// Why it has no instance types, with the fix, where that is known.
    pub missing: Option<Str>,
}

impl Catalog {
    /// A catalogue of `instance_types`, sorted by name.
    #[must_use]
    pub fn new(mut instance_types: Vec<Arc<InstanceType>>) -> Self {
        instance_types.sort_by(|a, b| a.name.cmp(&b.name));
        Self { instance_types, ..Self::default() }
    }

    /// A catalogue without instance types, and why: with the fix.
    #[must_use]
    pub fn missing(why: impl Into<Str>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// The same catalogue, in which a NodeOverlay set the capacity of these types.
    #[must_use]
    pub fn with_overlaid(self, overlaid: BTreeSet<Str>) -> Self {
        Self { overlaid, ..self }
    }

    /// The same catalogue with offerings without a known price.
    #[must_use]
    pub fn with_unpriced(mut self, mut unpriced: Vec<Arc<InstanceType>>) -> Self {
        unpriced.sort_by(|a, b| a.name.cmp(&b.name));
        self.unpriced = unpriced;
        self
    }

    /// The type called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<InstanceType>> {
        let at = self.instance_types.binary_search_by(|t| (*t.name).cmp(name)).ok()?;
        self.instance_types.get(at)
    }

    /// The prediction behind the capacity of `instance_type`, with or without a known price.
    #[must_use]
    pub fn prediction(&self, instance_type: &str) -> Option<&Prediction> {
        let unpriced = || self.unpriced.iter().find(|known| *known.name == *instance_type);
        self.get(instance_type).or_else(unpriced)?.prediction.as_deref()
    }

    /// The price of the first offering of `instance_type` in `zone` as `capacity_type`, available or not.
    #[must_use]
    pub fn price(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Option<Price> {
        let offerings = &self.get(instance_type)?.offerings;
        let is = |value: Option<&Str>, wanted: &str| value.is_some_and(|value| &**value == wanted);
        let found = offerings.iter().find(|o| is(o.zone(), zone) && is(o.capacity_type(), capacity_type));
        found.map(|offering| offering.price)
    }
}
