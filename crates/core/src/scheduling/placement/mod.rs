//! The placement: free resources of nodes, counts of topology groups, and nodes known to be full.
//!
//! Between requests it is that of the snapshot. A request changes it through these methods only; a [`Mark`] and
//! [`Placement::rewind`] undo changes, after a request or between the simulations of a pass.

pub(crate) mod allowed_domains;
pub(crate) mod claim;
mod counts;
pub(crate) mod devices;
pub(crate) mod discount;
pub(crate) mod domains;
pub(crate) mod follow;
mod journal;
pub(crate) mod limits;

use self::journal::{Change, Journal};
pub(crate) use self::{
    counts::{CountedGroup, GroupCounts, HostId},
    journal::Mark,
};
use crate::scheduling::{
    ids::{CompatibilityId, DomainId, Id, IdVec, NewClaimId, NodeId, TopologyGroupId},
    tables::{
        amounts::{Amounts, update},
        bits::Bits,
        intern::Req,
        nodes::NodeRow,
        topology::Topology,
    },
};

/// The free resources of a node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Resources that are free for pods, less those reserved for daemons that do not run yet.
    pub(crate) free: Amounts,
    /// Its requirements, while it is not launched: pods narrow them.
    pub(crate) open: Option<Req>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    nodes: IdVec<NodeId, Room>,
    counts: IdVec<TopologyGroupId, GroupCounts>,
    /// Nodes without room for a compatibility.
    full: IdVec<CompatibilityId, Bits<NodeId>>,
    /// New NodeClaims that cannot become what a compatibility needs.
    rejected: IdVec<CompatibilityId, Bits<NewClaimId>>,
    journal: Journal,
    /// Topology groups of a request whose pods keep apart by zone (or another key but the hostname) and pick one domain
    /// each. Empty between passes.
    pub(crate) pinning: Bits<TopologyGroupId>,
    /// The number of changes of counts: tells whether a verdict is current.
    version: u64,
}

impl Placement {
    /// The room of a node.
    pub(crate) fn room(&self, node: NodeId) -> &Room {
        &self.nodes[node]
    }

    /// A group with its counters.
    pub(crate) fn counted<'a>(&'a self, topology: &'a Topology, group: TopologyGroupId) -> CountedGroup<'a> {
        CountedGroup { group: &topology.groups[group], counts: &self.counts[group] }
    }

    /// Counts changes of counters.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The nodes that are known to have no room for a compatibility.
    pub(crate) fn full(&self, compatibility: CompatibilityId) -> &Bits<NodeId> {
        &self.full[compatibility]
    }

    /// The new NodeClaims that are known not to become what a compatibility needs.
    pub(crate) fn rejected(&self, compatibility: CompatibilityId) -> &Bits<NewClaimId> {
        &self.rejected[compatibility]
    }

    /// Takes in a node of the snapshot, in the slot of one that is gone or in a new one.
    pub(crate) fn put_node(&mut self, node: NodeId, row: &NodeRow) {
        let room = Room { free: row.spare.clone(), open: row.choice };
        if node.position() < self.nodes.len() {
            self.nodes[node] = room;
        } else {
            self.nodes.push(room);
        }
    }

    /// The group that is counted next.
    pub(crate) fn next_group(&self) -> TopologyGroupId {
        self.counts.next_id()
    }

    /// Takes in a topology group without counts.
    pub(crate) fn add_group(&mut self, counts: GroupCounts) -> TopologyGroupId {
        self.counts.push(counts)
    }

    /// Forgets the counts of a group.
    pub(crate) fn forget_counts(&mut self, topology: &Topology, group: TopologyGroupId) {
        let group_spec = &topology.groups[group];
        self.counts[group] = GroupCounts::new(group_spec.spec.kind, group_spec.by_hostname);
    }

    /// Counts for good, as part of the snapshot.
    pub(crate) fn count_base(&mut self, group: TopologyGroupId, domain: DomainId, owners: bool, by: i64) {
        self.counts[group].change(domain, owners, by);
    }

    /// Counts until it is rewound.
    pub(crate) fn count(&mut self, group: TopologyGroupId, domain: DomainId, owners: bool, by: i64) {
        let by = self.counts[group].change(domain, owners, by);
        self.journal.note(Change::Count { group, domain, owners, by });
        self.version += 1;
    }

    /// Takes room of a node for a pod, and narrows what the node may become.
    pub(crate) fn take_room(&mut self, node: NodeId, requests: &Amounts, open: Option<Req>) {
        let room = &mut self.nodes[node];
        self.journal.note(Change::Room(node, room.clone()));
        update(&mut room.free, requests, i64::saturating_sub);
        room.open = open;
    }

    /// Notes that a node has no room for a compatibility.
    pub(crate) fn note_full(&mut self, compatibility: CompatibilityId, node: NodeId) {
        self.full[compatibility].insert(node);
        self.journal.note(Change::Full(compatibility, node));
    }

    /// Notes that a new NodeClaim cannot become what a compatibility needs.
    pub(crate) fn reject(&mut self, compatibility: CompatibilityId, claim: NewClaimId) {
        self.rejected[compatibility].insert(claim);
    }

    /// Notes that no new NodeClaim of some can become what a compatibility needs.
    pub(crate) fn reject_all(&mut self, compatibility: CompatibilityId, claims: &Bits<NewClaimId>) {
        self.rejected[compatibility].unite(claims);
    }

    /// Makes room for verdicts on this many compatibilities.
    pub(crate) fn make_room(&mut self, compatibilities: usize) {
        self.full.items_mut().resize_with(compatibilities, Bits::default);
        self.rejected.items_mut().resize_with(compatibilities, Bits::default);
    }

    /// Forgets which new NodeClaims cannot become what a compatibility needs.
    pub(crate) fn forget_rejected(&mut self, compatibility: CompatibilityId) {
        self.rejected[compatibility] = Bits::default();
    }

    /// Forgets all verdicts on a compatibility.
    pub(crate) fn forget_verdicts(&mut self, compatibility: CompatibilityId) {
        self.full[compatibility] = Bits::default();
        self.rejected[compatibility] = Bits::default();
    }

    /// Forgets all verdicts.
    pub(crate) fn forget_compatibilities(&mut self) {
        self.full = IdVec::default();
        self.rejected = IdVec::default();
    }

    /// The current point in time.
    pub(crate) fn mark(&self) -> Mark {
        self.journal.mark()
    }

    /// Makes all changes part of the snapshot: they are not rewound any more.
    pub(crate) fn commit(&mut self) {
        self.journal.clear();
    }

    /// Undoes every change since a mark. Nodes that were found full stay so unless their free resources were changed: the
    /// verdicts on the others hold.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        let room = |change: &Change| match change {
            Change::Room(node, _) => Some(*node),
            Change::Count { .. } | Change::Full(..) => None,
        };
        let touched: Bits<NodeId> = self.journal.since(mark).iter().filter_map(room).collect();
        while let Some(change) = self.journal.pop(mark) {
            match change {
                Change::Room(node, before) => self.nodes[node] = before,
                Change::Count { group, domain, owners, by } => {
                    self.counts[group].change(domain, owners, -by);
                }
                Change::Full(compatibility, node) if touched.has(node) => {
                    self.full[compatibility].remove(node)
                }
                Change::Full(..) => {}
            }
        }
        self.version += 1;
    }
}
