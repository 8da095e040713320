//! Leads: sets of candidates that single-node and multi-node consolidation cannot replace by one node, and that may pay
//! as several. The pass hands them from one method to the next.
//!
//! A simulation places pods in Karpenter's order. Packing them by price costs a hundred times as much, so it is tried
//! only for the sets that promise most, and a limited number of times a pass. Sets that were refused are remembered
//! ([`Refused`]), so that the next pass continues with others; sets that were not reached come first in it.

mod rates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;

use self::rates::Rates;
use super::{
    Budgets, Candidate, Context, DisruptionCost,
    gates::{self, Mark, PricedSet, Refused},
};
use crate::{
    model::{PoolName, Price},
    scheduling::NewClaim,
};

/// Sets that are packed by price in one pass, at most.
pub(super) const TRIALS: u32 = 32;
/// A set must save at least one part in this many.
pub(super) const LEAST_SAVING: i128 = 10;
/// Candidates that were refused one by one are tried together, at most this many.
const MAX_TOGETHER: usize = 64;

/// A hint that one method gives to a later one about a set of candidates.
#[derive(Debug)]
pub enum Lead {
    /// A simulation found several nodes that are cheaper. They save this many nano-dollars per hour.
    Split(i64),
    /// A simulation found nothing cheaper. Packing by price may.
    Demand(Demand),
}

/// What the new NodeClaims of a simulation request, as far as it bounds what a packing by price may save.
#[derive(Debug)]
pub struct Demand {
    pools: Vec<PoolName>,
    /// CPU in thousandths, memory in bytes.
    requests: [i64; 2],
    mark: Mark,
}

impl Demand {
    /// The demand of `new_claims`.
    pub(super) fn of(new_claims: &[NewClaim]) -> Self {
        let mut demand = Self { pools: Vec::new(), requests: [0, 0], mark: Mark::default() };
        for new_claim in new_claims {
            if !demand.pools.contains(&new_claim.pool.name) {
                demand.pools.push(new_claim.pool.name.clone());
            }
            let (cpu, memory) = (new_claim.requests.cpu(), new_claim.requests.memory());
            demand.requests[0] = demand.requests[0].saturating_add(cpu);
            demand.requests[1] = demand.requests[1].saturating_add(memory);
            let chosen = &new_claim.chosen;
            for text in [&*chosen.instance_type, &*chosen.zone, &*chosen.capacity_type] {
                demand.mark = demand.mark.with(text.as_bytes());
            }
            for figure in [chosen.price.nanos(), cpu, memory] {
                demand.mark = demand.mark.with(&figure.to_le_bytes());
            }
        }
        demand
    }
}

/// A set that may cost less when its pods are packed by price.
#[derive(Clone, Debug)]
struct Promise {
    set: PricedSet,
    /// The most that may be saved, in nano-dollars per hour.
    saving: i64,
    cost: DisruptionCost,
}

impl Promise {
    /// Orders by possible saving per disruption, best first; then by name.
    fn by_saving(&self, other: &Self) -> std::cmp::Ordering {
        let weigh =
            |one: &Self, by: &Self| i128::from(one.saving).saturating_mul(i128::from(by.cost.units()));
        weigh(other, self).cmp(&weigh(self, other)).then_with(|| self.set.names.cmp(&other.set.names))
    }
}

/// The leads of a pass, and which of them were tried.
#[derive(Debug, Default)]
pub struct Leads {
    /// Sets, as indices of nodes, for which a simulation found several cheaper nodes, with the saving.
    splits: Vec<(i64, Vec<usize>)>,
    /// Sets that may be packed by price, by indices of their nodes.
    promises: BTreeMap<Vec<usize>, Promise>,
    refused: Refused,
    rates: BTreeMap<PoolName, Rates>,
    /// Sets still to be packed by price, once the first was taken.
    agenda: Option<VecDeque<Vec<usize>>>,
    /// Whether the agenda includes sets of candidates that were refused one by one.
    grouped: bool,
    trials: u32,
}

impl Leads {
    /// For a pass after one that refused these sets.
    #[must_use]
    pub(super) fn new(refused: Refused) -> Self {
        Self { refused, ..Self::default() }
    }

    /// The refused sets, for the next pass.
    pub(super) fn into_refused(self, now: Timestamp) -> Refused {
        let mut refused = self.refused;
        refused.prune(now);
        refused
    }

    /// Adds a lead about `candidates`.
    pub(super) fn add(&mut self, context: &Context<'_>, candidates: &[&Candidate], lead: Lead) {
        match lead {
            Lead::Split(saving) => {
                let nodes: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
                if self.splits.iter().all(|(_, known)| *known != nodes) {
                    self.splits.push((saving, nodes));
                }
            }
            Lead::Demand(demand) => self.add_demand(context, candidates, &demand),
        }
    }

    /// Adds a set whose demand would cost a tenth less at the best rates of the pools that it goes to.
    fn add_demand(&mut self, context: &Context<'_>, candidates: &[&Candidate], demand: &Demand) {
        let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
        for pool in &demand.pools {
            if !self.rates.contains_key(pool) {
                self.rates.insert(pool.clone(), Rates::of(context.snapshot, pool));
            }
        }
        let rates = demand.pools.iter().filter_map(|pool| self.rates.get(pool));
        let saving = now.saturating_sub(Rates::least(rates, demand.requests)).nanos();
        if i128::from(saving) * LEAST_SAVING < i128::from(now.nanos()) || saving <= 0 {
            return;
        }
        let Some(names) = candidates.iter().map(|candidate| candidate.claim()).collect() else { return };
        let promise = Promise {
            set: PricedSet { names, mark: demand.mark.with(&now.nanos().to_le_bytes()) },
            saving,
            cost: candidates.iter().map(|candidate| candidate.cost).sum(),
        };
        self.promises.insert(candidates.iter().map(|candidate| candidate.index).collect(), promise);
    }

    /// The sets for which a simulation found several cheaper nodes, the largest saving first.
    pub(super) fn splits(&self) -> Vec<Vec<usize>> {
        let mut splits = self.splits.clone();
        splits.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        splits.into_iter().map(|(_, nodes)| nodes).collect()
    }

    /// Takes the next set to pack by price, as indices of nodes, the largest saving per disruption first; after all
    /// sets of one candidate, some that may go together within `budgets`. `None` where none is left.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        budgets: &Budgets,
        candidates: &[&Candidate],
    ) -> Option<Vec<usize>> {
        if self.agenda.is_none() {
            let mut due: Vec<(&Promise, &Vec<usize>)> =
                self.promises.iter().map(|(nodes, promise)| (promise, nodes)).collect();
            due.retain(|(promise, _)| gates::admits_set(&self.refused, &promise.set, now));
            due.sort_by(|(a, _), (b, _)| a.by_saving(b));
            self.agenda = Some(due.into_iter().map(|(_, nodes)| nodes.clone()).collect());
        }
        if self.agenda.as_ref().is_some_and(VecDeque::is_empty) && !self.grouped {
            self.grouped = true;
            let groups = self.groups(now, budgets, candidates);
            self.agenda = Some(groups);
        }
        self.agenda.as_mut()?.pop_front()
    }

    /// The best of the candidates that were refused one by one, together: 2, 4, 8, and so on.
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
        let members = self.promises.iter().filter_map(|(nodes, promise)| Some((alone(nodes)?, promise)));
        let mut members: Vec<(&Candidate, Promise)> =
            members.map(|(candidate, promise)| (candidate, promise.clone())).collect();
        members.retain(|(_, promise)| !gates::admits_set(&self.refused, &promise.set, now));
        members.sort_by(|(_, a), (_, b)| a.by_saving(b));
        let mut budgets = budgets.clone();
        members.retain(|(candidate, _)| budgets.take(&candidate.pool.name));
        members.truncate(MAX_TOGETHER);
        let mut groups = VecDeque::new();
        let mut size = 2;
        while size <= members.len() {
            let group = &members[..size];
            let promises = || group.iter().map(|(_, promise)| promise);
            let promise = Promise {
                set: PricedSet {
                    names: promises().flat_map(|promise| promise.set.names.iter().cloned()).collect(),
                    mark: promises().fold(Mark::default(), |mark, one| mark.with(&one.set.mark.to_bytes())),
                },
                saving: promises().fold(0, |sum: i64, promise| sum.saturating_add(promise.saving)),
                cost: promises().map(|promise| promise.cost).sum(),
            };
            let nodes: Vec<usize> = group.iter().map(|(candidate, _)| candidate.index).collect();
            // Multi-node consolidation may have simulated the same set.
            let promise = self.promises.entry(nodes.clone()).or_insert(promise);
            if gates::admits_set(&self.refused, &promise.set, now) {
                groups.push_back(nodes);
            }
            size *= 2;
        }
        groups
    }

    /// Takes one of the trials of the pass; `false` where none is left.
    pub(super) fn try_one(&mut self) -> bool {
        self.trials += 1;
        self.trials <= TRIALS
    }

    /// Remembers that a set was packed in vain.
    pub(super) fn refuse(&mut self, nodes: &[usize], now: Timestamp) {
        if let Some(promise) = self.promises.get(nodes) {
            self.refused.add(&promise.set, now);
        }
    }

    /// Ends the trials of the pass. Returns the nodes of `set` and of all sets that were not tried.
    pub(super) fn give_up(&mut self, set: Vec<usize>) -> BTreeSet<usize> {
        self.grouped = true;
        let left = self.agenda.replace(VecDeque::new()).unwrap_or_default();
        left.into_iter().chain([set]).flatten().collect()
    }
}
