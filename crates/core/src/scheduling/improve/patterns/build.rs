//! The waiting pods as a problem of their own.

use hashbrown::HashMap;
use indexmap::IndexMap;

use crate::{
    model::labels::SPOT,
    scheduling::{
        greedy::{
            deferral::{Eligibility, Waiting},
            pass::Pass,
        },
        ids::{NewClaimId, NodePoolId, PodId},
        improve::patterns::{
            problem::{Base, Kind, Lane, Problem},
            table::{Choice, Column, Room, Table},
        },
        tables::{
            Tables,
            amounts::{Amounts, get},
            bits::Bits,
            intern::{Req, Side},
        },
    },
};

/// A pool under a set of requirements.
pub(crate) type State = (NodePoolId, Req);

/// So many states are looked at: the ways in which pods with different eligibilities can share a claim are many.
const MAX_STATES: usize = 64;
/// More than this many new NodeClaims are not added to.
const MAX_BASES: usize = 20_000;

/// A problem, and what its parts stand for.
pub(super) struct Built {
    pub(super) problem: Problem,
    pub(super) states: Vec<State>,
    /// By kind: the pods, in the order of the queue.
    pub(super) pods: Vec<Vec<PodId>>,
    /// Pods that patterns cannot help.
    pub(super) leftover: Vec<PodId>,
    /// By base: the claim.
    pub(super) claims: Vec<NewClaimId>,
}

/// A problem under construction.
pub(crate) struct Builder<'a> {
    pass: &'a Pass,
    dims: Vec<usize>,
    problem: Problem,
    states: Vec<State>,
    ids: HashMap<State, usize>,
    /// Pools that take part.
    pools: Vec<NodePoolId>,
}

pub(super) fn build(pass: &Pass, tables: &mut Tables, waiting: Waiting) -> Built {
    let open = pass.claims.entries().filter(|(at, claim)| {
        // What a claim holds of limits, ports, devices or fewer values is not worked out again.
        let holds = pass.devices.as_ref().is_some_and(|devices| devices.holds(*at));
        tables.pools[claim.pool].limits.is_empty() && claim.ports.is_empty() && !claim.relaxed && !holds
    });
    let open: Vec<NewClaimId> = open.map(|(at, _)| at).take(MAX_BASES).collect();
    let amounts = waiting.keys().map(|(_, requests)| requests);
    let amounts = amounts.chain(open.iter().map(|at| &pass.claims[*at].used));
    let mut builder = Builder::new(pass, dims(amounts));
    let mut eligibilities: Vec<Eligibility> = Vec::new();
    for (eligibility, _) in waiting.keys() {
        if !eligibilities.contains(eligibility) {
            eligibilities.push(eligibility.clone());
        }
    }
    for template in eligibilities.iter().flat_map(|eligibility| eligibility.templates.iter()) {
        builder.state(tables, *template);
    }
    let mut claims = Vec::new();
    for at in open {
        if builder.base(tables, at) {
            claims.push(at);
        }
    }
    builder.join(tables, &eligibilities);
    let (mut pods, mut leftover) = (Vec::new(), Vec::new());
    let mut lanes = IndexMap::new();
    for ((eligibility, requests), waiting) in waiting {
        let at = eligibilities.iter().position(|known| *known == eligibility).unwrap_or(0);
        if builder.kind(at, &eligibility, &requests, waiting.len(), &mut lanes) {
            pods.push(waiting);
        } else {
            leftover.extend(waiting);
        }
    }
    builder.lanes(&eligibilities, lanes);
    let Builder { problem, states, .. } = builder;
    Built { problem, states, pods, leftover, claims }
}

/// The resources that pods ask for.
pub(crate) fn dims<'a>(amounts: impl Iterator<Item = &'a Amounts>) -> Vec<usize> {
    let mut dims: Vec<usize> = Vec::new();
    for amounts in amounts {
        for at in 0..amounts.len() {
            if amounts[at] > 0 && !dims.contains(&at) {
                dims.push(at);
            }
        }
    }
    dims.sort_unstable();
    dims
}

/// Kinds of one lane: their eligibility, the types that they must keep by pool, the rarer resources that they need.
type LaneKey = (usize, Vec<usize>, Vec<bool>);

/// CPU and memory: every node has them.
const COMMON_DIMS: usize = 2;

impl<'a> Builder<'a> {
    /// Nothing yet, over some resources.
    pub(crate) fn new(pass: &'a Pass, dims: Vec<usize>) -> Self {
        let problem = Problem { dims: dims.len(), ..Problem::default() };
        Self { pass, dims, problem, states: Vec::new(), ids: HashMap::new(), pools: Vec::new() }
    }

    /// What was built, and what its states stand for.
    pub(crate) fn into_parts(self) -> (Problem, Vec<State>) {
        (self.problem, self.states)
    }

    /// The index of a state that was asked for before.
    pub(crate) fn known(&self, state: State) -> Option<usize> {
        self.ids.get(&state).copied()
    }

    /// By pool: how many types a claim must keep that holds a pod with such an eligibility; zero where none could.
    pub(crate) fn types(&self, asked: &Eligibility, requests: &[i64]) -> Vec<usize> {
        let mut types = vec![0; self.pools.len()];
        for state in asked.templates.iter().filter_map(|template| self.known(*template)) {
            let table = &self.problem.tables[state];
            let wanted = table.wanted(requests);
            if table.price(requests, wanted).is_some() {
                types[self.problem.pool[state]] = wanted;
            }
        }
        types
    }

    pub(crate) fn flat(&self, amounts: &Amounts) -> Room {
        self.dims.iter().map(|dim| get(amounts, *dim).max(0)).collect()
    }

    /// The state's index; `None` where there are too many.
    pub(crate) fn state(&mut self, tables: &mut Tables, state: State) -> Option<usize> {
        if let Some(known) = self.ids.get(&state) {
            return Some(*known);
        }
        if self.states.len() >= MAX_STATES {
            return None;
        }
        let table = self.table(tables, state);
        let pool = self.pools.iter().position(|pool| *pool == state.0).unwrap_or_else(|| {
            self.pools.push(state.0);
            self.pools.len() - 1
        });
        let at = self.states.len();
        self.states.push(state);
        self.ids.insert(state, at);
        self.problem.tables.push(table);
        self.problem.pool.push(pool);
        Some(at)
    }

    fn table(&self, tables: &mut Tables, (pool, req): State) -> Table {
        let within = self.pass.limits.rows_within(tables, pool);
        let buys = tables.pools[pool].buys(&tables.universe, req);
        let keys = tables.pools[pool].min_values.clone();
        let (mut seen, mut columns) = (Bits::default(), Vec::new());
        let mut spot = false;
        for buy in buys.iter() {
            let row = tables.row(pool, buy.row);
            spot |= &*row.offers[buy.offer].capacity_type == SPOT;
            if seen.has(buy.row) || !within.has(buy.row) {
                continue;
            }
            seen.insert(buy.row);
            let values = keys.iter().map(|(key, _)| {
                let set = tables.universe.get(row.req, *key).filter(|set| !set.complement);
                set.map_or_else(Vec::new, |set| set.values.to_vec())
            });
            columns.push(Column {
                row: buy.row,
                price: buy.price.nanos(),
                free: self.dims.iter().map(|dim| get(&row.free, *dim)).collect(),
                of: row.first,
                values: values.collect(),
            });
        }
        let flexibility = &tables.rules.flexibility;
        let choice = Choice {
            types: if spot { flexibility.spot } else { flexibility.on_demand },
            min_values: keys.iter().map(|(_, wanted)| *wanted).collect(),
            named: tables.rules.max_instance_types,
        };
        Table::new(columns, self.dims.len(), choice)
    }

    /// Adds a new NodeClaim of the pass; `false` where it cannot be added to.
    fn base(&mut self, tables: &mut Tables, at: NewClaimId) -> bool {
        let claim = &self.pass.claims[at];
        let used = self.flat(&claim.used);
        let Some(state) = self.state(tables, (claim.pool, claim.req)) else { return false };
        let types = self.problem.tables[state].wanted(&used);
        if self.problem.tables[state].price(&used, types).is_none() {
            return false;
        }
        self.problem.bases.push(Base { state, used, types });
        true
    }

    /// Works out which state a claim reaches with a pod of each eligibility. New states are found on the way.
    pub(crate) fn join(&mut self, tables: &mut Tables, eligibilities: &[Eligibility]) {
        let mut at = 0;
        while at < self.states.len() {
            let (pool, req) = self.states[at];
            let mut row = Vec::with_capacity(eligibilities.len());
            for eligibility in eligibilities {
                let at_home = eligibility.templates.iter().any(|(template, _)| *template == pool);
                let met =
                    if at_home { tables.universe.meet(req, eligibility.req, Side::Claim) } else { None };
                row.push(met.and_then(|met| self.state(tables, (pool, met))));
            }
            self.problem.join.push(row);
            at += 1;
        }
        for row in &mut self.problem.join {
            for state in row {
                *state = state.filter(|state| !self.problem.tables[*state].is_empty());
            }
        }
    }

    /// Adds a kind of pods; `false` where none of its templates has a table that can serve it.
    fn kind(
        &mut self,
        eligibility: usize,
        asked: &Eligibility,
        requests: &Amounts,
        count: usize,
        lanes: &mut IndexMap<LaneKey, Vec<usize>>,
    ) -> bool {
        let requests = self.flat(requests);
        let types = self.types(asked, &requests);
        let served = types.iter().any(|types| *types > 0);
        let Ok(count) = u32::try_from(count) else { return false };
        if served {
            let rare = requests.iter().skip(COMMON_DIMS).map(|amount| *amount > 0).collect();
            let entry = lanes.entry((eligibility, types.clone(), rare));
            let lane = entry.index();
            entry.or_default().push(self.problem.kinds.len());
            self.problem.kinds.push(Kind { requests, count, eligibility, lane, types });
        }
        served
    }

    /// Makes the lanes, those with the least choice first.
    fn lanes(&mut self, eligibilities: &[Eligibility], lanes: IndexMap<LaneKey, Vec<usize>>) {
        let mut made: Vec<(usize, Lane, Vec<usize>)> = Vec::new();
        for ((eligibility, types, _), kinds) in lanes {
            let least: Vec<i64> = (0..self.dims.len())
                .map(|dim| {
                    kinds.iter().map(|kind| self.problem.kinds[*kind].requests[dim]).min().unwrap_or(0)
                })
                .collect();
            let (mut sizes, mut choice) = (Vec::new(), 0);
            for template in &eligibilities[eligibility].templates {
                let Some(state) = self.ids.get(template) else { continue };
                let types = types[self.problem.pool[*state]];
                if types == 0 {
                    continue;
                }
                let table = &self.problem.tables[*state];
                choice += table.rows(&least).count();
                sizes.extend(table.sizes(&least, types).into_iter().map(|size| (*state, size)));
            }
            made.push((choice, Lane { eligibility, sizes }, kinds));
        }
        made.sort_by_key(|(choice, ..)| *choice);
        for (at, (_, lane, kinds)) in made.into_iter().enumerate() {
            for kind in kinds {
                self.problem.kinds[kind].lane = at;
            }
            self.problem.lanes.push(lane);
        }
    }
}
