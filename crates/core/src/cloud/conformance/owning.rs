//! Ownership of instances, and their termination.

use super::{
    Case, Failure, Fault, Harness, Verdict,
    support::{check, claim, good, launched, on_demand, request, runs_exactly},
};
use crate::{
    cloud::{CloudError, Instance, LaunchRequest, Termination},
    model::{NodeClaim, ProviderId},
};

pub(super) const CASES: [Case; 11] = [
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
    Case { name: "five thousand requests get five thousand answers", run: |h| Box::pin(many(h)) },
];

async fn one(harness: &dyn Harness, batch: &str) -> Result<(NodeClaim, Instance), Failure> {
    let mut claim = claim(harness, "a", batch, on_demand());
    let instance = launched(harness, &claim, 1).await?;
    claim.provider_id = Some(instance.provider_id.clone());
    Ok((claim, instance))
}

async fn told(harness: &dyn Harness) -> Verdict {
    let (_, instance) = one(harness, "told").await?;
    harness.advance(harness.consistency()).await;
    let read = good("get", harness.provider().get(&instance.provider_id).await)?;
    check(read == instance, || format!("launch told {instance:?}, get tells {read:?}"))
}

async fn never_was(harness: &dyn Harness) -> Verdict {
    let answer = harness.provider().get(&ProviderId::from("fake:///none/i-0")).await;
    check(matches!(answer, Err(CloudError::NotFound(_))), || format!("it is {answer:?}"))
}

async fn complete(harness: &dyn Harness) -> Verdict {
    let foreign = harness.foreign().await;
    let (_, first) = one(harness, "complete-1").await?;
    let (_, second) = one(harness, "complete-2").await?;
    runs_exactly(harness, &[&first, &second]).await?;
    let listed = good("list", harness.provider().list().await)?;
    let uid = harness.cluster_uid();
    for instance in listed {
        check(instance.cluster_uid.as_ref() == Some(&uid) && instance.provider_id != foreign, || {
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
    harness.inject(Fault::LoseTerminateAnswer).await;
    let answer = harness.provider().terminate(&claim, &instance.provider_id).await;
    check(answer.is_err(), || format!("a lost answer is {answer:?}"))?;
    end(harness, &claim, &instance.provider_id).await
}

async fn end_nothing(harness: &dyn Harness) -> Verdict {
    let id = ProviderId::from("fake:///none/i-0");
    let mut claim = claim(harness, "a", "nothing", on_demand());
    claim.provider_id = Some(id.clone());
    let answer = harness.provider().terminate(&claim, &id).await;
    check(matches!(answer, Ok(Termination::Gone) | Err(CloudError::NotFound(_))), || {
        format!("it is {answer:?}")
    })
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
    match harness.provider().get(&id).await {
        Ok(instance) => check(!instance.terminating, || "it is ending all the same".to_owned()),
        Err(error) => Err(Failure(format!("it is gone all the same: {error}"))),
    }
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
    let answer = good("get", harness.provider().get(&id).await)?;
    check(!answer.terminating, || "it is ending all the same".to_owned())
}

async fn many(harness: &dyn Harness) -> Verdict {
    const COUNT: usize = 5000;
    let requests: Vec<LaunchRequest> = (0..COUNT)
        .map(|n| request(&claim(harness, &format!("many-{n:04}"), "many", on_demand()), 1))
        .collect();
    let answers = harness.provider().launch(&requests).await;
    check(answers.len() == COUNT, || format!("{} answers", answers.len()))?;
    for (request, answer) in requests.iter().zip(&answers) {
        let claim = answer.as_ref().ok().and_then(|instance| instance.claim.as_ref());
        check(claim.is_none_or(|claim| *claim == request.claim.name), || {
            format!("{} was answered for {claim:?}", request.claim.name)
        })?;
    }
    Ok(())
}
