//! Follows batches of pending pods from our plan to the decisions of the other controller.
//!
//! 1 The window closes: [`BatchTracker::decide`] takes our plan. 2 NodeClaims that appear from then on belong to the oldest batch
//! that waits for its first NodeClaim, else to the youngest with pods that wait; the first pod that is bound to a NodeClaim corrects
//! that ([`BatchTracker::observe`]). 3 The batch is compared once every pod has a node or is gone and every NodeClaim is launched
//! or gone, at the latest after [`TIMEOUT`]. A restart forgets open batches: they are not compared.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    claims::{ClaimGroup, LaunchedClaim, PodOutcomes},
    compare::{Agreement, BatchSides, DifferenceReason, compare},
};
use crate::{
    model::{ClaimName, PodUid, Snapshot},
    scheduling::Plan,
};

/// When a batch is compared at the latest: some instance types take ten minutes until pods run on them.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// When a batch is compared at the earliest: the other controller's batch window may close later than ours (10 s by default).
const EARLIEST: Duration = Duration::from_secs(15);
/// Batches that are followed at once; beyond it the oldest is compared as it is.
const MAX_OPEN: usize = 64;

/// Our decision about a batch.
#[derive(Clone, Debug)]
pub struct PlannedBatch {
    /// When its window opened.
    pub opened: Timestamp,
    /// When our plan was made.
    pub decided: Timestamp,
    /// Its pods.
    pub pods: BTreeSet<PodUid>,
    /// The NodeClaims that we would have created for them.
    pub ours: Vec<ClaimGroup>,
    /// The outcome of its pods in our plan.
    pub outcomes: PodOutcomes,
    /// Whether a bound on the work cut the plan short.
    pub partial: bool,
}

impl PlannedBatch {
    /// The part of a plan that is about `pods`: a plan also places pods of earlier batches that still wait.
    #[must_use]
    pub fn of(plan: &Plan, pods: BTreeSet<PodUid>, (opened, decided): (Timestamp, Timestamp)) -> Self {
        let count = |all: &[std::sync::Arc<crate::model::Pod>]| {
            all.iter().filter(|pod| pods.contains(&pod.uid)).count()
        };
        let mut outcomes = PodOutcomes::default();
        let mut ours = Vec::new();
        for claim in &plan.new_claims {
            let pods = count(&claim.pods);
            if pods > 0 {
                outcomes.new += pods;
                ours.push(ClaimGroup::planned(claim, pods));
            }
        }
        outcomes.existing = plan.existing.iter().map(|placement| count(&placement.pods)).sum();
        outcomes.none = plan.unplaced.iter().filter(|(pod, _)| pods.contains(&pod.uid)).count();
        let partial = plan.partial;
        Self { opened, decided, ours: ClaimGroup::join(ours), outcomes, partial, pods }
    }
}

/// The decisions of both controllers about a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchComparison {
    /// Counts batches from 1.
    pub number: u64,
    /// When its window opened.
    pub opened: Timestamp,
    /// When the comparison ended.
    pub closed: Timestamp,
    /// Its pods.
    pub pods: usize,
    /// The NodeClaims that Karpenter launched.
    pub karpenter: Vec<ClaimGroup>,
    /// The outcomes of the pods.
    pub karpenter_pods: PodOutcomes,
    /// The NodeClaims that we would have launched.
    pub ours: Vec<ClaimGroup>,
    /// The pods of our plan.
    pub our_pods: PodOutcomes,
    /// The agreement of both.
    pub agreement: Agreement,
    /// Why they differ.
    pub reasons: Vec<DifferenceReason>,
}

/// A NodeClaim that appeared while a batch was open.
#[derive(Debug)]
struct Followed {
    /// The number of its batch.
    batch: u64,
    /// Its last observed form.
    claim: Option<LaunchedClaim>,
    /// Whether it is in the cluster.
    exists: bool,
    /// Whether a disruption command began shortly before: it may be a replacement.
    may_replace: bool,
    /// Its pods that are of a batch.
    pods: usize,
}

#[derive(Debug)]
struct OpenBatch {
    number: u64,
    planned: PlannedBatch,
    /// Pods without a node.
    waiting: BTreeSet<PodUid>,
    /// Pods with a node, by kind of node, and pods that are gone.
    outcomes: PodOutcomes,
}

/// Follows batches.
#[derive(Debug, Default)]
pub struct BatchTracker {
    number: u64,
    /// The NodeClaims of the last observation; `None` before the first.
    known: Option<BTreeSet<ClaimName>>,
    open: VecDeque<OpenBatch>,
    /// The NodeClaims of open batches.
    claims: BTreeMap<ClaimName, Followed>,
}

impl BatchTracker {
    /// The number of open batches.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The NodeClaims that appeared since the last observation; none before the first.
    #[must_use]
    pub fn appeared(&self, snapshot: &Snapshot) -> BTreeSet<ClaimName> {
        let Some(known) = &self.known else { return BTreeSet::new() };
        let names = snapshot.nodes.iter().filter_map(|node| node.claim_name());
        names.filter(|name| !known.contains(*name)).cloned().collect()
    }

    /// Whether a batch waits for its first NodeClaim: NodeClaims that appear are its.
    #[must_use]
    pub fn awaits_claims(&self) -> bool {
        self.first_without_claims().is_some()
    }

    fn first_without_claims(&self) -> Option<u64> {
        let has_claims = |number| self.claims.values().any(|followed| followed.batch == number);
        let waits = |batch: &&OpenBatch| !batch.waiting.is_empty() && !has_claims(batch.number);
        self.open.iter().find(waits).map(|batch| batch.number)
    }

    /// Follows a batch from our plan on.
    pub fn decide(&mut self, planned: PlannedBatch) {
        self.number += 1;
        let waiting = planned.pods.clone();
        let outcomes = PodOutcomes::default();
        self.open.push_back(OpenBatch { number: self.number, waiting, planned, outcomes });
    }

    /// Observes a snapshot. Returns the batches that are complete, and the new NodeClaims that belong to no batch.
    /// `disrupting` says that a disruption command of the other controller began shortly before.
    pub fn observe(
        &mut self,
        snapshot: &Snapshot,
        now: Timestamp,
        disrupting: bool,
    ) -> (Vec<BatchComparison>, Vec<ClaimName>) {
        let others = self.assign(snapshot, disrupting);
        self.known = Some(snapshot.nodes.iter().filter_map(|node| node.claim_name()).cloned().collect());
        if self.open.is_empty() {
            return (Vec::new(), others);
        }
        for followed in self.claims.values_mut() {
            followed.exists = false;
        }
        for node in &snapshot.nodes {
            let Some(name) = node.claim_name() else { continue };
            if let Some(followed) = self.claims.get_mut(name) {
                followed.exists = true;
                followed.claim = LaunchedClaim::of(snapshot, node);
            }
        }
        self.bind(snapshot);
        (self.complete(now), others)
    }

    /// Assigns new NodeClaims to batches. Returns those that belong to none.
    fn assign(&mut self, snapshot: &Snapshot, disrupting: bool) -> Vec<ClaimName> {
        let appeared = self.appeared(snapshot);
        let youngest = self.open.iter().rev().find(|batch| !batch.waiting.is_empty());
        let batch = self.first_without_claims().or_else(|| youngest.map(|batch| batch.number));
        let Some(batch) = batch else { return appeared.into_iter().collect() };
        for name in appeared {
            let followed = Followed { batch, claim: None, exists: true, may_replace: disrupting, pods: 0 };
            self.claims.insert(name, followed);
        }
        Vec::new()
    }

    /// Records the nodes of pods.
    fn bind(&mut self, snapshot: &Snapshot) {
        let mut claim_of_pod: BTreeMap<&PodUid, Option<&ClaimName>> = BTreeMap::new();
        for node in &snapshot.nodes {
            claim_of_pod.extend(node.pods.iter().map(|pod| (&pod.uid, node.claim_name())));
        }
        let pending = snapshot.pending.iter().chain(&snapshot.unscheduled);
        let pending: BTreeSet<&PodUid> = pending.map(|pod| &pod.uid).collect();
        for batch in &mut self.open {
            let waiting = std::mem::take(&mut batch.waiting);
            let (waiting, decided) = waiting.into_iter().partition(|pod| pending.contains(pod));
            batch.waiting = waiting;
            for pod in decided {
                let Some(claim) = claim_of_pod.get(&pod) else {
                    batch.outcomes.gone += 1;
                    continue;
                };
                let followed = claim.and_then(|name| self.claims.get_mut(name));
                let Some(followed) = followed else {
                    batch.outcomes.existing += 1;
                    continue;
                };
                if followed.pods == 0 {
                    followed.batch = batch.number;
                }
                followed.pods += 1;
                let own = followed.batch == batch.number;
                *(if own { &mut batch.outcomes.new } else { &mut batch.outcomes.existing }) += 1;
            }
        }
    }

    /// Compares the batches that are complete.
    fn complete(&mut self, now: Timestamp) -> Vec<BatchComparison> {
        let excess = self.open.len().saturating_sub(MAX_OPEN);
        let mut done = Vec::new();
        for (position, batch) in std::mem::take(&mut self.open).into_iter().enumerate() {
            let own = |followed: &&Followed| followed.batch == batch.number;
            if position < excess || batch.is_complete(self.claims.values().filter(own), now) {
                let claims: Vec<Followed> = self
                    .claims
                    .extract_if(.., |_, followed| own(&&*followed))
                    .map(|(_, claim)| claim)
                    .collect();
                done.push(batch.compare(claims, now));
            } else {
                self.open.push_back(batch);
            }
        }
        done
    }
}

impl OpenBatch {
    fn is_complete<'a>(&self, mut claims: impl Iterator<Item = &'a Followed>, now: Timestamp) -> bool {
        let after = |wait: Duration| self.planned.decided.checked_add(wait).is_ok_and(|end| end <= now);
        let launched = |followed: &Followed| {
            !followed.exists || followed.claim.as_ref().is_some_and(LaunchedClaim::is_launched)
        };
        after(TIMEOUT) || (after(EARLIEST) && self.waiting.is_empty() && claims.all(launched))
    }

    fn compare(self, claims: Vec<Followed>, now: Timestamp) -> BatchComparison {
        let Self { number, planned, waiting, outcomes } = self;
        let mut sides = BatchSides {
            karpenter_pods: PodOutcomes { none: waiting.len(), ..outcomes },
            ours: planned.ours,
            our_pods: planned.outcomes,
            partial: planned.partial,
            ..BatchSides::default()
        };
        for Followed { claim, may_replace, pods, .. } in claims {
            if may_replace && pods == 0 {
                continue;
            }
            match claim.filter(LaunchedClaim::is_launched) {
                Some(mut claim) => {
                    claim.group.pods = pods;
                    sides.karpenter.push(claim);
                }
                None => sides.never_launched += 1,
            }
        }
        let (agreement, reasons) = compare(&sides);
        BatchComparison {
            number,
            opened: planned.opened,
            closed: now,
            pods: planned.pods.len(),
            karpenter: ClaimGroup::join(sides.karpenter.into_iter().map(|claim| claim.group)),
            karpenter_pods: sides.karpenter_pods,
            ours: sides.ours,
            our_pods: sides.our_pods,
            agreement,
            reasons,
        }
    }
}
