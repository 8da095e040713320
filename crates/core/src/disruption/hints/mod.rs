//! Hints: sets of candidates that single-node and multi-node consolidation cannot replace by one node, and that may be cheaper
//! as several. The pass gives them from one method to the next.
//!
//! A simulation places pods in Karpenter's order. Packing them by price costs a hundred times as much, so it is tried
//! only for the sets with the largest possible saving, and a limited number of times per pass. Refused sets are recorded
//! ([`RefusedSets`]), so that the next pass continues with others; sets that were not reached come first in it.

mod rates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;

use self::rates::Rates;
use super::{
    Budgets, Candidate, Context, DisruptionCost,
    gates::{self, PricedSet, RefusedSets, SimulationDigest},
};
use crate::{
    model::{PoolName, Price},
    scheduling::NewClaim,
};

/// Maximum number of sets that one pass packs by price.
pub(super) const MAX_TRIALS: u32 = 32;
/// A set must save at least this share of its price. Several replacements move most pods of a fleet for a few percent, and what they leave
/// half empty is moved again.
pub(super) const MIN_SAVING_PERCENT: i128 = 15;
/// Maximum number of individually refused candidates that are tried together.
const MAX_TOGETHER: usize = 64;

/// A hint that one method gives to a later one about a set of candidates.
#[derive(Debug)]
pub enum Hint {
    /// A simulation found several cheaper nodes. They save this number of nano-dollars per hour.
    Split(i64),
    /// A simulation found nothing cheaper; packing by price may.
    Demand(Demand),
}

/// The requests of the new NodeClaims of a simulation, which bound the saving of packing by price.
#[derive(Debug)]
pub struct Demand {
    pools: Vec<PoolName>,
    /// CPU in thousandths, memory in bytes.
    requests: [i64; 2],
    digest: SimulationDigest,
}

impl Demand {
    /// The demand of `new_claims`.
    pub(super) fn of(new_claims: &[NewClaim]) -> Self {
        let mut demand = Self { pools: Vec::new(), requests: [0, 0], digest: SimulationDigest::default() };
        for new_claim in new_claims {
            if !demand.pools.contains(&new_claim.pool.name) {
                demand.pools.push(new_claim.pool.name.clone());
            }
            let (cpu, memory) = (new_claim.requests.cpu(), new_claim.requests.memory());
            demand.requests[0] = demand.requests[0].saturating_add(cpu);
            demand.requests[1] = demand.requests[1].saturating_add(memory);
            let chosen = &new_claim.chosen;
            for text in [&*chosen.instance_type, &*chosen.zone, &*chosen.capacity_type] {
                demand.digest = demand.digest.with(text.as_bytes());
            }
            for figure in [chosen.effective.nanos(), cpu, memory] {
                demand.digest = demand.digest.with(&figure.to_le_bytes());
            }
        }
        demand
    }
}

/// A set that may cost less when its pods are packed by price.
#[derive(Clone, Debug)]
struct RepackCandidate {
    set: PricedSet,
    /// The maximum saving, in nano-dollars per hour.
    saving: i64,
    cost: DisruptionCost,
}

impl RepackCandidate {
    /// Orders by possible saving per disruption, best first; then by name.
    fn by_saving(&self, other: &Self) -> std::cmp::Ordering {
        let weigh =
            |one: &Self, by: &Self| i128::from(one.saving).saturating_mul(i128::from(by.cost.units()));
        weigh(other, self).cmp(&weigh(self, other)).then_with(|| self.set.names.cmp(&other.set.names))
    }
}

/// The hints of a pass, and which of them were tried.
#[derive(Debug, Default)]
pub struct Hints {
    /// Sets, as indices of nodes, for which a simulation found several cheaper nodes, with the saving.
    splits: Vec<(i64, Vec<usize>)>,
    /// Sets that may be packed by price, by indices of their nodes.
    repack_candidates: BTreeMap<Vec<usize>, RepackCandidate>,
    refused: RefusedSets,
    rates: BTreeMap<PoolName, Rates>,
    /// Remaining sets to pack by price, once the first was taken.
    queue: Option<VecDeque<Vec<usize>>>,
    /// Whether the queue includes sets of individually refused candidates.
    grouped: bool,
    trials: u32,
}

impl Hints {
    /// Hints for a pass after one that refused these sets.
    #[must_use]
    pub(super) fn new(refused: RefusedSets) -> Self {
        Self { refused, ..Self::default() }
    }

    /// The refused sets, for the next pass.
    pub(super) fn into_refused(self, now: Timestamp) -> RefusedSets {
        let mut refused = self.refused;
        refused.prune(now);
        refused
    }

    /// Adds a hint about `candidates`.
    pub(super) fn add(&mut self, context: &Context<'_>, candidates: &[&Candidate], hint: Hint) {
        match hint {
            Hint::Split(saving) => {
                let nodes: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
                if self.splits.iter().all(|(_, known)| *known != nodes) {
                    self.splits.push((saving, nodes));
                }
            }
            Hint::Demand(demand) => self.add_demand(context, candidates, &demand),
        }
    }

    /// Adds a set whose demand would cost so much less at the best rates of its NodePools.
    fn add_demand(&mut self, context: &Context<'_>, candidates: &[&Candidate], demand: &Demand) {
        let now: Price = candidates.iter().map(|candidate| candidate.effective).sum();
        for pool in &demand.pools {
            if !self.rates.contains_key(pool) {
                self.rates.insert(pool.clone(), Rates::of(context.snapshot, pool));
            }
        }
        let rates = demand.pools.iter().filter_map(|pool| self.rates.get(pool));
        let saving = now.saturating_sub(Rates::least(rates, demand.requests)).nanos();
        if i128::from(saving) * 100 < i128::from(now.nanos()) * MIN_SAVING_PERCENT || saving <= 0 {
            return;
        }
        let Some(names) = candidates.iter().map(|candidate| candidate.claim()).collect() else { return };
        let repack = RepackCandidate {
            set: PricedSet { names, digest: demand.digest.with(&now.nanos().to_le_bytes()) },
            saving,
            cost: candidates.iter().map(|candidate| candidate.cost).sum(),
        };
        self.repack_candidates.insert(candidates.iter().map(|candidate| candidate.index).collect(), repack);
    }

    /// The sets for which a simulation found several cheaper nodes, the largest saving first.
    pub(super) fn splits(&self) -> Vec<Vec<usize>> {
        let mut splits = self.splits.clone();
        splits.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        splits.into_iter().map(|(_, nodes)| nodes).collect()
    }

    /// Takes the next set to pack by price, as indices of nodes, largest saving per disruption first; after all
    /// sets of one candidate, sets of several within `budgets`. `None` if none is left.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        budgets: &Budgets,
        candidates: &[&Candidate],
    ) -> Option<Vec<usize>> {
        if self.queue.is_none() {
            let mut due: Vec<(&RepackCandidate, &Vec<usize>)> =
                self.repack_candidates.iter().map(|(nodes, repack)| (repack, nodes)).collect();
            due.retain(|(repack, _)| gates::admits_set(&self.refused, &repack.set, now));
            due.sort_by(|(a, _), (b, _)| a.by_saving(b));
            self.queue = Some(due.into_iter().map(|(_, nodes)| nodes.clone()).collect());
        }
        if self.queue.as_ref().is_some_and(VecDeque::is_empty) && !self.grouped {
            self.grouped = true;
            let groups = self.groups(now, budgets, candidates);
            self.queue = Some(groups);
        }
        self.queue.as_mut()?.pop_front()
    }

    /// Groups of the best individually refused candidates: 2, 4, 8, and so on.
    fn groups(
        &mut self,
        now: Timestamp,
        budgets: &Budgets,
        candidates: &[&Candidate],
    ) -> VecDeque<Vec<usize>> {
        let alone = |nodes: &[usize]| match nodes {
            [one] => candidates.iter().find(|candidate| candidate.index == *one).copied(),
            _ => None,
        };
        let members =
            self.repack_candidates.iter().filter_map(|(nodes, repack)| Some((alone(nodes)?, repack)));
        let mut members: Vec<(&Candidate, RepackCandidate)> =
            members.map(|(candidate, repack)| (candidate, repack.clone())).collect();
        members.retain(|(_, repack)| !gates::admits_set(&self.refused, &repack.set, now));
        members.sort_by(|(_, a), (_, b)| a.by_saving(b));
        let mut budgets = budgets.clone();
        members.retain(|(candidate, _)| budgets.take(&candidate.pool.name));
        members.truncate(MAX_TOGETHER);
        let mut groups = VecDeque::new();
        let mut size = 2;
        while size <= members.len() {
            let group = &members[..size];
            let repack_candidates = || group.iter().map(|(_, repack)| repack);
            let repack = RepackCandidate {
                set: PricedSet {
                    names: repack_candidates().flat_map(|repack| repack.set.names.iter().cloned()).collect(),
                    digest: repack_candidates().fold(SimulationDigest::default(), |digest, one| {
                        digest.with(&one.set.digest.to_bytes())
                    }),
                },
                saving: repack_candidates().fold(0, |sum: i64, repack| sum.saturating_add(repack.saving)),
                cost: repack_candidates().map(|repack| repack.cost).sum(),
            };
            let nodes: Vec<usize> = group.iter().map(|(candidate, _)| candidate.index).collect();
            // Multi-node consolidation may have simulated the same set.
            let repack = self.repack_candidates.entry(nodes.clone()).or_insert(repack);
            if gates::admits_set(&self.refused, &repack.set, now) {
                groups.push_back(nodes);
            }
            size *= 2;
        }
        groups
    }

    /// Takes one of the trials of the pass; `false` if none is left.
    pub(super) fn take_trial(&mut self) -> bool {
        self.trials += 1;
        self.trials <= MAX_TRIALS
    }

    /// Records that packing by price refused a set.
    pub(super) fn refuse(&mut self, nodes: &[usize], now: Timestamp) {
        if let Some(repack) = self.repack_candidates.get(nodes) {
            self.refused.add(&repack.set, now);
        }
    }

    /// Stops the trials of the pass. Returns the nodes of `set` and of all sets that were not tried.
    pub(super) fn stop_trials(&mut self, set: Vec<usize>) -> BTreeSet<usize> {
        self.grouped = true;
        let left = self.queue.replace(VecDeque::new()).unwrap_or_default();
        left.into_iter().chain([set]).flatten().collect()
    }
}
