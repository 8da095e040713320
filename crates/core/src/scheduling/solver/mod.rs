//! The solver: everything about a snapshot that does not depend on what is asked, built once; each request then costs
//! what it moves.
//!
//! - `intern`, `amounts`, `bits`: labels, requirements and resources as small integers.
//! - `pools`, `nodes`: what there is to buy, and what there is.
//! - `topology`: counters per group and domain, with an undo log.
//! - `compile`, `defaults`: pods as classes with levels of relaxation.
//! - `pass`, `on_machine`, `on_claim`, `claim`, `narrow`: one request, pod by pod in Karpenter's order.
//! - `finish`, `explain`: the result as a [`Plan`].

mod amounts;
mod bits;
mod claim;
mod compile;
mod defaults;
mod explain;
mod finish;
mod intern;
mod narrow;
mod nodes;
mod on_claim;
mod on_machine;
mod pass;
mod pools;
mod topology;

use std::sync::Arc;

use hashbrown::HashMap;
use indexmap::IndexSet;

pub(super) use self::pass::Strategy;
use self::{
    amounts::ResourceIndex,
    compile::{Class, Shape, ShapeKey},
    intern::{Key, Side, Universe, Value},
    nodes::Machine,
    pass::Scratch,
    pools::{Context, Daemon, Pool, Reservations},
    topology::{GroupKey, GroupKind, NodeFilter, Topology},
};
use super::{LeastCost, Packer, Plan, Request, Rules};
use crate::model::{
    ClaimName, NodeName, PodUid, Resources, Snapshot, StateNode, Toleration, labels, pod::PodSpec,
    taint::first_untolerated,
};

/// A snapshot made ready for scheduling: build once, ask often.
///
/// Asking leaves no trace in the answers: every request sees the snapshot as it is.
#[derive(Debug)]
pub struct Solver {
    snapshot: Snapshot,
    rules: Rules,
    universe: Universe,
    resources: ResourceIndex,
    reservations: Reservations,
    pools: Vec<Pool>,
    machines: Vec<Machine>,
    /// Usable machines in the order in which they are tried.
    order: Vec<usize>,
    topology: Topology,
    any_preference_taint: bool,
    classes: Vec<Class>,
    class_by_pointer: HashMap<(usize, usize), usize>,
    /// Classes of pods with volumes: each pod is one of its own.
    class_by_pod: HashMap<PodUid, usize>,
    class_by_content: HashMap<(usize, Resources), Vec<usize>>,
    /// Specs with default spread constraints, where those apply.
    default_specs: HashMap<defaults::AlikeKey, (Arc<PodSpec>, Option<Arc<PodSpec>>)>,
    /// How many levels all classes have together.
    levels: usize,
    by_claim: HashMap<ClaimName, usize>,
    by_node: HashMap<NodeName, usize>,
    shapes: Vec<Shape>,
    shape_ids: HashMap<ShapeKey, usize>,
    toleration_sets: IndexSet<Vec<Toleration>>,
    domains: HashMap<Key, Arc<[(usize, Value)]>>,
    hostname: Key,
    /// Allocations of passes, empty between them.
    scratch: Scratch,
}

impl Solver {
    /// Makes a snapshot ready.
    #[must_use]
    pub fn new(snapshot: &Snapshot, rules: &Rules) -> Self {
        let mut universe = Universe::new(Arc::clone(&snapshot.schema));
        let mut resources = ResourceIndex::default();
        let mut reservations = Reservations::default();
        let schedulable =
            |pod: &&Arc<crate::model::Pod>| !rules.ignore_dra || pod.spec.resource_claims.is_empty();
        let daemons: Vec<Daemon> = snapshot
            .daemons
            .iter()
            .filter(schedulable)
            .map(|pod| Daemon::new(pod, &mut universe, &mut resources))
            .collect();
        let mut context = Context {
            snapshot,
            universe: &mut universe,
            resources: &mut resources,
            reservations: &mut reservations,
            daemons: &daemons,
            reserved_capacity: rules.reserved_capacity,
        };
        let usable = snapshot.pools.iter().filter(|pool| Pool::is_usable(pool));
        let pools: Vec<Pool> = usable.map(|pool| Pool::new(pool, &mut context)).collect();
        let mut topology = Topology::default();
        let mut building = nodes::Building {
            snapshot,
            pools: &pools,
            daemons: &daemons,
            universe: &mut universe,
            resources: &mut resources,
            topology: &mut topology,
        };
        let machines: Vec<Machine> =
            snapshot.nodes.iter().map(|state| Machine::new(state, &mut building)).collect();
        let hostname = universe.key(labels::HOSTNAME);
        let mut this = Self {
            snapshot: snapshot.clone(),
            rules: rules.clone(),
            universe,
            resources,
            reservations,
            order: nodes::order(&machines),
            pools,
            machines,
            topology,
            any_preference_taint: false,
            classes: Vec::new(),
            class_by_pointer: HashMap::new(),
            class_by_pod: HashMap::new(),
            class_by_content: HashMap::new(),
            default_specs: HashMap::new(),
            levels: 0,
            by_claim: index(&snapshot.nodes, StateNode::claim_name),
            by_node: index(&snapshot.nodes, StateNode::node_name),
            shapes: Vec::new(),
            shape_ids: HashMap::new(),
            toleration_sets: IndexSet::new(),
            domains: HashMap::new(),
            hostname,
            scratch: Scratch::default(),
        };
        this.find_preference_taints();
        this.count_claims_on_domains();
        this
    }

    /// Schedules a request with [`super::LeastCost`]. Deterministic but for [`super::Effort::While`].
    pub fn solve(&mut self, request: &Request<'_>) -> Plan {
        LeastCost.pack(self, request)
    }

    /// One pass, pod by pod.
    pub(super) fn pass(&mut self, request: &Request<'_>, strategy: Strategy) -> Plan {
        pass::run(self, request, strategy)
    }

    /// Registers the required anti-affinity of every pod that runs.
    fn count_claims_on_domains(&mut self) {
        for at in 0..self.machines.len() {
            let node = Arc::clone(&self.machines[at].state);
            for pod in node.pods.iter().filter(|pod| pod.is_active()) {
                for term in &pod.spec.pod_anti_affinity {
                    let group = self.term_group(pod, term, GroupKind::Anti);
                    for domain in self.machine_domains(group, at) {
                        self.topology.count_base(group, domain, true, 1);
                    }
                }
            }
        }
    }

    /// The group that `key` describes, with the pods that run counted.
    fn group(&mut self, key: GroupKey) -> usize {
        if let Some(known) = self.topology.find(&key) {
            return known;
        }
        let by_host = key.key == self.hostname;
        let domains: Arc<[Value]> =
            if by_host { Arc::new([]) } else { self.registered_domains(key.key, key.filter.as_ref()) };
        let group = self.topology.add(key, by_host, domains);
        for at in 0..self.machines.len() {
            let selected: u32 = self.machines[at]
                .kinds
                .iter()
                .filter(|(kind, _)| self.topology.kinds[*kind].groups.contains(&group))
                .map(|(_, count)| *count)
                .sum();
            if selected > 0 && self.counts_on(group, at) {
                for domain in self.machine_domains(group, at) {
                    self.topology.count_base(group, domain, false, i64::from(selected));
                }
            }
        }
        group
    }

    /// The domains of a group that a machine may be in: one, unless its choice is open.
    fn machine_domains(&self, group: usize, at: usize) -> smallvec::SmallVec<[usize; 2]> {
        let group = &self.topology.groups[group];
        if group.by_host {
            return smallvec::smallvec![at];
        }
        let machine = &self.machines[at];
        match (machine.domain(&self.universe, group.is.key, machine.open), machine.open, group.is.kind) {
            (Some(value), _, _) => smallvec::smallvec![value as usize],
            (None, Some(open), GroupKind::Anti) => self.possible(open, group.is.key, &group.domains),
            _ => smallvec::SmallVec::new(),
        }
    }

    /// Those of `domains` that a requirement set allows.
    fn possible(&self, req: intern::Req, key: Key, domains: &[Value]) -> smallvec::SmallVec<[usize; 2]> {
        let set = self.universe.get(req, key);
        let allowed = |value: &&Value| set.is_none_or(|set| self.universe.has(key, set, **value));
        domains.iter().filter(allowed).map(|value| *value as usize).collect()
    }

    /// Whether pods on a machine count for a group.
    fn counts_on(&mut self, group: usize, at: usize) -> bool {
        let Some(filter) = &self.topology.groups[group].is.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        let filter = filter.clone();
        let machine = &self.machines[at];
        filter.alternatives.iter().any(|req| machine.satisfies(&mut self.universe, *req))
            && tolerates(&filter, &machine.taints)
    }

    /// Whether pods on a claim of a pool with these requirements count for a group.
    fn counts_in(&mut self, group: usize, pool: usize, req: intern::Req) -> bool {
        let Some(filter) = &self.topology.groups[group].is.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        let filter = filter.clone();
        filter.alternatives.iter().any(|wanted| self.universe.meet(req, *wanted, Side::Claim).is_some())
            && tolerates(&filter, &self.pools[pool].taints)
    }

    /// The domains of a key that are known, by text: those that pools can create where the filter tolerates their
    /// taints, and those of machines that it lets through.
    fn registered_domains(&mut self, key: Key, filter: Option<&NodeFilter>) -> Arc<[Value]> {
        let mut found: Vec<Value> = Vec::new();
        for (pool, value) in self.pool_domains(key).iter() {
            if filter.is_none_or(|filter| tolerates(filter, &self.pools[*pool].taints)) {
                found.push(*value);
            }
        }
        for machine in self.machines.iter().filter(|machine| machine.usable) {
            let Some(value) = machine.domain(&self.universe, key, machine.open) else { continue };
            let counted = filter.is_none_or(|filter| {
                filter.alternatives.iter().any(|req| machine.satisfies(&mut self.universe, *req))
                    && tolerates(filter, &machine.taints)
            });
            if counted {
                found.push(value);
            }
        }
        found.sort_unstable();
        found.dedup();
        found.sort_by(|a, b| self.universe.text(key, *a).cmp(self.universe.text(key, *b)));
        found.into()
    }

    /// Values of a key that each pool can create.
    fn pool_domains(&mut self, key: Key) -> Arc<[(usize, Value)]> {
        if let Some(known) = self.domains.get(&key) {
            return Arc::clone(known);
        }
        let mut found = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let template = self.universe.get(pool.req, key);
            let of_rows = pool.rows.iter().filter_map(|row| self.universe.get(row.req, key));
            let sets = of_rows.chain(template).filter(|set| !set.complement);
            let values = sets.flat_map(|set| set.values.iter().copied());
            let allowed = |value: &Value| template.is_none_or(|set| self.universe.has(key, set, *value));
            found.extend(values.filter(allowed).map(|value| (at, value)));
        }
        found.sort_unstable();
        found.dedup();
        let found: Arc<[(usize, Value)]> = found.into();
        self.domains.insert(key, Arc::clone(&found));
        found
    }
}

/// Machines by a name that they may have.
fn index<N: Clone + Eq + std::hash::Hash>(
    nodes: &[Arc<StateNode>],
    name: impl Fn(&StateNode) -> Option<&N>,
) -> HashMap<N, usize> {
    nodes.iter().enumerate().filter_map(|(at, node)| Some((name(node)?.clone(), at))).collect()
}

/// Whether the tolerations of a filter, where it has any, cover all taints.
fn tolerates(filter: &NodeFilter, taints: &[crate::model::Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
}
