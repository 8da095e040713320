//! The solver: everything about a snapshot that does not depend on what is asked, built once and then brought up to
//! date; each request costs what it moves, each newer snapshot what has changed.
//!
//! - `intern`, `amounts`, `bits`: labels, requirements and resources as small integers.
//! - `pools`, `ranks`, `nodes`: what there is to buy, and what there is.
//! - `follow`: a newer snapshot.
//! - `ground`: what what-ifs have in common; `counted`: pods that leave.
//! - `topology`, `domains`: counters per group and domain, with an undo log.
//! - `compile`, `defaults`, `contradiction`: pods as classes with levels of relaxation.
//! - `asked`, `pass`, `ladder`, `on_node`, `on_claim`, `claim`, `narrow`: one request, pod by pod in Karpenter's order.
//! - `patterns`: pods that topology says nothing about, packed together at the least price.
//! - `devices`: pods with resource claims.
//! - `rearrange`: new NodeClaims packed again once topology has had its say; `repack`: those of a what-if, to cost less than what goes.
//! - `finish`, `explain`: the result as a [`Plan`]; `floor`: what it must cost at least.

mod amounts;
mod asked;
mod bits;
mod claim;
mod compile;
mod contradiction;
mod counted;
mod defaults;
mod devices;
mod domains;
mod explain;
mod finish;
mod floor;
mod follow;
mod ground;
mod intern;
mod ladder;
mod narrow;
mod nodes;
mod on_claim;
mod on_node;
mod pass;
mod patterns;
mod placement;
mod pools;
mod ranks;
mod rearrange;
mod repack;
mod topology;

use std::sync::Arc;

use hashbrown::HashMap;
use indexmap::IndexSet;

pub use self::repack::Repack;
use self::{
    amounts::ResourceIndex,
    asked::Asked,
    bits::Bits,
    compile::ShapeKey,
    domains::ByValue,
    finish::{LikeKey, Terms},
    follow::{Size, Usage},
    intern::{Key, Universe, Value},
    placement::Placement,
    pools::{Context, Daemon},
    topology::Topology,
};
/// What ids are of.
pub(super) use self::{
    claim::Claim,
    compile::{Class, Level, Shape},
    nodes::NodeRow,
    pools::{Pool, Reservations, Row},
    topology::{Group, LabelSet},
};
pub(super) use self::{pass::Strategy, patterns::Share, rearrange::Start};
use super::{Eliminated, LeastCost, Packer, Plan, Request, Rules};
use crate::model::{ClaimName, NodeName, Pod, PodUid, Resources, Snapshot, Toleration, labels, pod::PodSpec};
use crate::scheduling::ids::{IdVec, LabelSetId, NodeId, NodePoolId, PodClassId, ShapeId, TopologyGroupId};

/// A snapshot made ready for scheduling: build once, ask often, [`update`](Self::update) as the cluster changes.
///
/// Asking leaves no trace in the answers: every request sees the snapshot as it is.
#[derive(Debug)]
pub struct Solver {
    snapshot: Arc<Snapshot>,
    rules: Rules,
    universe: Universe,
    resources: ResourceIndex,
    reservations: Reservations,
    daemons: Vec<Daemon>,
    pools: IdVec<NodePoolId, Pool>,
    /// What the nodes of each pool are in sum.
    usage: IdVec<NodePoolId, Usage>,
    /// Nodes by slot. A node keeps its slot as long as it is there; slots of nodes that are gone are vacant.
    nodes: IdVec<NodeId, NodeRow>,
    /// Vacant slots.
    vacant: Vec<NodeId>,
    /// The slot of each of the snapshot's nodes.
    slots: Vec<NodeId>,
    /// The node of each slot.
    positions: IdVec<NodeId, usize>,
    /// Slots of usable nodes in the order in which they are tried.
    order: Vec<NodeId>,
    /// Where each slot stands in that order.
    places: IdVec<NodeId, usize>,
    /// Whether the snapshot's nodes are sorted by name.
    by_name: bool,
    /// Whether the order is that of the slots.
    in_order: bool,
    /// Slots of nodes that are going away.
    deleting: Bits<NodeId>,
    /// Slots of nodes whose labels are an open choice.
    open: Bits<NodeId>,
    topology: Topology,
    /// How many nodes and pools have a taint that merely prefers to keep pods away.
    preference_taints: usize,
    classes: IdVec<PodClassId, Class>,
    class_by_pointer: HashMap<(usize, LabelSetId), PodClassId>,
    /// Classes of pods with volumes: each pod is one of its own.
    class_by_pod: HashMap<PodUid, PodClassId>,
    class_by_content: HashMap<(LabelSetId, Resources), Vec<PodClassId>>,
    /// Specs with default spread constraints, where those apply.
    default_specs: HashMap<defaults::AlikeKey, (Arc<PodSpec>, Option<Arc<PodSpec>>)>,
    by_claim: HashMap<ClaimName, NodeId>,
    by_node: HashMap<NodeName, NodeId>,
    shapes: IdVec<ShapeId, Shape>,
    shape_ids: HashMap<ShapeKey, ShapeId>,
    toleration_sets: IndexSet<Vec<Toleration>>,
    /// Values of keys that pools can create.
    domains: HashMap<Key, Arc<[(NodePoolId, Value)]>>,
    /// Usable nodes by values of keys.
    by_value: HashMap<Key, ByValue>,
    /// What claims of one kind become.
    terms: HashMap<LikeKey, Arc<Result<Terms, Eliminated>>>,
    /// Devices for resource claims, once a request has some.
    devices: Option<Box<devices::Tables>>,
    /// What what-ifs go on from. While it is there, nodes and counters are as it leaves them.
    ground: Option<Box<ground::Ground>>,
    /// The last large request.
    asked: Asked,
    hostname: Key,
    /// What is placed: between requests as the snapshot says.
    placement: Placement,
    /// Groups of a request whose pods keep apart by zone (or another key but the hostname) and pick one domain each: see
    /// [`Strategy`]. Empty between passes.
    pinning: Bits<TopologyGroupId>,
    /// How large the tables were when they were built.
    built: Size,
}

impl Solver {
    /// Makes a snapshot ready.
    #[must_use]
    pub fn new(snapshot: &Snapshot, rules: &Rules) -> Self {
        Self::on(Arc::new(snapshot.clone()), rules)
    }

    /// Makes a shared snapshot ready.
    #[must_use]
    pub fn on(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
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
        let mut this = Self {
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
            shapes: IdVec::default(),
            shape_ids: HashMap::new(),
            toleration_sets: IndexSet::new(),
            domains: HashMap::new(),
            by_value: HashMap::new(),
            terms: HashMap::new(),
            devices: None,
            ground: None,
            asked: Asked::default(),
            hostname,
            placement: Placement::default(),
            pinning: Bits::default(),
            built: Size::default(),
        };
        this.settle_in();
        this
    }

    /// Schedules a request with [`super::LeastCost`]. Deterministic but for [`super::Effort::While`].
    pub fn solve(&mut self, request: &Request<'_>) -> Plan {
        self.lift();
        LeastCost.pack(self, request)
    }

    /// The snapshot that requests are answered on.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// One pass, pod by pod.
    pub(super) fn pass(&mut self, request: &Request<'_>, strategy: Strategy) -> Plan {
        pass::run(self, request, strategy, None).0
    }

    /// One pass, and what becomes of its new NodeClaims when they are packed again for as long as the request's effort lasts;
    /// `None` where that saves nothing.
    pub(super) fn pass_and_rearrange(
        &mut self,
        request: &Request<'_>,
        strategy: Strategy,
        start: Start,
    ) -> (Plan, Option<Plan>) {
        pass::run(self, request, strategy, Some(start))
    }
}
