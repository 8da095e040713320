//! Problems from pods: templates with their tables, what a NodeClaim becomes with another pod, and subproblems.

use hashbrown::HashMap;
use indexmap::IndexMap;

use crate::{
    model::labels::SPOT,
    scheduling::{
        bound::KINDS_MAX,
        ids::{EligibilityId, Id, IdVec, ItemId, NodePoolId, SubproblemId, TemplateId},
        improve::{
            problem::{HostnameRules, Item, Problem, Subproblem, Template},
            table::{Choice, Column, Room, Table},
        },
        placement::limits::Limits,
        tables::{
            Tables,
            amounts::{Amounts, get},
            bits::Bits,
            intern::{Req, Side},
            pools::agrees,
        },
    },
};

/// More templates than this are not looked at: the ways in which pods with different eligibilities can share a NodeClaim are
/// many.
const MAX_TEMPLATES: usize = 64;
/// CPU and memory: every node has them.
const COMMON_DIMS: usize = 2;

/// What a pod asks of labels, and the NodePools that it may go to, with the requirements of a new NodeClaim there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Eligibility {
    pub(super) req: Req,
    pub(super) templates: Vec<(NodePoolId, Req)>,
}

/// Distinguishes items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ItemKey {
    pub(super) requests: Amounts,
    pub(super) eligibility: EligibilityId,
    pub(super) hostname: HostnameRules,
}

/// A problem under construction.
struct Builder<'a> {
    limits: &'a Limits,
    /// The resources that pods ask for.
    dims: Vec<usize>,
    problem: Problem,
    ids: HashMap<(NodePoolId, Req), TemplateId>,
}

/// The problem of some items, of which there are `counts` pods each. `limits` is what is left of the limits of NodePools.
pub(super) fn problem(
    tables: &Tables,
    limits: &Limits,
    eligibilities: &[Eligibility],
    (items, counts): (impl IntoIterator<Item = ItemKey> + Clone, &IdVec<ItemId, u32>),
    thorough: bool,
) -> Problem {
    let mut dims: Vec<usize> = Vec::new();
    for ItemKey { requests, .. } in items.clone() {
        dims.extend((0..requests.len()).filter(|dim| requests[*dim] > 0));
    }
    dims.sort_unstable();
    dims.dedup();
    let problem = Problem { dims: dims.len(), ..Problem::default() };
    let mut builder = Builder { limits, dims, problem, ids: HashMap::new() };
    for eligibility in eligibilities {
        let templates = eligibility.templates.iter();
        let templates = templates.filter_map(|template| builder.template(tables, *template)).collect();
        builder.problem.eligibilities.push(templates);
    }
    builder.join(tables, eligibilities);
    let mut subproblems = IndexMap::new();
    for (key, count) in items.into_iter().zip(counts) {
        builder.item(tables, key, *count, &mut subproblems);
    }
    // Only patterns are priced by them, and finding the sizes takes longer than the rest.
    if builder.problem.suits_patterns() || (thorough && counts.len() <= KINDS_MAX) {
        builder.subproblems(subproblems);
    }
    builder.problem
}

/// Items of one subproblem: their eligibility, the types that they must keep by NodePool, the rarer resources that they need.
type SubproblemKey = (EligibilityId, Vec<usize>, Vec<bool>);

impl Builder<'_> {
    fn flat(&self, amounts: &Amounts) -> Room {
        self.dims.iter().map(|dim| get(amounts, *dim).max(0)).collect()
    }

    /// The id of a template; `None` where there are too many.
    fn template(&mut self, tables: &Tables, (pool, req): (NodePoolId, Req)) -> Option<TemplateId> {
        if let Some(known) = self.ids.get(&(pool, req)) {
            return Some(*known);
        }
        if self.problem.templates.len() >= MAX_TEMPLATES {
            return None;
        }
        let table = self.table(tables, pool, req);
        let template = self.problem.templates.push(Template { pool, req, table, join: IdVec::default() });
        self.ids.insert((pool, req), template);
        Some(template)
    }

    /// The instance types of a template, but those that may be had by a reservation: whether one is held is not decided here.
    fn table(&self, tables: &Tables, pool: NodePoolId, req: Req) -> Table {
        let within = self.limits.rows_within(tables, pool);
        let buys = tables.pools[pool].buys(&tables.universe, req);
        let keys = tables.pools[pool].min_values.clone();
        let (mut seen, mut columns) = (Bits::default(), Vec::new());
        let mut spot = false;
        for buy in buys.iter() {
            let row = tables.row(pool, buy.row);
            let mut offers = row.offers.iter().filter(|offer| offer.reservation.is_some());
            if offers.any(|offer| agrees(&tables.universe, offer.req, req)) {
                continue;
            }
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
                price: buy.effective.nanos(),
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

    /// Works out which template a NodeClaim reaches with a pod of each eligibility. New templates are found on the way.
    fn join(&mut self, tables: &Tables, eligibilities: &[Eligibility]) {
        let mut next = TemplateId::FIRST;
        while let Some(Template { pool, req, .. }) = self.problem.templates.get(next) {
            let (pool, req) = (*pool, *req);
            let mut join = IdVec::default();
            for eligibility in eligibilities {
                let own = eligibility.templates.iter().any(|(template, _)| *template == pool);
                let met = if own { tables.universe.meet(req, eligibility.req, Side::Claim) } else { None };
                join.push(met.and_then(|met| self.template(tables, (pool, met))));
            }
            self.problem.templates[next].join = join;
            next = next.next();
        }
        let templates = &mut self.problem.templates;
        let empty: Bits<TemplateId> =
            templates.ids().filter(|template| templates[*template].table.is_empty()).collect();
        for join in templates.iter_mut().flat_map(|template| &mut template.join) {
            *join = join.filter(|template| !empty.has(*template));
        }
    }

    /// Adds an item.
    fn item(
        &mut self,
        tables: &Tables,
        key: ItemKey,
        count: u32,
        subproblems: &mut IndexMap<SubproblemKey, Vec<ItemId>>,
    ) {
        let ItemKey { requests, eligibility, hostname } = key;
        let requests = self.flat(&requests);
        // By NodePool: how many types a NodeClaim must keep that holds such a pod; zero where none could.
        let mut types = vec![0; tables.pools.len()];
        for template in &self.problem.eligibilities[eligibility] {
            let Template { pool, table, .. } = &self.problem.templates[*template];
            let wanted = table.wanted(&requests);
            if table.price(&requests, wanted).is_some() {
                types[pool.position()] = wanted;
            }
        }
        let rare = requests.iter().skip(COMMON_DIMS).map(|amount| *amount > 0).collect();
        let entry = subproblems.entry((eligibility, types.clone(), rare));
        let subproblem = SubproblemId::new(entry.index());
        let item = Item { requests, count, eligibility, subproblem, types: types.into(), hostname };
        entry.or_default().push(self.problem.items.push(item));
    }

    /// Makes the subproblems, those with the least choice first.
    fn subproblems(&mut self, subproblems: IndexMap<SubproblemKey, Vec<ItemId>>) {
        let mut made: Vec<(usize, Subproblem, Vec<ItemId>)> = Vec::new();
        for ((eligibility, types, _), items) in subproblems {
            let least: Vec<i64> = (0..self.dims.len())
                .map(|dim| {
                    items.iter().map(|item| self.problem.items[*item].requests[dim]).min().unwrap_or(0)
                })
                .collect();
            let (mut sizes, mut choice) = (Vec::new(), 0);
            for template in &self.problem.eligibilities[eligibility] {
                let Template { pool, table, .. } = &self.problem.templates[*template];
                let types = types[pool.position()];
                if types == 0 {
                    continue;
                }
                choice += table.rows(&least).count();
                sizes.extend(table.sizes(&least, types).into_iter().map(|size| (*template, size)));
            }
            made.push((choice, Subproblem { eligibility, sizes }, items));
        }
        made.sort_by_key(|(choice, ..)| *choice);
        for (_, subproblem, items) in made {
            let id = self.problem.subproblems.push(subproblem);
            for item in items {
                self.problem.items[item].subproblem = id;
            }
        }
    }
}
