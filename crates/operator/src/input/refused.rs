//! New pods that the API server would refuse: those that are invalid or whose workload is, and those that do not keep a LimitRange or a
//! ResourceQuota of their namespace.

use std::collections::BTreeMap;

use fleetwright_core::model::{NamespacedName, Quantity, ResourceName, Resources, quantity::Format};
use fleetwright_state::lower::requests;
use k8s_openapi::{
    api::core::v1::{Container, LimitRange, LimitRangeItem, PodAffinityTerm, PodSpec, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity as Written,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Item,
    admission::is_new,
    object::{id_of, namespace_of},
    template::{self, Owner},
    validation,
};

/// The new pods of `items`, admitted before, that the API server would refuse, with the reason.
pub(super) fn refused(items: &[Item]) -> BTreeMap<NamespacedName, String> {
    let ranges: Vec<(String, LimitRange)> = of_kind(items, "LimitRange");
    let mut quotas: Vec<Quota> = of_kind(items, "ResourceQuota").into_iter().filter_map(Quota::new).collect();
    let pods = || items.iter().map(|item| &item.value).filter(|value| value["kind"] == "Pod");
    for pod in pods().filter(|pod| !is_new(pod) && !is_over(pod)) {
        let Some(spec) = spec_of(pod).filter(|_| quotas.iter().any(|quota| quota.is_computed)) else {
            continue;
        };
        let namespace = namespace_of(pod);
        for quota in quotas.iter_mut().filter(|quota| quota.is_computed && quota.is_of(&namespace, &spec)) {
            quota.add(&spec);
        }
    }
    let workloads = refused_workloads(items);
    let mut refused = BTreeMap::new();
    for pod in pods().filter(|pod| is_new(pod)) {
        // A malformed pod is reported where it is loaded.
        let Some(spec) = spec_of(pod) else { continue };
        let namespace = namespace_of(pod);
        if let Some(why) = of_owner(pod, &workloads) {
            refused.insert(name_of(pod), why);
            continue;
        }
        let mut of_namespace = ranges.iter().filter(|(other, _)| *other == namespace);
        let beyond = of_namespace.find_map(|(_, range)| beyond_range(range, &spec));
        // A limit that a LimitRange gave is a matter of the pod, where the range allows the request.
        let beyond = beyond.or_else(|| invalid(pod)).or_else(|| {
            quotas
                .iter()
                .filter(|quota| quota.is_of(&namespace, &spec))
                .find_map(|quota| quota.refuses(&spec))
        });
        match beyond {
            Some(why) => {
                refused.insert(name_of(pod), format!("the API server refuses the pod: {why}"));
            }
            None => {
                let concerned = quotas.iter_mut().filter(|quota| quota.is_of(&namespace, &spec));
                concerned.for_each(|quota| quota.add(&spec));
            }
        }
    }
    refused
}

fn name_of(pod: &Value) -> NamespacedName {
    let id = id_of(pod);
    NamespacedName::new(id.0, id.1)
}

/// Namespace, kind and name of a controller, as its pods name it.
type Controller = (String, String, String);

/// The workloads that the API server would refuse, by what their pods would name as their controller, with the reason.
fn refused_workloads(items: &[Item]) -> BTreeMap<Controller, String> {
    let mut found = BTreeMap::new();
    for item in items.iter().filter(|item| item.value["kind"] != "Pod" && validation::is_manifest(item)) {
        let Item { value, .. } = item;
        let Some(first) = validation::invalid(value).into_iter().next() else { continue };
        let (kind, (namespace, name)) = (value["kind"].as_str().unwrap_or_default(), id_of(value));
        let (of, controller) = template::owner_of(&Owner { workload: value, kind, group: "" });
        let why = format!("the API server refuses {kind} {namespace}/{name}: {first}");
        found.insert((namespace, of.to_owned(), controller), why);
    }
    found
}

fn of_owner(pod: &Value, workloads: &BTreeMap<Controller, String>) -> Option<String> {
    let owner = pod.pointer("/metadata/ownerReferences/0")?;
    let text = |field: &str| owner[field].as_str().map(str::to_owned);
    workloads.get(&(namespace_of(pod), text("kind")?, text("name")?)).cloned()
}

fn invalid(pod: &Value) -> Option<String> {
    validation::invalid(pod).first().map(ToString::to_string)
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
    let of = |all: Option<&BTreeMap<String, Written>>, name: &str| all.and_then(|all| parsed(all.get(name)?));
    let subject = Subject {
        name: format!("container {}", container.name),
        each: "container",
        request: &|name| of(requests, name),
        limit: &|name| of(limits, name),
    };
    beyond(range, item, &subject)
}

fn beyond_pod(range: &str, item: &LimitRangeItem, spec: &PodSpec) -> Option<String> {
    let Amounts { requests, limits } = Amounts::of(spec)?;
    let of = |all: &Resources, name: &str| {
        let resource = ResourceName::from(name);
        let amount = Some(all.get(&resource)).filter(|amount| *amount > 0);
        amount.map(|amount| resource.quantity(amount))
    };
    let subject = Subject {
        name: "the pod".to_owned(),
        each: "pod",
        request: &|name| of(&requests, name),
        limit: &|name| of(&limits, name),
    };
    beyond(range, item, &subject)
}

/// What a row of a LimitRange is about: a container or a pod.
struct Subject<'a> {
    name: String,
    each: &'static str,
    request: &'a dyn Fn(&str) -> Option<Quantity>,
    limit: &'a dyn Fn(&str) -> Option<Quantity>,
}

/// What a row of a LimitRange does not allow of a container or pod, as the admission plugin LimitRanger finds it.
fn beyond(range: &str, item: &LimitRangeItem, subject: &Subject<'_>) -> Option<String> {
    let Subject { name: who, each, request, limit } = subject;
    let rule = |rule: String| format!("and LimitRange {range} {rule} for each {each}");
    let above = item.max.iter().flatten().find_map(|(name, most)| {
        let allows = || rule(format!("allows at most {}", most.0));
        let Some(limited) = limit(name) else {
            return Some(format!("{who} has no limit of {name}, {}", allows()));
        };
        // A request above the maximum is refused even where the maximum became the limit.
        let found = [Some(limited), request(name)].into_iter().flatten();
        let found = found.into_iter().find(|amount| Some(*amount) > parsed(most))?;
        Some(format!("{who} has {name} {found}, {}", allows()))
    });
    let below = || {
        item.min.iter().flatten().find_map(|(name, least)| {
            let demands = || rule(format!("demands at least {}", least.0));
            let Some(requested) = request(name) else {
                return Some(format!("{who} requests no {name}, {}", demands()));
            };
            (Some(requested) < parsed(least))
                .then(|| format!("{who} requests {name} {requested}, {}", demands()))
        })
    };
    let spread = || {
        item.max_limit_request_ratio.iter().flatten().find_map(|(name, most)| {
            let allows = || rule(format!("allows a limit of at most {} times the request", most.0));
            let (Some(requested), Some(limited)) = (request(name), limit(name)) else {
                return Some(format!("{who} has no request and limit of {name}, {}", allows()));
            };
            let is_above = parsed(most).is_some_and(|most| is_above(limited, requested, most));
            is_above.then(|| format!("{who} has {name} {limited} for a request of {requested}, {}", allows()))
        })
    };
    above.or_else(below).or_else(spread)
}

/// Whether a limit is more than `most` times the request.
fn is_above(limit: Quantity, request: Quantity, most: Quantity) -> bool {
    let one = Quantity::from_units(1, Format::DecimalSi);
    limit.nanos().saturating_mul(one.nanos()) > request.nanos().saturating_mul(most.nanos())
}

/// A ResourceQuota, with what is used of it.
struct Quota {
    namespace: String,
    name: String,
    /// It is about pods that are in all of them.
    scopes: Vec<Scope>,
    /// By the name that the quota has: what is allowed and used, in the units of the model.
    rows: Vec<(String, i64, i64)>,
    /// Whether the use is that of the pods of the input, for the object has none.
    is_computed: bool,
}

impl Quota {
    fn new((namespace, quota): (String, ResourceQuota)) -> Option<Self> {
        let spec = quota.spec?;
        let selected = spec.scope_selector.and_then(|selector| selector.match_expressions);
        let selected = selected.into_iter().flatten().map(|term| Scope {
            name: term.scope_name,
            operator: term.operator,
            values: term.values.unwrap_or_default(),
        });
        let named = spec.scopes.into_iter().flatten().map(Scope::named);
        let scopes = named.chain(selected).collect();
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
        Some(Self { namespace, name, scopes, rows, is_computed: used.is_none() })
    }

    fn is_of(&self, namespace: &str, spec: &PodSpec) -> bool {
        namespace == self.namespace && self.scopes.iter().all(|scope| scope.has(spec))
    }

    /// Counts a pod.
    fn add(&mut self, spec: &PodSpec) {
        let Some(amounts) = Amounts::of(spec) else { return };
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

/// A scope of a quota: of `scopes`, or a term of `scopeSelector`.
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Scope {
    fn named(name: String) -> Self {
        Self { name, operator: "Exists".to_owned(), values: Vec::new() }
    }

    /// Whether a pod is in the scope. A scope that is not known is about no pod.
    fn has(&self, spec: &PodSpec) -> bool {
        let has_deadline = spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0);
        match self.name.as_str() {
            "BestEffort" => is_best_effort(spec),
            "NotBestEffort" => !is_best_effort(spec),
            "Terminating" => has_deadline,
            "NotTerminating" => !has_deadline,
            "CrossNamespacePodAffinity" => has_affinity_with_other_namespaces(spec),
            "PriorityClass" => {
                let class = spec.priority_class_name.as_ref().filter(|name| !name.is_empty());
                let is_named = class.is_some_and(|class| self.values.contains(class));
                match self.operator.as_str() {
                    "In" => is_named,
                    "NotIn" => !is_named,
                    "Exists" => class.is_some(),
                    "DoesNotExist" => class.is_none(),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Whether no container requests or limits CPU or memory.
fn is_best_effort(spec: &PodSpec) -> bool {
    Amounts::of(spec).is_some_and(|Amounts { requests, limits }| {
        [ResourceName::Cpu, ResourceName::Memory]
            .iter()
            .all(|name| requests.get(name) == 0 && limits.get(name) == 0)
    })
}

fn has_affinity_with_other_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let is_of_others = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let (with, apart) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    let required = [
        with.and_then(|with| with.required_during_scheduling_ignored_during_execution.as_ref()),
        apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = [
        with.and_then(|with| with.preferred_during_scheduling_ignored_during_execution.as_ref()),
        apart.and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_ref()),
    ];
    required.into_iter().flatten().flatten().any(is_of_others)
        || preferred.into_iter().flatten().flatten().any(|term| is_of_others(&term.pod_affinity_term))
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
    use crate::input::{admission, files};

    const RANGE: &str = "{apiVersion: v1, kind: LimitRange, metadata: {name: r}, spec: {limits: [{type: Container, max: {memory: 4Gi}, min: {cpu: 100m}}, {type: Pod, max: {cpu: 3}}]}}";
    const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {requests.cpu: 2, pods: 2, services: 0}}}";
    const FULL: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {limits.memory: 2Gi}}, status: {used: {limits.memory: 2Gi}}}";
    const SCOPED: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 0}, scopes: [BestEffort, NotTerminating]}}";
    const OF_CLASS: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 0}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}";
    const RATIO: &str = "{apiVersion: v1, kind: LimitRange, metadata: {name: r}, spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 2500m}}, {type: Pod, maxLimitRequestRatio: {memory: 2}}]}}";
    const ONE_AND_A_HALF: &str =
        "{name: c, resources: {requests: {cpu: 1, memory: 2Gi}, limits: {cpu: 2500m, memory: 3Gi}}}";

    fn pods(count: usize, containers: &str) -> String {
        let pod = |at| {
            format!(
                "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}}}, spec: {{containers: [{containers}]}}}}"
            )
        };
        (0..count).map(pod).collect()
    }

    const LIMITED: &str = "{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}";
    const ONE: &str = "{name: c, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}}";

    #[rstest]
    #[case::within(RANGE, pods(1, LIMITED), &[])]
    #[case::above_the_maximum(RANGE, pods(1, "{name: c, resources: {limits: {memory: 5Gi}}}"), &["container c has memory 5Gi, and LimitRange r allows at most 4Gi for each container"])]
    #[case::a_request_above_it(RANGE, pods(1, "{name: c, resources: {requests: {memory: 5Gi}, limits: {memory: 4Gi}}}"), &["container c has memory 5Gi, and LimitRange r allows at most 4Gi for each container"])]
    #[case::below_the_minimum(RANGE, pods(1, "{name: c, resources: {requests: {cpu: 50m}, limits: {cpu: 1}}}"), &["container c requests cpu 50m, and LimitRange r demands at least 100m for each container"])]
    #[case::the_sum(RANGE, pods(1, &format!("{ONE}, {{name: d, resources: {{limits: {{cpu: 3500m}}}}}}")), &["the pod has cpu 3500m, and LimitRange r allows at most 3 for each pod"])]
    #[case::the_third(QUOTA, pods(3, ONE), &["ResourceQuota q allows pods 2, of which 2 is used, and the pod needs 1"])]
    #[case::another_namespace(&QUOTA.replace("name: q", "name: q, namespace: other"), pods(3, ONE), &[])]
    #[case::no_request(QUOTA, pods(1, "{name: c}"), &["ResourceQuota q demands requests.cpu of each container, and c has none"])]
    #[case::used_as_the_object_says(FULL, pods(1, ONE), &["ResourceQuota q allows limits.memory 2Gi, of which 2Gi is used, and the pod needs 1Gi"])]
    #[case::a_pod_without_limit(RANGE, pods(1, "{name: c, resources: {limits: {memory: 1Gi}}}"), &["the pod has no limit of cpu, and LimitRange r allows at most 3 for each pod"])]
    #[case::outside_the_scope(SCOPED, pods(1, ONE), &[])]
    #[case::in_the_scope(SCOPED, pods(1, "{name: c}"), &["ResourceQuota q allows pods 0, of which 0 is used, and the pod needs 1"])]
    #[case::in_one_scope_of_two(SCOPED, pods(1, "{name: c}").replace("spec: {", "spec: {activeDeadlineSeconds: 60, "), &[])]
    #[case::of_the_class(OF_CLASS, pods(1, ONE).replace("spec: {", "spec: {priorityClassName: high, "), &["ResourceQuota q allows pods 0, of which 0 is used, and the pod needs 1"])]
    #[case::of_another_class(OF_CLASS, pods(1, ONE).replace("spec: {", "spec: {priorityClassName: low, "), &[])]
    #[case::within_the_ratios(RATIO, pods(1, ONE_AND_A_HALF), &[])]
    #[case::above_the_ratio(RATIO, pods(1, &ONE_AND_A_HALF.replace("2500m", "2600m")), &["container c has cpu 2600m for a request of 1, and LimitRange r allows a limit of at most 2500m times the request for each container"])]
    #[case::above_the_ratio_of_the_pod(RATIO, pods(1, &ONE_AND_A_HALF.replace("2Gi", "1Gi")), &["the pod has memory 3Gi for a request of 1Gi, and LimitRange r allows a limit of at most 2 times the request for each pod"])]
    #[case::nothing_to_compare(RATIO, pods(1, "{name: c, resources: {requests: {cpu: 1}}}"), &["container c has no request and limit of cpu, and LimitRange r allows a limit of at most 2500m times the request for each container"])]
    fn pods_that_the_api_server_refuses(
        #[case] object: &str,
        #[case] pods: String,
        #[case] expected: &[&str],
    ) {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), &format!("{object}{pods}"), &mut items).unwrap();
        admission::admit(&mut items);
        let found: Vec<String> = refused(&items).into_values().collect();
        let expected: Vec<String> =
            expected.iter().map(|why| format!("the API server refuses the pod: {why}")).collect();
        assert_eq!(found, expected);
    }
}
