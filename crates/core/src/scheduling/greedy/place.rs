//! Places pods one by one in Karpenter's order: nodes that exist, new NodeClaims of this pass, a new NodeClaim; then the next
//! level of relaxation.

use std::sync::Arc;

use crate::{
    model::Pod,
    scheduling::{
        greedy::{
            candidate_order::Cursor,
            pass::{Outcome, Pass},
        },
        ids::{Id, IdVec, LevelId, NewClaimId, PodClassId, PodId},
        placement::{
            Placement,
            allowed_domains::{self, TopologyDemand},
            domains::Domains,
        },
        tables::{
            Tables, bits::Bits, intern::Side, pod_classes::Level, relaxation::tolerated, topology::GroupKind,
        },
    },
};

/// A pass at work on some pods.
pub(crate) struct Greedy<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) placement: &'a mut Placement,
    pub(crate) pass: &'a mut Pass,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) classes: &'a IdVec<PodId, PodClassId>,
}

impl<'a> Greedy<'a> {
    /// Places pods; returns the unschedulable ones with their outcome.
    pub(crate) fn place_all(&mut self, mut waiting: Vec<PodId>) -> Vec<(PodId, Outcome)> {
        let classes = self.classes;
        let mut done: Vec<(PodId, Outcome)> = Vec::new();
        loop {
            let before = waiting.len();
            let mut failed = Vec::new();
            for run in waiting.chunk_by(|a, b| classes[*a] == classes[*b]) {
                let placed = if run.len() > 1 { self.attempt_run(run) } else { 0 };
                for pod_id in run[placed..].iter().copied() {
                    match self.attempt(pod_id) {
                        Outcome::Placed => {}
                        Outcome::Failed | Outcome::LacksDevices => failed.push(pod_id),
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

    pub(super) fn pod(&self, pod_id: PodId) -> &'a Pod {
        &self.pods[pod_id.position()]
    }

    pub(super) fn domains(&self) -> Domains<'_> {
        Domains::new(self.tables, self.placement)
    }

    fn attempt(&mut self, pod_id: PodId) -> Outcome {
        let (tables, pod, class) = (self.tables, self.pod(pod_id), self.classes[pod_id]);
        if tables.classes[class].refused.is_some() || self.pass.claim_problem(class).is_some() {
            return Outcome::Failed;
        }
        let answer = tables.snapshot.nominated.get(&pod.uid);
        let answer = answer.and_then(|name| tables.by_claim.get(&**name)).copied();
        if let Some(node) = answer.filter(|node| tables.nodes[*node].usable && self.pass.is_there(*node)) {
            for level in tables.classes[class].levels.ids() {
                let demand = self.domains().demand(class, level);
                if tables.fitting(class, level).has(node)
                    && self.try_node(pod_id, &demand, node) == Outcome::Placed
                {
                    return Outcome::Placed;
                }
            }
        }
        for level in tables.classes[class].levels.ids() {
            self.pass.probes += 1;
            let verdict = self.pass.failed.get(&(class, level));
            if verdict.is_some_and(|seen| seen.is_none_or(|version| version == self.placement.version())) {
                continue;
            }
            if self.pass.work() > tables.rules.max_probes {
                self.pass.exhausted = true;
                return Outcome::NotReached;
            }
            match self.attempt_level(pod_id, level) {
                Outcome::Failed => {}
                outcome => return outcome,
            }
            let mut groups = tables.classes[class].levels[level].groups.iter();
            let flips = groups.any(|owned| tables.topology.groups[owned.group].spec.kind != GroupKind::Anti);
            // Whether a node takes a moving pod depends on the pod itself.
            if pod.node.is_none() {
                self.pass.failed.insert((class, level), flips.then_some(self.placement.version()));
            }
        }
        Outcome::Failed
    }

    fn attempt_level(&mut self, pod_id: PodId, level: LevelId) -> Outcome {
        let (tables, class) = (self.tables, self.classes[pod_id]);
        let demand = self.domains().demand(class, level);
        let fitting = tables.fitting(class, level);
        let allowed = self.domains().nodes_left(&demand, fitting);
        let on_nodes = self.attempt_nodes(pod_id, &demand, allowed.as_ref().unwrap_or(fitting));
        on_nodes.or_else(|| {
            if level > LevelId::FIRST {
                self.pass.levels.insert(pod_id, level);
            }
            let mut candidates = self.candidates(&demand);
            let joined = self.join_first(pod_id, &demand, &mut candidates);
            self.pass.candidates = candidates;
            joined.or_else(|| self.try_new(pod_id, &demand))
        })
    }

    /// Places pods of one class as [`Self::attempt`] would one after the other, while nothing special applies: no topology, no
    /// port, volume or reservation, no relaxation. Returns the number of placed pods.
    fn attempt_run(&mut self, run: &[PodId]) -> usize {
        let (tables, class) = (self.tables, self.classes[run[0]]);
        let nominated = &tables.snapshot.nominated;
        let alike = |pod_id: &PodId| {
            let pod = self.pod(*pod_id);
            pod.node.is_none() && (nominated.is_empty() || !nominated.contains_key(&pod.uid))
        };
        let plain =
            self.pass.strategy.runs && allowed_domains::is_unbound(tables, class) && run.iter().all(alike);
        if !plain || self.pass.failed.contains_key(&(class, LevelId::FIRST)) {
            return 0;
        }
        let demand = self.domains().demand(class, LevelId::FIRST);
        if !demand.is_free() {
            return 0;
        }
        let fitting = tables.fitting(class, LevelId::FIRST);
        let mut placed = 0;
        while placed < run.len() && self.attempt_nodes(run[placed], &demand, fitting) == Outcome::Placed {
            placed += 1;
        }
        let mut candidates = self.candidates(&demand);
        while placed < run.len() && self.pass.probes < tables.rules.max_probes {
            if self.join_first(run[placed], &demand, &mut candidates) != Outcome::Placed {
                if self.try_new(run[placed], &demand) != Outcome::Placed {
                    break;
                }
                self.pass.claims.ids().next_back().into_iter().for_each(|claim| candidates.insert(claim));
            }
            placed += 1;
        }
        placed
    }

    /// Places a pod on the first of some new NodeClaims that takes it, the one with the fewest pods first; removes those that do
    /// not.
    fn join_first(
        &mut self,
        pod_id: PodId,
        demand: &TopologyDemand,
        candidates: &mut Bits<NewClaimId>,
    ) -> Outcome {
        let (mut cursor, mut outcome) = (Cursor::default(), Outcome::Failed);
        while let Some(claim) = self.pass.candidate_order.next(candidates, &mut cursor) {
            let tier = self.pass.tier(claim);
            outcome = outcome.or_else(|| self.try_claim(demand, claim));
            if outcome == Outcome::Placed {
                self.pass.claims[claim].pods.push(pod_id);
                self.pass.candidate_order.shift(claim, tier, self.pass.tier(claim));
                break;
            }
            candidates.remove(claim);
        }
        outcome
    }

    /// The new NodeClaims that may take a pod of a level, but for their size and the allowed domains.
    fn candidates(&mut self, demand: &TopologyDemand) -> Bits<NewClaimId> {
        let tables = self.tables;
        let TopologyDemand { class, level, .. } = *demand;
        let Level { req, compatibility, look_past_preferences, any_host, .. } =
            tables.classes[class].levels[level];
        if !any_host {
            return Bits::default();
        }
        let mut candidates = std::mem::take(&mut self.pass.candidates);
        candidates.fill(self.pass.claims.len());
        candidates.subtract(self.placement.rejected(compatibility));
        self.domains().keep_by_hostname(demand, &mut candidates);
        for ((pool, offered), members) in &self.pass.equal_claims {
            if !candidates.meets(members) {
                continue;
            }
            self.pass.probes += 1;
            let pod = &tables.classes[class].pod;
            let agrees = tolerated(&tables.pools[*pool].taints, pod, look_past_preferences)
                && tables.universe.meet(*offered, req, Side::Claim).is_some();
            if !agrees {
                // Requirements only become narrower.
                self.placement.reject_all(compatibility, members);
            }
            if !agrees || allowed_domains::obeys_by_key(tables, demand, *offered).is_err() {
                candidates.subtract(members);
            }
        }
        candidates
    }
}
