//! Ownership of instances, and their termination.

use std::collections::BTreeSet;

use super::{
    CallFault, Case, Failure, Fault, Harness, Operation, Verdict,
    support::{check, claim, fleet, good, inject, on_demand, owned, runs_beside, runs_exactly, still_runs},
};
use crate::{
    cloud::{CloudError, Instance, Termination},
    model::{NodeClaim, ProviderId},
};

pub(super) const CASES: [Case; 13] = [
    Case { name: "get tells what launch told", run: |h| Box::pin(told(h)) },
    Case { name: "get of what never was is not found", run: |h| Box::pin(never_was(h)) },
    Case { name: "list is complete and ours alone", run: |h| Box::pin(complete(h)) },
    Case { name: "nothing is drifted right after launch", run: |h| Box::pin(not_drifted(h)) },
    Case { name: "termination is repeated until gone, and gone for good", run: |h| Box::pin(terminated(h)) },
    Case { name: "a termination whose answer was lost is repeated", run: |h| Box::pin(lost_termination(h)) },
    Case { name: "ending what never was is no error that repeats", run: |h| Box::pin(end_nothing(h)) },
    Case { name: "another cluster's instance is never ended", run: |h| Box::pin(foreign(h)) },
    Case { name: "an orphan is ended, and again until it is gone", run: |h| Box::pin(orphan(h)) },
    Case { name: "another cluster's instance is no orphan", run: |h| Box::pin(foreign_orphan(h)) },
    Case { name: "an instance that nobody owns is no orphan", run: |h| Box::pin(unowned_orphan(h)) },
    Case { name: "a terminating instance is listed as such", run: |h| Box::pin(listed_terminating(h)) },
    Case { name: "five thousand requests get five thousand instances", run: |h| Box::pin(many(h)) },
];

/// An id of no cloud.
const MALFORMED: &str = "not-an-id";

async fn one(harness: &dyn Harness, batch: &str) -> Result<(NodeClaim, Instance), Failure> {
    owned(harness, claim(harness, "a", batch, on_demand())).await
}

async fn told(harness: &dyn Harness) -> Verdict {
    let (_, instance) = one(harness, "told").await?;
    harness.advance(harness.consistency()).await;
    let read = good("get", harness.provider().get(&instance.provider_id).await)?;
    check(read == instance, || format!("launch told {instance:?}, get tells {read:?}"))
}

async fn never_was(harness: &dyn Harness) -> Verdict {
    let answer = harness.provider().get(&harness.unknown_id()).await;
    check(matches!(answer, Err(CloudError::NotFound(_))), || format!("it is {answer:?}"))?;
    let answer = harness.provider().get(&MALFORMED.into()).await;
    check(matches!(answer, Err(CloudError::NotFound(_) | CloudError::Invalid { .. })), || {
        format!("{MALFORMED} is {answer:?}")
    })
}

async fn complete(harness: &dyn Harness) -> Verdict {
    let (foreign, unowned) = (harness.foreign().await, harness.unowned().await);
    let (_, first) = one(harness, "complete-1").await?;
    let (_, second) = one(harness, "complete-2").await?;
    runs_beside(harness, &[&first, &second], &[&foreign, &unowned]).await?;
    let listed = good("list", harness.provider().list().await)?;
    let uid = harness.cluster_uid();
    for instance in listed {
        check(instance.cluster_uid.as_ref() == Some(&uid), || {
            format!("{} of cluster {:?} is listed", instance.provider_id, instance.cluster_uid)
        })?;
    }
    Ok(())
}

async fn not_drifted(harness: &dyn Harness) -> Verdict {
    let (claim, _) = one(harness, "drift").await?;
    harness.advance(harness.consistency()).await;
    let drift = good("drift", harness.provider().drift(&claim).await)?;
    check(drift.is_none(), || format!("a new instance is drifted: {drift:?}"))
}

/// Ends an instance: asks, waits, and asks again until it is gone.
async fn end(harness: &dyn Harness, claim: &NodeClaim, id: &ProviderId) -> Verdict {
    harness.advance(harness.termination()).await;
    let answer = good("terminate", harness.provider().terminate(claim, id).await)?;
    check(answer == Termination::Gone, || format!("after its time the instance is {answer:?}"))
}

async fn terminated(harness: &dyn Harness) -> Verdict {
    let (claim, instance) = one(harness, "terminated").await?;
    let (provider, id) = (harness.provider(), &instance.provider_id);
    good("terminate", provider.terminate(&claim, id).await)?;
    good("terminate again", provider.terminate(&claim, id).await)?;
    end(harness, &claim, id).await?;
    let answer = provider.get(id).await;
    check(matches!(answer, Err(CloudError::NotFound(_))), || {
        format!("get of a gone instance is {answer:?}")
    })?;
    runs_exactly(harness, &[]).await
}

async fn lost_termination(harness: &dyn Harness) -> Verdict {
    let (claim, instance) = one(harness, "lost-termination").await?;
    inject(harness, Fault::Call(Operation::Terminate, CallFault::LoseAnswer)).await?;
    let answer = harness.provider().terminate(&claim, &instance.provider_id).await;
    check(answer.is_err(), || format!("a lost answer is {answer:?}"))?;
    end(harness, &claim, &instance.provider_id).await
}

async fn end_nothing(harness: &dyn Harness) -> Verdict {
    for (id, malformed) in [(harness.unknown_id(), false), (MALFORMED.into(), true)] {
        let mut claim = claim(harness, "a", "nothing", on_demand());
        claim.provider_id = Some(id.clone());
        let answer = harness.provider().terminate(&claim, &id).await;
        let ends = matches!(answer, Ok(Termination::Gone) | Err(CloudError::NotFound(_)));
        let refuses = malformed && matches!(answer, Err(CloudError::Invalid { .. }));
        check(ends || refuses, || format!("{id} is {answer:?}"))?;
    }
    Ok(())
}

async fn foreign(harness: &dyn Harness) -> Verdict {
    let id = harness.foreign().await;
    harness.advance(harness.consistency()).await;
    // Even if a NodeClaim of this cluster names it.
    let mut claim = claim(harness, "a", "foreign", on_demand());
    claim.provider_id = Some(id.clone());
    let answer = harness.provider().terminate(&claim, &id).await;
    check(matches!(answer, Err(CloudError::NotOwned { .. })), || format!("it is {answer:?}"))?;
    harness.advance(harness.termination()).await;
    still_runs(harness, &id).await
}

async fn orphan(harness: &dyn Harness) -> Verdict {
    let (_, instance) = one(harness, "orphan").await?;
    let (provider, id) = (harness.provider(), &instance.provider_id);
    good("terminate orphan", provider.terminate_orphan(id).await)?;
    good("terminate orphan again", provider.terminate_orphan(id).await)?;
    harness.advance(harness.termination()).await;
    let answer = good("terminate orphan", harness.provider().terminate_orphan(id).await)?;
    check(answer == Termination::Gone, || format!("after its time the orphan is {answer:?}"))?;
    runs_exactly(harness, &[]).await
}

async fn foreign_orphan(harness: &dyn Harness) -> Verdict {
    let id = harness.foreign().await;
    harness.advance(harness.consistency()).await;
    let answer = harness.provider().terminate_orphan(&id).await;
    check(matches!(answer, Err(CloudError::NotOwned { .. })), || format!("it is {answer:?}"))?;
    harness.advance(harness.termination()).await;
    still_runs(harness, &id).await
}

async fn unowned_orphan(harness: &dyn Harness) -> Verdict {
    let id = harness.unowned().await;
    harness.advance(harness.consistency()).await;
    let answer = harness.provider().terminate_orphan(&id).await;
    check(matches!(answer, Err(CloudError::NotOwned { .. })), || format!("it is {answer:?}"))?;
    harness.advance(harness.termination()).await;
    still_runs(harness, &id).await
}

async fn listed_terminating(harness: &dyn Harness) -> Verdict {
    let (claim, instance) = one(harness, "listed").await?;
    harness.advance(harness.consistency()).await;
    let answer = good("terminate", harness.provider().terminate(&claim, &instance.provider_id).await)?;
    let ids: Vec<ProviderId> =
        harness.ground_truth().await.into_iter().map(|known| known.provider_id).collect();
    if answer == Termination::Gone || !ids.contains(&instance.provider_id) {
        return Err(Failure::NotApplicable("instances are gone at once"));
    }
    let listed = good("list", harness.provider().list().await)?;
    let found = listed.iter().find(|known| known.provider_id == instance.provider_id);
    check(found.is_some_and(|known| known.terminating), || {
        format!("the cloud still has it, and the list has {found:?}")
    })
}

async fn many(harness: &dyn Harness) -> Verdict {
    const COUNT: usize = 5000;
    let requests = fleet(harness, "many", COUNT);
    let answers = harness.provider().launch(&requests).await;
    check(answers.len() == COUNT, || format!("{} answers", answers.len()))?;
    let mut instances = Vec::new();
    for (request, answer) in requests.iter().zip(answers) {
        let instance = good("launch", answer)?;
        check(instance.claim.as_ref().is_none_or(|claim| *claim == request.claim.name), || {
            format!("{} was answered for {:?}", request.claim.name, instance.claim)
        })?;
        instances.push(instance);
    }
    let ids: BTreeSet<&ProviderId> = instances.iter().map(|instance| &instance.provider_id).collect();
    check(ids.len() == COUNT, || format!("{COUNT} requests got {} instances", ids.len()))?;
    runs_exactly(harness, &instances.iter().collect::<Vec<_>>()).await
}
