//! A finished pass as a plan.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Solver,
    amounts::{Amounts, get, update},
    bits::Bits,
    claim::Claim,
    intern::Universe,
    pass::{Outcome, Pass},
    pools::{Offer, agrees, template_labels},
};
use crate::{
    model::{
        Labels, Pod, Price, Requirement, Requirements, Str,
        labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, REGISTERED, RESERVED, ZONE},
    },
    scheduling::{Chosen, Eliminated, Opening, Placement, Plan, PoolVerdict, Request, Unplaced, bound},
};

/// The annotation of a claim whose minValues were lowered.
const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

/// The plan of a pass.
pub(super) fn plan(
    solver: &mut Solver,
    pass: &Pass,
    request: &Request<'_>,
    classes: &[usize],
    unplaced: Vec<(usize, Outcome)>,
) -> Plan {
    let mut plan = Plan { partial: pass.exhausted, ..Plan::default() };
    let pod = |at: &usize| Arc::clone(&request.pods[*at]);
    for (node, pods) in &pass.placed {
        plan.existing.push(Placement { node: *node, pods: pods.iter().map(pod).collect() });
    }
    for claim in &pass.claims {
        match opening(solver, claim, request.pods) {
            Ok(opening) => plan.openings.push(opening),
            Err(verdict) => {
                let verdict = Unplaced::NoPoolFits(vec![verdict]);
                plan.unplaced.extend(claim.pods.iter().map(|at| (pod(at), verdict.clone())));
            }
        }
    }
    let mut verdicts: hashbrown::HashMap<usize, Unplaced> = hashbrown::HashMap::new();
    for (at, outcome) in unplaced {
        let verdict = match outcome {
            Outcome::Reserved => Unplaced::ReservedCapacityTaken,
            _ if pass.exhausted && solver.classes[classes[at]].refused.is_none() => Unplaced::NotReached,
            _ => verdicts.entry(classes[at]).or_insert_with(|| solver.explain(pass, classes[at])).clone(),
        };
        plan.unplaced.push((pod(&at), verdict));
    }
    plan.unplaced.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id).then_with(|| a.uid.cmp(&b.uid)));
    plan.cost.hourly = plan.openings.iter().map(|opening| opening.chosen.price).sum();
    plan.cost.lower_bound = lower_bound(solver, pass, request, classes).min(plan.cost.hourly);
    plan
}

/// What a claim can be bought as: price, row and offering, cheapest first.
struct Buy<'a> {
    price: Price,
    row: usize,
    offer: &'a Offer,
}

/// The offerings that are left for a claim. Where it holds reservations, only those.
fn buys<'a>(solver: &'a Solver, claim: &Claim) -> Vec<Buy<'a>> {
    let mut buys: Vec<Buy<'a>> = Vec::new();
    for row in claim.rows.iter() {
        for offer in &solver.row(claim.pool, row).offers {
            let held = offer.reservation.is_none_or(|id| claim.reserved.contains(&id));
            if held && agrees(&solver.universe, offer.req, claim.req) {
                buys.push(Buy { price: offer.price, row, offer });
            }
        }
    }
    if buys.iter().any(|buy| buy.offer.reservation.is_some()) {
        buys.retain(|buy| buy.offer.reservation.is_some());
    }
    let rank = |buy: &Buy<'_>| (buy.price, buy.row);
    buys.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then_with(|| {
            (&a.offer.zone, &a.offer.capacity_type).cmp(&(&b.offer.zone, &b.offer.capacity_type))
        })
    });
    buys
}

fn opening(solver: &Solver, claim: &Claim, pods: &[Arc<Pod>]) -> Result<Opening, PoolVerdict> {
    let pool = &solver.pools[claim.pool];
    let refuse = |eliminated| PoolVerdict { pool: pool.model.name.clone(), eliminated };
    let buys = buys(solver, claim);
    let Some(cheapest) = buys.first() else { return Err(refuse(Eliminated::NoInstanceTypes)) };
    // Cheapest first, each type once, as many as a claim may name.
    let mut rows = Bits::default();
    let mut instance_types: Vec<Arc<_>> = Vec::new();
    let mut named = BTreeSet::new();
    for buy in &buys {
        let instance_type = &solver.row(claim.pool, buy.row).instance_type;
        if !named.contains(&instance_type.name) {
            if named.len() == solver.rules.max_instance_types.max(1) {
                continue;
            }
            named.insert(instance_type.name.clone());
            instance_types.push(Arc::clone(instance_type));
        }
        rows.insert(buy.row);
    }
    for (key, wanted) in &claim.min_values {
        let found = solver.distinct(claim.pool, rows.iter(), *key);
        if found < *wanted {
            let key = solver.universe.name(*key).clone();
            return Err(refuse(Eliminated::MinValues { key, wanted: *wanted, found }));
        }
    }
    let mut requests = claim.used.clone();
    let daemons = rows.iter().map(|row| &solver.row(claim.pool, row).daemons);
    if let Some(least) = daemons.cloned().reduce(minimum) {
        update(&mut requests, &least, i64::saturating_add);
    }
    let left: Vec<&Buy<'_>> = buys.iter().filter(|buy| rows.has(buy.row)).collect();
    let requirements = requirements(solver, claim, &named, &left);
    let mut annotations = Labels::new();
    if claim.relaxed {
        annotations.insert(MIN_VALUES_RELAXED.into(), "true".into());
    }
    Ok(Opening {
        labels: labels(solver, claim),
        requirements,
        chosen: Chosen {
            instance_type: solver.row(claim.pool, cheapest.row).instance_type.name.clone(),
            zone: cheapest.offer.zone.clone(),
            capacity_type: cheapest.offer.capacity_type.clone(),
            price: cheapest.price,
        },
        pool: Arc::clone(&pool.model),
        instance_types,
        requests: solver.resources.resources(&requests),
        pods: claim.pods.iter().map(|at| Arc::clone(&pods[*at])).collect(),
        annotations,
        taints: pool.model.template.taints.clone(),
        startup_taints: pool.model.template.startup_taints.clone(),
    })
}

fn minimum(mut a: Amounts, b: Amounts) -> Amounts {
    update(&mut a, &b, i64::min);
    a
}

/// What the instance must be, with the types, zones and capacity types that are left, and minValues as they stand.
fn requirements(solver: &Solver, claim: &Claim, named: &BTreeSet<Str>, left: &[&Buy<'_>]) -> Requirements {
    let mut all = solver.universe.requirements(claim.req);
    all.remove(HOSTNAME);
    let of = |value: fn(&Offer) -> &Str| -> BTreeSet<Str> {
        left.iter().map(|buy| value(buy.offer).clone()).filter(|text| !text.is_empty()).collect()
    };
    let capacity_types = of(|offer| &offer.capacity_type);
    let zones = of(|offer| &offer.zone);
    all.replace(Requirement::is_in(INSTANCE_TYPE, named.iter().cloned()));
    if !zones.is_empty() {
        all.replace(Requirement::is_in(ZONE, zones));
    }
    if capacity_types.contains(RESERVED)
        && let Some(key) = &solver.universe.schema().reservation_id
    {
        let ids = claim.reserved.iter().map(|id| solver.reservations.names[*id].clone());
        all.replace(Requirement::is_in(key.clone(), ids));
    }
    if !capacity_types.is_empty() {
        all.replace(Requirement::is_in(CAPACITY_TYPE, capacity_types));
    }
    for (key, wanted) in &claim.min_values {
        let name = solver.universe.name(*key).clone();
        let present = all.get(&name).cloned().unwrap_or_else(|| Requirement::exists(name));
        all.replace(present.with_min_values(Some(*wanted)));
    }
    all
}

/// The pool's labels, and custom keys whose value the requirements fix.
fn labels(solver: &Solver, claim: &Claim) -> Labels {
    let mut labels = template_labels(&solver.pools[claim.pool].model);
    let universe: &Universe = &solver.universe;
    for requirement in universe.requirements(claim.req).iter() {
        let key = requirement.key();
        let ours = [HOSTNAME, REGISTERED, INITIALIZED].contains(&&**key);
        if ours || universe.schema().is_well_known(key) || universe.schema().is_restricted(key) {
            continue;
        }
        if let Some(value) = requirement.any() {
            labels.entry(key.clone()).or_insert(value);
        }
    }
    labels
}

/// What the placed pods must cost at least, all of it on openings but what machines have room for.
fn lower_bound(solver: &mut Solver, pass: &Pass, request: &Request<'_>, classes: &[usize]) -> Price {
    if pass.claims.is_empty() {
        return Price::ZERO;
    }
    let mut demand = Amounts::new();
    for at in pass.claims.iter().flat_map(|claim| &claim.pods) {
        update(&mut demand, &solver.classes[classes[*at]].requests, i64::saturating_add);
    }
    // Another plan could put other pods onto the machines that there are: what is left there counts as free of charge.
    let mut distinct: Vec<usize> = (0..request.pods.len()).map(|at| classes[at]).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut usable = Bits::default();
    for class in distinct {
        for level in 0..solver.classes[class].levels.len() {
            for at in solver.fitting(class, level).iter() {
                usable.insert(at);
            }
        }
    }
    for at in usable.iter().filter(|at| pass.is_there(*at)) {
        let free = &solver.machines[at].free;
        for (slot, amount) in demand.iter_mut().enumerate() {
            *amount = amount.saturating_sub(get(free, slot).max(0));
        }
    }
    let mut columns = Vec::new();
    for pool in &solver.pools {
        for row in &pool.rows {
            if let Some(price) = row.offers.iter().map(|offer| offer.price).min() {
                columns.push((price, row.free.as_slice()));
            }
        }
    }
    bound::lower_bound(&demand, &columns)
}
