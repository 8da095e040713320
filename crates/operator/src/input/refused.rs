//! New pods that the API server would refuse: those beyond a maximum or minimum of a LimitRange, or a ResourceQuota, of their namespace.
//!
//! Ratios of LimitRanges and quotas with scopes are not checked.

use std::collections::BTreeMap;

use fleetwright_core::model::{NamespacedName, Quantity, ResourceName, Resources};
use fleetwright_state::lower::requests;
use k8s_openapi::{
    api::core::v1::{Container, LimitRange, LimitRangeItem, PodSpec, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity as Written,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Item,
    admission::is_new,
    object::{id_of, namespace_of},
};

/// The new pods of `items`, admitted before, that the API server would refuse, with the reason.
pub(super) fn refused(items: &[Item]) -> BTreeMap<NamespacedName, String> {
    let ranges: Vec<(String, LimitRange)> = of_kind(items, "LimitRange");
    let mut quotas: Vec<Quota> = of_kind(items, "ResourceQuota").into_iter().filter_map(Quota::new).collect();
    if ranges.is_empty() && quotas.is_empty() {
        return BTreeMap::new();
    }
    let pods = || items.iter().map(|item| &item.value).filter(|value| value["kind"] == "Pod");
    for pod in pods().filter(|pod| !is_new(pod) && !is_over(pod)) {
        for quota in quotas.iter_mut().filter(|quota| quota.is_computed && quota.is_of(pod)) {
            quota.add(pod);
        }
    }
    let mut refused = BTreeMap::new();
    for pod in pods().filter(|pod| is_new(pod)) {
        // A malformed pod is reported where it is loaded.
        let Some(spec) = spec_of(pod) else { continue };
        let namespace = namespace_of(pod);
        let mut of_namespace = ranges.iter().filter(|(other, _)| *other == namespace);
        let beyond = of_namespace.find_map(|(_, range)| beyond_range(range, &spec));
        let beyond = beyond.or_else(|| {
            quotas.iter().filter(|quota| quota.is_of(pod)).find_map(|quota| quota.refuses(&spec))
        });
        match beyond {
            Some(why) => {
                let id = id_of(pod);
                refused.insert(
                    NamespacedName::new(id.0, id.1),
                    format!("the API server refuses the pod: {why}"),
                );
            }
            None => quotas.iter_mut().filter(|quota| quota.is_of(pod)).for_each(|quota| quota.add(pod)),
        }
    }
    refused
}

/// The objects of a kind with their namespaces; a malformed one is reported where it is loaded.
fn of_kind<T: DeserializeOwned>(items: &[Item], kind: &str) -> Vec<(String, T)> {
    let values = items.iter().map(|item| &item.value).filter(|value| value["kind"] == kind);
    values
        .filter_map(|value| Some((namespace_of(value), serde_json::from_value(value.clone()).ok()?)))
        .collect()
}

fn spec_of(pod: &Value) -> Option<PodSpec> {
    Some(requests::defaulted(&serde_json::from_value(pod["spec"].clone()).ok()?))
}

/// Whether a pod has ended: it counts against no quota.
fn is_over(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}

fn parsed(written: &Written) -> Option<Quantity> {
    written.0.parse().ok()
}

/// The first maximum or minimum of a LimitRange that a pod does not keep.
fn beyond_range(range: &LimitRange, spec: &PodSpec) -> Option<String> {
    let name = range.metadata.name.as_deref().unwrap_or_default();
    let items = range.spec.as_ref().map(|spec| spec.limits.as_slice()).unwrap_or_default();
    items.iter().find_map(|item| match item.type_.as_str() {
        "Container" => {
            let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            containers.into_iter().find_map(|container| beyond_container(name, item, container))
        }
        "Pod" => beyond_pod(name, item, spec),
        _ => None,
    })
}

fn beyond_container(range: &str, item: &LimitRangeItem, container: &Container) -> Option<String> {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    // A request above the maximum is refused even where the maximum became the limit.
    let above = item.max.iter().flatten().find_map(|(name, most)| {
        let amounts = [limits, requests].into_iter().flatten().filter_map(|all| all.get(name));
        let written = amounts.into_iter().find(|written| parsed(written) > parsed(most))?;
        Some(format!(
            "container {} has {name} {}, and LimitRange {range} allows at most {} for each container",
            container.name, written.0, most.0
        ))
    });
    above.or_else(|| {
        item.min.iter().flatten().find_map(|(name, least)| {
            let written = requests?.get(name).filter(|written| parsed(written) < parsed(least))?;
            Some(format!(
                "container {} requests {name} {}, and LimitRange {range} demands at least {} for each container",
                container.name, written.0, least.0
            ))
        })
    })
}

fn beyond_pod(range: &str, item: &LimitRangeItem, spec: &PodSpec) -> Option<String> {
    let limits = requests::limits_of_spec(spec);
    let requests = requests::of_spec(spec, None).ok()?;
    item.max.iter().flatten().find_map(|(name, most)| {
        let resource = ResourceName::from(name.as_str());
        let sum = limits.get(&resource).max(requests.get(&resource));
        let sum = Some(resource.quantity(sum)).filter(|sum| Some(*sum) > parsed(most))?;
        Some(format!(
            "the pod has {name} {sum}, and LimitRange {range} allows at most {} for each pod",
            most.0
        ))
    })
}

/// A ResourceQuota without scopes, with what is used of it.
struct Quota {
    namespace: String,
    name: String,
    /// By the name that the quota has: what is allowed and used, in the units of the model.
    rows: Vec<(String, i64, i64)>,
    /// Whether the use is that of the pods of the input, for the object has none.
    is_computed: bool,
}

impl Quota {
    fn new((namespace, quota): (String, ResourceQuota)) -> Option<Self> {
        let spec = quota.spec?;
        if spec.scopes.is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some() {
            return None;
        }
        let used = quota.status.and_then(|status| status.used);
        let row = |(name, hard): (String, Written)| {
            let resource = of_row(&name)?.1;
            let known = used.as_ref().and_then(|used| parsed(used.get(&name)?));
            let known = known.map_or(0, |known| resource.demand(known));
            let hard = resource.supply(parsed(&hard)?);
            Some((name, hard, known))
        };
        let rows = spec.hard.into_iter().flatten().filter_map(row).collect();
        let name = quota.metadata.name.unwrap_or_default();
        Some(Self { namespace, name, rows, is_computed: used.is_none() })
    }

    fn is_of(&self, pod: &Value) -> bool {
        namespace_of(pod) == self.namespace
    }

    /// Counts a pod.
    fn add(&mut self, pod: &Value) {
        let Some(amounts) = spec_of(pod).and_then(|spec| Amounts::of(&spec)) else { return };
        for (name, _, used) in &mut self.rows {
            *used = used.saturating_add(amounts.get(name));
        }
    }

    /// Why the quota refuses a pod.
    fn refuses(&self, spec: &PodSpec) -> Option<String> {
        let amounts = Amounts::of(spec)?;
        let name = &self.name;
        self.rows.iter().find_map(|(row, hard, used)| {
            let (is_limit, resource) = of_row(row)?;
            if let Some(container) = lacks(spec, is_limit, &resource) {
                return Some(format!(
                    "ResourceQuota {name} demands {row} of each container, and {container} has none"
                ));
            }
            let wanted = amounts.get(row);
            (wanted > 0 && used.saturating_add(wanted) > *hard).then(|| {
                format!(
                    "ResourceQuota {name} allows {row} {}, of which {} is used, and the pod needs {}",
                    resource.quantity(*hard),
                    resource.quantity(*used),
                    resource.quantity(wanted)
                )
            })
        })
    }
}

/// The container that lacks what a quota on CPU or memory demands of each.
fn lacks<'a>(spec: &'a PodSpec, is_limit: bool, resource: &ResourceName) -> Option<&'a str> {
    if !matches!(resource, ResourceName::Cpu | ResourceName::Memory) {
        return None;
    }
    let has = |container: &&Container| {
        let resources = container.resources.as_ref();
        let all =
            resources.and_then(|all| if is_limit { all.limits.as_ref() } else { all.requests.as_ref() });
        all.is_some_and(|all| all.contains_key(resource.as_str()))
    };
    spec.containers.iter().find(|container| !has(container)).map(|container| container.name.as_str())
}

/// Requests and limits of a pod.
struct Amounts {
    requests: Resources,
    limits: Resources,
}

impl Amounts {
    fn of(spec: &PodSpec) -> Option<Self> {
        Some(Self { requests: requests::of_spec(spec, None).ok()?, limits: requests::limits_of_spec(spec) })
    }

    fn get(&self, row: &str) -> i64 {
        match of_row(row) {
            Some((true, resource)) => self.limits.get(&resource),
            Some((false, resource)) => self.requests.get(&resource),
            None => 0,
        }
    }
}

/// Whether a row of a quota is about limits, and its resource; `None` if it is about other objects than pods.
fn of_row(name: &str) -> Option<(bool, ResourceName)> {
    match name.strip_prefix("limits.") {
        Some(resource) => Some((true, ResourceName::from(resource))),
        None if name == "count/pods" => Some((false, ResourceName::from("pods"))),
        None => {
            let resource = name.strip_prefix("requests.").unwrap_or(name);
            let is_of_pods = matches!(resource, "cpu" | "memory" | "pods" | "ephemeral-storage")
                || (name != resource && resource != "storage" && resource.contains('/'));
            is_of_pods.then(|| (false, ResourceName::from(resource)))
        }
    }
}

#[cfg(test)]
mod tests {
    //! What the API server refuses.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    const RANGE: &str = "{apiVersion: v1, kind: LimitRange, metadata: {name: r}, spec: {limits: [{type: Container, max: {memory: 4Gi}, min: {cpu: 100m}}, {type: Pod, max: {cpu: 3}}]}}";
    const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {requests.cpu: 2, pods: 2, services: 0}}}";
    const FULL: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {limits.memory: 2Gi}}, status: {used: {limits.memory: 2Gi}}}";
    const SCOPED: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 0}, scopes: [BestEffort]}}";

    fn pods(count: usize, containers: &str) -> String {
        let pod = |at| {
            format!(
                "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}}}, spec: {{containers: [{containers}]}}}}"
            )
        };
        (0..count).map(pod).collect()
    }

    const ONE: &str = "{name: c, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}}";

    #[rstest]
    #[case::within(RANGE, pods(1, ONE), &[])]
    #[case::above_the_maximum(RANGE, pods(1, "{name: c, resources: {limits: {memory: 5Gi}}}"), &["container c has memory 5Gi, and LimitRange r allows at most 4Gi for each container"])]
    #[case::a_request_above_it(RANGE, pods(1, "{name: c, resources: {requests: {memory: 5Gi}, limits: {memory: 4Gi}}}"), &["container c has memory 5Gi, and LimitRange r allows at most 4Gi for each container"])]
    #[case::below_the_minimum(RANGE, pods(1, "{name: c, resources: {requests: {cpu: 50m}}}"), &["container c requests cpu 50m, and LimitRange r demands at least 100m for each container"])]
    #[case::the_sum(RANGE, pods(1, &format!("{ONE}, {{name: d, resources: {{requests: {{cpu: 2500m}}}}}}")), &["the pod has cpu 3500m, and LimitRange r allows at most 3 for each pod"])]
    #[case::the_third(QUOTA, pods(3, ONE), &["ResourceQuota q allows pods 2, of which 2 is used, and the pod needs 1"])]
    #[case::another_namespace(&QUOTA.replace("name: q", "name: q, namespace: other"), pods(3, ONE), &[])]
    #[case::no_request(QUOTA, pods(1, "{name: c}"), &["ResourceQuota q demands requests.cpu of each container, and c has none"])]
    #[case::used_as_the_object_says(FULL, pods(1, ONE), &["ResourceQuota q allows limits.memory 2Gi, of which 2Gi is used, and the pod needs 1Gi"])]
    #[case::scopes(SCOPED, pods(1, ONE), &[])]
    fn pods_that_the_api_server_refuses(
        #[case] object: &str,
        #[case] pods: String,
        #[case] expected: &[&str],
    ) {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), &format!("{object}{pods}"), &mut items).unwrap();
        let found: Vec<String> = refused(&items).into_values().collect();
        let expected: Vec<String> =
            expected.iter().map(|why| format!("the API server refuses the pod: {why}")).collect();
        assert_eq!(found, expected);
    }
}
