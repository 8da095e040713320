//! The solver's form of a snapshot: everything that does not depend on placements.
//!
//! - `intern`, `amounts`, `bits`, `shared`: labels, requirements, resources and sets as small integers; values by identity.
//! - `pools`, `ranks`, `nodes`, `usage`: instance types and offerings, nodes, and their usage of limits.
//! - `topology`, `domains`: topology groups and their domains.
//! - `pod_classes`, `relaxation`, `defaults`, `contradiction`: pods as classes with levels of relaxation.
//! - `devices`: what there is for resource claims.

pub(crate) mod amounts;
pub(crate) mod bits;
pub(crate) mod contradiction;
pub(crate) mod defaults;
pub(crate) mod devices;
pub(crate) mod domains;
pub(crate) mod intern;
pub(crate) mod nodes;
pub(crate) mod pod_classes;
pub(crate) mod pools;
pub(crate) mod ranks;
pub(crate) mod relaxation;
pub(crate) mod shared;
pub(crate) mod topology;
pub(crate) mod usage;

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use indexmap::IndexSet;

use self::{
    amounts::ResourceIndex,
    bits::Bits,
    domains::ByValue,
    intern::{Key, Req, Universe, Value},
    nodes::NodeRow,
    pod_classes::{Class, ClassKey, Compatibility, CompatibilityKey},
    pools::{Daemon, FiniteCapacity, Pool, PoolContext, Reservations, Row},
    topology::Topology,
    usage::Usage,
};
use crate::{
    model::{ClaimName, NodeName, Pod, Snapshot, TaintEffect, Toleration, pod::PodSpec},
    scheduling::{
        ids::{
            CompatibilityId, Id as _, IdVec, InstanceTypeId, NodeId, NodePoolId, PodClassId, ReservationId,
        },
        request::Rules,
    },
};

/// Tables that have grown by this much, and to twice their size, are built again: they keep the classes of all requests, and
/// the labels of removed nodes.
const MAX_GROWTH: usize = 50_000;

/// A snapshot made ready for scheduling. It learns pod classes, topology groups and intersections of requirements as
/// they are asked for, and knows nothing of what a request places.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) rules: Rules,
    pub(crate) universe: Universe,
    pub(crate) resources: ResourceIndex,
    pub(crate) reservations: Reservations,
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) pools: IdVec<NodePoolId, Pool>,
    /// What the nodes of each pool are in sum.
    pub(crate) usage: IdVec<NodePoolId, Usage>,
    /// Nodes by slot. A node keeps its slot as long as it is there; slots of nodes that are gone are vacant.
    pub(crate) nodes: IdVec<NodeId, NodeRow>,
    /// Vacant slots.
    pub(crate) vacant: Vec<NodeId>,
    /// The slot of each of the snapshot's nodes.
    pub(crate) slots: Vec<NodeId>,
    /// The node of each slot.
    pub(crate) positions: IdVec<NodeId, usize>,
    /// Slots of usable nodes in the order in which they are tried.
    pub(crate) order: Vec<NodeId>,
    /// The position of each slot in that order.
    pub(crate) places: IdVec<NodeId, usize>,
    /// Whether the snapshot's nodes are sorted by name.
    pub(crate) by_name: bool,
    /// Whether the order is that of the slots.
    pub(crate) in_order: bool,
    /// Slots of deleting nodes.
    pub(crate) deleting: Bits<NodeId>,
    /// Slots of nodes whose labels are an open choice.
    pub(crate) open: Bits<NodeId>,
    pub(crate) topology: Topology,
    /// How many nodes and pools have a taint that merely prefers to keep pods away.
    pub(crate) preference_taints: usize,
    pub(crate) classes: IdVec<PodClassId, Class>,
    pub(crate) class_ids: HashMap<ClassKey, PodClassId>,
    /// Specs with default spread constraints, where those apply.
    pub(crate) default_specs: HashMap<defaults::SpecKey, Option<Arc<PodSpec>>>,
    pub(crate) by_claim: HashMap<ClaimName, NodeId>,
    pub(crate) by_node: HashMap<NodeName, NodeId>,
    pub(crate) compatibilities: IdVec<CompatibilityId, Compatibility>,
    pub(crate) compatibility_ids: HashMap<CompatibilityKey, CompatibilityId>,
    pub(crate) toleration_sets: IndexSet<Vec<Toleration>>,
    /// Values of keys that pools can create.
    pub(crate) domains: HashMap<Key, Arc<[(NodePoolId, Value)]>>,
    /// Usable nodes by values of keys.
    pub(crate) by_value: HashMap<Key, ByValue>,
    /// Devices for resource claims, once a request has some.
    pub(crate) devices: Option<Box<devices::DeviceTables>>,
    /// How large the tables were when they were built.
    built: usize,
}

impl Tables {
    /// Whether finite capacity is a reservation, and not what offerings share.
    pub(crate) fn is_reservation(&self, id: ReservationId) -> bool {
        matches!(self.reservations.get_index(id.position()), Some((FiniteCapacity::Reservation(_), _)))
    }

    /// Tables without the snapshot's nodes.
    pub(crate) fn of(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
        let mut universe = Universe::new(Arc::clone(&snapshot.schema));
        let mut resources = ResourceIndex::default();
        let mut reservations = Reservations::default();
        let schedulable = |pod: &&Arc<Pod>| !rules.ignore_dra || pod.spec.resource_claims.is_empty();
        let daemons = snapshot.daemons.iter().filter(schedulable);
        let daemons: Vec<Daemon> =
            daemons.map(|pod| Daemon::new(pod, &mut universe, &mut resources)).collect();
        let mut context = PoolContext {
            snapshot: &snapshot,
            universe: &mut universe,
            resources: &mut resources,
            reservations: &mut reservations,
            daemons: &daemons,
            reserved_capacity: rules.reserved_capacity,
        };
        let usable = snapshot.pools.iter().filter(|pool| Pool::is_usable(pool));
        let pools: IdVec<NodePoolId, Pool> = usable.map(|pool| Pool::new(pool, &mut context)).collect();
        let taints = pools.iter().flat_map(|pool| pool.taints.iter());
        let preference_taints = taints.filter(|taint| taint.effect == TaintEffect::PreferNoSchedule).count();
        Self {
            snapshot,
            rules: rules.clone(),
            universe,
            resources,
            reservations,
            daemons,
            usage: pools.iter().map(Usage::new).collect(),
            pools,
            nodes: IdVec::default(),
            vacant: Vec::new(),
            slots: Vec::new(),
            positions: IdVec::default(),
            order: Vec::new(),
            places: IdVec::default(),
            by_name: true,
            in_order: true,
            deleting: Bits::default(),
            open: Bits::default(),
            topology: Topology::default(),
            preference_taints,
            classes: IdVec::default(),
            class_ids: HashMap::new(),
            default_specs: HashMap::new(),
            by_claim: HashMap::new(),
            by_node: HashMap::new(),
            compatibilities: IdVec::default(),
            compatibility_ids: HashMap::new(),
            toleration_sets: IndexSet::new(),
            domains: HashMap::new(),
            by_value: HashMap::new(),
            devices: None,
            built: 0,
        }
    }

    /// The slots of some of the snapshot's nodes, by index.
    pub(crate) fn slots_of(&self, nodes: &[usize]) -> Bits<NodeId> {
        nodes.iter().filter_map(|node| self.slots.get(*node).copied()).collect()
    }

    /// A row of a pool.
    pub(crate) fn row(&self, pool: NodePoolId, row_id: InstanceTypeId) -> &Row {
        &self.pools[pool].rows[row_id]
    }

    /// How many distinct values of a key the types of some rows have, of those that `req` allows: a claim that names
    /// fewer values than its minValues is refused by the API server.
    pub(crate) fn distinct(
        &self,
        pool: NodePoolId,
        rows: impl Iterator<Item = InstanceTypeId>,
        key: Key,
        req: Req,
    ) -> u32 {
        let sets = rows.filter_map(|row_id| self.universe.get(self.pools[pool].rows[row_id].req, key));
        let mut values: BTreeSet<Value> =
            sets.filter(|set| !set.complement).flat_map(|set| set.values.iter().copied()).collect();
        if let Some(allowed) = self.universe.get(req, key) {
            values.retain(|value| self.universe.has(key, allowed, *value));
        }
        intern::id(values.len())
    }

    /// Notes that the tables are complete: growth counts from here.
    pub(crate) fn note_built(&mut self) {
        self.built = self.size();
    }

    /// Whether the tables have grown so much since they were built that they should be built again.
    pub(crate) fn has_outgrown(&self) -> bool {
        self.size() > (2 * self.built).max(self.built + MAX_GROWTH)
    }

    fn size(&self) -> usize {
        self.universe.size() + self.classes.len() + self.topology.size() + self.compatibilities.len()
    }
}
