//! Several classes: what one of them says applies to it alone.

use super::{
    Case, Failure, Harness, Verdict,
    support::{
        catalog, catalog_of, check, claim, good, launched, on_demand, owned, runs_exactly, truth, zones,
    },
};
use crate::model::{NodeClaim, Str};

pub(super) const CASES: [Case; 4] = [
    Case { name: "a class that is not ready holds up no other", run: |h| Box::pin(other_ready(h)) },
    Case { name: "a class restricts the catalogue of its pools", run: |h| Box::pin(catalogue(h)) },
    Case { name: "a class restricts the instances of its claims", run: |h| Box::pin(instances(h)) },
    Case { name: "a changed class drifts its own instances", run: |h| Box::pin(drift(h)) },
];

/// A claim of the second class.
fn of_second(harness: &dyn Harness, name: &str, batch: &str) -> NodeClaim {
    NodeClaim { class: harness.second_class(), ..claim(harness, name, batch, on_demand()) }
}

fn second_zones(harness: &dyn Harness) -> Result<Vec<Str>, Failure> {
    harness.second_class_zones().ok_or(Failure::NotApplicable("classes do not restrict zones"))
}

async fn other_ready(harness: &dyn Harness) -> Verdict {
    harness.set_class_ready(false).await;
    let instance = launched(harness, &of_second(harness, "a", "second"), 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn catalogue(harness: &dyn Harness) -> Verdict {
    let allowed = second_zones(harness)?;
    let (first, second) = (catalog(harness).await?, catalog_of(harness, harness.second_class()).await?);
    check(zones(&second) == allowed, || {
        format!("the class allows {allowed:?}, its catalogue has {:?}", zones(&second))
    })?;
    check(zones(&first).len() > allowed.len(), || "the other class is restricted as well".to_owned())
}

async fn instances(harness: &dyn Harness) -> Verdict {
    let allowed = second_zones(harness)?;

    let catalog = catalog(harness).await?;
    for (n, zone) in zones(&catalog).iter().enumerate() {
        let mut claim = of_second(harness, &format!("c{n}"), &format!("class-{n}"));
        claim.requirements.add(super::support::only(crate::model::labels::ZONE, zone));
        let answer = super::support::launch(harness, &claim, 1).await?;
        if allowed.contains(zone) {
            let instance = good("launch", answer)?;
            let real = truth(harness, &instance.provider_id).await?;
            check(real.zone == *zone, || format!("it runs in {}", real.zone))?;
        } else {
            check(answer.is_err(), || format!("it was launched in {zone}, the class allows {allowed:?}"))?;
        }
    }
    Ok(())
}

async fn drift(harness: &dyn Harness) -> Verdict {
    let (before, _) = owned(harness, claim(harness, "a", "before", on_demand())).await?;
    let (other, _) = owned(harness, of_second(harness, "b", "other")).await?;
    harness.advance(harness.consistency()).await;
    if !harness.change_class().await {
        return Err(Failure::NotApplicable("instances never drift"));
    }
    let (after, _) = owned(harness, claim(harness, "c", "after", on_demand())).await?;
    harness.advance(harness.consistency()).await;
    for (claim, drifted) in [(before, true), (other, false), (after, false)] {
        let drift = good("drift", harness.provider().drift(&claim).await)?;
        check(drift.is_some() == drifted, || {
            let expected = if drifted { "drifted" } else { "as its class says" };
            format!("the instance of {} is {expected}, and drift is {drift:?}", claim.name)
        })?;
    }
    Ok(())
}
