//! One request, pod by pod in Karpenter's order: nodes that exist, new NodeClaims of this pass, a new NodeClaim; then the
//! next level of relaxation.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use crate::{
    model::{Pod, Str, pod::HostPort},
    scheduling::{
        greedy::{
            candidate_order::{CandidateOrder, Cursor},
            request_queue::RequestQueue,
        },
        ids::{
            CompatibilityId, Id, IdVec, InstanceTypeId, LevelId, NewClaimId, NodeId, NodePoolId, PodClassId,
            PodId, ReservationId,
        },
        placement::{
            Mark, Placement,
            allowed_domains::{self, TopologyDemand},
            claim::{Claim, clash},
            devices::DeviceGrants,
            discount,
            domains::{count_new_groups, groups_of},
            limits::Limits,
        },
        reason::Unplaced,
        request::{Purpose, Request},
        tables::{
            Tables,
            amounts::{Amounts, fits, get},
            bits::Bits,
            intern::{Req, Side},
            nodes::tolerated,
            pod_classes::{self, Level},
            topology::GroupKind,
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
    runs: bool,
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

/// New NodeClaims of one pool with the same requirements.
#[derive(Clone, Debug)]
struct EqualClaims {
    pool: NodePoolId,
    req: Req,
    members: Bits<NewClaimId>,
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
    candidates: Bits<NewClaimId>,
    equal_claims: Vec<EqualClaims>,
    equal_claim_ids: HashMap<(NodePoolId, Req), usize>,
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
}

/// The outcome of placing a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The pod is placed.
    Placed,
    /// The pod does not fit now.
    Failed,
    /// The bound on the work was reached before.
    NotReached,
    /// Reserved capacity is taken: neither relaxation nor another pool may help.
    Reserved,
}

impl Pass {
    /// Begins a pass; also returns the distinct classes of its pods.
    pub(crate) fn begin(
        tables: &mut Tables,
        placement: &mut Placement,
        request: &Request<'_>,
        queue: &RequestQueue,
        strategy: Strategy,
    ) -> (Self, Vec<PodClassId>) {
        // All groups are known before anything is counted for this pass alone.
        let distinct = pod_classes::all_levels(tables, &queue.classes);
        count_new_groups(tables, placement);
        let mut pass = Self::new(tables, request, strategy);
        pass.devices = DeviceGrants::new(tables, request, &distinct);
        if strategy.pins {
            placement.pinning = groups_of(tables, placement, &distinct);
        }
        placement.make_room(tables.compatibilities.len());
        discount::forget(tables, placement, &pass.excluded, request);
        (pass, distinct)
    }

    fn new(tables: &Tables, request: &Request<'_>, strategy: Strategy) -> Self {
        let excluded: Bits<NodeId> =
            request.without.iter().filter_map(|node| tables.slots.get(*node).copied()).collect();
        Self {
            purpose: request.purpose,
            strategy,
            limits: Limits::new(tables, &excluded),
            claims: IdVec::default(),
            candidate_order: CandidateOrder::default(),
            candidates: Bits::default(),
            equal_claims: Vec::new(),
            equal_claim_ids: HashMap::new(),
            starts: HashMap::new(),
            placed: BTreeMap::new(),
            ports: HashMap::new(),
            attached: HashMap::new(),
            reservations: tables.reservations.capacity.clone(),
            failed: HashMap::new(),
            levels: HashMap::new(),
            claims_before: 0,
            probes: 0,
            exhausted: false,
            devices: None,
            removed: Bits::default(),
            excluded,
        }
    }

    /// A pass that continues this one, with nothing placed yet. It has the verdicts of this one, which
    /// does nothing until they are given back.
    pub(crate) fn fork(&mut self) -> Self {
        Self {
            purpose: self.purpose,
            strategy: self.strategy,
            claims: self.claims.clone(),
            candidate_order: self.candidate_order.clone(),
            candidates: std::mem::take(&mut self.candidates),
            equal_claims: self.equal_claims.clone(),
            equal_claim_ids: self.equal_claim_ids.clone(),
            excluded: self.excluded.clone(),
            removed: self.removed.clone(),
            starts: self.starts.clone(),
            placed: BTreeMap::new(),
            ports: self.ports.clone(),
            attached: self.attached.clone(),
            limits: self.limits.clone(),
            reservations: self.reservations.clone(),
            failed: HashMap::new(),
            levels: HashMap::new(),
            claims_before: 0,
            probes: 0,
            exhausted: false,
            devices: None,
        }
    }

    /// Rewinds the pass; `classes` are those of its pods.
    pub(crate) fn restore(self, tables: &Tables, placement: &mut Placement, classes: &[PodClassId]) {
        placement.pinning = Bits::default();
        placement.rewind(Mark::START);
        for level in classes.iter().flat_map(|class| &tables.classes[*class].levels) {
            placement.forget_verdicts(level.compatibility);
        }
    }

    /// Places pods; returns the unschedulable ones with their outcome.
    pub(crate) fn place_all(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pods: &[Arc<Pod>],
        classes: &IdVec<PodId, PodClassId>,
        mut waiting: Vec<PodId>,
    ) -> Vec<(PodId, Outcome)> {
        let mut done: Vec<(PodId, Outcome)> = Vec::new();
        loop {
            let before = waiting.len();
            let mut failed = Vec::new();
            let mut rest = &waiting[..];
            while let Some(class) = rest.first().map(|pod_id| classes[*pod_id]) {
                let (run, others) =
                    rest.split_at(rest.iter().take_while(|pod_id| classes[**pod_id] == class).count());
                rest = others;
                let placed =
                    if run.len() > 1 { self.attempt_run(tables, placement, pods, class, run) } else { 0 };
                for pod_id in run[placed..].iter().copied() {
                    match self.attempt(tables, placement, pod_id, &pods[pod_id.position()], class) {
                        Outcome::Placed => {}
                        Outcome::Failed => failed.push(pod_id),
                        outcome => done.push((pod_id, outcome)),
                    }
                }
            }
            // Another round can only help after a placement, which changes topology counts.
            let progress = failed.len() < before;
            waiting = failed;
            if waiting.is_empty() || !progress {
                done.extend(waiting.into_iter().map(|pod_id| (pod_id, Outcome::Failed)));
                return done;
            }
        }
    }

    fn attempt(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod_id: PodId,
        pod: &Pod,
        class: PodClassId,
    ) -> Outcome {
        if tables.classes[class].refused.is_some() || self.claim_problem(class).is_some() {
            return Outcome::Failed;
        }
        let answer = tables.snapshot.nominated.get(&pod.uid);
        let answer = answer.and_then(|name| tables.by_claim.get(&**name)).copied();
        if let Some(node) = answer.filter(|node| tables.nodes[*node].usable && !self.excluded.has(*node)) {
            for level in tables.classes[class].levels.ids() {
                let demand = allowed_domains::demand(tables, placement, class, level);
                if tables.fitting(class, level).has(node)
                    && self.try_node(tables, placement, &demand, node, pod)
                {
                    self.placed.entry(node).or_default().push(pod_id);
                    return Outcome::Placed;
                }
            }
        }
        for level in tables.classes[class].levels.ids() {
            self.probes += 1;
            let verdict = self.failed.get(&(class, level));
            if verdict.is_some_and(|seen| seen.is_none_or(|version| version == placement.version())) {
                continue;
            }
            if self.probes > tables.rules.max_probes {
                self.exhausted = true;
                return Outcome::NotReached;
            }
            match self.attempt_level(tables, placement, pod_id, pod, class, level) {
                // Relaxation does not provide missing devices.
                Outcome::Failed if self.lacked_devices() => return Outcome::Failed,
                Outcome::Failed => {}
                outcome => return outcome,
            }
            let flips = tables.classes[class].levels[level]
                .groups
                .iter()
                .any(|owned| tables.topology.groups[owned.group].spec.kind != GroupKind::Anti);
            // Whether a node takes a moving pod depends on the pod itself.
            if pod.node.is_none() {
                self.failed.insert((class, level), flips.then_some(placement.version()));
            }
        }
        Outcome::Failed
    }

    fn attempt_level(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod_id: PodId,
        pod: &Pod,
        class: PodClassId,
        level: LevelId,
    ) -> Outcome {
        let demand = allowed_domains::demand(tables, placement, class, level);
        let fitting = tables.fitting(class, level);
        let allowed = allowed_domains::nodes_left(tables, placement, &demand, fitting);
        let fitting = allowed.as_ref().unwrap_or(fitting);
        if let Some(node) = self.attempt_nodes(tables, placement, pod, &demand, fitting) {
            self.placed.entry(node).or_default().push(pod_id);
            return Outcome::Placed;
        }
        if level > LevelId::FIRST {
            self.levels.insert(pod_id, level);
        }
        if self.attempt_claims(tables, placement, pod_id, &demand) {
            return Outcome::Placed;
        }
        self.try_new(tables, placement, pod_id, &demand)
    }

    /// Places pods of one class as [`Self::attempt`] would one after the other, while nothing special applies: no topology, no
    /// port, volume or reservation, no relaxation. Returns the number of placed pods.
    fn attempt_run(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pods: &[Arc<Pod>],
        class: PodClassId,
        run: &[PodId],
    ) -> usize {
        let alike = |pod_id: &PodId| {
            let pod = &pods[pod_id.position()];
            let nominated = &tables.snapshot.nominated;
            pod.node.is_none() && (nominated.is_empty() || !nominated.contains_key(&pod.uid))
        };
        let plain = self.strategy.runs && allowed_domains::is_unbound(tables, class) && run.iter().all(alike);
        if !plain || self.failed.contains_key(&(class, LevelId::FIRST)) {
            return 0;
        }
        let demand = allowed_domains::demand(tables, placement, class, LevelId::FIRST);
        if !demand.is_free() {
            return 0;
        }
        let fitting = tables.fitting(class, LevelId::FIRST);
        let mut placed = 0;
        while placed < run.len() {
            let pod_id = run[placed];
            let node = self.attempt_nodes(tables, placement, &pods[pod_id.position()], &demand, fitting);
            let Some(node) = node else { break };
            self.placed.entry(node).or_default().push(pod_id);
            placed += 1;
        }
        let mut candidates = self.candidates(tables, placement, &demand);
        while placed < run.len() && self.probes < tables.rules.max_probes {
            if !self.join_first(tables, placement, run[placed], &demand, &mut candidates) {
                if self.try_new(tables, placement, run[placed], &demand) != Outcome::Placed {
                    break;
                }
                self.claims.ids().next_back().into_iter().for_each(|claim| candidates.insert(claim));
            }
            placed += 1;
        }
        placed
    }

    /// The problem of the resource claims of a class on every node.
    pub(crate) fn claim_problem(&self, class: PodClassId) -> Option<Unplaced> {
        self.devices.as_ref()?.problem(class)
    }

    /// Returns whether devices were missing since the last call, and counts the work.
    fn lacked_devices(&mut self) -> bool {
        let Some(devices) = &mut self.devices else { return false };
        let (lacked, steps) = devices.take_shortage();
        self.probes += steps;
        lacked
    }

    /// Tries the new NodeClaims of this pass, the one with the fewest pods first.
    fn attempt_claims(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod_id: PodId,
        demand: &TopologyDemand,
    ) -> bool {
        let mut candidates = self.candidates(tables, placement, demand);
        let joined = self.join_first(tables, placement, pod_id, demand, &mut candidates);
        self.candidates = candidates;
        joined
    }

    /// Places a pod on the first of some new NodeClaims that takes it; removes those that do not.
    fn join_first(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod_id: PodId,
        demand: &TopologyDemand,
        candidates: &mut Bits<NewClaimId>,
    ) -> bool {
        let mut cursor = Cursor::default();
        while let Some(claim) = self.candidate_order.next(candidates, &mut cursor) {
            let tier = self.tier(claim);
            if self.try_claim(tables, placement, demand, claim) {
                self.claims[claim].pods.push(pod_id);
                self.candidate_order.shift(claim, tier, self.tier(claim));
                return true;
            }
            candidates.remove(claim);
        }
        false
    }

    /// The new NodeClaims that may take a pod of a level, but for their size and the allowed domains.
    fn candidates(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        demand: &TopologyDemand,
    ) -> Bits<NewClaimId> {
        let TopologyDemand { class, level, .. } = *demand;
        let Level { req, compatibility, look_past_preferences, any_host, .. } =
            tables.classes[class].levels[level];
        if !any_host {
            return Bits::default();
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.fill(self.claims.len());
        candidates.subtract(placement.rejected(compatibility));
        allowed_domains::keep_by_hostname(tables, placement, demand, &mut candidates);
        for equal in &self.equal_claims {
            if !candidates.meets(&equal.members) {
                continue;
            }
            self.probes += 1;
            let pod = &tables.classes[class].pod;
            let agrees = tolerated(&tables.pools[equal.pool].taints, pod, look_past_preferences)
                && tables.universe.meet(equal.req, req, Side::Claim).is_some();
            if !agrees {
                // Requirements only become narrower.
                placement.reject_all(compatibility, &equal.members);
            }
            if !agrees || allowed_domains::obeys_by_key(tables, demand, equal.req).is_err() {
                candidates.subtract(&equal.members);
            }
        }
        candidates
    }

    /// Updates the groups of equal new NodeClaims after a change of requirements.
    pub(crate) fn regroup(&mut self, claim_id: NewClaimId, before: Req) {
        let Claim { pool, req, .. } = self.claims[claim_id];
        if let Some(equal) = self.equal_claim_ids.get(&(pool, before)).filter(|_| before != req) {
            self.equal_claims[*equal].members.remove(claim_id);
        }
        let equal = *self.equal_claim_ids.entry((pool, req)).or_insert_with(|| {
            self.equal_claims.push(EqualClaims { pool, req, members: Bits::default() });
            self.equal_claims.len() - 1
        });
        self.equal_claims[equal].members.insert(claim_id);
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
        if self.strategy.first_fit.is_none() || !tables.reservations.names.is_empty() {
            return;
        }
        for claim_id in self.claims.ids() {
            let claim = &mut self.claims[claim_id];
            let held = self.devices.as_ref().is_some_and(|devices| devices.holds(claim_id));
            if held || !tables.pools[claim.pool].limits.is_empty() {
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
