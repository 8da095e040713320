//! Calls of the cloud that fail: a failure is an error of the right kind, and proves nothing about instances.

use std::time::Duration;

use super::{
    CallFault, Case, Fault, Harness, Operation, Verdict,
    support::{
        check, claim, fleet, good, inject, launch, launched, on_demand, owned, request, runs_exactly,
        still_runs,
    },
};
use crate::cloud::{CloudError, LaunchError, LaunchRequest};

pub(super) const CASES: [Case; 8] = [
    Case { name: "a get that fails is an error and not the end of an instance", run: |h| Box::pin(get(h)) },
    Case { name: "a list that fails is an error", run: |h| Box::pin(list(h)) },
    Case { name: "a termination that fails is an error and ends nothing", run: |h| Box::pin(terminate(h)) },
    Case { name: "the end of an orphan that fails is an error", run: |h| Box::pin(orphan(h)) },
    Case { name: "a launch that is not permitted fails and launches nothing", run: |h| Box::pin(denied(h)) },
    Case { name: "a launch above a quota names it and launches nothing", run: |h| Box::pin(quota(h)) },
    Case { name: "a list has all pages, or it fails", run: |h| Box::pin(pages(h)) },
    Case { name: "a failure is not drift", run: |h| Box::pin(not_drift(h)) },
];

/// What the controllers tell apart.
const FAULTS: [CallFault; 3] = [CallFault::Fail, CallFault::Throttle, CallFault::Deny];
/// Longer than a provider holds calls back after a refused one.
const RECOVERY: Duration = Duration::from_secs(120);

/// Whether an error is that of a fault.
fn is_of(fault: CallFault, error: &CloudError) -> bool {
    match fault {
        CallFault::Throttle => matches!(error, CloudError::RateLimited { after } if !after.is_zero()),
        CallFault::Deny => matches!(error, CloudError::Unauthorized { .. }),
        CallFault::Fail | CallFault::LoseAnswer => matches!(error, CloudError::Unavailable(_)),
    }
}

/// Checks the answer of a call that met a fault, removes the fault and lets the provider recover.
async fn of_fault<T: std::fmt::Debug>(
    harness: &dyn Harness,
    (operation, fault): (Operation, CallFault),
    answer: Result<T, CloudError>,
) -> Verdict {
    harness.heal().await;
    harness.advance(RECOVERY).await;
    let expected = answer.as_ref().is_err_and(|error| is_of(fault, error));
    check(expected, || format!("{fault:?} of the cloud's {operation:?} is {answer:?}"))
}

async fn get(harness: &dyn Harness) -> Verdict {
    let instance = launched(harness, &claim(harness, "a", "get", on_demand()), 1).await?;
    harness.advance(harness.consistency()).await;
    let (provider, id) = (harness.provider(), &instance.provider_id);
    for fault in FAULTS {
        inject(harness, Fault::Call(Operation::Get, fault)).await?;
        let answer = provider.get(id).await;
        of_fault(harness, (Operation::Get, fault), answer).await?;
        good("get", provider.get(id).await)?;
    }
    Ok(())
}

async fn list(harness: &dyn Harness) -> Verdict {
    let instance = launched(harness, &claim(harness, "a", "list", on_demand()), 1).await?;
    harness.advance(harness.consistency()).await;
    for fault in FAULTS {
        inject(harness, Fault::Call(Operation::List, fault)).await?;
        let answer = harness.provider().list().await;
        of_fault(harness, (Operation::List, fault), answer).await?;
        runs_exactly(harness, &[&instance]).await?;
    }
    Ok(())
}

async fn terminate(harness: &dyn Harness) -> Verdict {
    let (claim, instance) = owned(harness, claim(harness, "a", "terminate", on_demand())).await?;
    harness.advance(harness.consistency()).await;
    let (provider, id) = (harness.provider(), &instance.provider_id);
    for fault in FAULTS {
        inject(harness, Fault::Call(Operation::Terminate, fault)).await?;
        let answer = provider.terminate(&claim, id).await;
        of_fault(harness, (Operation::Terminate, fault), answer).await?;
        still_runs(harness, id).await?;
    }
    good("terminate", provider.terminate(&claim, id).await)?;
    runs_exactly(harness, &[]).await
}

async fn orphan(harness: &dyn Harness) -> Verdict {
    let instance = launched(harness, &claim(harness, "a", "orphan", on_demand()), 1).await?;
    harness.advance(harness.consistency()).await;
    let (provider, id) = (harness.provider(), &instance.provider_id);
    for fault in FAULTS {
        inject(harness, Fault::Call(Operation::Terminate, fault)).await?;
        let answer = provider.terminate_orphan(id).await;
        of_fault(harness, (Operation::Terminate, fault), answer).await?;
        still_runs(harness, id).await?;
    }
    good("terminate orphan", provider.terminate_orphan(id).await)?;
    runs_exactly(harness, &[]).await
}

async fn denied(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "denied", on_demand());
    inject(harness, Fault::Call(Operation::Launch, CallFault::Deny)).await?;
    // No earlier call can have launched anything.
    let first = LaunchRequest { first_call: true, ..request(&claim, 1) };
    let answers = harness.provider().launch(std::slice::from_ref(&first)).await;
    let failed = |answer: &Result<_, LaunchError>| matches!(answer, Err(LaunchError::Failed { .. }));
    check(answers.len() == 1 && answers.iter().all(failed), || format!("it is {answers:?}"))?;
    runs_exactly(harness, &[]).await?;
    harness.heal().await;
    harness.advance(RECOVERY).await;
    let instance = launched(harness, &claim, 2).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn quota(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "quota", on_demand());
    inject(harness, Fault::Quota).await?;
    let answer = launch(harness, &claim, 1).await?;
    let named = matches!(&answer, Err(LaunchError::QuotaExceeded { quota, .. }) if !quota.is_empty());
    check(named, || format!("a launch above a quota is {answer:?}"))?;
    runs_exactly(harness, &[]).await?;
    harness.heal().await;
    harness.advance(RECOVERY).await;
    let instance = launched(harness, &claim, 2).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn pages(harness: &dyn Harness) -> Verdict {
    let requests = fleet(harness, "pages", 2 * harness.page_size() + 1);
    let answers: Result<Vec<_>, LaunchError> =
        harness.provider().launch(&requests).await.into_iter().collect();
    let launched = good("launch", answers)?;
    runs_exactly(harness, &launched.iter().collect::<Vec<_>>()).await?;
    if harness.page_size() == 1 {
        return Ok(()); // The list has no pages.
    }
    inject(harness, Fault::BreakPage).await?;
    let answer = harness.provider().list().await;
    check(answer.is_err(), || {
        let count = answer.as_ref().map_or(0, Vec::len);
        format!("the second page fails, and the list has {count} of {} instances", launched.len())
    })?;
    harness.heal().await;
    harness.advance(RECOVERY).await;
    runs_exactly(harness, &launched.iter().collect::<Vec<_>>()).await
}

async fn not_drift(harness: &dyn Harness) -> Verdict {
    let (claim, _) = owned(harness, claim(harness, "a", "drift", on_demand())).await?;
    harness.advance(harness.consistency()).await;
    for fault in FAULTS {
        inject(harness, Fault::Call(Operation::Get, fault)).await?;
        let answer = harness.provider().drift(&claim).await;
        harness.heal().await;
        harness.advance(RECOVERY).await;
        check(!matches!(answer, Ok(Some(_)) | Err(CloudError::NotFound(_))), || {
            format!("the cloud's {fault:?} of get is {answer:?}")
        })?;
    }
    Ok(())
}
