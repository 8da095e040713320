//! Calls that overlap, and calls that are dropped before they answer.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::{
    Call, Case, Failure, Fault, Harness, Verdict,
    support::{both, check, claim, fleet, good, inject, on_demand, owned, runs_exactly},
};
use crate::cloud::{Instance, LaunchError, concurrent::at_most};

pub(super) const CASES: [Case; 5] = [
    Case { name: "a launch that is not answered holds up no other", run: |h| Box::pin(one_by_one(h)) },
    Case { name: "two calls of one attempt at a time launch once", run: |h| Box::pin(concurrent(h)) },
    Case { name: "a launch that is dropped at any await is repeated", run: |h| Box::pin(dropped(h)) },
    Case {
        name: "a dropped launch is found by a restarted process",
        run: |h| Box::pin(dropped_restarted(h)),
    },
    Case { name: "a termination that is dropped is repeated", run: |h| Box::pin(dropped_termination(h)) },
];

/// More mutating calls than a launch of two instances makes.
const CALLS_MAX: u32 = 6;

/// Of three NodeClaims of one attempt, each with a call of its own, one is not answered.
async fn one_by_one(harness: &dyn Harness) -> Verdict {
    let provider = harness.provider();
    if !provider.info().launches_one_by_one {
        return Err(Failure::NotApplicable("a launch is a call for several NodeClaims"));
    }
    let requests = fleet(harness, "one-by-one", 3);
    inject(harness, Fault::Hang { after: 0 }).await?;
    // By rank.
    let answers: Mutex<BTreeMap<usize, Vec<Result<Instance, LaunchError>>>> = Mutex::default();
    let recorded = || answers.lock().unwrap_or_else(PoisonError::into_inner);
    let call = async {
        let mut calls: Vec<Call<'_>> = Vec::new();
        for request in &requests {
            calls.push(Box::pin(async {
                let answer = provider.launch(std::slice::from_ref(request)).await;
                recorded().insert(request.rank, answer);
            }));
        }
        at_most(requests.len(), calls).await;
    };
    harness.abandon(Box::pin(call)).await;
    let answered = recorded().len();
    check(answered == 2, || format!("{answered} of three launches are answered, where one call hangs"))?;
    harness.heal().await;
    let mut launched = Vec::new();
    for request in &requests {
        let answer = recorded().remove(&request.rank);
        let answer = match answer {
            Some(answer) => answer,
            None => provider.launch(std::slice::from_ref(request)).await,
        };
        launched.extend(all_good(answer)?);
    }
    runs_exactly(harness, &launched.iter().collect::<Vec<_>>()).await?;
    let listed = good("list", harness.provider().list().await)?;
    for (request, own) in requests.iter().zip(&launched) {
        let known = listed.iter().find(|known| known.provider_id == own.provider_id);
        let claim = known.and_then(|known| known.claim.as_ref());
        check(claim == Some(&request.claim.name), || {
            format!("{} was launched for {} and carries {claim:?}", own.provider_id, request.claim.name)
        })?;
    }
    Ok(())
}

fn all_good(answers: Vec<Result<Instance, LaunchError>>) -> Result<Vec<Instance>, Failure> {
    answers.into_iter().map(|answer| good("launch", answer)).collect()
}

async fn concurrent(harness: &dyn Harness) -> Verdict {
    let requests = fleet(harness, "concurrent", 2);
    let provider = harness.provider();
    // A call may be refused because of the other one; the next one is not.
    let (first, second) = both(provider.launch(&requests), provider.launch(&requests)).await;
    let ids =
        |answers: &[Instance]| -> Vec<_> { answers.iter().map(|one| one.provider_id.clone()).collect() };
    let third = all_good(provider.launch(&requests).await)?;
    for answers in [first, second] {
        let refused = answers
            .iter()
            .any(|answer| matches!(answer, Err(LaunchError::Unknown(_) | LaunchError::RateLimited { .. })));
        if !refused {
            let answers = ids(&all_good(answers)?);
            check(answers == ids(&third), || format!("{answers:?} became {:?}", ids(&third)))?;
        }
    }
    runs_exactly(harness, &third.iter().collect::<Vec<_>>()).await
}

/// Drops launches after each number of mutating calls, and repeats each.
async fn drop_and_repeat(harness: &dyn Harness, batch: &str, restart: bool) -> Verdict {
    let mut launched = Vec::new();
    for after in 0..CALLS_MAX {
        let requests = fleet(harness, &format!("{batch}-{after}"), 2);
        inject(harness, Fault::Hang { after }).await?;
        let provider = harness.provider();
        let call = async {
            provider.launch(&requests).await;
        };
        harness.abandon(Box::pin(call)).await;
        harness.heal().await;
        if restart {
            harness.restart().await;
        }
        launched.extend(all_good(harness.provider().launch(&requests).await)?);
    }
    runs_exactly(harness, &launched.iter().collect::<Vec<_>>()).await
}

async fn dropped(harness: &dyn Harness) -> Verdict {
    drop_and_repeat(harness, "dropped", false).await
}

async fn dropped_restarted(harness: &dyn Harness) -> Verdict {
    drop_and_repeat(harness, "restarted", true).await
}

async fn dropped_termination(harness: &dyn Harness) -> Verdict {
    let (claim, instance) = owned(harness, claim(harness, "a", "dropped", on_demand())).await?;
    inject(harness, Fault::Hang { after: 0 }).await?;
    let provider = harness.provider();
    let call = async {
        let _ = provider.terminate(&claim, &instance.provider_id).await;
    };
    harness.abandon(Box::pin(call)).await;
    harness.heal().await;
    good("terminate", provider.terminate(&claim, &instance.provider_id).await)?;
    runs_exactly(harness, &[]).await
}
