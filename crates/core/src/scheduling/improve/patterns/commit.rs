//! A packing as claims of the pass.

use std::collections::VecDeque;

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{IdVec, InstanceTypeId, NewClaimId, NodePoolId, PodClassId, PodId},
    improve::{
        commit::{Stock, new_claim, requests},
        patterns::{
            build::State,
            problem::{Bin, Problem},
        },
    },
    tables::{
        Tables,
        amounts::{get, update},
        bits::Bits,
    },
};

/// A packing, and what its parts stand for.
pub(super) struct Packing<'a> {
    pub(super) problem: &'a Problem,
    pub(super) states: Vec<State>,
    /// By kind: the pods, in the order of the queue.
    pub(super) pods: Vec<Vec<PodId>>,
    /// By base: the claim.
    pub(super) claims: Vec<NewClaimId>,
    pub(super) bins: Vec<Bin>,
}

/// Opens the nodes of a packing; returns the pods that were left out or that limits keep out.
pub(super) fn commit(
    pass: &mut Pass,
    tables: &Tables,
    classes: &IdVec<PodId, PodClassId>,
    packing: Packing<'_>,
) -> Vec<PodId> {
    let Packing { problem, states, pods, claims, bins } = packing;
    let mut stock = Stock::new(pods.into_iter().map(VecDeque::from));
    let mut leftover = Vec::new();
    for bin in bins {
        let own = stock.take(&bin.content);
        let used = requests(tables, classes, &own);
        let rows: Bits<InstanceTypeId> = problem.tables[bin.state].rows(&bin.used).collect();
        let (pool, req) = states[bin.state];
        if let Some(base) = bin.base {
            let claim = &mut pass.claims[claims[base]];
            update(&mut claim.used, &used, i64::saturating_add);
            (claim.req, claim.rows) = (req, rows);
            claim.pods.extend(own);
            continue;
        }
        let types = problem.types(bin.state, bin.content.iter().map(|(kind, _)| *kind));
        let Some(rows) = affordable(pass, tables, pool, rows, types) else {
            leftover.extend(own);
            continue;
        };
        pass.limits.charge(tables, pool, &rows);
        pass.claims.push(new_claim(tables, (pool, req), own, used, rows));
    }
    leftover.extend(stock.left());
    if !leftover.is_empty() {
        pass.relist(tables);
    }
    leftover
}

/// The rows that a claim may name within what is left of its pool's limits. A claim is charged with the largest, so
/// that under a limit it names no larger one than it needs for its choice of types.
fn affordable(
    pass: &Pass,
    tables: &Tables,
    pool: NodePoolId,
    rows: Bits<InstanceTypeId>,
    types: usize,
) -> Option<Bits<InstanceTypeId>> {
    let left = pass.limits.amounts(pool);
    if pass.limits.allows_no_node(pool) {
        return None;
    }
    let limits = &tables.pools[pool].limits;
    if limits.is_empty() {
        return Some(rows);
    }
    let capacity = |row: InstanceTypeId, resource: usize| get(&tables.row(pool, row).capacity, resource);
    let within = |row: &InstanceTypeId| {
        limits.iter().zip(left).all(|(limit, left)| capacity(*row, limit.resource) <= *left)
    };
    let rows: Vec<InstanceTypeId> = rows.iter().filter(within).collect();
    let mut needed: Vec<InstanceTypeId> = rows.clone();
    needed.sort_by_key(|row| {
        let sizes = limits.iter().map(|limit| capacity(*row, limit.resource));
        (sizes.collect::<Vec<i64>>(), *row)
    });
    let mut count = types.max(1);
    let min_values = &tables.pools[pool].min_values;
    let kept = |count: usize| -> Bits<InstanceTypeId> {
        let needed = &needed[..count.min(needed.len())];
        let most = |limit: usize| needed.iter().map(|row| capacity(*row, limits[limit].resource)).max();
        let most: Vec<Option<i64>> = (0..limits.len()).map(most).collect();
        let small = |row: &InstanceTypeId| {
            limits.iter().zip(&most).all(|(limit, most)| Some(capacity(*row, limit.resource)) <= *most)
        };
        rows.iter().copied().filter(small).collect()
    };
    loop {
        let kept = kept(count);
        let req = tables.pools[pool].req;
        let lacks = |(key, wanted): &(_, u32)| tables.distinct(pool, kept.iter(), *key, req) < *wanted;
        if !kept.is_empty() && !min_values.iter().any(lacks) {
            return Some(kept);
        }
        if count >= needed.len() {
            return None;
        }
        count *= 2;
    }
}
