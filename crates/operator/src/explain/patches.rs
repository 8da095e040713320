//! The nearest changes that may lift a constraint, as patches. What is not certain is tried on the solver before it is said.

use fleetwright_api as api;
use fleetwright_core::{
    model::{
        Incompatible, NodePool, Pod, Requirement, ResourceName, Str, Taint, Toleration,
        labels::{ARCH, NODEPOOL, OS},
        pod::PodSpec,
        taint::TolerationOperator,
    },
    scheduling::{Eliminated, Nearest},
    suggest,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::lifting::{Lift, drop_key, tolerating};
use crate::input::load::Loaded;

/// The keys of the tolerations that the admission plugin DefaultTolerationSeconds adds, and their time.
const ADMITTED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const ADMITTED_SECONDS: i64 = 300;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// Labels that other systems give to the nodes that they launch: a NodePool with one of them would launch other nodes.
pub(crate) const LABELS_OF_OTHERS: [&str; 8] = [
    "eks.amazonaws.com/nodegroup",
    "eks.amazonaws.com/capacityType",
    "eks.amazonaws.com/compute-type",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/provisioner-name",
    "node.kubernetes.io/lifecycle",
];

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Patch {
    /// `Pod` (its template, where a workload owns it) or `NodePool/NAME`.
    pub(crate) object: String,
    /// A strategic merge patch of a Pod, in which containers merge by name, and a merge patch of a NodePool.
    pub(crate) merge: Value,
}

/// A patch, and what it does to the input of the solver.
pub(super) struct Fix {
    pub(super) patch: Patch,
    pub(super) change: Change,
}

/// What a patch changes.
pub(super) enum Change {
    /// It lifts the constraint by what the constraint is.
    Certain,
    Pod(Lift),
    NodePool(Box<dyn Fn(&mut NodePool)>),
}

/// A constraint of a NodePool for a pod, from which those before it are lifted.
pub(super) struct Constraint<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) pool: &'a str,
    pub(super) pod: &'a Pod,
    pub(super) lifted: &'a Pod,
}

impl Constraint<'_> {
    /// What may lift it, the nearest first.
    pub(super) fn fixes(&self, eliminated: &Eliminated) -> Vec<Fix> {
        match eliminated {
            Eliminated::Taint(taint) => vec![self.toleration(taint)],
            Eliminated::Requirements { why, meant } => self.requirements(why, meant.as_ref()),
            Eliminated::InstanceTypes { nearest, .. } => match &**nearest {
                Nearest::Requirement { wanted, meant } => {
                    let mut fixes =
                        Vec::from_iter(meant.as_ref().and_then(|meant| self.value(wanted, meant)));
                    fixes.extend(self.without(wanted.key()));
                    fixes
                }
                Nearest::Requirements(wanted) => {
                    wanted.iter().filter_map(|wanted| self.without(wanted.key())).collect()
                }
                Nearest::Resource { name, requested, most, .. } => {
                    Vec::from_iter(self.request(name, *requested, *most))
                }
                _ => Vec::new(),
            },
            Eliminated::Limit { resource, limit, needed, .. } => {
                let name = ResourceName::from(&**resource);
                let raised = limit.saturating_add(*needed);
                let raised = if &**resource == "nodes" {
                    raised.to_string()
                } else {
                    name.quantity(raised).to_string()
                };
                let merge = json!({"spec": {"limits": {&**resource: raised}}});
                vec![self.of_pool(merge, Change::Certain)]
            }
            Eliminated::MinValues { key, available, .. } => Vec::from_iter(self.min_values(key, *available)),
            Eliminated::Topology { kind, key, .. } => Vec::from_iter(self.topology(kind, key)),
            _ => Vec::new(),
        }
    }

    /// A merge patch replaces a list as a whole: it has the tolerations of the pod, too. Admission gives each pod two of them again.
    fn toleration(&self, taint: &Taint) -> Fix {
        let own = self.lifted.spec.tolerations.iter().filter(|own| !is_admitted(own));
        let all: Vec<Value> = own.chain([&tolerating(taint)]).map(written).collect();
        of_pod(json!({"spec": {"tolerations": all}}), Change::Certain)
    }

    fn requirements(&self, why: &Incompatible, meant: Option<&Str>) -> Vec<Fix> {
        let mut fixes = Vec::new();
        match (why, meant) {
            (Incompatible::Undefined(wanted), Some(meant)) if **meant != *NODEPOOL => {
                fixes.extend(self.key(wanted, meant));
            }
            (Incompatible::Undefined(wanted), None) => fixes.extend(self.label(wanted)),
            (Incompatible::Disjoint { wanted, offered }, meant) => {
                let meant = meant.filter(|meant| offered.has(meant));
                fixes.extend(meant.and_then(|meant| self.value(wanted, meant)));
                fixes.extend(self.widened(wanted));
                fixes.extend(self.without(wanted.key()));
            }
            _ => {}
        }
        fixes
    }

    fn is_selected(&self, key: &str) -> bool {
        self.pod.spec.node_selector.iter().any(|(known, _)| &**known == key)
    }

    /// Another key in the node selector.
    fn key(&self, wanted: &Requirement, meant: &Str) -> Option<Fix> {
        if !self.is_selected(wanted.key()) {
            return None;
        }
        let value = Str::from(value_for(meant, wanted.single()?)?);
        let merge = selector(&[(&**wanted.key(), Value::Null), (&**meant, json!(&*value))]);
        let (old, meant) = (wanted.key().clone(), meant.clone());
        let change = move |spec: &mut PodSpec| {
            spec.node_selector.retain(|(known, _)| *known != old);
            spec.node_selector.push((meant.clone(), value.clone()));
        };
        Some(of_pod(merge, Change::Pod(Box::new(change))))
    }

    /// Another value in the node selector, or else in the node affinity.
    fn value(&self, wanted: &Requirement, meant: &Str) -> Option<Fix> {
        let key = wanted.key().clone();
        let corrected = Requirement::is_in(key.clone(), [meant.clone()]);
        if self.is_selected(&key) {
            let merge = selector(&[(&*key, json!(&**meant))]);
            let meant = meant.clone();
            let change = move |spec: &mut PodSpec| {
                for (_, value) in spec.node_selector.iter_mut().filter(|(known, _)| *known == key) {
                    *value = meant.clone();
                }
            };
            return Some(of_pod(merge, Change::Pod(Box::new(change))));
        }
        let change = move |spec: &mut PodSpec| {
            let terms = spec.required_node_terms.iter_mut().flatten();
            terms.filter(|known| *known.key() == key).for_each(|known| *known = corrected.clone());
        };
        self.affinity(change)
    }

    /// The pod without what it says of a key. What its image is built for is no choice.
    fn without(&self, key: &Str) -> Option<Fix> {
        if [ARCH, OS, NODEPOOL].contains(&&**key) {
            return None;
        }
        let dropped = key.clone();
        let change = move |spec: &mut PodSpec| drop_key(spec, &dropped);
        if self.is_selected(key) {
            let merge = selector(&[(&**key, Value::Null)]);
            return Some(of_pod(merge, Change::Pod(Box::new(change))));
        }
        self.affinity(change)
    }

    /// A changed node affinity, written out: its terms are a list, which a patch replaces.
    fn affinity(&self, change: impl Fn(&mut PodSpec) + 'static) -> Option<Fix> {
        let mut spec = (*self.pod.spec).clone();
        change(&mut spec);
        if spec.required_node_terms == self.pod.spec.required_node_terms {
            return None;
        }
        let term = |term: &Vec<Requirement>| json!({"matchExpressions": term.iter().flat_map(expressions).collect::<Vec<_>>()});
        let terms: Vec<Value> = spec.required_node_terms.iter().map(term).collect();
        let required = if terms.is_empty() { Value::Null } else { json!({"nodeSelectorTerms": terms}) };
        let merge = json!({"spec": {"affinity": {"nodeAffinity": {REQUIRED: required}}}});
        Some(of_pod(merge, Change::Pod(Box::new(change))))
    }

    /// A label of the NodePool's nodes that the pod asks for and no cloud has.
    fn label(&self, wanted: &Requirement) -> Option<Fix> {
        let (key, schema) = (wanted.key().clone(), self.loaded.index.schema());
        let is_ours = !schema.is_well_known(&key) && !schema.is_restricted(&key);
        if !is_ours || LABELS_OF_OTHERS.contains(&&*key) {
            return None;
        }
        let value = wanted.any().unwrap_or_else(|| Str::from("true"));
        let labels = json!({&*key: &*value});
        let merge = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
        let change = move |pool: &mut NodePool| {
            pool.template.labels.insert(key.clone(), value.clone());
        };
        Some(self.of_pool(merge, Change::NodePool(Box::new(change))))
    }

    /// The NodePool with the values that the pod asks for beside its own.
    fn widened(&self, wanted: &Requirement) -> Option<Fix> {
        let key = wanted.key().clone();
        if wanted.is_complement() || *key == *NODEPOOL {
            return None;
        }
        let (mut all, at) = self.written(&key)?;
        let own = all.get_mut(at)?;
        let missing = wanted.values().iter().map(ToString::to_string);
        match serde_json::to_value(&own.operator).ok()?.as_str()? {
            "In" => {
                let missing: Vec<String> = missing.filter(|value| !own.values.contains(value)).collect();
                own.values.extend(missing);
            }
            "NotIn" => {
                let missing: Vec<String> = missing.collect();
                own.values.retain(|value| !missing.contains(value));
            }
            _ => return None,
        }
        // Without values, NotIn excludes nothing.
        if own.values.is_empty() {
            all.remove(at);
        }
        let wanted = wanted.values().clone();
        let change = move |pool: &mut NodePool| {
            let requirements = &mut pool.template.requirements;
            let Some(own) = requirements.get(&key).cloned() else { return };
            let left: Vec<Str> = own.values().difference(&wanted).cloned().collect();
            let widened = match (own.is_complement(), left.is_empty()) {
                (false, _) => Requirement::is_in(key.clone(), own.values().union(&wanted).cloned()),
                (true, false) => Requirement::not_in(key.clone(), left),
                (true, true) => {
                    requirements.remove(&key);
                    return;
                }
            };
            requirements.replace(widened.with_min_values(own.min_values()));
        };
        Some(self.of_pool(requirements(&all), Change::NodePool(Box::new(change))))
    }

    /// The NodePool with a minValues that its instance types meet.
    fn min_values(&self, key: &Str, available: u32) -> Option<Fix> {
        let (mut all, at) = self.written(key)?;
        let fewer = (available > 0).then_some(available);
        all.get_mut(at)?.min_values = fewer.map(i64::from);
        let key = key.clone();
        let change = move |pool: &mut NodePool| {
            let requirements = &mut pool.template.requirements;
            let Some(own) = requirements.get(&key).cloned() else { return };
            requirements.replace(own.with_min_values(fewer));
        };
        Some(self.of_pool(requirements(&all), Change::NodePool(Box::new(change))))
    }

    /// The requirements of the NodePool as they are written, and the place of the one on a key; `None` where it has none or several, or a label.
    fn written(&self, key: &str) -> Option<(Vec<api::Requirement>, usize)> {
        let schema = self.loaded.index.schema();
        let template = &self.loaded.index.pool(self.pool)?.spec.template;
        if template.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key)) {
            return None;
        }
        let all = &template.spec.requirements;
        let mut of_key = all.iter().enumerate().filter(|(_, known)| schema.normalize(&known.key) == key);
        let (at, _) = of_key.next()?;
        of_key.next().is_none().then(|| (all.clone(), at))
    }

    /// The largest request that fits: the container that requests most of the resource gets the less.
    fn request(&self, name: &ResourceName, requested: i64, most: i64) -> Option<Fix> {
        let containers = self.loaded.containers.get(&self.pod.id)?;
        let amount = |known: &(String, Vec<(ResourceName, i64)>)| {
            known.1.iter().find(|(of, _)| of == name).map_or(0, |(_, amount)| *amount)
        };
        // Init containers, overhead and requests of the whole pod count otherwise than as a sum.
        let sum = containers.iter().fold(0_i64, |sum, known| sum.saturating_add(amount(known)));
        let largest = containers.iter().max_by_key(|known| amount(known))?;
        let fitting = amount(largest).saturating_sub(requested.saturating_sub(most));
        // A dump may lack the names of containers.
        if sum != requested || fitting <= 0 || largest.0.is_empty() {
            return None;
        }
        let requests = json!({name.as_str(): name.quantity(fitting).to_string()});
        let container = json!({"name": largest.0, "resources": {"requests": requests}});
        let name = name.clone();
        let change = move |spec: &mut PodSpec| spec.requests.set(&name, most);
        Some(of_pod(json!({"spec": {"containers": [container]}}), Change::Pod(Box::new(change))))
    }

    /// The pod without its hard constraints of a kind, where all of them are of the key.
    fn topology(&self, kind: &str, key: &str) -> Option<Fix> {
        let spec = &self.pod.spec;
        let are_all = |mut keys: Vec<&Str>| {
            keys.dedup();
            matches!(keys.as_slice(), [only] if &***only == key)
        };
        let (merge, change): (Value, Lift) = match kind {
            "topology spread" if are_all(spec.topology_spread.iter().map(|spread| &spread.key).collect()) => {
                (
                    json!({"spec": {"topologySpreadConstraints": null}}),
                    Box::new(|spec| spec.topology_spread.clear()),
                )
            }
            "pod affinity" if are_all(spec.pod_affinity.iter().map(|term| &term.key).collect()) => (
                json!({"spec": {"affinity": {"podAffinity": {REQUIRED: null}}}}),
                Box::new(|spec| spec.pod_affinity.clear()),
            ),
            "pod anti-affinity" if are_all(spec.pod_anti_affinity.iter().map(|term| &term.key).collect()) => {
                (
                    json!({"spec": {"affinity": {"podAntiAffinity": {REQUIRED: null}}}}),
                    Box::new(|spec| spec.pod_anti_affinity.clear()),
                )
            }
            _ => return None,
        };
        Some(of_pod(merge, Change::Pod(change)))
    }

    fn of_pool(&self, merge: Value, change: Change) -> Fix {
        Fix { patch: Patch { object: format!("NodePool/{}", self.pool), merge }, change }
    }
}

fn of_pod(merge: Value, change: Change) -> Fix {
    Fix { patch: Patch { object: "Pod".to_owned(), merge }, change }
}

fn requirements(all: &[api::Requirement]) -> Value {
    json!({"spec": {"template": {"spec": {"requirements": all}}}})
}

/// A requirement of a node affinity as a manifest has it. Bounds are above and below a number there.
fn expressions(wanted: &Requirement) -> Vec<Value> {
    let expression = |operator: &str, values: Vec<String>| match values.as_slice() {
        [] => json!({"key": &**wanted.key(), "operator": operator}),
        values => json!({"key": &**wanted.key(), "operator": operator, "values": values}),
    };
    let mut all = Vec::new();
    all.extend(wanted.gte().map(|bound| expression("Gt", vec![bound.saturating_sub(1).to_string()])));
    all.extend(wanted.lte().map(|bound| expression("Lt", vec![bound.saturating_add(1).to_string()])));
    if all.is_empty() || !wanted.values().is_empty() {
        let values = wanted.values().iter().map(ToString::to_string).collect();
        all.push(expression(wanted.operator().as_str(), values));
    }
    if wanted.is_present_beside() {
        all.push(expression("Exists", Vec::new()));
    }
    all
}

/// Whether the admission plugin DefaultTolerationSeconds has added a toleration. One with another time is the user's own.
fn is_admitted(toleration: &Toleration) -> bool {
    ADMITTED.contains(&&*toleration.key) && toleration.seconds == Some(ADMITTED_SECONDS)
}

/// A toleration as a manifest has it.
fn written(toleration: &Toleration) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            fields.insert(name.to_owned(), json!(value));
        }
    };
    set("key", &toleration.key);
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Lt => "Lt",
        TolerationOperator::Gt => "Gt",
    };
    set("operator", operator);
    set("value", &toleration.value);
    set("effect", toleration.effect.map_or("", |effect| effect.as_str()));
    if let Some(seconds) = toleration.seconds {
        fields.insert("tolerationSeconds".to_owned(), json!(seconds));
    }
    Value::Object(fields)
}

/// The value of a label of another name, as the known key writes it; `None` if it has only other values.
fn value_for<'a>(key: &str, value: &'a str) -> Option<&'a str> {
    let Some((_, known)) = suggest::KNOWN_VALUES.iter().find(|(known, _)| *known == key) else {
        return Some(value);
    };
    known
        .iter()
        .find(|known| **known == value)
        .copied()
        .or_else(|| suggest::nearest(value, known.iter().copied()))
}

fn selector(pairs: &[(&str, Value)]) -> Value {
    let pairs: Map<String, Value> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    json!({"spec": {"nodeSelector": pairs}})
}
