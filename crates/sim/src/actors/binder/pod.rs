//! A parsed pod, cached while the relevant fields are unchanged.

use std::collections::BTreeSet;

use fleetwright_core::model::{Quantity, ResourceName, Resources};
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint},
    apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::LabelSelector},
};
use std::{collections::BTreeMap, sync::Arc};

use crate::actors::{cache::Key, selector::Labels};

/// A host port of a pod: address, protocol, port.
pub(super) type Port = (String, String, i32);

/// A pod, parsed.
#[derive(Clone, Debug)]
pub(super) struct PodInfo {
    /// Namespace and name.
    pub(super) key: Key,
    /// UID.
    pub(super) uid: String,
    /// The object.
    pub(super) pod: Arc<Pod>,
    /// Its requests, including one of `pods`.
    pub(super) requests: Resources,
    /// Host ports.
    pub(super) ports: Vec<Port>,
    /// Names of its PersistentVolumeClaims.
    pub(super) claims: BTreeSet<String>,
    /// Required affinity.
    pub(super) affinity: Vec<Term>,
    /// Required anti-affinity.
    pub(super) anti_affinity: Vec<Term>,
    /// Spread constraints, with the selector completed by `matchLabelKeys`.
    pub(super) spread: Vec<TopologySpreadConstraint>,
    /// Whether another pod's binding can make this one fit: it has affinity or spread constraints.
    pub(super) depends_on_pods: bool,
    /// Equal for pods that are equal in everything that filters read.
    pub(super) signature: String,
}

/// A term of pod affinity, with the selector completed by `matchLabelKeys`.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The key whose values are the domains.
    pub(super) topology: String,
    selector: Option<LabelSelector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
}

impl Term {
    /// Parses a term of `own`.
    pub(super) fn new(term: &PodAffinityTerm, own: &Pod) -> Self {
        let mut selector = term.label_selector.clone();
        let labels = own.metadata.labels.clone().unwrap_or_default();
        complete(&mut selector, term.match_label_keys.as_deref(), &labels, "In");
        complete(&mut selector, term.mismatch_label_keys.as_deref(), &labels, "NotIn");
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.extend(own.metadata.namespace.clone());
        }
        Self {
            topology: term.topology_key.clone(),
            selector,
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
        }
    }

    /// Whether the term selects this pod; `namespaces` are the labels of all namespaces.
    pub(super) fn selects(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        let (empty, none) = (Labels::new(), String::new());
        let namespace = pod.metadata.namespace.as_ref().unwrap_or(&none);
        let in_namespace = self.namespaces.contains(namespace)
            || (self.namespace_selector.is_some()
                && crate::actors::selector::matches(
                    self.namespace_selector.as_ref(),
                    namespaces.get(namespace).unwrap_or(&empty),
                ));
        in_namespace
            && crate::actors::selector::matches(
                self.selector.as_ref(),
                pod.metadata.labels.as_ref().unwrap_or(&empty),
            )
    }
}

/// Adds the pod's values of `keys` to a selector, as required (`In`) or excluded (`NotIn`).
fn complete(selector: &mut Option<LabelSelector>, keys: Option<&[String]>, labels: &Labels, operator: &str) {
    let Some(selector) = selector else { return };
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        selector.match_expressions.get_or_insert_default().push(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            },
        );
    }
}

impl PodInfo {
    /// Parses a pod.
    pub(super) fn new(pod: Arc<Pod>) -> Self {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let terms = |required: Option<&Vec<PodAffinityTerm>>| {
            required.into_iter().flatten().map(|term| Term::new(term, &pod)).collect::<Vec<_>>()
        };
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let near =
            terms(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref()));
        let apart =
            terms(apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref()));
        let spread = spread(spec, pod.metadata.labels.as_ref());
        Self {
            key: Key::of(&pod.metadata),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            requests: requests(spec),
            ports: ports(spec),
            claims: claims(&pod),
            depends_on_pods: !near.is_empty() || !apart.is_empty() || !spread.is_empty(),
            affinity: near,
            anti_affinity: apart,
            spread,
            signature: signature(&pod, spec),
            pod,
        }
    }

    /// The specification.
    pub(super) fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }

    /// Priority; zero without one.
    pub(super) fn priority(&self) -> i32 {
        self.spec().and_then(|spec| spec.priority).unwrap_or(0)
    }
}

/// What filters read of a pod, as text. Volumes are compared by name, because each claim has its own state.
fn signature(pod: &Pod, spec: &PodSpec) -> String {
    let mut spec = spec.clone();
    spec.hostname = None;
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let parts = (&pod.metadata.namespace, labels, spec);
    serde_json::to_string(&parts).unwrap_or_default()
}

fn spread(spec: &PodSpec, labels: Option<&Labels>) -> Vec<TopologySpreadConstraint> {
    let none = Labels::new();
    let mut constraints = spec.topology_spread_constraints.clone().unwrap_or_default();
    for constraint in &mut constraints {
        let keys = constraint.match_label_keys.clone();
        complete(&mut constraint.label_selector, keys.as_deref(), labels.unwrap_or(&none), "In");
    }
    constraints
}

/// The names of a pod's PersistentVolumeClaims, including those of generic ephemeral volumes.
pub(crate) fn claims(pod: &Pod) -> BTreeSet<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod_name}-{}", volume.name)),
            (None, None) => None,
        })
        .collect()
}

fn ports(spec: &PodSpec) -> Vec<Port> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let host = port.host_port.filter(|port| *port > 0)?;
            let address =
                port.host_ip.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
            Some((address, port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), host))
        })
        .collect()
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Parses a list of quantities, rounding requests up. An invalid quantity counts as zero: the API server rejects it.
pub(super) fn amounts(list: Option<&BTreeMap<String, Text>>, supply: bool) -> Resources {
    let mut amounts = Resources::new();
    for (name, text) in list.into_iter().flatten() {
        let name = ResourceName::from(name.as_str());
        if let Ok(quantity) = text.0.parse::<Quantity>() {
            amounts.set(&name, if supply { name.supply(quantity) } else { name.demand(quantity) });
        }
    }
    amounts
}

fn of_container(container: &Container) -> Resources {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()), false)
}

/// A pod's requests: the sum of containers and sidecars, or the largest init container if that is more, or the pod-level resources; plus
/// overhead.
pub(crate) fn requests(spec: &PodSpec) -> Resources {
    let mut total = Resources::new();
    for container in &spec.containers {
        total.add_assign(&of_container(container));
    }
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        if is_sidecar(container) {
            total.add_assign(&own);
            sidecars.add_assign(&own);
            peak = peak.component_max(&sidecars);
        } else {
            peak = peak.component_max(&sidecars.plus(&own));
        }
    }
    total = total.component_max(&peak);
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    for (name, amount) in amounts(whole, false).iter() {
        total.set(&name, amount);
    }
    total.add_assign(&amounts(spec.overhead.as_ref(), false));
    total.with("pods", 1)
}
