//! Which nodes look as if several others would do for less, and which of them were tried in vain.
//!
//! What-ifs lay pods as Karpenter does; packing them by price costs a hundred times as much, so that it is tried for the few
//! sets that promise most, in each pass for so many. What was refused is remembered until something about it changes, so
//! that the next pass goes on with others; what was not reached is told, and is reached next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleetwright_kube_semantics::fnv::{BASIS_64, fnv1a_64_more};
use jiff::{SignedDuration, Timestamp};

use super::rates::Rates;
use crate::{
    disruption::{Budgets, Candidate, Context, DisruptionCost},
    model::{PoolName, Price, Str},
    scheduling::NewClaim,
};

/// Sets that are packed by price in one pass at most.
pub(super) const TRIALS: u32 = 32;
/// What was refused is tried again after this, whatever happened: things change with time alone.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);
/// Refusals that are remembered at most, the latest ones.
const MAX_REMEMBERED: usize = 50_000;
/// Nodes that are refused one by one are tried together, so many at most.
const MAX_TOGETHER: usize = 64;

/// Sets of nodes whose pods were packed by price in vain, by the names of their NodeClaims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(BTreeMap<Vec<Str>, (u64, Timestamp)>);

impl Refused {
    fn holds(&self, suspect: &Suspect, now: Timestamp) -> bool {
        let known = self.0.get(&suspect.names);
        known.is_some_and(|(mark, at)| *mark == suspect.mark && now.duration_since(*at) < MEMORY)
    }

    /// Forgets what is too old, and the oldest where there are too many.
    fn prune(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, at)| now.duration_since(*at) < MEMORY);
        if self.0.len() > MAX_REMEMBERED {
            let mut ages: Vec<Timestamp> = self.0.values().map(|(_, at)| *at).collect();
            ages.sort_unstable();
            let oldest = ages[self.0.len() - MAX_REMEMBERED];
            self.0.retain(|_, (_, at)| *at > oldest);
        }
    }
}

/// What would be opened for the pods of some nodes, as far as it tells whether that can be had for less.
pub(in crate::disruption) struct Look {
    pools: Vec<PoolName>,
    /// CPU in thousandths, memory in bytes.
    demand: [i64; 2],
    mark: u64,
}

impl Look {
    /// Looks at new NodeClaims.
    pub(in crate::disruption) fn at(new_claims: &[NewClaim]) -> Self {
        let mut look = Self { pools: Vec::new(), demand: [0, 0], mark: BASIS_64 };
        for new_claim in new_claims {
            if !look.pools.contains(&new_claim.pool.name) {
                look.pools.push(new_claim.pool.name.clone());
            }
            let (cpu, memory) = (new_claim.requests.cpu(), new_claim.requests.memory());
            look.demand[0] = look.demand[0].saturating_add(cpu);
            look.demand[1] = look.demand[1].saturating_add(memory);
            let chosen = &new_claim.chosen;
            look.mark = [&*chosen.instance_type, &*chosen.zone, &*chosen.capacity_type]
                .iter()
                .fold(look.mark, |mark, text| fnv1a_64_more(mark, text.bytes()));
            for figure in [chosen.price.nanos(), cpu, memory] {
                look.mark = fnv1a_64_more(look.mark, figure.to_le_bytes());
            }
        }
        look
    }
}

/// Nodes that look as if several others would do for less.
#[derive(Clone, Debug)]
struct Suspect {
    names: Vec<Str>,
    /// What may be saved at most, in nano-dollars per hour.
    promise: i64,
    cost: DisruptionCost,
    /// Changes with what would be opened for its pods, and with its price.
    mark: u64,
}

impl Suspect {
    /// Orders by what may be saved per disruption, best first; then by name.
    fn by_promise(&self, other: &Self) -> std::cmp::Ordering {
        let weigh =
            |one: &Self, by: &Self| i128::from(one.promise).saturating_mul(i128::from(by.cost.units()));
        weigh(other, self).cmp(&weigh(self, other)).then_with(|| self.names.cmp(&other.names))
    }
}

/// The suspects of a pass.
#[derive(Debug, Default)]
pub(in crate::disruption) struct Suspects {
    /// By indices of their nodes.
    known: BTreeMap<Vec<usize>, Suspect>,
    refused: Refused,
    rates: BTreeMap<PoolName, Rates>,
    /// What is still to be tried, once the first was asked for.
    agenda: Option<VecDeque<Vec<usize>>>,
    grouped: bool,
    trials: u32,
}

impl Suspects {
    /// For a pass that knows what was refused before.
    pub(in crate::disruption) fn new(refused: Refused) -> Self {
        Self { refused, ..Self::default() }
    }

    /// What was refused so far, for the next pass.
    pub(in crate::disruption) fn refused(&self, now: Timestamp) -> Refused {
        let mut refused = self.refused.clone();
        refused.prune(now);
        refused
    }

    /// Notes nodes for which nothing cheaper was found, where what their pods ask for costs a tenth less at the best
    /// rates of the pools that they would go to.
    pub(in crate::disruption) fn note(
        &mut self,
        context: &Context<'_>,
        candidates: &[&Candidate],
        look: &Look,
    ) {
        let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
        for pool in &look.pools {
            if !self.rates.contains_key(pool) {
                self.rates.insert(pool.clone(), Rates::of(context.snapshot, pool));
            }
        }
        let rates = look.pools.iter().filter_map(|pool| self.rates.get(pool));
        let promise = now.saturating_sub(Rates::least(rates, look.demand)).nanos();
        if i128::from(promise) * super::LEAST_SAVING < i128::from(now.nanos()) || promise <= 0 {
            return;
        }
        let Some(names) = candidates.iter().map(|candidate| candidate.claim()).collect() else { return };
        let suspect = Suspect {
            names,
            promise,
            cost: candidates.iter().map(|candidate| candidate.cost).sum(),
            mark: fnv1a_64_more(look.mark, now.nanos().to_le_bytes()),
        };
        self.known.insert(candidates.iter().map(|candidate| candidate.index).collect(), suspect);
    }

    /// The next set to try, as indices of nodes, what promises most per disruption first; after all that go alone, some
    /// that may go together within `budgets`. `None` where nothing is left.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        budgets: &Budgets,
        candidates: &[&Candidate],
    ) -> Option<Vec<usize>> {
        if self.agenda.is_none() {
            let mut due: Vec<(&Suspect, &Vec<usize>)> =
                self.known.iter().map(|(nodes, suspect)| (suspect, nodes)).collect();
            due.retain(|(suspect, _)| !self.refused.holds(suspect, now));
            due.sort_by(|(a, _), (b, _)| a.by_promise(b));
            self.agenda = Some(due.into_iter().map(|(_, nodes)| nodes.clone()).collect());
        }
        if self.agenda.as_ref().is_some_and(VecDeque::is_empty) && !self.grouped {
            self.grouped = true;
            let groups = self.groups(now, budgets, candidates);
            self.agenda = Some(groups);
        }
        self.agenda.as_mut()?.pop_front()
    }

    /// Nodes that were refused one by one, the best of them together: 2, 4, 8, and so on.
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
        let members = self.known.iter().filter_map(|(nodes, suspect)| Some((alone(nodes)?, suspect)));
        let mut members: Vec<(&Candidate, Suspect)> =
            members.map(|(candidate, suspect)| (candidate, suspect.clone())).collect();
        members.retain(|(_, suspect)| self.refused.holds(suspect, now));
        members.sort_by(|(_, a), (_, b)| a.by_promise(b));
        let mut budgets = budgets.clone();
        members.retain(|(candidate, _)| budgets.take(&candidate.pool.name));
        members.truncate(MAX_TOGETHER);
        let mut groups = VecDeque::new();
        let mut size = 2;
        while size <= members.len() {
            let group = &members[..size];
            let suspect = Suspect {
                names: group.iter().flat_map(|(_, suspect)| suspect.names.iter().cloned()).collect(),
                promise: group.iter().fold(0, |sum: i64, (_, suspect)| sum.saturating_add(suspect.promise)),
                cost: group.iter().map(|(_, suspect)| suspect.cost).sum(),
                mark: group
                    .iter()
                    .fold(BASIS_64, |mark, (_, one)| fnv1a_64_more(mark, one.mark.to_le_bytes())),
            };
            let nodes: Vec<usize> = group.iter().map(|(candidate, _)| candidate.index).collect();
            // They may have been looked at together before.
            let suspect = self.known.entry(nodes.clone()).or_insert(suspect);
            if !self.refused.holds(suspect, now) {
                groups.push_back(nodes);
            }
            size *= 2;
        }
        groups
    }

    /// Takes one of the trials that a pass has; `false` where none is left.
    pub(super) fn try_one(&mut self) -> bool {
        self.trials += 1;
        self.trials <= TRIALS
    }

    /// Remembers that a set was tried in vain.
    pub(super) fn refuse(&mut self, nodes: &[usize], now: Timestamp) {
        if let Some(suspect) = self.known.get(nodes) {
            self.refused.0.insert(suspect.names.clone(), (suspect.mark, now));
        }
    }

    /// What was not tried any more, nodes of `set` among it.
    pub(super) fn give_up(&mut self, set: Vec<usize>) -> BTreeSet<usize> {
        self.grouped = true;
        let left = self.agenda.take().unwrap_or_default();
        self.agenda = Some(VecDeque::new());
        left.into_iter().chain([set]).flatten().collect()
    }
}
