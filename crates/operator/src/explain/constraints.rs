//! All constraints that keep a pod from a NodePool, not only the first: each is found by lifting those before it and asking the
//! solver again, beside the pods that the plan places. Nothing is decided here; the reasons are those of the solver.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    model::{Pod, PodAffinityTerm, Snapshot, labels::HOSTNAME, pod::PodSpec},
    scheduling::{
        Compatible, Effort, Eliminated, Nearest, Packer as _, Plan, PreparedSnapshot, Purpose, Request,
        Rules, Unplaced,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    lifting::{drop_key, drop_topology, tolerating},
    patches::{Change, Constraint, Patch},
};
use crate::{figures, input::load::Loaded, planned};

/// The most constraints of one pod and NodePool: each is one more question to the solver.
const MAX_CONSTRAINTS: usize = 12;
/// The most questions of one report, for constraints and patches: those of some 150 pairs of a pod and a NodePool.
const MAX_QUESTIONS: usize = 4_000;
/// How many questions the preparation of a NodePool counts as.
const PREPARED: usize = 10;
/// The most NodePools that are kept ready.
const MAX_PREPARED: usize = 20;
/// The most pods whose answers are kept.
const MAX_KNOWN: usize = 1_000;

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

/// Asks about the pods that a plan could not place.
pub(crate) struct Finder<'a> {
    loaded: &'a Loaded,
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    /// The snapshot as the plan leaves it, once it is needed.
    after: OnceCell<Snapshot>,
    rules: &'a Rules,
    /// Answers by what pods have in common.
    known: Vec<(Arc<PodSpec>, Vec<Row>)>,
    /// The snapshot with one NodePool, made ready, by NodePool.
    prepared: BTreeMap<String, PreparedSnapshot>,
    /// Questions that may still be asked.
    left: usize,
    in_part: usize,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(
        loaded: &'a Loaded,
        (snapshot, plan): (&'a Snapshot, &'a Plan),
        rules: &'a Rules,
    ) -> Self {
        Self {
            loaded,
            snapshot,
            plan,
            after: OnceCell::new(),
            rules,
            known: Vec::new(),
            prepared: BTreeMap::new(),
            left: MAX_QUESTIONS,
            in_part: 0,
        }
    }

    /// How many NodePools got less than all their constraints, counted for each pod that differs.
    pub(crate) fn in_part(&self) -> usize {
        self.in_part
    }

    /// All constraints that rule NodePools out for a pod that the solver could not place for `why`; only the first of a NodePool once
    /// [`MAX_QUESTIONS`] were asked.
    pub(crate) fn rows(&mut self, pod: &Arc<Pod>, why: &Unplaced) -> Vec<Row> {
        let Unplaced::NoPoolFits(verdicts) = why else { return Vec::new() };
        if let Some((_, rows)) = self.known.iter().find(|(spec, _)| *spec == pod.spec) {
            return rows.clone();
        }
        let mut rows = Vec::new();
        for verdict in verdicts.iter() {
            rows.extend(self.of_pool(pod, &verdict.pool, &verdict.eliminated));
        }
        if self.known.len() < MAX_KNOWN {
            self.known.push((pod.spec.clone(), rows.clone()));
        }
        rows
    }

    fn of_pool(&mut self, pod: &Arc<Pod>, pool: &str, first: &Eliminated) -> Vec<Row> {
        let mut asked = (**pod).clone();
        let mut rows = vec![self.row((pool, 1), first, pod, pod)];
        let mut last = first.clone();
        for _ in 1..MAX_CONSTRAINTS {
            if !lift(&mut asked, &last) {
                break;
            }
            let Some(plan) = self.ask(pool, &Arc::new(asked.clone())) else {
                self.in_part += 1;
                break;
            };
            let Some(next) = eliminated_of(&plan, pool).filter(|next| *next != last) else { break };
            last = next;
            if !self.shares_node(&asked, &last) {
                let place = rows.len() + 1;
                rows.push(self.row((pool, place), &as_asked(&last, pod, &asked), pod, &asked));
            }
        }
        rows
    }

    /// The row of a constraint of a NodePool, for a pod from which those before it were `lifted`.
    fn row(&mut self, (pool, place): (&str, usize), eliminated: &Eliminated, pod: &Pod, lifted: &Pod) -> Row {
        let fixes = Constraint { loaded: self.loaded, pool, pod, lifted }.fixes(eliminated);
        let fix = fixes.into_iter().find(|fix| self.helps(pool, eliminated, lifted, &fix.change));
        Row {
            node_pool: pool.to_owned(),
            place,
            reason: eliminated.as_str().to_owned(),
            message: eliminated.to_string(),
            patch: fix.map(|fix| fix.patch),
        }
    }

    /// Whether the NodePool takes the pod with a change, or refuses it for something else.
    fn helps(&mut self, pool: &str, eliminated: &Eliminated, lifted: &Pod, change: &Change) -> bool {
        let mut pod = lifted.clone();
        let plan = match change {
            Change::Certain => return true,
            Change::Pod(change) => {
                let mut spec = (*pod.spec).clone();
                change(&mut spec);
                pod.spec = Arc::new(spec);
                self.ask(pool, &Arc::new(pod))
            }
            Change::NodePool(change) => {
                if !self.spend(PREPARED) {
                    return false;
                }
                let mut only = only_pool(self.after(), pool);
                only.pools.iter_mut().for_each(|known| change(Arc::make_mut(known)));
                Some(ask(&mut PreparedSnapshot::new(&only, self.rules), &Arc::new(pod)))
            }
        };
        let Some(plan) = plan else { return false };
        match eliminated_of(&plan, pool) {
            Some(next) => {
                next != *eliminated && (subject(&next).is_none() || subject(&next) != subject(eliminated))
            }
            None => plan.unplaced.is_empty(),
        }
    }

    /// The plan for one pod on new nodes of one NodePool, beside what the plan places; `None` once the questions are used up.
    fn ask(&mut self, pool: &str, pod: &Arc<Pod>) -> Option<Plan> {
        if !self.prepared.contains_key(pool) {
            if !self.spend(PREPARED) {
                return None;
            }
            if self.prepared.len() == MAX_PREPARED {
                self.prepared.clear();
            }
            let prepared = PreparedSnapshot::new(&only_pool(self.after(), pool), self.rules);
            self.prepared.insert(pool.to_owned(), prepared);
        }
        if !self.spend(1) {
            return None;
        }
        self.prepared.get_mut(pool).map(|prepared| ask(prepared, pod))
    }

    fn spend(&mut self, questions: usize) -> bool {
        let left = self.left.checked_sub(questions);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn after(&self) -> &Snapshot {
        self.after.get_or_init(|| planned::with(self.snapshot, self.plan, "planned"))
    }

    /// Whether a constraint is the affinity to pods of the plan by hostname. Without the other constraints, the plan would have put the pod on
    /// their node, which is full here.
    fn shares_node(&self, pod: &Pod, eliminated: &Eliminated) -> bool {
        let Eliminated::Topology { kind: "pod affinity", key, .. } = eliminated else { return false };
        **key == *HOSTNAME
            && planned::pods(self.plan).any(|other| is_drawn_to(self.snapshot, pod, key, other))
    }
}

/// The constraint by which a NodePool refuses the pod of a plan; `None` if it takes the pod.
fn eliminated_of(plan: &Plan, pool: &str) -> Option<Eliminated> {
    let Some((_, Unplaced::NoPoolFits(verdicts))) = plan.unplaced.first() else { return None };
    let of_pool = verdicts.iter().find(|verdict| &*verdict.pool == pool);
    of_pool.map(|verdict| verdict.eliminated.clone())
}

/// The label or resource that a constraint is about.
fn subject(eliminated: &Eliminated) -> Option<&str> {
    match eliminated {
        Eliminated::Requirements { why, .. } | Eliminated::Volumes(why) => Some(why.key()),
        Eliminated::Topology { key, .. } | Eliminated::MinValues { key, .. } => Some(key),
        Eliminated::InstanceTypes { nearest, .. } => match &**nearest {
            Nearest::Requirement { wanted, .. } => Some(wanted.key()),
            Nearest::Resource { name, .. } => Some(name.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// That the work on a report has an end.
pub(crate) fn in_part(node_pools: usize) -> String {
    format!(
        "{}: only the first constraints are named, because a report asks the solver at most {MAX_QUESTIONS} questions",
        figures::count(node_pools, "NodePool")
    )
}

/// The patches of constraints, each once.
pub(crate) fn patch_lines(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<(&Patch, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(patch) = &row.patch else { continue };
        let same = rows.iter().filter(|other| other.node_pool == row.node_pool).count();
        // Of several constraints of a NodePool, a patch lifts one: the pod needs all of them lifted.
        let lifts = (same > 1).then(|| format!("{} of {same} of NodePool {}", row.place, row.node_pool));
        match lines.iter_mut().find(|(known, _)| *known == patch) {
            Some((_, known)) => known.extend(lifts),
            None => lines.push((patch, lifts.into_iter().collect())),
        }
    }
    let line = |(patch, lifts): (&Patch, Vec<String>)| {
        let lifts = match lifts.as_slice() {
            [] => String::new(),
            lifts => format!(", which lifts constraint {}", figures::names(lifts)),
        };
        format!("patch of {}{lifts}: {}", patch.object, patch.merge)
    };
    lines.into_iter().map(line).collect()
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

/// The constraint with the requests of the pod, of which `lifted` has only some.
pub(super) fn as_asked(eliminated: &Eliminated, pod: &Pod, lifted: &Pod) -> Eliminated {
    let mut eliminated = eliminated.clone();
    if let Eliminated::InstanceTypes { requests, .. } = &mut eliminated {
        *requests = requests.plus(&pod.requests().minus(lifted.requests()));
    }
    eliminated
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
