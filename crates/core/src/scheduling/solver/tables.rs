//! What a snapshot means: everything that does not depend on what has been placed.

use std::sync::Arc;

use hashbrown::HashMap;
use indexmap::IndexSet;

use super::{
    amounts::ResourceIndex,
    bits::Bits,
    defaults, devices,
    domains::ByValue,
    finish::{Terms, TermsKey},
    follow::{Size, Usage},
    intern::{Key, Universe, Value},
    nodes::NodeRow,
    pod_classes::{Class, Compatibility, CompatibilityKey},
    pools::{Context, Daemon, Pool, Reservations},
    topology::Topology,
};
use crate::{
    model::{ClaimName, NodeName, Pod, PodUid, Resources, Snapshot, Toleration, labels, pod::PodSpec},
    scheduling::{
        Eliminated, Rules,
        ids::{CompatibilityId, IdVec, LabelSetId, NodeId, NodePoolId, PodClassId},
    },
};

/// A snapshot made ready for scheduling. It learns pod classes, topology groups and intersections of requirements as
/// they are asked for, and knows nothing of what a request places.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) rules: Rules,
    pub(super) universe: Universe,
    pub(super) resources: ResourceIndex,
    pub(super) reservations: Reservations,
    pub(super) daemons: Vec<Daemon>,
    pub(super) pools: IdVec<NodePoolId, Pool>,
    /// What the nodes of each pool are in sum.
    pub(super) usage: IdVec<NodePoolId, Usage>,
    /// Nodes by slot. A node keeps its slot as long as it is there; slots of nodes that are gone are vacant.
    pub(super) nodes: IdVec<NodeId, NodeRow>,
    /// Vacant slots.
    pub(super) vacant: Vec<NodeId>,
    /// The slot of each of the snapshot's nodes.
    pub(super) slots: Vec<NodeId>,
    /// The node of each slot.
    pub(super) positions: IdVec<NodeId, usize>,
    /// Slots of usable nodes in the order in which they are tried.
    pub(super) order: Vec<NodeId>,
    /// Where each slot stands in that order.
    pub(super) places: IdVec<NodeId, usize>,
    /// Whether the snapshot's nodes are sorted by name.
    pub(super) by_name: bool,
    /// Whether the order is that of the slots.
    pub(super) in_order: bool,
    /// Slots of deleting nodes.
    pub(super) deleting: Bits<NodeId>,
    /// Slots of nodes whose labels are an open choice.
    pub(super) open: Bits<NodeId>,
    pub(super) topology: Topology,
    /// How many nodes and pools have a taint that merely prefers to keep pods away.
    pub(super) preference_taints: usize,
    pub(super) classes: IdVec<PodClassId, Class>,
    pub(super) class_by_pointer: HashMap<(usize, LabelSetId), PodClassId>,
    /// Classes of pods with volumes: each pod is one of its own.
    pub(super) class_by_pod: HashMap<PodUid, PodClassId>,
    pub(super) class_by_content: HashMap<(LabelSetId, Resources), Vec<PodClassId>>,
    /// Specs with default spread constraints, where those apply.
    pub(super) default_specs: HashMap<defaults::SpecKey, (Arc<PodSpec>, Option<Arc<PodSpec>>)>,
    pub(super) by_claim: HashMap<ClaimName, NodeId>,
    pub(super) by_node: HashMap<NodeName, NodeId>,
    pub(super) compatibilities: IdVec<CompatibilityId, Compatibility>,
    pub(super) compatibility_ids: HashMap<CompatibilityKey, CompatibilityId>,
    pub(super) toleration_sets: IndexSet<Vec<Toleration>>,
    /// Values of keys that pools can create.
    pub(super) domains: HashMap<Key, Arc<[(NodePoolId, Value)]>>,
    /// Usable nodes by values of keys.
    pub(super) by_value: HashMap<Key, ByValue>,
    /// What claims of one kind become.
    pub(super) terms: HashMap<TermsKey, Arc<Result<Terms, Eliminated>>>,
    /// Devices for resource claims, once a request has some.
    pub(super) devices: Option<Box<devices::DeviceTables>>,
    pub(super) hostname: Key,
    /// How large the tables were when they were built.
    pub(super) built: Size,
}

impl Tables {
    /// Tables without the snapshot's nodes.
    pub(super) fn of(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
        let mut universe = Universe::new(Arc::clone(&snapshot.schema));
        let mut resources = ResourceIndex::default();
        let mut reservations = Reservations::default();
        let schedulable = |pod: &&Arc<Pod>| !rules.ignore_dra || pod.spec.resource_claims.is_empty();
        let daemons = snapshot.daemons.iter().filter(schedulable);
        let daemons: Vec<Daemon> =
            daemons.map(|pod| Daemon::new(pod, &mut universe, &mut resources)).collect();
        let mut context = Context {
            snapshot: &snapshot,
            universe: &mut universe,
            resources: &mut resources,
            reservations: &mut reservations,
            daemons: &daemons,
            reserved_capacity: rules.reserved_capacity,
        };
        let usable = snapshot.pools.iter().filter(|pool| Pool::is_usable(pool));
        let pools: IdVec<NodePoolId, Pool> = usable.map(|pool| Pool::new(pool, &mut context)).collect();
        let hostname = universe.key(labels::HOSTNAME);
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
            preference_taints: 0,
            classes: IdVec::default(),
            class_by_pointer: HashMap::new(),
            class_by_pod: HashMap::new(),
            class_by_content: HashMap::new(),
            default_specs: HashMap::new(),
            by_claim: HashMap::new(),
            by_node: HashMap::new(),
            compatibilities: IdVec::default(),
            compatibility_ids: HashMap::new(),
            toleration_sets: IndexSet::new(),
            domains: HashMap::new(),
            by_value: HashMap::new(),
            terms: HashMap::new(),
            devices: None,
            hostname,
            built: Size::default(),
        }
    }
}
