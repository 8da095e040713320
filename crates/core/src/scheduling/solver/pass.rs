//! One request, pod by pod in Karpenter's order: machines that exist, openings of this pass, a new opening; then the
//! next level of relaxation.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    Solver,
    amounts::{Amounts, fits, get},
    bits::Bits,
    claim::{Claim, clash},
    compile::Level,
    intern::Req,
    narrow::Demand,
    topology::GroupKind,
};
use crate::{
    model::{Pod, Str, pod::HostPort},
    scheduling::{Plan, Purpose, Request},
};

/// So few openings are sorted rather than searched for in the order of all.
const FEW: usize = 48;

/// How openings are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) struct Strategy {
    /// The oldest opening first, rather than the one with the fewest pods.
    first_fit: bool,
    /// New openings keep to machines of at most so many milli-CPUs where those suffice.
    size: Option<i64>,
}

impl Strategy {
    /// Fewest pods first, any size.
    pub(in crate::scheduling) const KARPENTER: Self = Self { first_fit: false, size: None };

    /// Oldest first, with a preferred size.
    pub(in crate::scheduling) const fn first_fit(size: Option<i64>) -> Self {
        Self { first_fit: true, size }
    }
}

/// Verdicts that last for a pass. The vectors grow with all that a solver has ever been asked, so that they are kept
/// and only what a pass has used is cleared.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By shape: machines without room.
    pub(super) full: Vec<Bits>,
    /// By shape: claims that cannot become what it needs.
    pub(super) rejected: Vec<Bits>,
    /// By level: claims that topology has closed to it for good.
    pub(super) hidden: Vec<Bits>,
}

/// The state of a pass.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) purpose: Purpose,
    strategy: Strategy,
    pub(super) claims: Vec<Claim>,
    /// Openings by number of pods, then age.
    pub(super) by_pods: Vec<usize>,
    /// Machines that are thought away.
    pub(super) gone: Bits,
    pub(super) scratch: Scratch,
    /// Pods by machine, as indices into the request.
    pub(super) placed: BTreeMap<usize, Vec<usize>>,
    /// Changes to machines, to be taken back.
    pub(super) log: Vec<(usize, Amounts, Option<Req>)>,
    pub(super) ports: HashMap<usize, Vec<HostPort>>,
    pub(super) attached: HashMap<usize, Vec<(Str, Str)>>,
    /// What is left of each pool's limits, in the order of its limits; then of its node count.
    pub(super) left: Vec<(Vec<i64>, Option<i64>)>,
    pub(super) reservations: Vec<u32>,
    /// Levels that failed, and the topology version that they failed at; `None` where nothing can change it.
    pub(super) failed: HashMap<(usize, usize), Option<u64>>,
    pub(super) probes: u64,
    pub(super) exhausted: bool,
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

/// Schedules a request and leaves the solver as it was.
pub(super) fn run(solver: &mut Solver, request: &Request<'_>, strategy: Strategy) -> Plan {
    let classes: Vec<usize> = request.pods.iter().map(|pod| solver.class_of(pod)).collect();
    let mut distinct = classes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    for class in distinct.iter().copied() {
        // All groups are known before anything is counted for this pass alone.
        let mut levels = 1;
        while solver.has_level(class, levels) {
            levels += 1;
        }
    }
    let mut pass = Pass::new(solver, request, strategy);
    pass.scratch = std::mem::take(&mut solver.scratch);
    pass.scratch.full.resize_with(solver.shapes.len(), Bits::default);
    pass.scratch.rejected.resize_with(solver.shapes.len(), Bits::default);
    pass.scratch.hidden.resize_with(solver.levels, Bits::default);
    solver.forget(&pass.gone, request);
    let unplaced = pass.place_all(solver, request.pods, &classes);
    pass.widen(solver);
    let plan = super::finish::plan(solver, &pass, request, &classes, unplaced);
    pass.restore(solver, &distinct);
    plan
}

/// Real pods first; CPU descending, memory descending, creation, UID.
fn queue(pods: &[Arc<Pod>], solver: &Solver) -> Vec<usize> {
    let mut queue: Vec<usize> = (0..pods.len()).collect();
    queue.sort_by(|a, b| {
        let (a, b) = (&pods[*a], &pods[*b]);
        let size = |pod: &Pod| (pod.requests().cpu(), pod.requests().memory());
        // Pods that a claim answers come first: nobody takes their place.
        let free = |pod: &Pod| !solver.snapshot.answered.contains_key(&pod.uid);
        // Whom the last pass did not reach has waited long enough.
        let new = |pod: &Pod| !solver.snapshot.deferred.contains(&pod.uid);
        let age = |pod: &Pod| (!new(pod)).then_some(pod.created);
        // Capacity buffers get what pods of the cluster leave.
        (free(a).cmp(&free(b)))
            .then_with(|| new(a).cmp(&new(b)))
            .then_with(|| age(a).cmp(&age(b)))
            .then_with(|| a.is_virtual.cmp(&b.is_virtual))
            .then_with(|| size(b).cmp(&size(a)))
            .then_with(|| a.created.cmp(&b.created))
            .then_with(|| a.uid.cmp(&b.uid))
    });
    queue
}

impl Solver {
    /// Takes the pods of machines that are thought away, and those of the request that run somewhere, off the counters.
    fn forget(&mut self, gone: &Bits, request: &Request<'_>) {
        let mut leaving: Vec<(usize, Arc<Pod>)> = Vec::new();
        for at in gone.iter() {
            leaving.extend(self.machines[at].state.pods.iter().map(|pod| (at, Arc::clone(pod))));
        }
        if request.pods.iter().any(|pod| pod.node.is_some()) {
            let moving: std::collections::BTreeSet<_> = request.pods.iter().map(|pod| &pod.uid).collect();
            for (at, machine) in
                self.machines.iter().enumerate().filter(|(at, machine)| machine.deleting && !gone.has(*at))
            {
                let pods = machine.state.pods.iter().filter(|pod| moving.contains(&pod.uid));
                leaving.extend(pods.map(|pod| (at, Arc::clone(pod))));
            }
        }
        for (at, pod) in leaving.into_iter().filter(|(_, pod)| pod.is_active()) {
            let kind = self.topology.kind(&pod.id.namespace, &pod.labels);
            for group in self.topology.kinds[kind].groups.clone() {
                if self.counts_on(group, at) {
                    for domain in self.machine_domains(group, at) {
                        self.topology.count(group, domain, false, -1);
                    }
                }
            }
            for term in &pod.spec.pod_anti_affinity {
                let group = self.term_group(&pod, term, GroupKind::Anti);
                for domain in self.machine_domains(group, at) {
                    self.topology.count(group, domain, true, -1);
                }
            }
        }
    }
}

impl Pass {
    fn new(solver: &Solver, request: &Request<'_>, strategy: Strategy) -> Self {
        let gone: Bits = request.without.iter().copied().filter(|at| *at < solver.machines.len()).collect();
        let left = solver.pools.iter().enumerate().map(|(at, pool)| {
            let mut nodes = pool.model.limits.nodes;
            let mut left: Vec<i64> = pool.limits.iter().map(|limit| limit.limit).collect();
            let counted = |(machine, _): &(usize, &super::nodes::Machine)| !gone.has(*machine);
            if !left.is_empty() || nodes.is_some() {
                let machines = solver.machines.iter().enumerate().filter(counted);
                for (_, machine) in machines.filter(|(_, machine)| machine.usable && machine.pool == Some(at))
                {
                    for (left, limit) in left.iter_mut().zip(&pool.limits) {
                        *left = left.saturating_sub(get(&machine.capacity, limit.resource));
                    }
                    nodes = nodes.map(|nodes| nodes.saturating_sub(1));
                }
            }
            (left, nodes)
        });
        Self {
            purpose: request.purpose,
            strategy,
            left: left.collect(),
            claims: Vec::new(),
            by_pods: Vec::new(),
            scratch: Scratch::default(),
            placed: BTreeMap::new(),
            log: Vec::new(),
            ports: HashMap::new(),
            attached: HashMap::new(),
            reservations: solver.reservations.capacity.clone(),
            failed: HashMap::new(),
            probes: 0,
            exhausted: false,
            gone,
        }
    }

    fn restore(mut self, solver: &mut Solver, classes: &[usize]) {
        for level in classes.iter().flat_map(|class| &solver.classes[*class].levels) {
            self.scratch.full[level.shape] = Bits::default();
            self.scratch.rejected[level.shape] = Bits::default();
            self.scratch.hidden[level.index] = Bits::default();
        }
        solver.scratch = self.scratch;
        while let Some((at, free, open)) = self.log.pop() {
            solver.machines[at].free = free;
            solver.machines[at].open = open;
        }
        solver.topology.undo();
    }

    /// Places what can be placed; returns the rest with what became of it.
    fn place_all(
        &mut self,
        solver: &mut Solver,
        pods: &[Arc<Pod>],
        classes: &[usize],
    ) -> Vec<(usize, Outcome)> {
        let mut waiting = queue(pods, solver);
        let mut done: Vec<(usize, Outcome)> = Vec::new();
        loop {
            let before = waiting.len();
            let mut failed = Vec::new();
            for at in waiting {
                match self.attempt(solver, at, &pods[at], classes[at]) {
                    Outcome::Placed => {}
                    Outcome::Failed => failed.push(at),
                    outcome => done.push((at, outcome)),
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

    fn attempt(&mut self, solver: &mut Solver, at: usize, pod: &Pod, class: usize) -> Outcome {
        if solver.classes[class].refused.is_some() {
            return Outcome::Failed;
        }
        let answer = solver.snapshot.answered.get(&pod.uid);
        let answer = answer.and_then(|name| solver.by_claim.get(&**name)).copied();
        if let Some(machine) =
            answer.filter(|machine| solver.machines[*machine].usable && !self.gone.has(*machine))
        {
            for level in 0..solver.classes[class].levels.len() {
                let demand = solver.demand(class, level);
                if solver.fitting(class, level).has(machine)
                    && self.try_machine(solver, class, level, &demand, machine, pod)
                {
                    self.placed.entry(machine).or_default().push(at);
                    return Outcome::Placed;
                }
            }
        }
        for level in 0..solver.classes[class].levels.len() {
            self.probes += 1;
            let verdict = self.failed.get(&(class, level));
            if verdict.is_some_and(|seen| seen.is_none_or(|version| version == solver.topology.version)) {
                continue;
            }
            if self.probes > solver.rules.max_probes {
                self.exhausted = true;
                return Outcome::NotReached;
            }
            match self.attempt_level(solver, at, pod, class, level) {
                Outcome::Failed => {}
                outcome => return outcome,
            }
            let flips = solver.classes[class].levels[level]
                .groups
                .iter()
                .any(|owned| solver.topology.groups[owned.group].is.kind != GroupKind::Anti);
            // Whether a machine takes a moving pod depends on the pod itself.
            if pod.node.is_none() {
                self.failed.insert((class, level), flips.then_some(solver.topology.version));
            }
        }
        Outcome::Failed
    }

    fn attempt_level(
        &mut self,
        solver: &mut Solver,
        at: usize,
        pod: &Pod,
        class: usize,
        level: usize,
    ) -> Outcome {
        let demand = solver.demand(class, level);
        let fitting = solver.fitting(class, level);
        let shape = solver.classes[class].levels[level].shape;
        for position in 0..solver.order.len() {
            let machine = solver.order[position];
            if !fitting.has(machine) || self.gone.has(machine) || self.scratch.full[shape].has(machine) {
                continue;
            }
            if self.try_machine(solver, class, level, &demand, machine, pod) {
                self.placed.entry(machine).or_default().push(at);
                return Outcome::Placed;
            }
        }
        if self.attempt_claims(solver, at, class, level, &demand) {
            return Outcome::Placed;
        }
        self.try_new(solver, at, class, level, &demand)
    }

    /// Tries the openings of this pass, the one with the fewest pods first.
    fn attempt_claims(
        &mut self,
        solver: &mut Solver,
        at: usize,
        class: usize,
        level: usize,
        demand: &Demand,
    ) -> bool {
        let Level { shape, index, .. } = solver.classes[class].levels[level];
        let mut few: SmallVec<[usize; FEW]> = SmallVec::new();
        let left = Bits::full(self.claims.len());
        few.extend(left.without(&self.scratch.rejected[shape], &self.scratch.hidden[index]).take(FEW));
        if few.len() < FEW {
            few.sort_by_key(|claim| self.rank(*claim));
            for claim in few {
                if self.try_claim(solver, class, level, demand, claim) {
                    let rank = self.rank(claim);
                    let position = self.by_pods.binary_search_by_key(&rank, |c| self.rank(*c));
                    self.join(claim, at, position.unwrap_or(0));
                    return true;
                }
            }
            return false;
        }
        for position in 0..self.by_pods.len() {
            let claim = self.by_pods[position];
            if !self.scratch.rejected[shape].has(claim)
                && !self.scratch.hidden[index].has(claim)
                && self.try_claim(solver, class, level, demand, claim)
            {
                self.join(claim, at, position);
                return true;
            }
        }
        false
    }

    /// Writes a pod down for the claim at `position`.
    fn join(&mut self, claim: usize, pod: usize, position: usize) {
        self.claims[claim].pods.push(pod);
        self.reorder(position);
    }

    /// Where an opening stands in the order in which they are tried.
    pub(super) fn rank(&self, claim: usize) -> (usize, usize) {
        (if self.strategy.first_fit { 0 } else { self.claims[claim].pods.len() }, claim)
    }

    /// The rows that a new opening keeps to where they suffice: all, unless a size is preferred.
    pub(super) fn preferred(&self, solver: &Solver, pool: usize, rows: &Bits) -> Option<Bits> {
        let size = self.strategy.size?;
        let small = |at: &usize| get(&solver.row(pool, *at).capacity, 0) <= size;
        Some(rows.iter().filter(small).collect())
    }

    /// Lets claims that kept to a size name every type that holds their pods. What is charged to a limit stays.
    fn widen(&mut self, solver: &mut Solver) {
        if self.strategy.size.is_none() || !solver.reservations.names.is_empty() {
            return;
        }
        for claim in &mut self.claims {
            if !solver.pools[claim.pool].limits.is_empty() {
                continue;
            }
            let mask = solver.pools[claim.pool].mask(&solver.universe, claim.req);
            let holds = |at: &usize| {
                let row = solver.row(claim.pool, *at);
                fits(&claim.used, &Amounts::new(), &row.free) && !clash(&claim.ports, &row.ports)
            };
            claim.rows = mask.iter().filter(holds).collect();
        }
    }

    /// Moves the claim at `position`, which has just got a pod, behind those that have as many.
    fn reorder(&mut self, position: usize) {
        let claim = self.by_pods.remove(position);
        let rank = self.rank(claim);
        let to = self.by_pods.partition_point(|other| self.rank(*other) < rank);
        self.by_pods.insert(to, claim);
    }
}
