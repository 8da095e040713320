//! The domains that nodes are in, and the pods that run there, counted.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{DomainId, LabelSetId, NodeId, PodClassId, TopologyGroupId},
    placement::{GroupCounts, Placement},
    tables::{Tables, bits::Bits, topology::GroupKind},
};

/// Counts the pods that run for the groups that came since the last time.
pub(crate) fn count_new_groups(tables: &Tables, placement: &mut Placement) {
    while placement.next_group() < tables.topology.groups.next_id() {
        let group = &tables.topology.groups[placement.next_group()];
        let group = placement.add_group(GroupCounts::new(group.spec.kind, group.by_hostname));
        count_everywhere(tables, placement, group);
    }
}

/// Counts the pods of all nodes that a group selects.
pub(crate) fn count_everywhere(tables: &Tables, placement: &mut Placement, group: TopologyGroupId) {
    for (label_set, pods) in tables.topology.label_sets.entries() {
        if !pods.groups.contains(&group) {
            continue;
        }
        for node_id in pods.nodes.iter().copied() {
            let counted = tables.nodes[node_id].label_sets.iter().find(|(known, _)| *known == label_set);
            let Some((_, count)) = counted else { continue };
            for domain in Domains::new(tables, placement).counted_on(group, node_id) {
                placement.count_base(group, domain, false, i64::from(*count));
            }
        }
    }
}

/// Adds (1) or removes (-1) the pods that run on a node.
pub(crate) fn count_node(tables: &Tables, placement: &mut Placement, node_id: NodeId, sign: i64) {
    let node = &tables.nodes[node_id];
    for (label_set, pods) in &node.label_sets {
        count_pods(tables, placement, node_id, *label_set, sign * i64::from(*pods));
    }
    count_anti_affinity(tables, placement, node_id, &node.keeps_away, sign);
}

/// Changes the counts by pods of a label set on a node.
pub(crate) fn count_pods(
    tables: &Tables,
    placement: &mut Placement,
    node_id: NodeId,
    label_set: LabelSetId,
    by: i64,
) {
    for group in tables.topology.label_sets[label_set].groups.iter().copied() {
        for domain in Domains::new(tables, placement).counted_on(group, node_id) {
            placement.count(group, domain, false, by);
        }
    }
}

/// Changes the counts by pods on a node that have the anti-affinity of some groups.
pub(crate) fn count_anti_affinity(
    tables: &Tables,
    placement: &mut Placement,
    node_id: NodeId,
    groups: &[TopologyGroupId],
    by: i64,
) {
    for group in groups.iter().copied() {
        for domain in Domains::new(tables, placement).of_node(group, node_id) {
            placement.count(group, domain, true, by);
        }
    }
}

/// The domains of topology groups, with what is counted in them.
#[derive(Clone, Copy)]
pub(crate) struct Domains<'a> {
    pub(super) tables: &'a Tables,
    pub(super) placement: &'a Placement,
}

impl<'a> Domains<'a> {
    pub(crate) fn new(tables: &'a Tables, placement: &'a Placement) -> Self {
        Self { tables, placement }
    }

    /// The domains of a group that a node may be in: one, unless its choice is open.
    pub(super) fn of_node(&self, group: TopologyGroupId, node_id: NodeId) -> SmallVec<[DomainId; 2]> {
        let Self { tables, .. } = *self;
        let group = &tables.topology.groups[group];
        if group.by_hostname {
            return smallvec::smallvec![node_id.into()];
        }
        let (node, open) = (&tables.nodes[node_id], self.placement.room(node_id).open);
        match (node.domain(&tables.universe, group.spec.key, open), open, group.spec.kind) {
            (Some(value), _, _) => smallvec::smallvec![DomainId::of_value(value)],
            (None, Some(open), GroupKind::Anti) => tables.possible(open, group.spec.key, &group.domains),
            _ => SmallVec::new(),
        }
    }

    /// The same, where pods on the node count for the group.
    fn counted_on(&self, group: TopologyGroupId, node_id: NodeId) -> SmallVec<[DomainId; 2]> {
        let filter = self.tables.topology.groups[group].spec.filter.as_ref();
        let open = self.placement.room(node_id).open;
        let counts = filter.is_none_or(|filter| self.tables.lets_through(filter, node_id, open));
        if counts { self.of_node(group, node_id) } else { SmallVec::new() }
    }

    /// Topology groups that a request is about.
    pub(crate) fn groups_of(&self, classes: &[PodClassId]) -> Bits<TopologyGroupId> {
        let mut groups = Bits::default();
        for class in classes {
            let class = &self.tables.classes[*class];
            let owned = class.levels.iter().flat_map(|level| level.groups.iter().map(|owned| owned.group));
            owned.chain(class.keeps_away.iter().copied()).for_each(|group| groups.insert(group));
        }
        let claimed = self.tables.topology.groups.ids();
        let claimed = claimed.filter(|group| self.counted(*group).has_owners());
        claimed.for_each(|group| groups.insert(group));
        groups
    }
}
