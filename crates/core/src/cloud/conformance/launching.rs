//! Launches: the requested instances, exactly once.

use std::collections::BTreeSet;

use super::{
    CallFault, Case, Failure, Fault, Harness, Operation, Verdict,
    support::{
        catalog, check, claim, good, inject, launch, launched, on_demand, only, request, runs_exactly, zones,
    },
};
use crate::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{
        NodeClaim, ProviderId, Requirements,
        labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, ZONE},
    },
};

pub(super) const CASES: [Case; 17] = [
    Case { name: "no request, no answer", run: |h| Box::pin(nothing(h)) },
    Case { name: "an instance is what its claim requires", run: |h| Box::pin(as_required(h)) },
    Case { name: "an instance tells type, zone and capacity type", run: |h| Box::pin(labelled(h)) },
    Case { name: "an instance carries claim, batch and cluster from birth", run: |h| Box::pin(tagged(h)) },
    Case { name: "the cheapest allowed offering is chosen", run: |h| Box::pin(cheapest(h)) },
    Case { name: "a repeated call launches nothing more", run: |h| Box::pin(repeated(h)) },
    Case { name: "a call whose answer was lost is repeated without effect", run: |h| Box::pin(lost(h)) },
    Case { name: "a restarted process finds what it launched", run: |h| Box::pin(restarted(h)) },
    Case { name: "a launch that failed unknown is retried to one instance", run: |h| Box::pin(failed(h)) },
    Case { name: "a throttled launch launches nothing", run: |h| Box::pin(throttled(h)) },
    Case { name: "a launch that is under way is asked for again", run: |h| Box::pin(under_way(h)) },
    Case { name: "answers stand in the order of requests", run: |h| Box::pin(ordered(h)) },
    Case { name: "instances without a claim belong to ranks by their ids", run: |h| Box::pin(ranked(h)) },
    Case { name: "what fails in one launch fails in no other", run: |h| Box::pin(partial(h)) },
    Case { name: "without capacity nothing is launched", run: |h| Box::pin(exhausted(h)) },
    Case { name: "impossible requirements launch nothing", run: |h| Box::pin(impossible(h)) },
    Case { name: "a class that is not ready launches nothing", run: |h| Box::pin(class_not_ready(h)) },
];

async fn nothing(harness: &dyn Harness) -> Verdict {
    let answers = harness.provider().launch(&[]).await;
    check(answers.is_empty(), || format!("{} answers to no request", answers.len()))
}

fn allowed(instance: &Instance, requirements: &Requirements) -> Verdict {
    for (key, value) in &instance.labels {
        check(requirements.allows(key, value), || format!("{key}={value} is not allowed by {requirements}"))?;
    }
    Ok(())
}

async fn as_required(harness: &dyn Harness) -> Verdict {
    let catalog = catalog(harness).await?;
    let zone = zones(&catalog).pop().ok_or_else(|| Failure::Broken("no zone is sold".to_owned()))?;
    let mut requirements = on_demand();
    requirements.add(only(ZONE, &zone));
    let wanted: Vec<_> = catalog
        .instance_types
        .iter()
        .filter(|t| t.cheapest(&requirements).is_some())
        .map(|t| t.name.clone())
        .take(3)
        .collect();
    requirements.add(crate::model::Requirement::is_in(INSTANCE_TYPE, wanted));
    let instance = launched(harness, &claim(harness, "a", "as-required", requirements.clone()), 1).await?;
    allowed(&instance, &requirements)?;
    let instance_type = instance.labels.get(INSTANCE_TYPE).and_then(|name| catalog.get(name));
    let instance_type =
        instance_type.ok_or_else(|| Failure::Broken("its type is not in the catalogue".to_owned()))?;
    check(instance.capacity.cpu() == instance_type.capacity.cpu(), || {
        "it has other CPUs than its type".to_owned()
    })?;
    check(instance.allocatable.fits(&instance.capacity), || "allocatable exceeds capacity".to_owned())
}

async fn labelled(harness: &dyn Harness) -> Verdict {
    let instance = launched(harness, &claim(harness, "a", "labelled", Requirements::new()), 1).await?;
    for key in [INSTANCE_TYPE, ZONE, CAPACITY_TYPE, ARCH, OS] {
        check(instance.labels.contains_key(key), || format!("label {key} is missing"))?;
    }
    check(!instance.terminating, || "it is born terminating".to_owned())
}

async fn tagged(harness: &dyn Harness) -> Verdict {
    let instance = launched(harness, &claim(harness, "a", "tagged", on_demand()), 3).await?;
    check(instance.claim.as_ref().is_none_or(|name| &**name == "a"), || {
        format!("claim is {:?}", instance.claim)
    })?;
    check(instance.launched_by == Some(("tagged".into(), 3)), || {
        format!("launched by {:?}", instance.launched_by)
    })?;
    let uid = harness.cluster_uid();
    check(instance.cluster_uid.as_ref() == Some(&uid), || format!("cluster is {:?}", instance.cluster_uid))
}

async fn cheapest(harness: &dyn Harness) -> Verdict {
    let requirements = on_demand();
    let catalog = catalog(harness).await?;
    let prices = catalog.instance_types.iter().filter_map(|t| t.cheapest(&requirements)).map(|o| o.price);
    let least = prices.min().ok_or_else(|| Failure::Broken("nothing is sold on demand".to_owned()))?;
    let instance = launched(harness, &claim(harness, "a", "cheapest", requirements), 1).await?;
    let label = |key: &str| instance.labels.get(key).map_or("", |value| value);
    let price = catalog.price(label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE));
    check(price == Some(least), || format!("paid {price:?}, the cheapest costs {least}"))
}

async fn repeated(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "repeated", on_demand());
    let first = launched(harness, &claim, 1).await?;
    harness.advance(harness.consistency()).await;
    let second = launched(harness, &claim, 1).await?;
    check(first.provider_id == second.provider_id, || "a repeated call gives another instance".to_owned())?;
    runs_exactly(harness, &[&first]).await?;
    let third = launched(harness, &claim, 2).await?;
    check(first.provider_id != third.provider_id, || "a new attempt gives the old instance".to_owned())?;
    runs_exactly(harness, &[&first, &third]).await
}

async fn lost(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "lost", on_demand());
    inject(harness, Fault::Call(Operation::Launch, CallFault::LoseAnswer)).await?;
    let answer = launch(harness, &claim, 1).await?;
    check(matches!(answer, Err(LaunchError::Unknown(_))), || format!("a lost answer is {answer:?}"))?;
    let instance = launched(harness, &claim, 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn restarted(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "restarted", on_demand());
    inject(harness, Fault::Call(Operation::Launch, CallFault::LoseAnswer)).await?;
    let answer = launch(harness, &claim, 1).await?;
    check(answer.is_err(), || "the answer was not lost".to_owned())?;
    harness.restart().await;
    // Meanwhile everything has run dry and the class is gone: what was launched is found all the same.
    inject(harness, Fault::Exhaust { zone: None }).await?;
    harness.set_class_ready(false).await;
    let instance = launched(harness, &claim, 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn failed(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "failed", on_demand());
    inject(harness, Fault::Call(Operation::Launch, CallFault::Fail)).await?;
    let answer = launch(harness, &claim, 1).await?;
    check(matches!(answer, Err(LaunchError::Unknown(_))), || format!("an unknown outcome is {answer:?}"))?;
    runs_exactly(harness, &[]).await?;
    let instance = launched(harness, &claim, 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn throttled(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "throttled", on_demand());
    inject(harness, Fault::Call(Operation::Launch, CallFault::Throttle)).await?;
    let answer = launch(harness, &claim, 1).await?;
    let Err(LaunchError::RateLimited { after }) = answer else {
        return Err(Failure::Broken(format!("a throttled launch is {answer:?}")));
    };
    runs_exactly(harness, &[]).await?;
    harness.advance(after).await;
    let instance = launched(harness, &claim, 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn under_way(harness: &dyn Harness) -> Verdict {
    /// How often a launch may still be under way when it is asked for again.
    const TIMES: usize = 20;
    let claim = claim(harness, "a", "under-way", on_demand());
    inject(harness, Fault::SlowLaunch).await?;
    let mut answer = launch(harness, &claim, 1).await?;
    let pending = matches!(&answer, Err(LaunchError::Pending { after, .. }) if !after.is_zero());
    check(pending, || format!("a launch that is under way is {answer:?}"))?;
    // Too early, and later by another process.
    answer = launch(harness, &claim, 1).await?;
    harness.restart().await;
    for _ in 0..TIMES {
        let Err(LaunchError::Pending { after, .. }) = &answer else { break };
        harness.advance(*after).await;
        answer = launch(harness, &claim, 1).await?;
    }
    let instance = good("launch", answer)?;
    runs_exactly(harness, &[&instance]).await
}

async fn ordered(harness: &dyn Harness) -> Verdict {
    let claims: Vec<NodeClaim> =
        (0..5).map(|n| claim(harness, &format!("c{n}"), "ordered", on_demand())).collect();
    let member = |(rank, claim)| LaunchRequest { rank, size: 5, ..request(claim, 1) };
    let requests: Vec<LaunchRequest> = claims.iter().enumerate().map(member).collect();
    let provider = harness.provider();
    let mut ids: Vec<ProviderId> = Vec::new();
    for answer in provider.launch(&requests).await {
        ids.push(good("launch", answer)?.provider_id);
    }
    check(ids.iter().collect::<BTreeSet<_>>().len() == 5, || format!("five claims got {ids:?}"))?;
    let backwards: Vec<LaunchRequest> = requests.iter().rev().cloned().collect();
    let mut again: Vec<ProviderId> = Vec::new();
    for answer in provider.launch(&backwards).await {
        again.push(good("launch", answer)?.provider_id);
    }
    again.reverse();
    check(ids == again, || format!("asked backwards, claims got {again:?} instead of {ids:?}"))?;
    let one = provider.launch(&requests[3..4]).await;
    let one: Vec<_> = one.into_iter().flatten().map(|instance| instance.provider_id).collect();
    check(one == ids[3..4], || format!("asked alone, the fourth got {one:?} instead of {}", ids[3]))
}

/// An instance that carries no claim yet belongs to the rank that its id has among those of its launch: by that,
/// [`crate::nodeclaim::launch`] knows whose it is after a crash.
async fn ranked(harness: &dyn Harness) -> Verdict {
    // The ranks are in another order than the names of the claims.
    let member = |rank: usize| {
        let claim = claim(harness, &format!("c{}", 4 - rank), "ranked", on_demand());
        LaunchRequest { rank, size: 5, ..request(&claim, 1) }
    };
    let requests: Vec<LaunchRequest> = (0..5).map(member).collect();
    inject(harness, Fault::Call(Operation::Launch, CallFault::LoseAnswer)).await?;
    let lost = harness.provider().launch(&requests).await;
    check(lost.iter().all(Result::is_err), || format!("the answer was not lost: {lost:?}"))?;
    harness.advance(harness.consistency()).await;
    let mut instances = good("list", harness.provider().list().await)?;
    check(instances.len() == 5, || format!("{} instances of a launch of 5", instances.len()))?;
    if instances.iter().any(|instance| instance.claim.is_some()) {
        return Ok(()); // Instances carry their claims from birth.
    }
    instances.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
    harness.restart().await;
    // The first and the last of the members, and the others afterwards.
    let (ends, others): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|request| matches!(request.rank, 0 | 4));
    for requests in [ends, others] {
        let answers = harness.provider().launch(&requests).await;
        for (request, answer) in requests.iter().zip(answers) {
            let id = good("launch", answer)?.provider_id;
            let expected = instances.get(request.rank).map(|instance| &instance.provider_id);
            check(expected == Some(&id), || {
                format!("rank {} got {id}, in order of ids it is {expected:?}", request.rank)
            })?;
        }
    }
    Ok(())
}

async fn partial(harness: &dyn Harness) -> Verdict {
    let catalog = catalog(harness).await?;
    let zones = zones(&catalog);
    let [dry, wet, ..] = zones.as_slice() else {
        return Ok(()); // One zone cannot fail in part.
    };
    inject(harness, Fault::Exhaust { zone: Some(dry.clone()) }).await?;
    let of = |name: &str, zone: &str| {
        let mut requirements = on_demand();
        requirements.add(only(ZONE, zone));
        claim(harness, name, name, requirements)
    };
    let answer = launch(harness, &of("a", dry), 1).await?;
    check(matches!(answer, Err(LaunchError::InsufficientCapacity(_))), || format!("it is {answer:?}"))?;
    let instance = launched(harness, &of("b", wet), 1).await?;
    runs_exactly(harness, &[&instance]).await
}

async fn exhausted(harness: &dyn Harness) -> Verdict {
    inject(harness, Fault::Exhaust { zone: None }).await?;
    let mut requirements = on_demand();
    let catalog = catalog(harness).await?;
    let name =
        catalog.instance_types.iter().find(|t| t.cheapest(&requirements).is_some()).map(|t| t.name.clone());
    requirements.add(only(INSTANCE_TYPE, &name.unwrap_or_else(|| "".into())));
    let answer = launch(harness, &claim(harness, "a", "exhausted", requirements), 1).await?;
    check(matches!(answer, Err(LaunchError::InsufficientCapacity(_))), || format!("it is {answer:?}"))?;
    runs_exactly(harness, &[]).await
}

async fn impossible(harness: &dyn Harness) -> Verdict {
    let mut requirements: Requirements = [only(CAPACITY_TYPE, ON_DEMAND)].into_iter().collect();
    requirements.add(only(ZONE, "no-such-zone"));
    let answer = launch(harness, &claim(harness, "a", "impossible", requirements), 1).await?;
    let refused = matches!(answer, Err(LaunchError::InsufficientCapacity(_) | LaunchError::Failed { .. }));
    check(refused, || format!("it is {answer:?}"))?;
    runs_exactly(harness, &[]).await
}

async fn class_not_ready(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "class", on_demand());
    harness.set_class_ready(false).await;
    let answer = launch(harness, &claim, 1).await?;
    check(matches!(answer, Err(LaunchError::NodeClassNotReady(_))), || format!("it is {answer:?}"))?;
    runs_exactly(harness, &[]).await?;
    harness.set_class_ready(true).await;
    let instance = launched(harness, &claim, 1).await?;
    runs_exactly(harness, &[&instance]).await
}
