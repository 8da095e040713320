//! A finished pass as a plan.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    model::{
        InstanceType, Labels, Pod, Requirement, Requirements, Str,
        labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, REGISTERED, RESERVED},
    },
    scheduling::{
        explain::unplaced::Explained,
        greedy::pass::{Outcome, Pass},
        ids::{Host, Id, IdVec, InstanceTypeId, NodeId, NodePoolId, PodClassId, PodId, ReservationId},
        new_claim::is_preferred_against,
        placement::{Placement, claim::Claim},
        plan::{self, Chosen, NewClaim, Plan},
        reason::{Eliminated, PoolVerdict, Unplaced},
        request::Request,
        tables::{
            Tables,
            amounts::{Amounts, update},
            bits::Bits,
            intern::{Key, Req, Universe},
            pools::{FiniteCapacity, PricedOffer, template_labels},
        },
    },
};

/// The number of cached claim terms.
const MAX_MEMO: usize = 2_000;
/// The maximum number of nodes whose obstacles are computed in one pass, some milliseconds of work.
const MAX_ASKED: usize = 100_000;
/// The annotation of a claim whose minValues were lowered.
const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// The annotation of a claim that a NodeOverlay priced.
const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// The annotation of a claim whose capacity a NodeOverlay extended.
const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// The plan of a pass.
pub(crate) fn plan(
    tables: &Tables,
    placement: &Placement,
    memo: &mut TermsCache,
    pass: &Pass,
    (request, classes): (&Request<'_>, &IdVec<PodId, PodClassId>),
    unplaced: Vec<(PodId, Outcome)>,
) -> Plan {
    let mut plan = Plan { partial: pass.exhausted, ..Plan::default() };
    let pod = |claim_id: &PodId| Arc::clone(&request.pods[claim_id.position()]);
    let devices = pass.devices.as_deref();
    let placed = pass.placed.iter().map(|(node, pods)| (tables.positions[*node], *node, pods));
    let mut placed: Vec<(usize, NodeId, &Vec<PodId>)> = placed.collect();
    placed.sort_unstable_by_key(|(position, ..)| *position);
    for (position, node, pods) in placed {
        plan.existing.push(plan::Placement {
            node: Arc::clone(&tables.snapshot.nodes[position]),
            pods: pods.iter().map(pod).collect(),
            claims: devices.map_or_else(Vec::new, |devices| devices.planned(tables, Host::Node(node), None)),
        });
    }
    for (claim_id, claim) in pass.claims.entries() {
        let terms = terms_of(tables, memo, claim);
        match &*terms {
            Ok(terms) => {
                let mut new_claim = new_claim(tables, claim, terms, request.pods);
                if let Some(devices) = devices {
                    let host = Host::NewClaim(claim_id);
                    new_claim.claim_devices(devices.planned(tables, host, Some(claim)));
                }
                plan.new_claims.push(new_claim);
            }
            Err(eliminated) => {
                let pool = tables.pools[claim.pool].model.name.clone();
                let verdict =
                    Unplaced::NoPoolFits([PoolVerdict { pool, eliminated: eliminated.clone() }].into());
                plan.unplaced.extend(claim.pods.iter().map(|claim_id| (pod(claim_id), verdict.clone())));
            }
        }
    }
    explain_unplaced(tables, placement, pass, (request, classes), unplaced, &mut plan);
    plan.unplaced.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id).then_with(|| a.uid.cmp(&b.uid)));
    plan.cost.hourly = plan.new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    plan.cost.effective = plan.new_claims.iter().map(|new_claim| new_claim.chosen.effective).sum();
    plan
}

/// Returns the terms of a claim, from the cache if it has those of an equal one.
fn terms_of(tables: &Tables, memo: &mut TermsCache, claim: &Claim) -> Arc<Result<ClaimTerms, Eliminated>> {
    let key = (claim.pool, claim.req, claim.rows.clone(), claim.reserved.clone(), claim.min_values.clone());
    if let Some(known) = memo.0.get(&key) {
        return Arc::clone(known);
    }
    let terms = Arc::new(terms(tables, claim));
    if memo.0.len() >= MAX_MEMO {
        memo.0.clear();
    }
    memo.0.insert(key, Arc::clone(&terms));
    terms
}

/// Adds the pods without a placement to the plan, each with its reason.
fn explain_unplaced(
    tables: &Tables,
    placement: &Placement,
    pass: &Pass,
    (request, classes): (&Request<'_>, &IdVec<PodId, PodClassId>),
    unplaced: Vec<(PodId, Outcome)>,
    plan: &mut Plan,
) {
    let pod = |pod_id: &PodId| Arc::clone(&request.pods[pod_id.position()]);
    let explained = |pod_id: PodId| Explained::new(tables, placement, pass, classes[pod_id]);
    let mut verdicts: HashMap<PodClassId, Unplaced> = HashMap::new();
    let (mut obstacles, mut budget) = (HashMap::new(), MAX_ASKED);
    for (pod_id, outcome) in unplaced {
        let verdict = match outcome {
            Outcome::Reserved => Unplaced::ReservedCapacityTaken,
            Outcome::NotReached => Unplaced::NotReached,
            _ => verdicts.entry(classes[pod_id]).or_insert_with(|| explained(pod_id).verdict()).clone(),
        };
        if matches!(verdict, Unplaced::NoPoolFits(_)) {
            let known = obstacles.entry(classes[pod_id]);
            let known = known.or_insert_with(|| explained(pod_id).obstacles(&mut budget).map(Arc::new));
            plan.nodes.extend(known.as_ref().map(|known| (pod(&pod_id).uid.clone(), Arc::clone(known))));
        }
        plan.unplaced.push((pod(&pod_id), verdict));
    }
}

/// Terms of claims by their key.
#[derive(Debug, Default)]
pub(crate) struct TermsCache(HashMap<TermsKey, Arc<Result<ClaimTerms, Eliminated>>>);

/// Everything that the terms of a claim depend on: pool, requirements, rows, reservations, minValues.
type TermsKey =
    (NodePoolId, Req, Bits<InstanceTypeId>, SmallVec<[ReservationId; 1]>, SmallVec<[(Key, u32); 1]>);

/// The part of a new NodeClaim that does not depend on its pods.
#[derive(Debug)]
pub(crate) struct ClaimTerms {
    instance_types: Arc<[Arc<InstanceType>]>,
    requirements: Requirements,
    labels: Labels,
    annotations: Labels,
    chosen: Chosen,
    /// What daemons take at least.
    daemons: Amounts,
}

/// The offerings that are left for a claim, cheapest first. Where it holds reservations, only those.
fn buys(tables: &Tables, claim: &Claim) -> Vec<PricedOffer> {
    let all = tables.pools[claim.pool].buys(&tables.universe, claim.req);
    let offer = |buy: &PricedOffer| &tables.row(claim.pool, buy.row).offers[buy.offer];
    let held = |buy: &&PricedOffer| {
        claim.rows.has(buy.row) && offer(buy).reservation.is_none_or(|id| claim.reserved.contains(&id))
    };
    let mut buys: Vec<PricedOffer> = all.iter().filter(held).copied().collect();
    if claim.reserved.iter().any(|id| tables.is_reservation(*id)) {
        buys.retain(|buy| offer(buy).reservation.is_some_and(|id| tables.is_reservation(id)));
    }
    // The launch goes by list prices: what it would prefer against the plan is not named.
    if let (Some(chosen), true) = (buys.first().copied(), claim.min_values.is_empty()) {
        buys.retain(|buy| !is_preferred_against(chosen.price, chosen.effective, buy.price, buy.effective));
    }
    buys
}

/// The terms of a claim, or why it has none.
fn terms(tables: &Tables, claim: &Claim) -> Result<ClaimTerms, Eliminated> {
    let buys = buys(tables, claim);
    let Some(cheapest) = buys.first() else { return Err(Eliminated::NoInstanceTypes(None)) };
    // Cheapest first, each type once, as many as a claim may name.
    let mut rows = Bits::default();
    let mut instance_types: Vec<Arc<InstanceType>> = Vec::new();
    let mut seen: Bits<InstanceTypeId> = Bits::default();
    for buy in buys.iter() {
        if rows.has(buy.row) {
            continue;
        }
        let row = tables.row(claim.pool, buy.row);
        if !seen.has(row.first) {
            if instance_types.len() == tables.rules.max_instance_types.max(1) {
                continue;
            }
            seen.insert(row.first);
            instance_types.push(Arc::clone(&row.instance_type));
        }
        rows.insert(buy.row);
    }
    // Rows are in the order of names: the set is built without sorting.
    let named: BTreeSet<Str> =
        rows.iter().map(|row| tables.row(claim.pool, row).instance_type.name.clone()).collect();
    for (key, wanted) in &claim.min_values {
        let distinct = tables.distinct(claim.pool, rows.iter(), *key, claim.req);
        if distinct < *wanted {
            let key = tables.universe.name(*key).clone();
            return Err(Eliminated::MinValues { key, wanted: *wanted, available: distinct });
        }
    }
    let daemons = rows.iter().map(|row| &tables.row(claim.pool, row).daemons);
    let named_buys: Vec<PricedOffer> = buys.iter().filter(|buy| rows.has(buy.row)).copied().collect();
    let row = tables.row(claim.pool, cheapest.row);
    let offer = &row.offers[cheapest.offer];
    Ok(ClaimTerms {
        daemons: daemons.cloned().reduce(minimum).unwrap_or_default(),
        requirements: requirements(tables, claim, &named, &named_buys),
        labels: labels(tables, claim),
        annotations: annotations(tables, claim, &named, &named_buys),
        chosen: Chosen {
            instance_type: row.instance_type.name.clone(),
            zone: offer.zone.clone(),
            capacity_type: offer.capacity_type.clone(),
            price: cheapest.price,
            effective: cheapest.effective,
        },
        instance_types: instance_types.into(),
    })
}

fn new_claim(tables: &Tables, claim: &Claim, terms: &ClaimTerms, pods: &[Arc<Pod>]) -> NewClaim {
    let pool = &tables.pools[claim.pool].model;
    let mut requests = claim.used.clone();
    update(&mut requests, &terms.daemons, i64::saturating_add);
    let mut annotations = terms.annotations.clone();
    if claim.relaxed {
        annotations.insert(MIN_VALUES_RELAXED.into(), "true".into());
    }
    NewClaim {
        labels: terms.labels.clone(),
        requirements: terms.requirements.clone(),
        chosen: terms.chosen.clone(),
        objective: tables.snapshot.objective,
        pool: Arc::clone(pool),
        instance_types: Arc::clone(&terms.instance_types),
        requests: tables.resources.resources(&requests),
        pods: claim.pods.iter().map(|pod_id| Arc::clone(&pods[pod_id.position()])).collect(),
        annotations,
        taints: pool.template.taints.clone(),
        startup_taints: pool.template.startup_taints.clone(),
        claims: Vec::new(),
    }
}

fn minimum(mut a: Amounts, b: Amounts) -> Amounts {
    update(&mut a, &b, i64::min);
    a
}

/// What the instance must be, with the types and capacity types that are left, and minValues as they stand.
fn requirements(tables: &Tables, claim: &Claim, named: &BTreeSet<Str>, buys: &[PricedOffer]) -> Requirements {
    let mut all = tables.universe.requirements(claim.req);
    // No NodeClaim may name what users may not set. What is left of such keys here is satisfied by their absence.
    let schema = tables.universe.schema();
    let restricted: Vec<Str> =
        all.iter().map(Requirement::key).filter(|key| schema.is_restricted(key)).cloned().collect();
    for key in restricted.iter().map(|key| &**key).chain([HOSTNAME]) {
        all.remove(key);
    }
    // Thousands of offerings, a handful of values.
    let mut capacity_types: BTreeSet<Str> = BTreeSet::new();
    for buy in buys {
        let text = &tables.row(claim.pool, buy.row).offers[buy.offer].capacity_type;
        if !text.is_empty() && !capacity_types.contains(text) {
            capacity_types.insert(text.clone());
        }
    }
    all.replace(Requirement::is_in(INSTANCE_TYPE, named.iter().cloned()));
    if capacity_types.contains(RESERVED)
        && let Some(key) = &tables.universe.schema().reservation_id
    {
        let ids =
            claim.reserved.iter().filter_map(|id| match tables.reservations.get_index(id.position())? {
                (FiniteCapacity::Reservation(name), _) => Some(name.clone()),
                (FiniteCapacity::Shared(_), _) => None,
            });
        all.replace(Requirement::is_in(key.clone(), ids));
    }
    if !capacity_types.is_empty() {
        all.replace(Requirement::is_in(CAPACITY_TYPE, capacity_types));
    }
    for (key, wanted) in &claim.min_values {
        let name = tables.universe.name(*key).clone();
        let present = all.get(&name).cloned().unwrap_or_else(|| Requirement::exists(name));
        all.replace(present.with_min_values(Some(*wanted)));
    }
    all
}

/// Which corrections by NodeOverlays the choice rests on.
fn annotations(tables: &Tables, claim: &Claim, named: &BTreeSet<Str>, buys: &[PricedOffer]) -> Labels {
    let priced = buys.iter().any(|buy| tables.row(claim.pool, buy.row).offers[buy.offer].overlaid);
    let catalog = tables.snapshot.catalog(&tables.pools[claim.pool].model.name);
    let extended = catalog.is_some_and(|catalog| named.iter().any(|name| catalog.overlaid.contains(name)));
    let marks = [(priced, PRICE_OVERLAY_APPLIED), (extended, CAPACITY_OVERLAY_APPLIED)];
    marks.into_iter().filter(|(is, _)| *is).map(|(_, key)| (key.into(), "true".into())).collect()
}

/// The pool's labels, and a value for every custom key that the requirements demand. What pods merely rule out needs no
/// label; what the pool names may be demanded by one pod and narrowed by another, so that it always gets one.
fn labels(tables: &Tables, claim: &Claim) -> Labels {
    let pool = &tables.pools[claim.pool];
    let mut labels = template_labels(&pool.model);
    let universe: &Universe = &tables.universe;
    for requirement in universe.requirements(claim.req).iter() {
        let key = requirement.key();
        let ours = [HOSTNAME, REGISTERED, INITIALIZED].contains(&&**key);
        if ours || universe.schema().is_well_known(key) || universe.schema().is_restricted(key) {
            continue;
        }
        let named = pool.model.template.requirements.contains_key(key);
        if let Some(value) = requirement.any().or_else(|| named.then(|| requirement.unnamed()).flatten()) {
            labels.entry(key.clone()).or_insert(value);
        }
    }
    labels
}
