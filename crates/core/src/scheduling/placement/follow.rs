//! Follows a newer snapshot: updates the rows and counts of changed nodes.
//!
//! Nodes are compared by address, as snapshots share what did not change. Where something else than nodes changed
//! that the tables rest on (pools, instance types, daemons, labels of namespaces), all is built again.

use std::{cell::OnceCell, cmp::Ordering, collections::BTreeMap, hash::Hash, sync::Arc};

use hashbrown::HashMap;

use crate::{
    model::{Catalog, PoolName, Snapshot, StateNode},
    scheduling::{
        ids::{DomainId, IdVec, NodeId, TopologyGroupId},
        placement::{
            Placement,
            domains::{self, Domains},
        },
        tables::{Tables, bits::Bits, domains::registered_domains, nodes::NodeRow},
    },
};

/// The change of a node between two snapshots.
enum FollowStep {
    Stays(NodeId),
    Comes(Option<NodeId>),
}

/// Whether nothing but nodes, pods and volumes changed.
pub(crate) fn can_follow(tables: &Tables, next: &Snapshot) -> bool {
    let this = &tables.snapshot;
    same(&this.schema, &next.schema)
        && this.objective == next.objective
        && all_same(&this.pools, &next.pools, |a, b| a == b)
        && same_catalogs(&this.catalogs, &next.catalogs)
        && all_same(&this.daemons, &next.daemons, |a, b| a.spec == b.spec)
        && same(&this.namespaces, &next.namespaces)
        && same(&this.workloads, &next.workloads)
        && !tables.has_outgrown()
}

/// Marks the groups whose domains may depend on a node.
fn note_domains(tables: &Tables, node_id: NodeId, dirty: &mut Bits<TopologyGroupId>) {
    let node = &tables.nodes[node_id];
    if !node.is_there() {
        return;
    }
    for (group_id, group) in tables.topology.groups.entries().filter(|(_, group)| !group.by_hostname) {
        let value = node.domain(&tables.universe, group.spec.key, node.choice);
        if value.is_some_and(|value| !group.of_pools.has(DomainId::of_value(value))) {
            dirty.insert(group_id);
        }
    }
}

/// Updates the fitting nodes of every known compatibility.
fn update_fitting(tables: &mut Tables, touched: &Bits<NodeId>) {
    for compatibility in tables.compatibilities.ids() {
        tables.compatibilities[compatibility].in_order.take();
        let Some(mut fitting) = tables.compatibilities[compatibility].nodes.take() else { continue };
        let (class, level) = tables.compatibilities[compatibility].representative;
        for node_id in touched.iter() {
            fitting.set(node_id, tables.node_fits(class, level, node_id));
        }
        tables.compatibilities[compatibility].nodes = OnceCell::from(fitting);
    }
}

/// The order in which nodes are tried: initialized ones first, then by name.
fn arrange(tables: &mut Tables) {
    let rank = |node_id: NodeId| !tables.nodes[node_id].initialized;
    let usable = |node_id: &NodeId| tables.nodes[*node_id].usable;
    let mut order: Vec<NodeId> = tables.slots.iter().copied().filter(usable).collect();
    if tables.by_name {
        order.sort_by_key(|node_id| rank(*node_id));
    } else {
        order.sort_by(|a, b| {
            let name = |node_id: NodeId| tables.nodes[node_id].state.name();
            (rank(*a), name(*a)).cmp(&(rank(*b), name(*b)))
        });
    }
    tables.in_order = order.is_sorted();
    tables.places = vec![usize::MAX; tables.nodes.len()].into();
    for (place, node_id) in order.iter().enumerate() {
        tables.places[*node_id] = place;
    }
    tables.order = order;
    for compatibility in &mut tables.compatibilities {
        compatibility.in_order.take();
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
        tables.class_ids.retain(|key, _| !key.is_individual());
    }
    move_nodes(tables, placement, &before.nodes, &next.nodes);
    before
}

/// Adds all nodes of the snapshot.
pub(crate) fn insert_nodes(tables: &mut Tables, placement: &mut Placement) {
    let snapshot = Arc::clone(&tables.snapshot);
    move_nodes(tables, placement, &[], &snapshot.nodes);
    tables.note_built();
}

/// What moves the nodes of a snapshot to those of the next.
struct Followed {
    /// For each node of the next snapshot.
    steps: Vec<FollowStep>,
    /// Slots of nodes that are gone or changed.
    removed_slots: Vec<NodeId>,
    /// Whether a node is new or gone.
    reordered: bool,
}

/// Compares two lists of nodes. Both are sorted by name: a node that is on one side only is new or gone.
fn followed(tables: &mut Tables, before: &[Arc<StateNode>], next: &[Arc<StateNode>]) -> Followed {
    let (mut reordered, mut removed_slots, mut steps) = (false, Vec::new(), Vec::with_capacity(next.len()));
    let (mut old_index, mut new_index) = (0, 0);
    while old_index < before.len() || new_index < next.len() {
        let order = match (before.get(old_index), next.get(new_index)) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {
                steps.push(FollowStep::Stays(tables.slots[old_index]));
                (old_index, new_index) = (old_index + 1, new_index + 1);
                continue;
            }
            (Some(a), Some(b)) => a.name().cmp(b.name()),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        reordered |= order != Ordering::Equal;
        let removed = order != Ordering::Greater;
        let slot = removed.then(|| tables.slots[old_index]);
        if let Some(slot) = slot {
            removed_slots.push(slot);
            old_index += 1;
        }
        if order != Ordering::Less {
            steps.push(FollowStep::Comes(slot));
            tables.by_name &= slot.is_some() || is_sorted_around(next, new_index);
            new_index += 1;
        } else if let Some(slot) = slot {
            tables.vacant.push(slot);
        }
    }
    Followed { steps, removed_slots, reordered }
}

/// Removes the nodes that are gone or changed, and adds those that are new or changed.
fn move_nodes(
    tables: &mut Tables,
    placement: &mut Placement,
    before: &[Arc<StateNode>],
    next: &[Arc<StateNode>],
) {
    let preferred = tables.preference_taints > 0;
    let mut touched = Bits::default();
    let Followed { steps, removed_slots, mut reordered } = followed(tables, before, next);
    let (mut dirty, mut previous) = (Bits::default(), HashMap::new());
    for slot in removed_slots {
        previous.insert(slot, (tables.nodes[slot].usable, tables.nodes[slot].initialized));
        index(tables, placement, slot, false, &mut dirty);
        touched.insert(slot);
    }
    tables.slots.clear();
    let mut added = Vec::new();
    for (position, step) in steps.into_iter().enumerate() {
        let slot = match step {
            FollowStep::Stays(slot) => slot,
            FollowStep::Comes(slot) => {
                let slot = put(tables, placement, slot, &next[position]);
                let node = &tables.nodes[slot];
                let now = (node.usable, node.initialized);
                reordered |= previous.get(&slot).is_some_and(|previous| *previous != now);
                added.push(slot);
                touched.insert(slot);
                slot
            }
        };
        tables.slots.push(slot);
        tables.positions[slot] = position;
    }
    domains::count_new_groups(tables, placement);
    for slot in added {
        index(tables, placement, slot, true, &mut dirty);
    }
    update_domains(tables, placement, &dirty);
    if preferred != (tables.preference_taints > 0) {
        // Whether there is such a taint decides how far every pod may be relaxed.
        forget_classes(tables, placement);
    }
    update_fitting(tables, &touched);
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
    let node = NodeRow::new(node, tables);
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

/// Adds a node to all indexes and counts, or removes it.
fn index(
    tables: &mut Tables,
    placement: &mut Placement,
    node_id: NodeId,
    is_in: bool,
    dirty: &mut Bits<TopologyGroupId>,
) {
    let sign = if is_in { 1 } else { -1 };
    note_domains(tables, node_id, dirty);
    tables.note_values(node_id, is_in);
    domains::count_node(tables, placement, node_id, sign);
    placement.commit();
    let node = &mut tables.nodes[node_id];
    let preference_taints = usize::from(node.has_preference_taint());
    if is_in {
        tables.preference_taints += preference_taints;
    } else {
        tables.preference_taints -= preference_taints;
    }
    tables.deleting.set(node_id, is_in && node.deleting);
    tables.open.set(node_id, is_in && node.choice.is_some());
    if let Some(pool) = node.pool.filter(|_| node.counts_toward_limits) {
        tables.usage[pool].count(&tables.pools[pool], node, sign);
    }
    set_name(&mut tables.by_claim, node.state.claim_name(), node_id, is_in);
    set_name(&mut tables.by_node, node.state.node_name(), node_id, is_in);
    for (label_set, _) in &node.label_sets {
        let nodes = &mut tables.topology.label_sets[*label_set].nodes;
        if is_in {
            nodes.push(node_id);
        } else if let Some(place) = nodes.iter().position(|known| *known == node_id) {
            nodes.swap_remove(place);
        }
    }
    if !is_in {
        node.vacate();
    }
}

/// Makes a name that of a node, or not any more; where two nodes had one name, it is the other's then.
fn set_name<N: Clone + Eq + Hash>(
    names: &mut HashMap<N, NodeId>,
    name: Option<&N>,
    node_id: NodeId,
    is_in: bool,
) {
    let Some(name) = name else { return };
    if is_in {
        names.insert(name.clone(), node_id);
    } else if names.get(name) == Some(&node_id) {
        names.remove(name);
    }
}

/// Updates the domains of groups, and counts the groups whose domains changed.
fn update_domains(tables: &mut Tables, placement: &mut Placement, groups: &Bits<TopologyGroupId>) {
    for group in groups.iter() {
        let spec = &tables.topology.groups[group].spec;
        let (key, filter) = (spec.key, spec.filter.clone());
        let domains = registered_domains(tables, key, filter.as_ref());
        if domains == tables.topology.groups[group].domains {
            continue;
        }
        tables.topology.groups[group].set_domains(domains);
        count_again(tables, placement, group);
    }
}

/// Counts all running pods for a group again.
pub(crate) fn count_again(tables: &Tables, placement: &mut Placement, group: TopologyGroupId) {
    placement.forget_counts(&tables.topology, group);
    domains::count_everywhere(tables, placement, group);
    for (node_id, node) in tables.nodes.entries() {
        for _ in node.keeps_away.iter().filter(|owned| **owned == group) {
            for domain in Domains::new(tables, placement).of_node(group, node_id) {
                placement.count_base(group, domain, true, 1);
            }
        }
    }
}

/// Drops all pod classes and compatibilities.
fn forget_classes(tables: &mut Tables, placement: &mut Placement) {
    tables.classes = IdVec::default();
    tables.class_ids.clear();
    tables.compatibilities = IdVec::default();
    tables.compatibility_ids.clear();
    placement.forget_compatibilities();
}

/// Whether a node and its neighbors are sorted by name.
fn is_sorted_around(nodes: &[Arc<StateNode>], index: usize) -> bool {
    nodes[index.saturating_sub(1)..].iter().take(3).is_sorted_by(|a, b| a.name() <= b.name())
}

fn same<T: PartialEq>(a: &Arc<T>, b: &Arc<T>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn all_same<T>(a: &[Arc<T>], b: &[Arc<T>], equal: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b) || equal(a, b))
}

fn same_catalogs(a: &BTreeMap<PoolName, Arc<Catalog>>, b: &BTreeMap<PoolName, Arc<Catalog>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((a, of_a), (b, of_b))| a == b && same(of_a, of_b))
}
