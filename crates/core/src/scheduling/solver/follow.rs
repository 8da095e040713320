//! A newer snapshot: what changed is taken out and put in, all else stays.
//!
//! Nodes are compared by address, as snapshots share what did not change. Where something else than nodes changed
//! that the tables rest on (pools, instance types, daemons, labels of namespaces), all is built again.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use super::{
    Solver,
    amounts::{fits_free, get},
    bits::Bits,
    domains,
    nodes::{Building, NodeRow, tolerated},
    placement::Placement,
    pod_classes,
    pools::Pool,
    tables::Tables,
    topology::GroupKind,
};
use crate::scheduling::ids::{DomainId, IdVec, LevelId, NodeId, NodePoolId, PodClassId, TopologyGroupId};
use crate::{
    model::{Catalog, NodePool, Pod, PoolName, Snapshot, StateNode, TaintEffect},
    scheduling::Rules,
};

/// Tables that have grown by so much, and to twice their size, are built again: they keep all that was ever asked, and
/// the labels of nodes that are gone.
const MAX_GROWTH: usize = 50_000;

/// How large the tables are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size(usize);

/// What the nodes of a pool are in sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// By limit of the pool.
    amounts: Vec<i128>,
    nodes: i64,
}

impl Usage {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { amounts: vec![0; pool.limits.len()], nodes: 0 }
    }

    fn count(&mut self, pool: &Pool, node: &NodeRow, by: i64) {
        for (amount, limit) in self.amounts.iter_mut().zip(&pool.limits) {
            *amount += i128::from(by) * i128::from(get(&node.capacity, limit.resource));
        }
        self.nodes += by;
    }

    /// What is left of each limit, and of the limit on nodes.
    fn left(&self, pool: &Pool) -> (Vec<i64>, Option<i64>) {
        let amounts = pool.limits.iter().zip(&self.amounts);
        let rest = |limit: i64, used: i128| {
            let rest = i128::from(limit) - used;
            i64::try_from(rest).unwrap_or(if rest < 0 { i64::MIN } else { i64::MAX })
        };
        let left = amounts.map(|(limit, used)| rest(limit.limit, *used)).collect();
        (left, pool.model.limits.nodes.map(|nodes| nodes.saturating_sub(self.nodes)))
    }
}

/// What tells the nodes that come from those that go.
enum Step {
    Stays(NodeId),
    Comes(Option<NodeId>),
}

impl Solver {
    /// Brings the solver to a newer (or any other) snapshot, at the cost of what has changed since its own. It answers
    /// as one that is built on that snapshot. Returns the snapshot that it leaves: to drop the last reference to one costs
    /// as much as it has nodes, which the caller may want to do later.
    pub fn update(&mut self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.rewind_base();
        if !self.tables.can_follow(snapshot) {
            let fresh = Self::on(Arc::clone(snapshot), &self.tables.rules);
            return std::mem::replace(self, fresh).tables.snapshot;
        }
        let before = std::mem::replace(&mut self.tables.snapshot, Arc::clone(snapshot));
        self.asked = super::RequestQueue::default();
        for pool in &mut self.tables.pools {
            if let Some(model) = snapshot.pool(&pool.model.name) {
                pool.model = Arc::clone(model);
            }
        }
        let same_volumes = Arc::ptr_eq(&before.volumes, &snapshot.volumes)
            && same(&before.storage_classes, &snapshot.storage_classes);
        if !same_volumes {
            self.tables.class_by_pod.clear();
        }
        move_nodes(&mut self.tables, &mut self.placement, &before, snapshot);
        before
    }

    /// The rules that requests are answered by.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.tables.rules
    }
}

impl Tables {
    /// Pods of deleting nodes, which need a place whatever is decided, by node.
    pub(crate) fn leaving(&self) -> Vec<Arc<Pod>> {
        let mut nodes: Vec<usize> = self.deleting.iter().map(|at| self.positions[at]).collect();
        nodes.sort_unstable();
        let pods = nodes.into_iter().flat_map(|node| self.snapshot.nodes[node].pods.iter());
        pods.filter(|pod| pod.is_reschedulable()).cloned().collect()
    }

    fn node(&mut self, node: &Arc<StateNode>) -> NodeRow {
        let mut building = Building {
            snapshot: &self.snapshot,
            pools: &self.pools,
            daemons: &self.daemons,
            universe: &mut self.universe,
            resources: &mut self.resources,
            topology: &mut self.topology,
        };
        NodeRow::new(node, &mut building)
    }

    /// Whether nothing but nodes, pods and volumes changed.
    fn can_follow(&self, next: &Snapshot) -> bool {
        let this = &self.snapshot;
        let same_pools = |a: &[Arc<NodePool>], b: &[Arc<NodePool>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
        };
        let same_daemons = |a: &[Arc<Pod>], b: &[Arc<Pod>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b) || a.spec == b.spec)
        };
        same(&this.schema, &next.schema)
            && same_pools(&this.pools, &next.pools)
            && same_catalogs(&this.catalogs, &next.catalogs)
            && same_daemons(&this.daemons, &next.daemons)
            && same(&this.namespaces, &next.namespaces)
            && same(&this.workloads, &next.workloads)
            && self.size().0 <= (2 * self.built.0).max(self.built.0 + MAX_GROWTH)
    }

    fn size(&self) -> Size {
        Size(self.universe.size() + self.classes.len() + self.topology.size() + self.compatibilities.len())
    }

    /// Notes a node's names, what it counts against limits, and its taints.
    fn enter(&mut self, at: NodeId) {
        let node = &self.nodes[at];
        if let Some(name) = node.state.claim_name() {
            self.by_claim.insert(name.clone(), at);
        }
        if let Some(name) = node.state.node_name() {
            self.by_node.insert(name.clone(), at);
        }
        if let Some(pool) = node.pool.filter(|_| node.counts) {
            self.usage[pool].count(&self.pools[pool], node, 1);
        }
        self.preference_taints += usize::from(node.prefers_to_be_left());
        self.deleting.set(at, node.deleting);
        self.open.set(at, node.choice.is_some());
        for (label_set, _) in &node.label_sets {
            self.topology.label_sets[*label_set].nodes.push(at);
        }
    }

    /// Notes the groups whose domains a node may have a part in.
    fn note_domains(&self, at: NodeId, dirty: &mut Bits<TopologyGroupId>) {
        let node = &self.nodes[at];
        if !node.is_there() {
            return;
        }
        for (index, group) in self.topology.groups.entries().filter(|(_, group)| !group.by_hostname) {
            let value = node.domain(&self.universe, group.is.key, node.choice);
            if value.is_some_and(|value| !group.of_pools.has(DomainId::of_value(value))) {
                dirty.insert(index);
            }
        }
    }

    /// Judges the nodes that changed for every compatibility that has been asked for.
    fn refit(&mut self, touched: &Bits<NodeId>) {
        for compatibility in self.compatibilities.ids() {
            self.compatibilities[compatibility].in_order = None;
            let Some(mut fitting) = self.compatibilities[compatibility].nodes.take() else { continue };
            let (class, level) = self.compatibilities[compatibility].of;
            let fits = Arc::make_mut(&mut fitting);
            for at in touched.iter() {
                fits.set(at, self.node_fits(class, level, at));
            }
            self.compatibilities[compatibility].nodes = Some(fitting);
        }
    }

    /// The order in which nodes are tried: initialized ones first, then by name.
    fn arrange(&mut self) {
        let rank = |at: NodeId| !self.nodes[at].initialized;
        let usable = |at: &NodeId| self.nodes[*at].usable;
        let mut order: Vec<NodeId> = self.slots.iter().copied().filter(usable).collect();
        if self.by_name {
            order.sort_by_key(|at| rank(*at));
        } else {
            order.sort_by(|a, b| {
                let name = |at: NodeId| self.nodes[at].state.name();
                (rank(*a), name(*a)).cmp(&(rank(*b), name(*b)))
            });
        }
        self.in_order = order.is_sorted();
        self.places = vec![usize::MAX; self.nodes.len()].into();
        for (place, at) in order.iter().enumerate() {
            self.places[*at] = place;
        }
        self.order = order;
        for compatibility in &mut self.compatibilities {
            compatibility.in_order = None;
        }
    }

    /// Gives back what an excluded node takes of the limits of its pool, unless those are hard.
    pub(super) fn give_back(&self, at: NodeId, left: &mut IdVec<NodePoolId, (Vec<i64>, Option<i64>)>) {
        let node = &self.nodes[at];
        let Some(pool) = node.pool.filter(|pool| node.usable && !self.pools[*pool].model.limits.hard) else {
            return;
        };
        let (amounts, nodes) = &mut left[pool];
        for (amount, limit) in amounts.iter_mut().zip(&self.pools[pool].limits) {
            *amount = amount.saturating_add(get(&node.capacity, limit.resource));
        }
        if let Some(nodes) = nodes {
            *nodes = nodes.saturating_add(1);
        }
    }

    /// What is left of the limits of each pool when some nodes are excluded: nothing more where they are hard.
    pub(super) fn limits_left(&self, gone: &Bits<NodeId>) -> IdVec<NodePoolId, (Vec<i64>, Option<i64>)> {
        let mut usage: std::borrow::Cow<'_, IdVec<NodePoolId, Usage>> =
            std::borrow::Cow::Borrowed(&self.usage);
        for node in gone.iter().map(|at| &self.nodes[at]).filter(|node| node.usable) {
            let gives =
                |pool: &NodePoolId| self.pools[*pool].is_limited() && !self.pools[*pool].model.limits.hard;
            if let Some(pool) = node.pool.filter(gives) {
                usage.to_mut()[pool].count(&self.pools[pool], node, -1);
            }
        }
        self.pools.iter().zip(usage.iter()).map(|(pool, usage)| usage.left(pool)).collect()
    }

    /// Whether a node can take a pod of a level, topology aside, before anything is placed.
    pub(super) fn node_fits(&mut self, class: PodClassId, level: LevelId, at: NodeId) -> bool {
        let node = &self.nodes[at];
        if !node.usable || !fits_free(&self.classes[class].requests, &node.spare) {
            return false;
        }
        let pod = &self.classes[class].pod;
        let level = &self.classes[class].levels[level];
        let host = self.compatibilities[level.compatibility].host.as_ref();
        host.is_none_or(|set| self.universe.has(self.hostname, set, node.host))
            && tolerated(&node.taints, pod, level.look_past_preferences)
            && node.could_satisfy(&mut self.universe, level.req)
    }
}

/// Puts all nodes of the snapshot in.
pub(super) fn settle_in(tables: &mut Tables, placement: &mut Placement) {
    let of_pools = tables.pools.iter().flat_map(|pool| pool.taints.iter());
    tables.preference_taints = of_pools.filter(|taint| taint.effect == TaintEffect::PreferNoSchedule).count();
    let snapshot = Arc::clone(&tables.snapshot);
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let node = tables.node(node);
        let id = tables.nodes.next_id();
        placement.put_node(id, &node);
        tables.nodes.push(node);
        tables.slots.push(id);
        tables.positions.push(at);
        tables.enter(id);
    }
    for at in tables.nodes.ids() {
        count_owners(tables, placement, at);
    }
    tables.by_name = snapshot.nodes.is_sorted_by(|a, b| a.name() <= b.name());
    tables.arrange();
    tables.built = tables.size();
}

/// Takes out the nodes that are gone or changed, and puts in those that came or changed.
fn move_nodes(tables: &mut Tables, placement: &mut Placement, before: &Snapshot, next: &Snapshot) {
    let preferred = tables.preference_taints > 0;
    let (mut touched, mut reordered) = (Bits::default(), false);
    let mut left: Vec<NodeId> = Vec::new();
    let mut steps = Vec::with_capacity(next.nodes.len());
    let (mut old, mut new) = (0, 0);
    // Both are sorted by name, so that what is on one side only shows.
    while old < before.nodes.len() || new < next.nodes.len() {
        let order = match (before.nodes.get(old), next.nodes.get(new)) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {
                steps.push(Step::Stays(tables.slots[old]));
                (old, new) = (old + 1, new + 1);
                continue;
            }
            (Some(a), Some(b)) => a.name().cmp(b.name()),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        reordered |= order != Ordering::Equal;
        let goes = order != Ordering::Greater;
        let slot = goes.then(|| tables.slots[old]);
        if let Some(slot) = slot {
            left.push(slot);
            old += 1;
        }
        if order != Ordering::Less {
            steps.push(Step::Comes(slot));
            tables.by_name &= slot.is_some() || stands_by_name(&next.nodes, new);
            new += 1;
        } else if let Some(slot) = slot {
            tables.vacant.push(slot);
        }
    }
    let (mut dirty, mut stood) = (Bits::default(), HashMap::new());
    for slot in left {
        stood.insert(slot, (tables.nodes[slot].usable, tables.nodes[slot].initialized));
        leave(tables, placement, slot, &mut dirty);
        touched.insert(slot);
    }
    tables.slots.clear();
    let mut came = Vec::new();
    for (position, step) in steps.into_iter().enumerate() {
        let slot = match step {
            Step::Stays(slot) => slot,
            Step::Comes(slot) => {
                let slot = put(tables, placement, slot, &next.nodes[position]);
                let node = &tables.nodes[slot];
                let now = (node.usable, node.initialized);
                reordered |= stood.get(&slot).is_some_and(|stood| *stood != now);
                came.push(slot);
                touched.insert(slot);
                slot
            }
        };
        tables.slots.push(slot);
        tables.positions[slot] = position;
    }
    for slot in came {
        join(tables, placement, slot, &mut dirty);
    }
    recount(tables, placement, &dirty);
    if preferred != (tables.preference_taints > 0) {
        // Whether there is such a taint decides how far every pod may be relaxed.
        forget_classes(tables, placement);
    }
    tables.refit(&touched);
    if reordered {
        tables.arrange();
    }
}

/// Builds a node into its own slot or a vacant one.
fn put(
    tables: &mut Tables,
    placement: &mut Placement,
    slot: Option<NodeId>,
    node: &Arc<StateNode>,
) -> NodeId {
    let node = tables.node(node);
    let slot = slot.or_else(|| tables.vacant.pop());
    placement.put_node(slot.unwrap_or_else(|| tables.nodes.next_id()), &node);
    match slot {
        Some(slot) => {
            tables.nodes[slot] = node;
            slot
        }
        None => {
            tables.positions.push(0);
            tables.nodes.push(node)
        }
    }
}

/// Counts the pods of a node that came.
fn join(tables: &mut Tables, placement: &mut Placement, at: NodeId, dirty: &mut Bits<TopologyGroupId>) {
    tables.enter(at);
    count_selected(tables, placement, at, 1);
    count_owners(tables, placement, at);
    tables.note_values(at, true);
    tables.note_domains(at, dirty);
}

/// Takes a node out of all counts, as it was put in.
fn leave(tables: &mut Tables, placement: &mut Placement, at: NodeId, dirty: &mut Bits<TopologyGroupId>) {
    tables.note_domains(at, dirty);
    tables.note_values(at, false);
    count_selected(tables, placement, at, -1);
    for position in 0..tables.nodes[at].keeps_away.len() {
        let group = tables.nodes[at].keeps_away[position];
        count_owner(tables, placement, group, at, -1);
    }
    let node = &mut tables.nodes[at];
    tables.preference_taints -= usize::from(node.prefers_to_be_left());
    if let Some(pool) = node.pool.filter(|_| node.counts) {
        tables.usage[pool].count(&tables.pools[pool], node, -1);
    }
    // Where two nodes had one name, it is the other's now.
    if let Some(name) = node.state.claim_name().filter(|name| tables.by_claim.get(*name) == Some(&at)) {
        tables.by_claim.remove(name);
    }
    if let Some(name) = node.state.node_name().filter(|name| tables.by_node.get(*name) == Some(&at)) {
        tables.by_node.remove(name);
    }
    for (label_set, _) in &node.label_sets {
        let nodes = &mut tables.topology.label_sets[*label_set].nodes;
        if let Some(place) = nodes.iter().position(|node| *node == at) {
            nodes.swap_remove(place);
        }
    }
    node.vacate();
    tables.deleting.remove(at);
}

/// Counts a node's pods for the groups that select them.
fn count_selected(tables: &mut Tables, placement: &mut Placement, at: NodeId, sign: i64) {
    for position in 0..tables.nodes[at].label_sets.len() {
        let (label_set, count) = tables.nodes[at].label_sets[position];
        for position in 0..tables.topology.label_sets[label_set].groups.len() {
            let group = tables.topology.label_sets[label_set].groups[position];
            if domains::counts_on(tables, placement, group, at) {
                for domain in domains::node_domains(tables, placement, group, at) {
                    placement.count_base(group, domain, false, sign * i64::from(count));
                }
            }
        }
    }
}

/// Registers the required anti-affinity of every pod that runs on a node.
fn count_owners(tables: &mut Tables, placement: &mut Placement, at: NodeId) {
    let node = Arc::clone(&tables.nodes[at].state);
    for pod in node.pods.iter().filter(|pod| pod.is_active()) {
        for term in &pod.spec.pod_anti_affinity {
            let group = pod_classes::term_group(tables, placement, pod, term, GroupKind::Anti);
            tables.nodes[at].keeps_away.push(group);
            count_owner(tables, placement, group, at, 1);
        }
    }
}

fn count_owner(tables: &mut Tables, placement: &mut Placement, group: TopologyGroupId, at: NodeId, by: i64) {
    for domain in domains::node_domains(tables, placement, group, at) {
        placement.count_base(group, domain, true, by);
    }
}

/// Looks at the domains of groups again, and counts again where they are others.
fn recount(tables: &mut Tables, placement: &mut Placement, groups: &Bits<TopologyGroupId>) {
    for group in groups.iter() {
        let is = &tables.topology.groups[group].is;
        let (key, filter) = (is.key, is.filter.clone());
        let domains = domains::registered_domains(tables, placement, key, filter.as_ref());
        if domains == tables.topology.groups[group].domains {
            continue;
        }
        tables.topology.groups[group].set_domains(domains);
        count_again(tables, placement, group);
    }
}

/// Counts all pods that run for a group, whatever it has counted before.
pub(super) fn count_again(tables: &mut Tables, placement: &mut Placement, group: TopologyGroupId) {
    placement.forget_counts(&tables.topology, group);
    domains::count_everywhere(tables, placement, group);
    for at in tables.nodes.ids() {
        let owners = tables.nodes[at].keeps_away.iter().filter(|of| **of == group).count();
        for _ in 0..owners {
            count_owner(tables, placement, group, at, 1);
        }
    }
}

/// Forgets how pods are compiled, and where they fit.
fn forget_classes(tables: &mut Tables, placement: &mut Placement) {
    tables.classes = IdVec::default();
    tables.class_by_pointer.clear();
    tables.class_by_pod.clear();
    tables.class_by_content.clear();
    tables.compatibilities = IdVec::default();
    tables.compatibility_ids.clear();
    placement.forget_compatibilities();
}

/// Whether a node that came stands between its neighbours by name.
fn stands_by_name(nodes: &[Arc<StateNode>], at: usize) -> bool {
    nodes[at.saturating_sub(1)..].iter().take(3).is_sorted_by(|a, b| a.name() <= b.name())
}

fn same<T: PartialEq>(a: &Arc<T>, b: &Arc<T>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn same_catalogs(a: &BTreeMap<PoolName, Arc<Catalog>>, b: &BTreeMap<PoolName, Arc<Catalog>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((a, of_a), (b, of_b))| a == b && same(of_a, of_b))
}
