//! The plan that the controller reaches in several passes.
//!
//! A NodeClaim that is not launched yet counts against the limits of its NodePool as the largest instance type that it may become.
//! So the first pass may refuse pods that the next one places, once the NodeClaims are launched and count as what they are. The
//! passes are repeated here: each launches the NodeClaims of the one before as the offerings that were chosen for them.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api::{self as api, Condition, ConditionStatus, labels as names};
use fleetwright_controllers::runtime::Names;
use fleetwright_core::{
    model::{Labels, Price, Snapshot, labels},
    scheduling::{Eliminated, NewClaim, Plan, Unplaced},
};
use fleetwright_state::raise::{self, Identity};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::input::load::Loaded;

/// The most passes. Each but the last creates a NodeClaim; what is left afterwards is reported as unschedulable.
const MAX_PASSES: usize = 50;
/// The seed of the names of NodeClaims that are launched here; no report has them.
const SEED: u64 = 0x5eed;

/// A NodeClaim of an earlier pass.
struct Created {
    name: String,
    new_claim: NewClaim,
}

/// Repeats `pass` until limits refuse no pod because of NodeClaims that are not launched.
pub(crate) fn passes(
    loaded: &mut Loaded,
    now: Timestamp,
    mut pass: impl FnMut(&Arc<Snapshot>) -> Plan,
) -> Plan {
    let names = Names::new(SEED);
    let mut created: Vec<Created> = Vec::new();
    let mut bound = Price::ZERO;
    let mut number = 1;
    loop {
        let mut plan = pass(&loaded.index.snapshot(now));
        // No plan for some of the pods can cost less, so none for all of them can.
        bound = bound.max(plan.cost.lower_bound);
        if number == MAX_PASSES || plan.new_claims.is_empty() || !is_held_by_reservations(&plan) {
            plan.cost.lower_bound = bound;
            return merged(plan, created);
        }
        for new_claim in plan.new_claims {
            let name = format!("{}-{}", new_claim.pool.name, names.suffix(12));
            if launch(loaded, &new_claim, &name, now).is_some() {
                created.push(Created { name, new_claim });
            }
        }
        number += 1;
    }
}

/// Whether a pod is refused by a limit of which NodeClaims before their launch take a part.
fn is_held_by_reservations(plan: &Plan) -> bool {
    plan.unplaced.iter().any(|(_, why)| match why {
        Unplaced::NoPoolFits(verdicts) => verdicts
            .iter()
            .any(|verdict| matches!(verdict.eliminated, Eliminated::Limit { reserved, .. } if reserved > 0)),
        _ => false,
    })
}

/// Puts the NodeClaim into the index, launched as its chosen offering. `None` if its NodePool or instance type is not in the input.
fn launch(loaded: &mut Loaded, new_claim: &NewClaim, name: &str, now: Timestamp) -> Option<()> {
    let pool = loaded.index.pool(&new_claim.pool.name)?;
    let chosen = &new_claim.chosen;
    let instance_type =
        new_claim.instance_types.iter().find(|instance_type| instance_type.name == chosen.instance_type)?;
    let offering = instance_type.offerings.iter().find(|offering| {
        offering.zone().is_none_or(|zone| *zone == chosen.zone)
            && offering.capacity_type().is_none_or(|capacity_type| *capacity_type == chosen.capacity_type)
    })?;
    let identity =
        Identity { name: name.to_owned(), batch: name, position: 0, cluster_uid: &loaded.cluster_uid };
    let mut claim = raise::claim(new_claim, pool, &new_claim.pods, identity);
    claim.metadata.uid = Some(name.to_owned());
    claim.metadata.creation_timestamp = Some(Time(now));
    let all = claim.metadata.labels.get_or_insert_default();
    let mut described: Labels = instance_type.requirements.labels();
    described.extend(offering.requirements.labels());
    described.insert(labels::INSTANCE_TYPE.into(), chosen.instance_type.clone());
    for (key, value) in &described {
        all.insert(key.to_string(), value.to_string());
    }
    let launched = Condition {
        type_: names::condition::LAUNCHED.to_owned(),
        status: ConditionStatus::True,
        reason: names::condition::LAUNCHED.to_owned(),
        last_transition_time: Some(Time(now)),
        ..Condition::default()
    };
    claim.status = Some(api::NodeClaimStatus {
        capacity: raise::quantities(&instance_type.capacity),
        allocatable: raise::quantities(&instance_type.allocatable_of(offering)),
        provider_id: format!("plan://{name}"),
        conditions: vec![launched],
        ..api::NodeClaimStatus::default()
    });
    loaded.index.apply(claim);
    Some(())
}

/// The last plan with the NodeClaims of all passes, which have the pods that they end with.
fn merged(mut plan: Plan, created: Vec<Created>) -> Plan {
    if created.is_empty() {
        return plan;
    }
    let mut ends: BTreeMap<String, Vec<_>> = BTreeMap::new();
    plan.existing.retain(|placement| {
        let name = placement.node.claim_name().map(ToString::to_string).unwrap_or_default();
        let is_ours = created.iter().any(|created| created.name == name);
        if is_ours {
            ends.insert(name, placement.pods.clone());
        }
        !is_ours
    });
    let later = std::mem::take(&mut plan.new_claims);
    for Created { name, mut new_claim } in created {
        let pods = ends.remove(&name).unwrap_or_default();
        for pod in pods.iter().filter(|pod| !new_claim.pods.iter().any(|known| known.uid == pod.uid)) {
            new_claim.requests.add_assign(pod.requests());
        }
        new_claim.pods = pods;
        plan.new_claims.push(new_claim);
    }
    plan.new_claims.extend(later);
    plan.cost.hourly = plan.new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    plan.cost.effective = plan.new_claims.iter().map(|new_claim| new_claim.chosen.effective).sum();
    plan
}
