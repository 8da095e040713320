//! All constraints that keep a pod from a NodePool, not only the first: each is found by lifting those before it and asking the
//! solver again, beside the pods that the plan places. Nothing is decided here; the reasons are those of the solver.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    model::{
        Incompatible, Pod, PodAffinityTerm, ResourceName, Snapshot, Toleration,
        labels::{HOSTNAME, NODEPOOL},
        pod::PodSpec,
        taint::TolerationOperator,
    },
    scheduling::{
        Compatible, Effort, Eliminated, Nearest, Packer as _, Plan, PreparedSnapshot, Purpose, Request,
        Rules, Unplaced,
    },
    suggest,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::lifting::{drop_key, drop_topology, tolerating};
use crate::planned;

/// The most constraints of one pod and NodePool: each is one more question to the solver.
const MAX_CONSTRAINTS: usize = 12;
/// The most pods of different reasons that are asked about in one report, and the most NodePools: 5 x 10 x 12 questions.
const MAX_PODS: usize = 5;
const MAX_POOLS: usize = 10;
/// The keys of the tolerations that the admission plugin DefaultTolerationSeconds adds, and their time.
const ADMITTED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const ADMITTED_SECONDS: i64 = 300;

/// A constraint that rules a NodePool out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// The NodePool.
    pub(crate) node_pool: String,
    /// Its place among those of the NodePool, from 1.
    pub(crate) place: usize,
    /// One word.
    pub(crate) reason: String,
    /// With figures, and the nearest fix.
    pub(crate) message: String,
    /// The smallest change that lifts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) patch: Option<Patch>,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Patch {
    /// `Pod` (its template, where a workload owns it) or `NodePool/NAME`.
    pub(crate) object: String,
    /// A merge patch.
    pub(crate) merge: Value,
}

/// Asks about the pods that a plan could not place.
pub(crate) struct Finder<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    /// The snapshot as the plan leaves it, once it is needed.
    after: OnceCell<Snapshot>,
    rules: &'a Rules,
    /// Answers by what pods have in common.
    known: Vec<(Arc<PodSpec>, Vec<Row>)>,
    /// The snapshot with one NodePool, made ready, by NodePool.
    prepared: BTreeMap<String, PreparedSnapshot>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, plan: &'a Plan, rules: &'a Rules) -> Self {
        let after = OnceCell::new();
        Self { snapshot, plan, after, rules, known: Vec::new(), prepared: BTreeMap::new() }
    }

    /// All constraints that rule NodePools out for a pod that the solver could not place for `why`; only the first of each NodePool once
    /// [`MAX_PODS`] others were asked about.
    pub(crate) fn rows(&mut self, pod: &Arc<Pod>, why: &Unplaced) -> Vec<Row> {
        let Unplaced::NoPoolFits(verdicts) = why else { return Vec::new() };
        if let Some((_, rows)) = self.known.iter().find(|(spec, _)| *spec == pod.spec) {
            return rows.clone();
        }
        let mut rows = Vec::new();
        if self.known.len() == MAX_PODS {
            rows.extend(
                verdicts.iter().map(|verdict| row((&verdict.pool, 1), &verdict.eliminated, pod, pod)),
            );
            return rows;
        }
        for verdict in verdicts.iter().take(MAX_POOLS) {
            rows.extend(self.of_pool(pod, &verdict.pool, &verdict.eliminated));
        }
        self.known.push((pod.spec.clone(), rows.clone()));
        rows
    }

    fn of_pool(&mut self, pod: &Arc<Pod>, pool: &str, first: &Eliminated) -> Vec<Row> {
        let mut asked = (**pod).clone();
        let mut rows = vec![row((pool, 1), first, pod, pod)];
        let mut last = first.clone();
        for _ in 1..MAX_CONSTRAINTS {
            if !lift(&mut asked, &last) {
                break;
            }
            let after = self.after.get_or_init(|| planned::with(self.snapshot, self.plan, "planned"));
            let new = || PreparedSnapshot::new(&only_pool(after, pool), self.rules);
            let prepared = self.prepared.entry(pool.to_owned()).or_insert_with(new);
            let plan = ask(prepared, &Arc::new(asked.clone()));
            let Some((_, Unplaced::NoPoolFits(verdicts))) = plan.unplaced.first() else { break };
            let Some(next) = verdicts.iter().find(|verdict| &*verdict.pool == pool) else { break };
            if next.eliminated == last {
                break;
            }
            last = next.eliminated.clone();
            if !self.shares_node(&asked, &last) {
                rows.push(row((pool, rows.len() + 1), &as_asked(&last, pod, &asked), pod, &asked));
            }
        }
        rows
    }

    /// Whether a constraint is the affinity to pods of the plan by hostname. Without the other constraints, the plan would have put the pod on
    /// their node, which is full here.
    fn shares_node(&self, pod: &Pod, eliminated: &Eliminated) -> bool {
        let Eliminated::Topology { kind: "pod affinity", key, .. } = eliminated else { return false };
        **key == *HOSTNAME
            && planned::pods(self.plan).any(|other| is_drawn_to(self.snapshot, pod, key, other))
    }
}

/// Whether the affinity of a pod by a key selects another one.
pub(crate) fn is_drawn_to(snapshot: &Snapshot, pod: &Pod, key: &str, other: &Pod) -> bool {
    let space = &other.id.namespace;
    let in_namespace = |term: &PodAffinityTerm| match &term.namespace_selector {
        Some(labels) if snapshot.namespaces_matching(labels).contains(space) => true,
        None if term.namespaces.is_empty() => pod.id.namespace == *space,
        _ => term.namespaces.contains(space),
    };
    let is_selected = |term: &PodAffinityTerm| {
        term.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
    };
    let mut terms = pod.spec.pod_affinity.iter().filter(|term| *term.key == *key);
    terms.any(|term| in_namespace(term) && is_selected(term))
}

/// The row of a constraint of a NodePool, for a pod from which those before it were `lifted`.
fn row((pool, place): (&str, usize), eliminated: &Eliminated, pod: &Pod, lifted: &Pod) -> Row {
    Row {
        node_pool: pool.to_owned(),
        place,
        reason: eliminated.as_str().to_owned(),
        message: eliminated.to_string(),
        patch: fix(pool, eliminated, pod, &lifted.spec.tolerations),
    }
}

/// The constraint with the requests of the pod, of which `lifted` has only some.
pub(super) fn as_asked(eliminated: &Eliminated, pod: &Pod, lifted: &Pod) -> Eliminated {
    let mut eliminated = eliminated.clone();
    if let Eliminated::InstanceTypes { requests, .. } = &mut eliminated {
        *requests = requests.plus(&pod.requests().minus(lifted.requests()));
    }
    eliminated
}

/// What lifts a constraint, for a pod that has these tolerations once the constraints before it are lifted.
fn fix(pool: &str, eliminated: &Eliminated, pod: &Pod, tolerations: &[Toleration]) -> Option<Patch> {
    // A node selector beside a node affinity would not lift what the affinity demands.
    let is_selected = |key: &str| pod.spec.node_selector.iter().any(|(known, _)| &**known == key);
    let corrected = |key: &str, meant: &str| selector(&[(key, json!(meant))]);
    let of_pod = |merge: Value| Some(Patch { object: "Pod".to_owned(), merge });
    match eliminated {
        Eliminated::Taint(taint) => {
            // A merge patch replaces a list as a whole: it has the tolerations of the pod, too. Admission gives each pod two of them again.
            let own = tolerations.iter().filter(|own| !is_admitted(own));
            let all: Vec<Value> = own.chain([&tolerating(taint)]).map(written).collect();
            of_pod(json!({"spec": {"tolerations": all}}))
        }
        Eliminated::Requirements { why: Incompatible::Undefined(wanted), meant: Some(meant) }
            if is_selected(wanted.key()) && **meant != *NODEPOOL =>
        {
            let value = value_for(meant, wanted.single()?)?;
            of_pod(selector(&[(&**wanted.key(), Value::Null), (&**meant, json!(value))]))
        }
        Eliminated::Requirements { why: Incompatible::Disjoint { wanted, offered }, meant: Some(meant) }
            if is_selected(wanted.key()) && offered.has(meant) =>
        {
            of_pod(corrected(wanted.key(), meant))
        }
        Eliminated::InstanceTypes { nearest, .. } => match &**nearest {
            Nearest::Requirement { wanted, meant: Some(meant) } if is_selected(wanted.key()) => {
                of_pod(corrected(wanted.key(), meant))
            }
            _ => None,
        },
        Eliminated::Limit { resource, limit, needed, .. } => {
            let name = ResourceName::from(&**resource);
            let raised = limit.saturating_add(*needed);
            let raised =
                if &**resource == "nodes" { raised.to_string() } else { name.quantity(raised).to_string() };
            let merge = json!({"spec": {"limits": {&**resource: raised}}});
            Some(Patch { object: format!("NodePool/{pool}"), merge })
        }
        _ => None,
    }
}

/// Whether the admission plugin DefaultTolerationSeconds has added a toleration. One with another time is the user's own.
fn is_admitted(toleration: &Toleration) -> bool {
    ADMITTED.contains(&&*toleration.key) && toleration.seconds == Some(ADMITTED_SECONDS)
}

/// A toleration as a manifest has it.
fn written(toleration: &Toleration) -> Value {
    let mut fields = serde_json::Map::new();
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
    let pairs: serde_json::Map<String, Value> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    json!({"spec": {"nodeSelector": pairs}})
}

/// A snapshot with one NodePool, whose nodes have no room left: pods count for topology, and only a new node can take another one.
pub(crate) fn only_pool(snapshot: &Snapshot, pool: &str) -> Snapshot {
    let mut only = snapshot.clone();
    only.pools.retain(|known| &*known.name == pool);
    for node in &mut only.nodes {
        // Also of NodeClaims before launch, whose room follows from their instance types.
        let node = Arc::make_mut(node);
        node.requested = std::mem::take(&mut node.requested).with("pods", i64::MAX);
    }
    only
}

/// The first plan for one pod.
pub(crate) fn ask(prepared: &mut PreparedSnapshot, pod: &Arc<Pod>) -> Plan {
    ask_together(prepared, std::slice::from_ref(pod))
}

/// The first plan for some pods.
pub(crate) fn ask_together(prepared: &mut PreparedSnapshot, pods: &[Arc<Pod>]) -> Plan {
    let request = Request { pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    Compatible.pack(prepared, &request)
}

/// Takes a constraint away from a pod. Whether the pod has it: limits and offerings are not the pod's.
fn lift(pod: &mut Pod, eliminated: &Eliminated) -> bool {
    let mut spec = (*pod.spec).clone();
    match eliminated {
        Eliminated::Taint(taint) => spec.tolerations.push(tolerating(taint)),
        Eliminated::Requirements { why, .. } => drop_key(&mut spec, why.key()),
        Eliminated::Volumes(_) => spec.volumes.clear(),
        Eliminated::Topology { key, .. } => drop_topology(&mut spec, key),
        Eliminated::HostPort(_) => spec.host_ports.clear(),
        Eliminated::InstanceTypes { nearest, .. } => match &**nearest {
            Nearest::Requirement { wanted, .. } => drop_key(&mut spec, wanted.key()),
            Nearest::Requirements(wanted) => {
                wanted.iter().for_each(|wanted| drop_key(&mut spec, wanted.key()))
            }
            Nearest::Resource { name, most, .. } => spec.requests.set(name, *most),
            Nearest::Daemons { .. }
            | Nearest::Combination
            | Nearest::Offering
            | Nearest::Scheduled { .. } => return false,
        },
        _ => return false,
    }
    let changed = spec != *pod.spec;
    pod.spec = Arc::new(spec);
    changed
}
