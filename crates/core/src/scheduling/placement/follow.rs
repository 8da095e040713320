//! A newer snapshot: what changed is taken out and put in, all else stays.
//!
//! Nodes are compared by address, as snapshots share what did not change. Where something else than nodes changed
//! that the tables rest on (pools, instance types, daemons, labels of namespaces), all is built again.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use crate::{
    model::{Catalog, NodePool, Pod, PoolName, Snapshot, StateNode, TaintEffect},
    scheduling::{
        ids::{DomainId, IdVec, NodeId, TopologyGroupId},
        placement::{Placement, domains},
        tables::{
            Tables,
            bits::Bits,
            domains::registered_domains,
            nodes::{Building, NodeRow},
            pod_classes,
            topology::GroupKind,
        },
    },
};

/// What tells the nodes that come from those that go.
enum Step {
    Stays(NodeId),
    Comes(Option<NodeId>),
}

fn node_row(tables: &mut Tables, node: &Arc<StateNode>) -> NodeRow {
    let mut building = Building {
        snapshot: &tables.snapshot,
        pools: &tables.pools,
        daemons: &tables.daemons,
        universe: &mut tables.universe,
        resources: &mut tables.resources,
        topology: &mut tables.topology,
    };
    NodeRow::new(node, &mut building)
}

/// Whether nothing but nodes, pods and volumes changed.
pub(crate) fn can_follow(tables: &Tables, next: &Snapshot) -> bool {
    let this = &tables.snapshot;
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
        && !tables.has_outgrown()
}

/// Notes a node's names, what it counts against limits, and its taints.
fn enter(tables: &mut Tables, at: NodeId) {
    let node = &tables.nodes[at];
    if let Some(name) = node.state.claim_name() {
        tables.by_claim.insert(name.clone(), at);
    }
    if let Some(name) = node.state.node_name() {
        tables.by_node.insert(name.clone(), at);
    }
    if let Some(pool) = node.pool.filter(|_| node.counts) {
        tables.usage[pool].count(&tables.pools[pool], node, 1);
    }
    tables.preference_taints += usize::from(node.prefers_to_be_left());
    tables.deleting.set(at, node.deleting);
    tables.open.set(at, node.choice.is_some());
    for (label_set, _) in &node.label_sets {
        tables.topology.label_sets[*label_set].nodes.push(at);
    }
}

/// Notes the groups whose domains a node may have a part in.
fn note_domains(tables: &Tables, at: NodeId, dirty: &mut Bits<TopologyGroupId>) {
    let node = &tables.nodes[at];
    if !node.is_there() {
        return;
    }
    for (index, group) in tables.topology.groups.entries().filter(|(_, group)| !group.by_hostname) {
        let value = node.domain(&tables.universe, group.is.key, node.choice);
        if value.is_some_and(|value| !group.of_pools.has(DomainId::of_value(value))) {
            dirty.insert(index);
        }
    }
}

/// Judges the nodes that changed for every compatibility that has been asked for.
fn refit(tables: &mut Tables, touched: &Bits<NodeId>) {
    for compatibility in tables.compatibilities.ids() {
        tables.compatibilities[compatibility].in_order = None;
        let Some(mut fitting) = tables.compatibilities[compatibility].nodes.take() else { continue };
        let (class, level) = tables.compatibilities[compatibility].of;
        let fits = Arc::make_mut(&mut fitting);
        for at in touched.iter() {
            fits.set(at, tables.node_fits(class, level, at));
        }
        tables.compatibilities[compatibility].nodes = Some(fitting);
    }
}

/// The order in which nodes are tried: initialized ones first, then by name.
fn arrange(tables: &mut Tables) {
    let rank = |at: NodeId| !tables.nodes[at].initialized;
    let usable = |at: &NodeId| tables.nodes[*at].usable;
    let mut order: Vec<NodeId> = tables.slots.iter().copied().filter(usable).collect();
    if tables.by_name {
        order.sort_by_key(|at| rank(*at));
    } else {
        order.sort_by(|a, b| {
            let name = |at: NodeId| tables.nodes[at].state.name();
            (rank(*a), name(*a)).cmp(&(rank(*b), name(*b)))
        });
    }
    tables.in_order = order.is_sorted();
    tables.places = vec![usize::MAX; tables.nodes.len()].into();
    for (place, at) in order.iter().enumerate() {
        tables.places[*at] = place;
    }
    tables.order = order;
    for compatibility in &mut tables.compatibilities {
        compatibility.in_order = None;
    }
}

/// Brings tables and placement to a newer snapshot, which [`can_follow`] allows.
pub(crate) fn follow(tables: &mut Tables, placement: &mut Placement, next: &Arc<Snapshot>) -> Arc<Snapshot> {
    let before = std::mem::replace(&mut tables.snapshot, Arc::clone(next));
    for pool in &mut tables.pools {
        if let Some(model) = next.pool(&pool.model.name) {
            pool.model = Arc::clone(model);
        }
    }
    let same_volumes =
        Arc::ptr_eq(&before.volumes, &next.volumes) && same(&before.storage_classes, &next.storage_classes);
    if !same_volumes {
        tables.class_by_pod.clear();
    }
    move_nodes(tables, placement, &before, next);
    before
}

/// Puts all nodes of the snapshot in.
pub(crate) fn settle_in(tables: &mut Tables, placement: &mut Placement) {
    let of_pools = tables.pools.iter().flat_map(|pool| pool.taints.iter());
    tables.preference_taints = of_pools.filter(|taint| taint.effect == TaintEffect::PreferNoSchedule).count();
    let snapshot = Arc::clone(&tables.snapshot);
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let node = node_row(tables, node);
        let id = tables.nodes.next_id();
        placement.put_node(id, &node);
        tables.nodes.push(node);
        tables.slots.push(id);
        tables.positions.push(at);
        enter(tables, id);
    }
    for at in tables.nodes.ids() {
        count_owners(tables, placement, at);
    }
    tables.by_name = snapshot.nodes.is_sorted_by(|a, b| a.name() <= b.name());
    arrange(tables);
    tables.note_built();
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
    refit(tables, &touched);
    if reordered {
        arrange(tables);
    }
}

/// Builds a node into its own slot or a vacant one.
fn put(
    tables: &mut Tables,
    placement: &mut Placement,
    slot: Option<NodeId>,
    node: &Arc<StateNode>,
) -> NodeId {
    let node = node_row(tables, node);
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
    enter(tables, at);
    count_selected(tables, placement, at, 1);
    count_owners(tables, placement, at);
    tables.note_values(at, true);
    note_domains(tables, at, dirty);
}

/// Takes a node out of all counts, as it was put in.
fn leave(tables: &mut Tables, placement: &mut Placement, at: NodeId, dirty: &mut Bits<TopologyGroupId>) {
    note_domains(tables, at, dirty);
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
            let group = pod_classes::term_group(tables, pod, term, GroupKind::Anti);
            domains::count_new_groups(tables, placement);
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
        let domains = registered_domains(tables, key, filter.as_ref());
        if domains == tables.topology.groups[group].domains {
            continue;
        }
        tables.topology.groups[group].set_domains(domains);
        count_again(tables, placement, group);
    }
}

/// Counts all pods that run for a group, whatever it has counted before.
pub(crate) fn count_again(tables: &mut Tables, placement: &mut Placement, group: TopologyGroupId) {
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
    tables.class_by_spec.clear();
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
