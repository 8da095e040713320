//! Reserved capacity: offerings that hold a fixed number of instances.

use super::{
    Case, Failure, Harness, Verdict,
    support::{catalog, check, claim, good, launch, launched, only},
};
use crate::model::{
    NodeClaim, Offering, Str,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, RESERVED},
};

pub(super) const CASES: [Case; 2] = [
    Case { name: "a reserved offering tells its reservation and what is left", run: |h| Box::pin(told(h)) },
    Case { name: "reserved capacity is launched as reserved, as far as it goes", run: |h| Box::pin(used(h)) },
];

/// The key of reservations, and the reserved offerings with their types.
async fn reserved(harness: &dyn Harness) -> Result<(Str, Vec<(Str, Offering)>), Failure> {
    const NONE: Failure = Failure::NotApplicable("nothing is reserved");
    let catalog = catalog(harness).await?;
    let offerings = catalog.instance_types.iter().flat_map(|instance_type| {
        instance_type.offerings.iter().map(|offering| (instance_type.name.clone(), offering.clone()))
    });
    let found: Vec<(Str, Offering)> = offerings.filter(|(_, offering)| offering.is_reserved()).collect();
    let key = harness.provider().info().schema.reservation_id.clone();
    match key {
        _ if found.is_empty() => Err(NONE),
        Some(key) => Ok((key, found)),
        None => Err(Failure::Broken(
            "offerings are reserved, and the schema names no label with the reservation".to_owned(),
        )),
    }
}

async fn told(harness: &dyn Harness) -> Verdict {
    let (_, found) = reserved(harness).await?;
    let provider = harness.provider();
    for (name, offering) in found {
        check(offering.reservation_id(&provider.info().schema).is_some(), || {
            format!("a reserved offering of {name} names no reservation")
        })?;
        let Some(left) = offering.reservation_capacity else {
            return Err(Failure::Broken(format!("a reserved offering of {name} does not tell what is left")));
        };
        check(left > 0 || !offering.available, || format!("{name} has nothing left and is available"))?;
    }
    Ok(())
}

/// A claim for nothing but a reserved offering.
fn claim_of(harness: &dyn Harness, name: &str, (instance_type, offering): &(Str, Offering)) -> NodeClaim {
    let mut claim = claim(harness, name, name, offering.requirements.clone());
    claim.requirements.add(only(INSTANCE_TYPE, instance_type));
    claim
}

async fn used(harness: &dyn Harness) -> Verdict {
    /// More would take long, and show nothing more.
    const SMALL: u32 = 20;
    let (key, found) = reserved(harness).await?;
    let left = |offering: &Offering| offering.reservation_capacity.filter(|left| *left <= SMALL);
    let small = found.iter().filter(|(_, offering)| offering.available);
    let chosen = small.filter_map(|one| Some((one, left(&one.1)?))).min_by_key(|(_, left)| *left);
    let Some((offering, left)) = chosen else {
        return Err(Failure::NotApplicable("no small reservation has room"));
    };
    for number in 0..left {
        let claim = claim_of(harness, &format!("reserved-{number}"), offering);
        let instance = launched(harness, &claim, 1).await?;
        let label = |key: &str| instance.labels.get(key).cloned();
        check(label(CAPACITY_TYPE).as_deref() == Some(RESERVED), || {
            format!("an instance of a reservation tells the capacity type {:?}", label(CAPACITY_TYPE))
        })?;
        let id = offering.1.requirements.get(&key).and_then(|wanted| wanted.single().cloned());
        check(label(&key) == id, || format!("it tells the reservation {:?}, not {id:?}", label(&key)))?;
        let truth = harness.ground_truth().await;
        let runs = truth.iter().find(|known| known.provider_id == instance.provider_id);
        check(runs.is_some_and(|known| &*known.capacity_type == RESERVED), || {
            format!("the cloud runs it as {:?}", runs.map(|known| &known.capacity_type))
        })?;
    }
    let beyond = launch(harness, &claim_of(harness, "beyond", offering), 1).await?;
    check(beyond.is_err(), || format!("a reservation of {left} holds one more: {beyond:?}"))?;
    harness.advance(harness.consistency()).await;
    let listed = good("list", harness.provider().list().await)?.len();
    check(u32::try_from(listed) == Ok(left), || {
        format!("{left} instances were launched, {listed} are listed")
    })
}
