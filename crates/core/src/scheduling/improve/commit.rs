//! What the search found, as new NodeClaims: items become pods again.

use std::{cmp::Reverse, collections::VecDeque};

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{Id, IdVec, InstanceTypeId, ItemId, NewClaimId, NodePoolId, PodClassId, PodId},
    improve::{bins::Bin, members::Members},
    placement::{claim::Claim, limits::Limits},
    tables::{
        Tables,
        amounts::{Amounts, get, update},
        bits::Bits,
    },
};

/// Replaces the new NodeClaims that were packed again; those that were not, or not changed, stay as they are. Returns `false`, and
/// changes nothing, where limits of NodePools do not allow it.
pub(super) fn commit(
    pass: &mut Pass,
    tables: &Tables,
    classes: &IdVec<PodId, PodClassId>,
    members: Members,
    bins: Vec<Bin>,
) -> bool {
    let Members { problem, claims, pods, mut limits, .. } = members;
    let kept: Bits<NewClaimId> = bins.iter().filter_map(|bin| bin.origin).collect();
    let replaced: Bits<NewClaimId> =
        claims.iter().map(|(claim_id, _)| *claim_id).filter(|claim_id| !kept.has(*claim_id)).collect();
    for claim in kept.iter().map(|claim_id| &pass.claims[claim_id]) {
        limits.iter_mut().for_each(|limits| limits.add(claim.pool, &claim.charged, -1));
    }
    let moving: Bits<PodId> =
        replaced.iter().flat_map(|claim_id| pass.claims[claim_id].pods.iter().copied()).collect();
    let stock = pods.iter().map(|pods| pods.iter().copied().filter(|pod| moving.has(*pod)).collect());
    let mut stock: IdVec<ItemId, VecDeque<PodId>> = stock.collect();
    let mut created = Vec::new();
    let mut by_size = HashMap::new();
    let mut bins: Vec<Bin> = bins.into_iter().filter(|bin| bin.origin.is_none()).collect();
    bins.sort_by_key(|bin| Reverse(bin.price));
    for bin in bins {
        let template = &problem.templates[bin.template];
        let rows = template.table.rows(&bin.used).collect();
        let types = problem.types(bin.template, &bin.content);
        let rows = match &limits {
            Some(limits) => affordable(limits, tables, template.pool, (rows, types), &mut by_size),
            None => Some(rows),
        };
        let Some(rows) = rows else { return false };
        let mut own: SmallVec<[PodId; 8]> = SmallVec::new();
        for (item, count) in &bin.content {
            own.extend((0..*count).filter_map(|_| stock[*item].pop_front()));
        }
        // The same sum that placing them one by one would give.
        let mut used = Amounts::new();
        for pod in &own {
            update(&mut used, &tables.classes[classes[*pod]].requests, i64::saturating_add);
        }
        let charge = |limits: &mut Limits| limits.charge(tables, template.pool, &rows);
        let charged = limits.as_mut().map(charge).unwrap_or_default();
        created.push(Claim {
            req: template.req,
            used,
            rows,
            pods: own,
            min_values: tables.pools[template.pool].min_values.clone().into(),
            charged,
            ..Claim::new(template.pool)
        });
    }
    if let Some(limits) = limits {
        pass.limits = limits;
    }
    pass.claims_before = pass.claims_before.max(pass.claims.len());
    let mut claim_id = 0;
    pass.claims.items_mut().retain(|_| {
        claim_id += 1;
        !replaced.has(Id::new(claim_id - 1))
    });
    pass.claims.items_mut().extend(created);
    true
}

/// The rows that a claim may name within what is left of its pool's limits. A claim is charged with the largest, so
/// that under a limit it names no larger one than it needs for its choice of types.
fn affordable(
    limits_left: &Limits,
    tables: &Tables,
    pool: NodePoolId,
    (rows, types): (Bits<InstanceTypeId>, usize),
    by_size: &mut HashMap<NodePoolId, Vec<InstanceTypeId>>,
) -> Option<Bits<InstanceTypeId>> {
    let remaining = limits_left.amounts(pool);
    if limits_left.allows_no_node(pool) {
        return None;
    }
    let limits = &tables.pools[pool].limits;
    if limits.is_empty() {
        return Some(rows);
    }
    let capacity = |row: InstanceTypeId, resource: usize| get(&tables.row(pool, row).capacity, resource);
    let within = |row: &InstanceTypeId| {
        limits.iter().zip(remaining).all(|(limit, remaining)| capacity(*row, limit.resource) <= *remaining)
    };
    let by_size = by_size.entry(pool).or_insert_with(|| {
        let mut all: Vec<InstanceTypeId> = tables.pools[pool].rows.ids().collect();
        let sizes = |row: InstanceTypeId| limits.iter().map(move |limit| capacity(row, limit.resource));
        all.sort_by_cached_key(|row| (sizes(*row).collect::<Vec<i64>>(), *row));
        all
    });
    let needed = by_size.iter().copied().filter(|row| rows.has(*row) && within(row));
    let needed: Vec<InstanceTypeId> = needed.collect();
    let mut count = types.max(1);
    let min_values = &tables.pools[pool].min_values;
    let all = &needed;
    let kept = |count: usize| -> Bits<InstanceTypeId> {
        let needed = &all[..count.min(all.len())];
        let most = |limit: usize| needed.iter().map(|row| capacity(*row, limits[limit].resource)).max();
        let most: Vec<Option<i64>> = (0..limits.len()).map(most).collect();
        let small = |row: &InstanceTypeId| {
            limits.iter().zip(&most).all(|(limit, most)| Some(capacity(*row, limit.resource)) <= *most)
        };
        all.iter().copied().filter(small).collect()
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
