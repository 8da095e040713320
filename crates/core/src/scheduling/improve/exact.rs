//! The cheapest packing of equal pods, which is what one Deployment that grows asks for.
//!
//! What a node holds is then a number, and the problem a knapsack to be covered: with `p(c)` the least price of a
//! node that holds `c` pods, `best(n) = min over c of p(c) + best(n - c)`, where `best(n) = 0` for `n <= 0`
//! (Gilmore and Gomory, 1966). The work is pods times sizes; nothing is left to search for.

use crate::scheduling::{
    ids::{ItemId, SubproblemId, TemplateId},
    improve::{NODE_OVERHEAD, bins::Bin, problem::Problem, table::Room},
};

/// More steps than this are left to the search: a few milliseconds' worth.
const MAX_WORK: usize = 4_000_000;

/// A node that is filled with as many pods as its price allows.
#[derive(Clone, Debug)]
struct Load {
    template: TemplateId,
    pods: usize,
    /// With the overhead of a node.
    price: i64,
}

/// The nodes that hold `count` pods at the least price, the overhead of nodes included; `None` where pods
/// are not equal, where none can be bought, or where it would take too long.
pub(super) fn cheapest(problem: &Problem, count: u32) -> Option<Vec<Bin>> {
    let ([item], [_]) = (&*problem.items, &*problem.subproblems) else { return None };
    if !item.hostname.is_empty() {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let loads = loads(problem, count);
    if loads.is_empty() || loads.len().saturating_mul(count) > MAX_WORK {
        return None;
    }
    let mut best = vec![0_i64; count + 1];
    let mut choice = vec![0_usize; count + 1];
    for pods in 1..=count {
        let prices = loads.iter().map(|load| load.price.saturating_add(best[pods.saturating_sub(load.pods)]));
        let (index, price) = prices.enumerate().min_by_key(|(index, price)| (*price, *index))?;
        (best[pods], choice[pods]) = (price, index);
    }
    let mut bins = Vec::new();
    let mut remaining = count;
    while remaining > 0 {
        let load = &loads[choice[remaining]];
        let pods = load.pods.min(remaining);
        let used = used(&item.requests, pods);
        let content = [(ItemId::FIRST, u32::try_from(pods).ok()?)];
        let price = problem.price(load.template, &used, problem.types(load.template, &content))?;
        bins.push(problem.filled(load.template, &content, price));
        remaining -= pods;
    }
    Some(bins)
}

/// What can be bought: of those that cost the same or more, none holds fewer pods than another.
fn loads(problem: &Problem, count: usize) -> Vec<Load> {
    let item = &problem.items[ItemId::FIRST];
    let mut loads: Vec<Load> = Vec::new();
    for (template, size) in &problem.subproblems[SubproblemId::FIRST].sizes {
        let Some(template) = problem.join(*template, ItemId::FIRST) else { continue };
        let amounts = item.requests.iter().zip(&size.room).filter(|(amount, _)| **amount > 0);
        let most = amounts.map(|(amount, room)| room / amount).min();
        let pods = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(0).min(count);
        let types = problem.types(template, &[(ItemId::FIRST, 1)]);
        let price = problem.price(template, &used(&item.requests, pods), types);
        if let (1.., Some(price)) = (pods, price) {
            loads.push(Load { template, pods, price: price.saturating_add(NODE_OVERHEAD) });
        }
    }
    loads.sort_by_key(|load| (load.price, std::cmp::Reverse(load.pods), load.template));
    let mut held = 0;
    loads.retain(|load| {
        let more = load.pods > held;
        held = held.max(load.pods);
        more
    });
    // Of choices that cost the same, the one with fewer and larger nodes.
    loads.reverse();
    loads
}

/// What so many pods take.
fn used(requests: &Room, pods: usize) -> Room {
    let pods = i64::try_from(pods).unwrap_or(i64::MAX);
    requests.iter().map(|amount| amount.saturating_mul(pods)).collect()
}

#[cfg(test)]
mod tests {
    //! Against all ways to divide the pods.
    use proptest::prelude::*;

    use super::*;
    use crate::scheduling::{
        ids::{EligibilityId, Id, NodePoolId},
        improve::{
            patterns::Patterns,
            problem::{HostnameRules, Item, Subproblem, Template},
            table::{Choice, Column, Table},
        },
        tables::intern::ANY,
    };

    /// Nodes as (price in cents, CPU, memory), for `count` pods of one CPU and some memory.
    fn problem(nodes: &[(i64, i64, i64)], memory: i64, count: u32, types: usize) -> Problem {
        let columns = nodes.iter().enumerate().map(|(row, (cents, cpu, memory))| Column {
            row: Id::new(row),
            price: cents * 10_000_000,
            free: [*cpu, *memory].into_iter().collect(),
            of: Id::new(row),
            values: Vec::new(),
        });
        let choice = Choice { types, min_values: Vec::new(), named: 60 };
        let requests: Room = [1, memory].into_iter().collect();
        let table = Table::new(columns.collect(), 2, choice);
        let sizes = table.sizes(&requests, types).into_iter().map(|size| (TemplateId::FIRST, size)).collect();
        let eligibility = EligibilityId::FIRST;
        let pool = NodePoolId::FIRST;
        let join = vec![Some(TemplateId::FIRST)].into();
        let item = Item {
            requests,
            count,
            eligibility,
            subproblem: SubproblemId::FIRST,
            types: vec![types].into(),
            hostname: HostnameRules::default(),
        };
        Problem {
            dims: 2,
            items: vec![item].into(),
            templates: vec![Template { pool, req: ANY, table, join }].into(),
            eligibilities: vec![vec![TemplateId::FIRST]].into(),
            subproblems: vec![Subproblem { eligibility, sizes }].into(),
        }
    }

    /// The price by trying everything, the overhead of nodes included.
    fn tried(problem: &Problem, count: usize) -> Option<i64> {
        let price = |pods: usize| {
            let item = &problem.items[ItemId::FIRST];
            problem.price(TemplateId::FIRST, &used(&item.requests, pods), item.types[NodePoolId::FIRST])
        };
        let mut best = vec![Some(0_i64)];
        for pods in 1..=count {
            let ways = (1..=pods).filter_map(|own| Some(price(own)? + NODE_OVERHEAD + best[pods - own]?));
            best.push(ways.min());
        }
        best[count]
    }

    fn price_with_overhead(bins: &[Bin]) -> i64 {
        bins.iter().map(|bin| bin.price + NODE_OVERHEAD).sum()
    }

    proptest! {
        #[test]
        fn it_is_the_cheapest(
            nodes in proptest::collection::vec((1_i64..100, 1_i64..20, 1_i64..60), 1..8),
            memory in 0_i64..5,
            count in 1_u32..40,
            types in 1_usize..3,
        ) {
            let problem = problem(&nodes, memory, count, types);
            let bins_found = cheapest(&problem, count);
            let pods = bins_found.iter().flatten().flat_map(|bin| &bin.content).map(|(_, pods)| pods).sum::<u32>();
            prop_assert!(bins_found.is_none() || pods == count);
            let oracle = tried(&problem, usize::try_from(count).unwrap());
            prop_assert_eq!(bins_found.as_deref().map(price_with_overhead), oracle);
            let mut remaining = problem.counts();
            let bins = Patterns::new(&problem).first(&mut remaining);
            if let Some(oracle) = oracle {
                prop_assert_eq!((price_with_overhead(&bins), remaining[ItemId::FIRST]), (oracle, 0));
            }
        }
    }

    #[test]
    fn a_rest_is_packed_at_the_least_price() {
        // Ten pods: an eight and a two, not two eights.
        let problem = problem(&[(10, 2, 8), (19, 4, 16), (36, 8, 32)], 4, 10, 1);
        let held = |bins: &[Bin]| bins.iter().map(|bin| bin.content[0].1).collect::<Vec<_>>();
        let mut pods = held(&cheapest(&problem, 10).unwrap());
        pods.sort_unstable();
        assert_eq!(pods, [2, 8]);
    }
}
