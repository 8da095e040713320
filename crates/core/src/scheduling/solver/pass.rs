//! One request, pod by pod in Karpenter's order: nodes that exist, new NodeClaims of this pass, a new NodeClaim; then the
//! next level of relaxation.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use super::{
    Solver, allowed_domains,
    allowed_domains::Demand,
    amounts::{Amounts, fits, get},
    base,
    bits::Bits,
    candidate_order::{CandidateOrder, Cursor},
    claim::{Claim, clash},
    devices::Grants,
    intern::{Req, Side},
    leaving,
    patterns::Deferral,
    placement::Mark,
    pod_classes::Level,
    rearrange::Start,
    request_queue::{MIN_KEPT_PODS, RequestQueue},
    topology::GroupKind,
};
use crate::scheduling::ids::{
    CompatibilityId, Id, IdVec, InstanceTypeId, LevelId, NewClaimId, NodeId, NodePoolId, PodClassId, PodId,
    ReservationId,
};
use crate::{
    model::{Pod, Str, pod::HostPort},
    scheduling::{Effort, Plan, Purpose, Request},
};

/// How new NodeClaims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) struct Strategy {
    /// The oldest new NodeClaim first, rather than the one with the fewest pods.
    first_fit: bool,
    /// New NodeClaims keep to nodes of at most so many milli-CPUs where those suffice.
    size: Option<i64>,
    /// Pods that topology says nothing about are packed by patterns, once the others have their places.
    patterns: bool,
    /// Whether pods of one class that come one after the other are placed together.
    runs: bool,
    /// Pods that keep apart by zone pick one of those that are open to them, so that they leave the others to their like.
    /// Karpenter leaves the choice open, and takes all of them as occupied until the node is there.
    pins: bool,
}

impl Strategy {
    /// Fewest pods first, any size.
    pub(in crate::scheduling) const KARPENTER: Self =
        Self { first_fit: false, size: None, patterns: false, runs: true, pins: false };

    /// Oldest first, with a preferred size.
    pub(in crate::scheduling) const fn first_fit(size: Option<i64>) -> Self {
        Self { first_fit: true, size, patterns: false, runs: true, pins: false }
    }

    /// The same, each pod on its own: the reference for pods that are placed together.
    #[cfg(test)]
    pub(in crate::scheduling) const fn one_by_one(self) -> Self {
        Self { runs: false, ..self }
    }

    /// The same, where pods that keep apart by zone pick one.
    pub(in crate::scheduling) const fn pinned(self) -> Self {
        Self { pins: true, ..self }
    }

    /// The same, with patterns.
    pub(in crate::scheduling) const fn patterns(self) -> Self {
        Self { patterns: true, ..self }
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
pub(super) struct Pass {
    pub(super) purpose: Purpose,
    strategy: Strategy,
    pub(super) claims: IdVec<NewClaimId, Claim>,
    /// New NodeClaims in the order in which they are tried.
    pub(super) candidate_order: CandidateOrder,
    /// Allocation of the set of new NodeClaims that are left for a pod.
    candidates: Bits<NewClaimId>,
    equal_claims: Vec<EqualClaims>,
    equal_claim_ids: HashMap<(NodePoolId, Req), usize>,
    /// Excluded nodes.
    pub(super) gone: Bits<NodeId>,
    /// Those of them that are as good as gone: their pods have no place any more.
    pub(super) settled: Bits<NodeId>,
    /// By compatibility: how many of its nodes, in order, are known to be gone or full, where they were looked for so.
    pub(super) starts: HashMap<CompatibilityId, usize>,
    /// Pods by node, as indices into the request.
    pub(super) placed: BTreeMap<NodeId, Vec<PodId>>,
    pub(super) ports: HashMap<NodeId, Vec<HostPort>>,
    pub(super) attached: HashMap<NodeId, Vec<(Str, Str)>>,
    /// What is left of each pool's limits, in the order of its limits; then of its node count.
    pub(super) left: IdVec<NodePoolId, (Vec<i64>, Option<i64>)>,
    pub(super) reservations: IdVec<ReservationId, u32>,
    /// Levels that failed, and the topology version that they failed at; `None` where nothing can change it.
    pub(super) failed: HashMap<(PodClassId, LevelId), Option<u64>>,
    /// Levels of pods on new NodeClaims that had to be relaxed, by index into the request.
    pub(super) levels: HashMap<PodId, LevelId>,
    /// How many new NodeClaims there were before they were packed again.
    pub(super) once: usize,
    pub(super) probes: u64,
    pub(super) exhausted: bool,
    /// Devices for resource claims, where pods have some.
    pub(super) devices: Option<Box<Grants>>,
    /// Pods that wait for patterns.
    pub(super) deferral: Option<Deferral>,
    /// Claims that patterns have opened.
    pub(super) packed: std::ops::Range<NewClaimId>,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has a place.
    Placed,
    /// It has none, as things stand.
    Failed,
    /// The bound on the work was reached first.
    NotReached,
    /// Reserved capacity is taken: neither relaxation nor another pool may help.
    Reserved,
}

/// Schedules a request and leaves the solver as it was. Where `start` says so, a second plan has the new NodeClaims packed again,
/// if that saves anything.
pub(super) fn run(
    solver: &mut Solver,
    request: &Request<'_>,
    strategy: Strategy,
    start: Option<Start>,
) -> (Plan, Option<Plan>) {
    solver.rewind_base();
    let (mut pass, asked, distinct) = Pass::begin(solver, request, strategy);
    let classes = &asked.classes;
    pass.deferral = strategy.patterns.then(|| Deferral::new(solver, &distinct));
    let mut unplaced = pass.place_all(solver, request.pods, classes, asked.queue.clone());
    // The effort is for one search alone.
    let effort = if start.is_some() { Effort::First } else { request.effort };
    let leftover = pass.pack(solver, classes, effort);
    if !leftover.is_empty() {
        let waiting = asked.queue.iter().copied().filter(|at| leftover.has(*at)).collect();
        unplaced.extend(pass.place_all(solver, request.pods, classes, waiting));
    }
    pass.widen(solver);
    let mut plan = super::finish::plan(solver, &pass, request, classes, unplaced);
    // What a disruption would cost at least nobody asks.
    if !strategy.first_fit && request.purpose == Purpose::Provisioning {
        plan.cost.lower_bound =
            super::lower_bound::lower_bound(solver, &pass, request, classes).min(plan.cost.hourly);
    }
    let second = start.and_then(|start| pass.second(solver, request, classes, &plan, start));
    solver.placement.pinning = Bits::default();
    pass.restore(solver, &distinct);
    solver.asked = if request.pods.len() < MIN_KEPT_PODS { RequestQueue::default() } else { asked };
    (plan, second)
}

impl Pass {
    /// Makes a pass ready, with the classes of its request and their order, and the distinct ones among them.
    pub(super) fn begin(
        solver: &mut Solver,
        request: &Request<'_>,
        strategy: Strategy,
    ) -> (Self, RequestQueue, Vec<PodClassId>) {
        let asked = solver.ask(request.pods);
        // All groups are known before anything is counted for this pass alone.
        let distinct = base::all_levels(&mut solver.tables, &mut solver.placement, &asked.classes);
        let mut pass = Self::new(solver, request, strategy);
        pass.devices = Grants::new(&mut solver.tables, request, &distinct);
        if strategy.pins {
            solver.placement.pinning = Deferral::new(solver, &distinct).into_groups();
        }
        solver.placement.make_room(solver.tables.compatibilities.len());
        leaving::forget(&mut solver.tables, &mut solver.placement, &pass.gone, request);
        (pass, asked, distinct)
    }

    fn new(solver: &Solver, request: &Request<'_>, strategy: Strategy) -> Self {
        let gone: Bits<NodeId> =
            request.without.iter().filter_map(|node| solver.tables.slots.get(*node).copied()).collect();
        Self {
            purpose: request.purpose,
            strategy,
            left: solver.tables.limits_left(&gone),
            claims: IdVec::default(),
            candidate_order: CandidateOrder::default(),
            candidates: Bits::default(),
            equal_claims: Vec::new(),
            equal_claim_ids: HashMap::new(),
            starts: HashMap::new(),
            placed: BTreeMap::new(),
            ports: HashMap::new(),
            attached: HashMap::new(),
            reservations: solver.tables.reservations.capacity.clone(),
            failed: HashMap::new(),
            levels: HashMap::new(),
            once: 0,
            probes: 0,
            exhausted: false,
            devices: None,
            deferral: None,
            packed: NewClaimId::FIRST..NewClaimId::FIRST,
            settled: Bits::default(),
            gone,
        }
    }

    /// A pass that goes on from where this one stands, with nothing placed yet. It has the verdicts of this one, which
    /// does nothing until they are given back.
    pub(super) fn fork(&mut self) -> Self {
        Self {
            purpose: self.purpose,
            strategy: self.strategy,
            claims: self.claims.clone(),
            candidate_order: self.candidate_order.clone(),
            candidates: std::mem::take(&mut self.candidates),
            equal_claims: self.equal_claims.clone(),
            equal_claim_ids: self.equal_claim_ids.clone(),
            gone: self.gone.clone(),
            settled: self.settled.clone(),
            starts: self.starts.clone(),
            placed: BTreeMap::new(),
            ports: self.ports.clone(),
            attached: self.attached.clone(),
            left: self.left.clone(),
            reservations: self.reservations.clone(),
            failed: HashMap::new(),
            levels: HashMap::new(),
            once: 0,
            probes: 0,
            exhausted: false,
            devices: None,
            deferral: None,
            packed: NewClaimId::FIRST..NewClaimId::FIRST,
        }
    }

    /// The plan with the new NodeClaims packed again, where that saves something.
    fn second(
        &mut self,
        solver: &mut Solver,
        request: &Request<'_>,
        classes: &IdVec<PodId, PodClassId>,
        plan: &Plan,
        start: Start,
    ) -> Option<Plan> {
        // New NodeClaims that hold devices are what they were tried as.
        if plan.partial || plan.cost.hourly <= plan.cost.lower_bound || self.devices.is_some() {
            return None;
        }
        if !self.rearrange(solver, classes, start, request.effort) {
            return None;
        }
        let mut second = super::finish::plan(solver, self, request, classes, Vec::new());
        second.unplaced.extend(plan.unplaced.iter().cloned());
        second.nodes.clone_from(&plan.nodes);
        second.cost.lower_bound = plan.cost.lower_bound;
        Some(second)
    }

    /// Takes back what the pass did, `classes` being those of its pods.
    pub(super) fn restore(self, solver: &mut Solver, classes: &[PodClassId]) {
        solver.placement.rewind(Mark::START);
        for level in classes.iter().flat_map(|class| &solver.tables.classes[*class].levels) {
            solver.placement.forget_verdicts(level.compatibility);
        }
    }

    /// Places what can be placed; returns the rest with what became of it.
    pub(super) fn place_all(
        &mut self,
        solver: &mut Solver,
        pods: &[Arc<Pod>],
        classes: &IdVec<PodId, PodClassId>,
        mut waiting: Vec<PodId>,
    ) -> Vec<(PodId, Outcome)> {
        let mut done: Vec<(PodId, Outcome)> = Vec::new();
        loop {
            let before = waiting.len();
            let mut failed = Vec::new();
            let mut rest = &waiting[..];
            while let Some(class) = rest.first().map(|at| classes[*at]) {
                let (run, others) =
                    rest.split_at(rest.iter().take_while(|at| classes[**at] == class).count());
                rest = others;
                let placed = if run.len() > 1 { self.attempt_run(solver, pods, class, run) } else { 0 };
                for at in run[placed..].iter().copied() {
                    match self.attempt(solver, at, &pods[at.position()], class) {
                        Outcome::Placed => {}
                        Outcome::Failed => failed.push(at),
                        outcome => done.push((at, outcome)),
                    }
                }
            }
            // Another round can only help where topology may have changed its mind.
            let progress = failed.len() < before;
            waiting = failed;
            if waiting.is_empty() || !progress {
                done.extend(waiting.into_iter().map(|at| (at, Outcome::Failed)));
                return done;
            }
        }
    }

    fn attempt(&mut self, solver: &mut Solver, at: PodId, pod: &Pod, class: PodClassId) -> Outcome {
        if solver.tables.classes[class].refused.is_some() || self.claim_problem(class).is_some() {
            return Outcome::Failed;
        }
        let answer = solver.tables.snapshot.nominated.get(&pod.uid);
        let answer = answer.and_then(|name| solver.tables.by_claim.get(&**name)).copied();
        if let Some(node) = answer.filter(|node| solver.tables.nodes[*node].usable && !self.gone.has(*node)) {
            for level in solver.tables.classes[class].levels.ids() {
                let demand = allowed_domains::demand(&solver.tables, &solver.placement, class, level);
                if solver.tables.fitting(class, level).has(node)
                    && self.try_node(solver, class, level, &demand, node, pod)
                {
                    self.placed.entry(node).or_default().push(at);
                    return Outcome::Placed;
                }
            }
        }
        for level in solver.tables.classes[class].levels.ids() {
            self.probes += 1;
            let verdict = self.failed.get(&(class, level));
            if verdict.is_some_and(|seen| seen.is_none_or(|version| version == solver.placement.version())) {
                continue;
            }
            if self.probes > solver.tables.rules.max_probes {
                self.exhausted = true;
                return Outcome::NotReached;
            }
            match self.attempt_level(solver, at, pod, class, level) {
                // Relaxing a preference is no answer to missing devices.
                Outcome::Failed if self.lacked_devices() => return Outcome::Failed,
                Outcome::Failed => {}
                outcome => return outcome,
            }
            let flips = solver.tables.classes[class].levels[level]
                .groups
                .iter()
                .any(|owned| solver.tables.topology.groups[owned.group].is.kind != GroupKind::Anti);
            // Whether a node takes a moving pod depends on the pod itself.
            if pod.node.is_none() {
                self.failed.insert((class, level), flips.then_some(solver.placement.version()));
            }
        }
        Outcome::Failed
    }

    fn attempt_level(
        &mut self,
        solver: &mut Solver,
        at: PodId,
        pod: &Pod,
        class: PodClassId,
        level: LevelId,
    ) -> Outcome {
        let demand = allowed_domains::demand(&solver.tables, &solver.placement, class, level);
        let fitting = solver.tables.fitting(class, level);
        let left = allowed_domains::nodes_left(&mut solver.tables, &solver.placement, &demand, &fitting);
        let fitting = left.as_ref().unwrap_or(&fitting);
        if let Some(node) = self.attempt_nodes(solver, pod, class, level, &demand, fitting) {
            self.placed.entry(node).or_default().push(at);
            return Outcome::Placed;
        }
        if level > LevelId::FIRST {
            self.levels.insert(at, level);
        }
        if self.deferral.is_some() && self.defer(solver, &[at], class, level) {
            return Outcome::Placed;
        }
        if self.attempt_claims(solver, at, class, level, &demand) {
            return Outcome::Placed;
        }
        self.try_new(solver, at, class, level, &demand)
    }

    /// Places pods of one class as [`Self::attempt`] would one after the other, as long as that is plain: no topology, no
    /// port, volume or reservation, no relaxation. Returns how many.
    fn attempt_run(
        &mut self,
        solver: &mut Solver,
        pods: &[Arc<Pod>],
        class: PodClassId,
        run: &[PodId],
    ) -> usize {
        let alike = |at: &PodId| {
            let pod = &pods[at.position()];
            let nominated = &solver.tables.snapshot.nominated;
            pod.node.is_none() && (nominated.is_empty() || !nominated.contains_key(&pod.uid))
        };
        let plain = self.strategy.runs && solver.tables.is_unbound(class) && run.iter().all(alike);
        if !plain || self.failed.contains_key(&(class, LevelId::FIRST)) {
            return 0;
        }
        let demand = allowed_domains::demand(&solver.tables, &solver.placement, class, LevelId::FIRST);
        if !demand.is_free() {
            return 0;
        }
        let fitting = solver.tables.fitting(class, LevelId::FIRST);
        let mut placed = 0;
        while placed < run.len() {
            let at = run[placed];
            let node =
                self.attempt_nodes(solver, &pods[at.position()], class, LevelId::FIRST, &demand, &fitting);
            let Some(node) = node else { break };
            self.placed.entry(node).or_default().push(at);
            placed += 1;
        }
        if placed < run.len()
            && self.deferral.is_some()
            && self.defer(solver, &run[placed..], class, LevelId::FIRST)
        {
            return run.len();
        }
        let mut left = self.candidates(solver, class, LevelId::FIRST, &demand);
        while placed < run.len() && self.probes < solver.tables.rules.max_probes {
            if !self.join_first(solver, run[placed], class, LevelId::FIRST, &demand, &mut left) {
                if self.try_new(solver, run[placed], class, LevelId::FIRST, &demand) != Outcome::Placed {
                    break;
                }
                self.claims.ids().next_back().into_iter().for_each(|claim| left.insert(claim));
            }
            placed += 1;
        }
        placed
    }

    /// Tries the new NodeClaims of this pass, the one with the fewest pods first.
    fn attempt_claims(
        &mut self,
        solver: &mut Solver,
        at: PodId,
        class: PodClassId,
        level: LevelId,
        demand: &Demand,
    ) -> bool {
        let mut left = self.candidates(solver, class, level, demand);
        let joined = self.join_first(solver, at, class, level, demand, &mut left);
        self.candidates = left;
        joined
    }

    /// Puts a pod on the first of some new NodeClaims that takes it; those that do not are taken out.
    fn join_first(
        &mut self,
        solver: &mut Solver,
        at: PodId,
        class: PodClassId,
        level: LevelId,
        demand: &Demand,
        left: &mut Bits<NewClaimId>,
    ) -> bool {
        let mut cursor = Cursor::default();
        while let Some(claim) = self.candidate_order.next(left, &mut cursor) {
            let tier = self.tier(claim);
            if self.try_claim(solver, class, level, demand, claim) {
                self.claims[claim].pods.push(at);
                self.candidate_order.shift(claim, tier, self.tier(claim));
                return true;
            }
            left.remove(claim);
        }
        false
    }

    /// The new NodeClaims that only their size, or the domains that are left, may close to a level.
    fn candidates(
        &mut self,
        solver: &mut Solver,
        class: PodClassId,
        level: LevelId,
        demand: &Demand,
    ) -> Bits<NewClaimId> {
        let Level { req, compatibility, look_past_preferences, any_host, .. } =
            solver.tables.classes[class].levels[level];
        if !any_host {
            return Bits::default();
        }
        let mut left = std::mem::take(&mut self.candidates);
        left.fill(self.claims.len());
        left.subtract(solver.placement.rejected(compatibility));
        allowed_domains::keep_by_hostname(&solver.tables, &solver.placement, demand, &mut left);
        for like in &self.equal_claims {
            if !left.meets(&like.members) {
                continue;
            }
            self.probes += 1;
            let pod = &solver.tables.classes[class].pod;
            let agrees =
                super::nodes::tolerated(&solver.tables.pools[like.pool].taints, pod, look_past_preferences)
                    && solver.tables.universe.meet(like.req, req, Side::Claim).is_some();
            if !agrees {
                // Requirements only become narrower.
                solver.placement.reject_all(compatibility, &like.members);
            }
            if !agrees || solver.tables.obeys_by_key(demand, like.req).is_err() {
                left.subtract(&like.members);
            }
        }
        left
    }

    /// Notes the requirements of a new NodeClaim that had others before.
    pub(super) fn regroup(&mut self, at: NewClaimId, before: Req) {
        let Claim { pool, req, .. } = self.claims[at];
        if let Some(like) = self.equal_claim_ids.get(&(pool, before)).filter(|_| before != req) {
            self.equal_claims[*like].members.remove(at);
        }
        let like = *self.equal_claim_ids.entry((pool, req)).or_insert_with(|| {
            self.equal_claims.push(EqualClaims { pool, req, members: Bits::default() });
            self.equal_claims.len() - 1
        });
        self.equal_claims[like].members.insert(at);
    }

    /// Lists the new NodeClaims again, after they were changed as a whole.
    pub(super) fn relist(&mut self, solver: &Solver) {
        (self.candidate_order, self.equal_claims, self.equal_claim_ids) =
            (CandidateOrder::default(), Vec::new(), HashMap::new());
        for at in self.claims.ids() {
            let claim = &mut self.claims[at];
            (claim.envelope, claim.floor) =
                solver.tables.pools[claim.pool].ranks.bounds(&claim.rows, &claim.used);
            let req = claim.req;
            let tier = self.tier(at);
            self.candidate_order.put(at, tier);
            self.regroup(at, req);
        }
    }

    /// The tier of a new NodeClaim: how many pods it has, or the same for all where the oldest comes first.
    pub(super) fn tier(&self, claim: NewClaimId) -> usize {
        if self.strategy.first_fit { 0 } else { self.claims[claim].pods.len() }
    }

    /// The rows that a new NodeClaim keeps to where they suffice: all, unless a size is preferred.
    pub(super) fn preferred(
        &self,
        solver: &Solver,
        pool: NodePoolId,
        rows: &Bits<InstanceTypeId>,
    ) -> Option<Bits<InstanceTypeId>> {
        let size = self.strategy.size?;
        let small = |at: &InstanceTypeId| get(&solver.tables.row(pool, *at).capacity, 0) <= size;
        Some(rows.iter().filter(small).collect())
    }

    /// Lets claims that kept to a size name every type that holds their pods. What is charged to a limit stays.
    fn widen(&mut self, solver: &mut Solver) {
        if self.strategy.size.is_none() || !solver.tables.reservations.names.is_empty() {
            return;
        }
        for at in self.claims.ids() {
            let claim = &mut self.claims[at];
            let held = self.devices.as_ref().is_some_and(|devices| devices.holds(at));
            if held || !solver.tables.pools[claim.pool].limits.is_empty() || self.packed.contains(&at) {
                continue;
            }
            let mask = solver.tables.pools[claim.pool].mask(&solver.tables.universe, claim.req);
            let holds = |at: &InstanceTypeId| {
                let row = solver.tables.row(claim.pool, *at);
                fits(&claim.used, &Amounts::new(), &row.free) && !clash(&claim.ports, &row.ports)
            };
            claim.rows = mask.iter().filter(holds).collect();
        }
    }
}
