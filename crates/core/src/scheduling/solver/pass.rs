//! One request, pod by pod in Karpenter's order: machines that exist, openings of this pass, a new opening; then the
//! next level of relaxation.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use super::{
    Solver,
    amounts::{Amounts, fits, fits_free, get, update},
    bits::Bits,
    claim::{Ask, Claim, Fit, Refusal, clash},
    compile::Level,
    intern::{Req, Set, Side},
    narrow::Demand,
    topology::GroupKind,
};
use crate::{
    model::{Pod, Str, pod::HostPort},
    scheduling::{Plan, Purpose, Request},
};

/// Bound on the placements that are examined for one request: some seconds of work.
const MAX_PROBES: u64 = 2_000_000_000;

/// The state of a pass.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) purpose: Purpose,
    pub(super) claims: Vec<Claim>,
    /// Openings by number of pods, then age.
    by_pods: Vec<usize>,
    /// Machines that are thought away.
    gone: Bits,
    /// By shape: machines without room, claims that cannot become what it needs.
    full: Vec<Bits>,
    rejected: Vec<Bits>,
    /// Pods by machine, as indices into the request.
    pub(super) placed: BTreeMap<usize, Vec<usize>>,
    /// Changes to machines, to be taken back.
    log: Vec<(usize, Amounts, Option<Req>)>,
    ports: HashMap<usize, Vec<HostPort>>,
    attached: HashMap<usize, Vec<(Str, Str)>>,
    /// What is left of each pool's limits, in the order of its limits; then of its node count.
    pub(super) left: Vec<(Vec<i64>, Option<i64>)>,
    pub(super) reservations: Vec<u32>,
    /// Levels that failed, and the topology version that they failed at; `None` where nothing can change it.
    failed: HashMap<(usize, usize), Option<u64>>,
    probes: u64,
    pub(super) exhausted: bool,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has a place.
    Placed,
    /// It has none, as things stand.
    Failed,
    /// Reserved capacity is taken: neither relaxation nor another pool may help.
    Reserved,
}

/// Schedules a request and leaves the solver as it was.
pub(super) fn run(solver: &mut Solver, request: &Request<'_>) -> Plan {
    let classes: Vec<usize> = request.pods.iter().map(|pod| solver.class_of(pod)).collect();
    let mut distinct = classes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    for class in distinct {
        // All groups are known before anything is counted for this pass alone.
        let mut levels = 1;
        while solver.has_level(class, levels) {
            levels += 1;
        }
    }
    let mut pass = Pass::new(solver, request);
    solver.forget(&pass.gone, request);
    let unplaced = pass.place_all(solver, request.pods, &classes);
    let plan = super::finish::plan(solver, &pass, request, &classes, unplaced);
    pass.restore(solver);
    plan
}

/// CPU descending, memory descending, creation, UID.
fn queue(pods: &[Arc<Pod>], solver: &Solver) -> Vec<usize> {
    let mut queue: Vec<usize> = (0..pods.len()).collect();
    queue.sort_by(|a, b| {
        let (a, b) = (&pods[*a], &pods[*b]);
        let size = |pod: &Pod| (pod.requests().cpu(), pod.requests().memory());
        // Pods that a claim answers come first: nobody takes their place.
        let free = |pod: &Pod| !solver.snapshot.answered.contains_key(&pod.uid);
        (free(a).cmp(&free(b)))
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
    fn new(solver: &Solver, request: &Request<'_>) -> Self {
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
            left: left.collect(),
            claims: Vec::new(),
            by_pods: Vec::new(),
            full: vec![Bits::default(); solver.shapes.len()],
            rejected: vec![Bits::default(); solver.shapes.len()],
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

    fn restore(mut self, solver: &mut Solver) {
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
                    Outcome::Reserved => done.push((at, Outcome::Reserved)),
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
        let answer = solver.snapshot.answered.get(&pod.uid).cloned();
        let answer = answer.and_then(|name| {
            solver
                .machines
                .iter()
                .position(|machine| machine.state.claim_name().is_some_and(|n| **n == *name))
        });
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
            let verdict = self.failed.get(&(class, level));
            if verdict.is_some_and(|seen| seen.is_none_or(|version| version == solver.topology.version)) {
                continue;
            }
            if self.probes >= MAX_PROBES {
                self.exhausted = true;
                return Outcome::Failed;
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
            if !fitting.has(machine) || self.gone.has(machine) || self.full[shape].has(machine) {
                continue;
            }
            if self.try_machine(solver, class, level, &demand, machine, pod) {
                self.placed.entry(machine).or_default().push(at);
                return Outcome::Placed;
            }
        }
        for position in 0..self.by_pods.len() {
            let claim = self.by_pods[position];
            if self.rejected[shape].has(claim) {
                continue;
            }
            if self.try_claim(solver, class, level, &demand, claim) {
                self.claims[claim].pods.push(at);
                self.reorder(position);
                return Outcome::Placed;
            }
        }
        self.try_new(solver, at, class, level, &demand)
    }

    /// Moves the claim at `position`, which has just got a pod, behind those that have as many.
    fn reorder(&mut self, position: usize) {
        let claim = self.by_pods.remove(position);
        let rank = |at: usize| (self.claims[at].pods.len(), at);
        let to = self.by_pods.partition_point(|other| rank(*other) < rank(claim));
        self.by_pods.insert(to, claim);
    }

    // === machines ===

    fn try_machine(
        &mut self,
        solver: &mut Solver,
        class: usize,
        level: usize,
        demand: &Demand,
        at: usize,
        pod: &Pod,
    ) -> bool {
        self.probes += 1;
        let (this, machine) = (&solver.classes[class], &solver.machines[at]);
        let shape = this.levels[level].shape;
        if !fits_free(&this.requests, &machine.free) {
            self.full[shape].insert(at);
            return false;
        }
        if machine.settling && self.purpose == Purpose::Simulation && !solver.is_homeless(pod) {
            return false;
        }
        let ports = &this.pod.spec.host_ports;
        if !ports.is_empty()
            && (clash(ports, &machine.ports) || self.ports.get(&at).is_some_and(|more| clash(ports, more)))
        {
            return false;
        }
        if !self.attaches(solver, class, at) {
            return false;
        }
        match solver.machines[at].open {
            None => {
                let reachable = this.alternatives.clone();
                if !reachable.iter().any(|req| solver.machines[at].satisfies(&mut solver.universe, *req))
                    || !solver.obeys_on(demand, at)
                {
                    return false;
                }
                self.take_machine(solver, class, at, None);
            }
            Some(open) => {
                let Some(narrower) = narrow_open(solver, class, level, demand, at, open) else {
                    return false;
                };
                self.take_machine(solver, class, at, Some(narrower));
            }
        }
        true
    }

    fn attaches(&mut self, solver: &Solver, class: usize, at: usize) -> bool {
        let (this, machine) = (&solver.classes[class], &solver.machines[at]);
        if this.attachments.is_empty() || machine.state.volume_limits.is_empty() {
            return true;
        }
        let attached = self.attached.entry(at).or_insert_with(|| solver.attachments_on(at));
        machine.state.volume_limits.iter().all(|(driver, limit)| {
            let of_driver = |(of, _): &&(Str, Str)| of == driver;
            let new =
                this.attachments.iter().filter(of_driver).filter(|volume| !attached.contains(volume)).count();
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            new == 0 || attached.iter().filter(of_driver).count() + new <= limit
        })
    }

    fn take_machine(&mut self, solver: &mut Solver, class: usize, at: usize, open: Option<Req>) {
        let machine = &mut solver.machines[at];
        self.log.push((at, machine.free.clone(), machine.open));
        let this = &solver.classes[class];
        update(&mut machine.free, &this.requests, i64::saturating_sub);
        machine.open = open;
        if !this.pod.spec.host_ports.is_empty() {
            self.ports.entry(at).or_default().extend(this.pod.spec.host_ports.iter().cloned());
        }
        if let Some(attached) = self.attached.get_mut(&at) {
            attached.extend(this.attachments.iter().cloned());
            attached.sort();
            attached.dedup();
        }
        let kind = this.kind;
        for position in 0..solver.topology.kinds[kind].groups.len() {
            let group = solver.topology.kinds[kind].groups[position];
            if solver.counts_on(group, at) {
                for domain in solver.machine_domains(group, at) {
                    solver.topology.count(group, domain, false, 1);
                }
            }
        }
        for position in 0..solver.classes[class].keeps_away.len() {
            let group = solver.classes[class].keeps_away[position];
            for domain in solver.machine_domains(group, at) {
                solver.topology.count(group, domain, true, 1);
            }
        }
    }

    // === openings of this pass ===

    fn try_claim(
        &mut self,
        solver: &mut Solver,
        class: usize,
        level: usize,
        demand: &Demand,
        at: usize,
    ) -> bool {
        self.probes += 1;
        let this = &solver.classes[class];
        let Level { req, shape, look_past_preferences, any_host, .. } = this.levels[level];
        let claim = &self.claims[at];
        let hopeless = !any_host
            || !fits(&claim.used, &this.requests, &claim.envelope)
            || clash(&this.pod.spec.host_ports, &claim.ports)
            || !super::nodes::tolerated(&solver.pools[claim.pool].taints, &this.pod, look_past_preferences);
        let met = if hopeless { None } else { solver.universe.meet(claim.req, req, Side::Claim) };
        let Some(met) = met else {
            self.rejected[shape].insert(at);
            return false;
        };
        let host = solver.machines.len() + at;
        let claim = &self.claims[at];
        let target = Target {
            pool: claim.pool,
            rows: &claim.rows,
            used: &claim.used,
            min_values: &claim.min_values,
            held: &claim.reserved,
            fresh: false,
        };
        match self.fit_target(solver, class, demand, host, met, &target) {
            Ok(fit) => {
                self.take_claim(solver, class, at, fit);
                true
            }
            Err(Blocked { lasting, .. }) => {
                if lasting {
                    self.rejected[shape].insert(at);
                }
                false
            }
        }
    }

    /// Tries the alternatives of volumes and topology in turn.
    pub(super) fn fit_target(
        &self,
        solver: &mut Solver,
        class: usize,
        demand: &Demand,
        host: usize,
        req: Req,
        target: &Target<'_>,
    ) -> Result<Fit, Blocked> {
        let mut blocked = Blocked { lasting: true, ..Blocked::default() };
        let more = solver.classes[class].requests.clone();
        let pod = Arc::clone(&solver.classes[class].pod);
        for position in 0..solver.classes[class].alternatives.len() {
            let alternative = solver.classes[class].alternatives[position];
            let Some(reachable) = solver.universe.meet(req, alternative, Side::Claim) else { continue };
            let options = match solver.narrow(demand, host, reachable) {
                Ok(options) => options,
                Err(group) => {
                    blocked.lasting = false;
                    blocked.group = blocked.group.or(Some(group));
                    continue;
                }
            };
            for option in options {
                let ask = Ask {
                    pool: target.pool,
                    req: option,
                    rows: target.rows,
                    used: target.used,
                    more: &more,
                    ports: &pod.spec.host_ports,
                    min_values: target.min_values,
                    held: target.held,
                    left: &self.reservations,
                    fresh: target.fresh,
                    purpose: self.purpose,
                };
                match solver.fit(&ask) {
                    Ok(fit) => return Ok(fit),
                    Err(refusal) => {
                        // What topology narrowed, or a reservation, may look different later.
                        blocked.lasting &= option == reachable
                            && refusal == Refusal::Rows
                            && solver.reservations.names.is_empty();
                        blocked.refusal = blocked.refusal.or(Some((option, refusal)));
                    }
                }
            }
        }
        Err(blocked)
    }

    fn take_claim(&mut self, solver: &mut Solver, class: usize, at: usize, fit: Fit) {
        let claim = &mut self.claims[at];
        let before = claim.req;
        let this = &solver.classes[class];
        update(&mut claim.used, &this.requests, i64::saturating_add);
        claim.ports.extend(this.pod.spec.host_ports.iter().cloned());
        for released in claim.reserved.iter().filter(|id| !fit.reserved.contains(id)) {
            self.reservations[*released] += 1;
        }
        for taken in fit.reserved.iter().filter(|id| !claim.reserved.contains(id)) {
            self.reservations[*taken] = self.reservations[*taken].saturating_sub(1);
        }
        if claim.rows != fit.rows {
            claim.envelope = solver.envelope(claim.pool, &fit.rows);
        }
        claim.req = fit.req;
        claim.rows = fit.rows;
        claim.min_values = fit.min_values;
        claim.relaxed |= fit.relaxed;
        claim.reserved = fit.reserved;
        let kind = this.kind;
        self.settle(solver, at, before);
        for position in 0..solver.topology.kinds[kind].groups.len() {
            let group = solver.topology.kinds[kind].groups[position];
            self.count_claim(solver, group, at, false, 1);
        }
        for position in 0..solver.classes[class].keeps_away.len() {
            let group = solver.classes[class].keeps_away[position];
            self.count_claim(solver, group, at, true, 1);
        }
        let kinds = &mut self.claims[at].kinds;
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }

    /// Counts the pods of a claim in the domains that its last narrowing has fixed.
    fn settle(&self, solver: &mut Solver, at: usize, before: Req) {
        let (after, pool) = (self.claims[at].req, self.claims[at].pool);
        if before == after || self.claims[at].kinds.is_empty() {
            return;
        }
        for (kind, count) in self.claims[at].kinds.clone() {
            for position in 0..solver.topology.kinds[kind].groups.len() {
                let group = solver.topology.kinds[kind].groups[position];
                let is = &solver.topology.groups[group].is;
                let fixed = |req: Req| solver.universe.get(req, is.key).and_then(Set::single);
                if solver.topology.groups[group].by_host
                    || is.kind == GroupKind::Anti
                    || fixed(before).is_some()
                {
                    continue;
                }
                if let Some(domain) = fixed(after)
                    && solver.counts_in(group, pool, after)
                {
                    solver.topology.count(group, domain as usize, false, i64::from(count));
                }
            }
        }
    }

    fn count_claim(&self, solver: &mut Solver, group: usize, at: usize, owners: bool, by: i64) {
        let (req, pool) = (self.claims[at].req, self.claims[at].pool);
        let this = &solver.topology.groups[group];
        let (key, kind) = (this.is.key, this.is.kind);
        if this.by_host {
            if solver.counts_in(group, pool, req) {
                solver.topology.count(group, solver.machines.len() + at, owners, by);
            }
            return;
        }
        let fixed = solver.universe.get(req, key).and_then(Set::single);
        if let Some(domain) = fixed {
            if solver.counts_in(group, pool, req) {
                solver.topology.count(group, domain as usize, owners, by);
            }
        } else if kind == GroupKind::Anti {
            if solver.universe.get(req, key).is_none() && !solver.universe.is_well_known(key) {
                return;
            }
            let domains = Arc::clone(&this.domains);
            for domain in solver.possible(req, key, &domains) {
                solver.topology.count(group, domain, owners, by);
            }
        }
    }

    // === a new opening ===

    fn try_new(
        &mut self,
        solver: &mut Solver,
        pod: usize,
        class: usize,
        level: usize,
        demand: &Demand,
    ) -> Outcome {
        let at = self.claims.len();
        let host = solver.machines.len() + at;
        for pool in 0..solver.pools.len() {
            self.probes += 1;
            let Some(req) = solver.template_for(class, level, pool) else { continue };
            if self.left[pool].1.is_some_and(|nodes| nodes <= 0) {
                continue;
            }
            let rows = self.within_limits(solver, pool);
            let min_values = solver.pools[pool].min_values.clone();
            let none = Amounts::new();
            let target =
                Target { pool, rows: &rows, used: &none, min_values: &min_values, held: &[], fresh: true };
            let fit = match self.fit_target(solver, class, demand, host, req, &target) {
                Ok(fit) => fit,
                Err(Blocked { refusal: Some((_, Refusal::Reserved)), .. }) => return Outcome::Reserved,
                Err(_) => continue,
            };
            self.charge(solver, pool, &fit.rows);
            self.claims.push(Claim {
                pool,
                req: super::intern::ANY,
                used: Amounts::new(),
                rows: Bits::default(),
                envelope: Amounts::new(),
                pods: vec![pod],
                kinds: smallvec::SmallVec::new(),
                ports: Vec::new(),
                min_values: smallvec::SmallVec::new(),
                relaxed: false,
                reserved: smallvec::SmallVec::new(),
            });
            self.take_claim(solver, class, at, fit);
            let rank = |at: usize| (self.claims[at].pods.len(), at);
            let to = self.by_pods.partition_point(|other| rank(*other) < rank(at));
            self.by_pods.insert(to, at);
            return Outcome::Placed;
        }
        Outcome::Failed
    }

    /// Whether a machine has not been thought away.
    pub(super) fn is_there(&self, machine: usize) -> bool {
        !self.gone.has(machine)
    }

    /// The rows of a pool of which one more stays within every limit.
    pub(super) fn within_limits(&self, solver: &Solver, pool: usize) -> Bits {
        let rows = &solver.pools[pool].rows;
        let limits = &solver.pools[pool].limits;
        if limits.is_empty() {
            return Bits::full(rows.len());
        }
        let within = |capacity: &Amounts| {
            limits.iter().zip(&self.left[pool].0).all(|(limit, left)| get(capacity, limit.resource) <= *left)
        };
        rows.iter().enumerate().filter(|(_, row)| within(&row.capacity)).map(|(at, _)| at).collect()
    }

    /// Charges a new claim with the largest that it may become.
    fn charge(&mut self, solver: &Solver, pool: usize, rows: &Bits) {
        let (left, nodes) = &mut self.left[pool];
        for (left, limit) in left.iter_mut().zip(&solver.pools[pool].limits) {
            let of_row = |at| get(&solver.row(pool, at).capacity, limit.resource);
            *left = left.saturating_sub(rows.iter().map(of_row).max().unwrap_or(0));
        }
        if let Some(nodes) = nodes {
            *nodes -= 1;
        }
    }
}

/// What a pod is tried on: a claim as it stands, or a new one of a pool.
pub(super) struct Target<'a> {
    pub(super) pool: usize,
    pub(super) rows: &'a Bits,
    pub(super) used: &'a Amounts,
    pub(super) min_values: &'a [(super::intern::Key, u32)],
    pub(super) held: &'a [usize],
    pub(super) fresh: bool,
}

/// Why a target does not take a pod.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// Whether that will not change within the pass.
    pub(super) lasting: bool,
    /// The topology group that left no domain.
    pub(super) group: Option<usize>,
    /// What refused the first option that topology allowed.
    pub(super) refusal: Option<(Req, Refusal)>,
}

/// The first way in which a machine whose choice is open can take a pod.
fn narrow_open(
    solver: &mut Solver,
    class: usize,
    level: usize,
    demand: &Demand,
    at: usize,
    open: Req,
) -> Option<Req> {
    let wanted = solver.classes[class].levels[level].req;
    let met = solver.universe.meet(open, wanted, Side::Claim)?;
    for position in 0..solver.classes[class].alternatives.len() {
        let alternative = solver.classes[class].alternatives[position];
        let Some(reachable) = solver.universe.meet(met, alternative, Side::Claim) else { continue };
        if let Ok(options) = solver.narrow(demand, at, reachable) {
            return options.first().copied();
        }
    }
    None
}

impl Solver {
    /// Whether a pod has no place now: it is pending, or its machine is going away.
    fn is_homeless(&self, pod: &Pod) -> bool {
        pod.node.as_ref().is_none_or(|node| {
            let machine = self.machines.iter().find(|machine| machine.state.node_name() == Some(node));
            machine.is_none_or(|machine| machine.deleting)
        })
    }

    /// Volumes that are attached to a machine for its pods.
    fn attachments_on(&self, at: usize) -> Vec<(Str, Str)> {
        let mut attached = Vec::new();
        for pod in &self.machines[at].state.pods {
            for volume in &pod.spec.volumes {
                let claim = self.snapshot.volumes.get(&super::compile::volume_name(pod, volume));
                attached.extend(claim.and_then(|claim| Some((claim.driver.clone()?, claim.handle.clone()))));
            }
        }
        attached.sort();
        attached.dedup();
        attached
    }
}
