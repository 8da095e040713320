//! The state of a pass: what it has placed and created beside the counts and the room of the placement, and what is left.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use indexmap::IndexMap;

use crate::{
    model::{Str, pod::HostPort},
    scheduling::{
        dra::problem::ClaimProblem,
        greedy::candidate_order::CandidateOrder,
        ids::{
            CompatibilityId, IdVec, InstanceTypeId, LevelId, NewClaimId, NodeId, NodePoolId, PodClassId,
            PodId, ReservationId,
        },
        placement::{
            Mark, Placement,
            claim::{Claim, clash},
            devices::DeviceGrants,
            discount,
            domains::Domains,
            limits::Limits,
        },
        reason::Unplaced,
        request::{Purpose, Request},
        tables::{
            Tables,
            amounts::{Amounts, fits, get},
            bits::Bits,
            intern::Req,
        },
    },
};

/// How new NodeClaims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Where there is one, the oldest new NodeClaim comes first, rather than the one with the fewest pods, and new NodeClaims keep to
    /// instance types of at most this many milli-CPUs where those suffice.
    first_fit: Option<i64>,
    /// Whether pods of one class that come one after the other are placed together.
    pub(super) runs: bool,
    /// Pods that keep apart by zone pick one of those that are open to them, so that they leave the others to their equals.
    /// Karpenter leaves the choice open, and takes all of them as occupied until the node is there.
    pins: bool,
}

impl Strategy {
    /// Karpenter's order.
    pub(crate) const KARPENTER: Self = Self { first_fit: None, runs: true, pins: false };
    /// Karpenter's order, where pods that keep apart by zone pick one.
    pub(crate) const PINNED: Self = Self { pins: true, ..Self::KARPENTER };

    /// Oldest first, with a preferred size.
    pub(crate) const fn first_fit(size: i64) -> Self {
        Self { first_fit: Some(size), ..Self::KARPENTER }
    }

    /// The same, each pod on its own: the reference for pods that are placed together.
    #[cfg(test)]
    pub(crate) const fn one_by_one(self) -> Self {
        Self { runs: false, ..self }
    }
}

/// The state of a pass.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) purpose: Purpose,
    pub(crate) strategy: Strategy,
    pub(crate) claims: IdVec<NewClaimId, Claim>,
    /// New NodeClaims in the order in which they are tried.
    pub(crate) candidate_order: CandidateOrder,
    /// Allocation of the set of new NodeClaims that are left for a pod.
    pub(super) candidates: Bits<NewClaimId>,
    /// New NodeClaims by pool and requirements.
    pub(super) equal_claims: IndexMap<(NodePoolId, Req), Bits<NewClaimId>, FixedState>,
    /// Excluded nodes.
    pub(crate) excluded: Bits<NodeId>,
    /// Those of them that kept simulations removed: their pods have no node to stay on.
    pub(crate) removed: Bits<NodeId>,
    /// By compatibility: how many of its first nodes in order are excluded or full.
    pub(crate) starts: HashMap<CompatibilityId, usize>,
    /// Pods by node, as indices into the request.
    pub(crate) placed: BTreeMap<NodeId, Vec<PodId>>,
    pub(crate) ports: HashMap<NodeId, Vec<HostPort>>,
    pub(crate) attached: HashMap<NodeId, Vec<(Str, Str)>>,
    /// What is left of the limits of pools.
    pub(crate) limits: Limits,
    pub(crate) reservations: IdVec<ReservationId, u32>,
    /// Levels that failed, and the topology version that they failed at; `None` where nothing can change it.
    pub(crate) failed: HashMap<(PodClassId, LevelId), Option<u64>>,
    /// Levels of pods on new NodeClaims that had to be relaxed, by index into the request.
    pub(crate) levels: HashMap<PodId, LevelId>,
    /// The number of new NodeClaims before they were packed again.
    pub(crate) claims_before: usize,
    pub(crate) probes: u64,
    pub(crate) exhausted: bool,
    /// Devices for resource claims, where pods have some.
    pub(crate) devices: Option<Box<DeviceGrants>>,
    /// Classes whose resource claims are satisfied on no node.
    claim_problems: HashMap<PodClassId, ClaimProblem>,
}

/// The outcome of placing a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The pod is placed.
    Placed,
    /// The pod does not fit now.
    Failed,
    /// Neither, and some node lacks devices for it, which relaxation does not provide.
    LacksDevices,
    /// The bound on the work was reached before.
    NotReached,
    /// Reserved capacity is taken: neither relaxation nor another pool may help.
    Reserved,
}

impl Outcome {
    /// Of what does not take a pod.
    pub(super) fn refused(lacks_devices: bool) -> Self {
        if lacks_devices { Self::LacksDevices } else { Self::Failed }
    }

    /// This, unless it failed; then that of the `next` attempt, which failed for lack of devices if either did.
    pub(super) fn or_else(self, next: impl FnOnce() -> Self) -> Self {
        match (self, matches!(self, Self::Failed | Self::LacksDevices).then(next)) {
            (outcome, None | Some(Self::Failed)) => outcome,
            (_, Some(next)) => next,
        }
    }
}

impl Pass {
    /// The work of the pass: what was tried, and the steps of the searches for devices.
    pub(super) fn work(&self) -> u64 {
        self.probes.saturating_add(self.devices.as_ref().map_or(0, |devices| devices.steps()))
    }

    /// Begins a pass for pods of some distinct classes, all levels of which are compiled.
    pub(crate) fn begin(
        tables: &mut Tables,
        placement: &mut Placement,
        request: &Request<'_>,
        classes: &[PodClassId],
        strategy: Strategy,
    ) -> Self {
        let mut pass = Self::new(tables, request, strategy);
        (pass.devices, pass.claim_problems) = DeviceGrants::new(tables, request, classes);
        if strategy.pins {
            placement.pinning = Domains::new(tables, placement).groups_of(classes);
        }
        placement.make_room(tables.compatibilities.len());
        discount::forget(tables, placement, &pass.excluded, request);
        pass
    }

    fn new(tables: &Tables, request: &Request<'_>, strategy: Strategy) -> Self {
        let excluded = tables.slots_of(request.without);
        let mut limits = Limits::new(tables);
        excluded.iter().for_each(|node_id| limits.give_back(tables, node_id));
        let reservations = tables.reservations.values().copied().collect();
        Self { excluded, ..Self::empty(request.purpose, strategy, limits, reservations) }
    }

    fn empty(
        purpose: Purpose,
        strategy: Strategy,
        limits: Limits,
        reservations: IdVec<ReservationId, u32>,
    ) -> Self {
        Self {
            purpose,
            strategy,
            limits,
            claims: IdVec::default(),
            candidate_order: CandidateOrder::default(),
            candidates: Bits::default(),
            equal_claims: IndexMap::default(),
            starts: HashMap::new(),
            placed: BTreeMap::new(),
            ports: HashMap::new(),
            attached: HashMap::new(),
            reservations,
            failed: HashMap::new(),
            levels: HashMap::new(),
            claims_before: 0,
            probes: 0,
            exhausted: false,
            devices: None,
            claim_problems: HashMap::new(),
            removed: Bits::default(),
            excluded: Bits::default(),
        }
    }

    /// A pass that continues this one, with nothing placed yet. It has the verdicts of this one, which
    /// does nothing until they are given back.
    pub(crate) fn fork(&mut self) -> Self {
        Self {
            claims: self.claims.clone(),
            candidate_order: self.candidate_order.clone(),
            candidates: std::mem::take(&mut self.candidates),
            equal_claims: self.equal_claims.clone(),
            excluded: self.excluded.clone(),
            removed: self.removed.clone(),
            starts: self.starts.clone(),
            ports: self.ports.clone(),
            attached: self.attached.clone(),
            ..Self::empty(self.purpose, self.strategy, self.limits.clone(), self.reservations.clone())
        }
    }

    /// Rewinds the pass; `classes` are those of its pods.
    pub(crate) fn restore(self, tables: &mut Tables, placement: &mut Placement, classes: &[PodClassId]) {
        if let Some(devices) = self.devices {
            tables.devices = Some(devices.into_tables());
        }
        placement.pinning = Bits::default();
        placement.rewind(Mark::START);
        for level in classes.iter().flat_map(|class| &tables.classes[*class].levels) {
            placement.forget_verdicts(level.compatibility);
        }
    }

    /// The problem of the resource claims of a class on every node.
    pub(crate) fn claim_problem(&self, class: PodClassId) -> Option<Unplaced> {
        let problem = self.claim_problems.get(&class)?;
        Some(Unplaced::Claims(Box::new(problem.clone())))
    }

    /// The position of the first node of a compatibility that is neither excluded nor full.
    pub(crate) fn skip(
        &mut self,
        placement: &Placement,
        compatibility: CompatibilityId,
        ordered: &[NodeId],
    ) -> usize {
        let start = self.starts.entry(compatibility).or_insert(0);
        let usable =
            |node_id: &NodeId| !self.excluded.has(*node_id) && !placement.full(compatibility).has(*node_id);
        *start += ordered[*start..].iter().position(usable).unwrap_or(ordered.len() - *start);
        *start
    }

    /// Whether the pass may use a node.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        !self.excluded.has(node)
    }

    /// Updates the groups of equal new NodeClaims after a change of requirements.
    pub(crate) fn regroup(&mut self, claim_id: NewClaimId, before: Req) {
        let Claim { pool, req, .. } = self.claims[claim_id];
        if let Some(equal) = self.equal_claims.get_mut(&(pool, before)).filter(|_| before != req) {
            equal.remove(claim_id);
        }
        self.equal_claims.entry((pool, req)).or_default().insert(claim_id);
    }

    /// The tier of a new NodeClaim: how many pods it has, or the same for all where the oldest comes first.
    pub(crate) fn tier(&self, claim: NewClaimId) -> usize {
        if self.strategy.first_fit.is_some() { 0 } else { self.claims[claim].pods.len() }
    }

    /// The rows that a new NodeClaim keeps to where they suffice: all, unless a size is preferred.
    pub(crate) fn preferred(
        &self,
        tables: &Tables,
        pool: NodePoolId,
        rows: &Bits<InstanceTypeId>,
    ) -> Option<Bits<InstanceTypeId>> {
        let size = self.strategy.first_fit?;
        let small = |row_id: &InstanceTypeId| get(&tables.row(pool, *row_id).capacity, 0) <= size;
        Some(rows.iter().filter(small).collect())
    }

    /// Lets NodeClaims that kept to a size name every type that holds their pods. What is charged to a limit stays.
    pub(crate) fn widen(&mut self, tables: &Tables) {
        if self.strategy.first_fit.is_none() || !tables.reservations.is_empty() {
            return;
        }
        for claim_id in self.claims.ids() {
            let claim = &mut self.claims[claim_id];
            if claim.holds_devices || !tables.pools[claim.pool].limits.is_empty() {
                continue;
            }
            let mask = tables.pools[claim.pool].mask(&tables.universe, claim.req);
            let holds = |claim_id: &InstanceTypeId| {
                let row = tables.row(claim.pool, *claim_id);
                fits(&claim.used, &Amounts::new(), &row.free) && !clash(&claim.ports, &row.ports)
            };
            claim.rows = mask.iter().filter(holds).collect();
        }
    }
}
