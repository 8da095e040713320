//! What the cases are written with.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use super::{Failure, Fault, GroundTruth, Harness, Verdict};
use crate::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{
        Catalog, NodeClaim, NodeClassRef, NodePool, ProviderId, Requirement, Requirements, Str,
        labels::{CAPACITY_TYPE, ON_DEMAND},
    },
};

/// Fails with a message unless `holds`.
pub(super) fn check(holds: bool, message: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Failure::Broken(message())) }
}

/// The value of an answer that must be good.
pub(super) fn good<T, E: std::fmt::Display>(what: &str, answer: Result<T, E>) -> Result<T, Failure> {
    answer.map_err(|error| Failure::Broken(format!("{what} failed: {error}")))
}

/// Injects a fault. A case does not apply to a cloud without it.
pub(super) async fn inject(harness: &dyn Harness, fault: Fault) -> Verdict {
    let injected = harness.inject(fault).await;
    injected.then_some(()).ok_or(Failure::NotApplicable("the cloud does not have this fault"))
}

/// A pool of a class that asks for nothing in particular.
pub(super) fn pool(harness: &dyn Harness, class: NodeClassRef) -> NodePool {
    NodePool::new("conformance", class, harness.now())
}

/// A claim for whatever `requirements` allow.
pub(super) fn claim(harness: &dyn Harness, name: &str, batch: &str, requirements: Requirements) -> NodeClaim {
    NodeClaim {
        uid: format!("{name}-uid").into(),
        pool: Some("conformance".into()),
        requirements,
        batch: batch.into(),
        attempt: 1,
        ..NodeClaim::new(name, harness.class(), harness.now())
    }
}

/// A request for a claim, of attempt `attempt`.
pub(super) fn request(claim: &NodeClaim, attempt: u32) -> LaunchRequest {
    let (claim, batch) = (Arc::new(claim.clone()), claim.batch.clone());
    LaunchRequest { claim, batch, attempt, rank: 0, size: 1, decided_by: None, first_call: false }
}

/// `key In [value]`.
pub(super) fn only(key: &str, value: &str) -> Requirement {
    Requirement::is_in(key, [value])
}

/// On-demand capacity of whatever kind.
pub(super) fn on_demand() -> Requirements {
    [only(CAPACITY_TYPE, ON_DEMAND)].into_iter().collect()
}

/// Requests for `size` claims of one launch, named by their ranks.
pub(super) fn fleet(harness: &dyn Harness, batch: &str, size: usize) -> Vec<LaunchRequest> {
    let member = |rank: usize| {
        let claim = claim(harness, &format!("{batch}-{rank:04}"), batch, on_demand());
        LaunchRequest { rank, size, ..request(&claim, 1) }
    };
    (0..size).map(member).collect()
}

/// Launches one claim.
pub(super) async fn launch(
    harness: &dyn Harness,
    claim: &NodeClaim,
    attempt: u32,
) -> Result<Result<Instance, LaunchError>, Failure> {
    let mut answers = harness.provider().launch(&[request(claim, attempt)]).await;
    check(answers.len() == 1, || format!("{} answers to one request", answers.len()))?;
    answers.pop().ok_or_else(|| Failure::Broken("no answer".to_owned()))
}

/// Launches one claim, which must succeed.
pub(super) async fn launched(
    harness: &dyn Harness,
    claim: &NodeClaim,
    attempt: u32,
) -> Result<Instance, Failure> {
    good("launch", launch(harness, claim, attempt).await?)
}

/// Launches one claim by its first attempt, and returns it as the controllers complete it by the instance.
pub(super) async fn owned(harness: &dyn Harness, claim: NodeClaim) -> Result<(NodeClaim, Instance), Failure> {
    let instance = launched(harness, &claim, 1).await?;
    let mut claim = NodeClaim {
        provider_id: Some(instance.provider_id.clone()),
        image_id: instance.image_id.clone(),
        capacity: instance.capacity.clone(),
        allocatable: instance.allocatable.clone(),
        ..claim
    };
    claim.labels.extend(instance.labels.clone());
    claim.annotations.extend(instance.annotations.clone());
    Ok((claim, instance))
}

/// Polls both until both are complete.
pub(super) async fn both<A: Send, B: Send>(
    first: impl Future<Output = A> + Send,
    second: impl Future<Output = B> + Send,
) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut other) = (None, None);
    poll_fn(|cx| {
        if one.is_none()
            && let Poll::Ready(answer) = first.as_mut().poll(cx)
        {
            one = Some(answer);
        }
        if other.is_none()
            && let Poll::Ready(answer) = second.as_mut().poll(cx)
        {
            other = Some(answer);
        }
        match (one.take(), other.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            waiting => {
                (one, other) = waiting;
                Poll::Pending
            }
        }
    })
    .await
}

/// The catalogue that the pool sees.
pub(super) async fn catalog(harness: &dyn Harness) -> Result<Arc<Catalog>, Failure> {
    catalog_of(harness, harness.class()).await
}

/// The catalogue that a pool of a class sees.
pub(super) async fn catalog_of(harness: &dyn Harness, class: NodeClassRef) -> Result<Arc<Catalog>, Failure> {
    good("catalog", harness.provider().catalog(&pool(harness, class)).await)
}

/// Every zone that the catalogue names, by name.
pub(super) fn zones(catalog: &Catalog) -> Vec<Str> {
    let offerings = catalog.instance_types.iter().flat_map(|t| &t.offerings);
    let mut zones: Vec<Str> = offerings.filter_map(|offering| offering.zone().cloned()).collect();
    zones.sort();
    zones.dedup();
    zones
}

/// The instance of this id, as the cloud has it.
pub(super) async fn truth(harness: &dyn Harness, id: &ProviderId) -> Result<GroundTruth, Failure> {
    let found = harness.ground_truth().await.into_iter().find(|known| known.provider_id == *id);
    found.ok_or_else(|| Failure::Broken(format!("the cloud has no instance {id}")))
}

/// That the cloud still runs an instance.
pub(super) async fn still_runs(harness: &dyn Harness, id: &ProviderId) -> Verdict {
    let known = truth(harness, id).await?;
    check(!known.terminating, || format!("the cloud terminates {id} all the same"))
}

/// That the cloud runs exactly these instances, whoever owns them, and that the list has the same ones.
pub(super) async fn runs_exactly(harness: &dyn Harness, expected: &[&Instance]) -> Verdict {
    runs_beside(harness, expected, &[]).await
}

/// That the cloud runs exactly these instances and those of others, and that the list has ours alone.
pub(super) async fn runs_beside(
    harness: &dyn Harness,
    expected: &[&Instance],
    others: &[&ProviderId],
) -> Verdict {
    let mut expected: Vec<ProviderId> =
        expected.iter().map(|instance| instance.provider_id.clone()).collect();
    expected.sort();
    let truth = harness.ground_truth().await.into_iter().filter(|known| !known.terminating);
    let mut runs: Vec<ProviderId> =
        truth.map(|known| known.provider_id).filter(|id| !others.contains(&id)).collect();
    runs.sort();
    check(runs == expected, || format!("the cloud runs {}, expected {}", named(&runs), named(&expected)))?;
    harness.advance(harness.consistency()).await;
    let instances = good("list", harness.provider().list().await)?;
    let alive = instances.into_iter().filter(|instance| !instance.terminating);
    let mut listed: Vec<ProviderId> = alive.map(|instance| instance.provider_id).collect();
    listed.sort();
    check(listed == expected, || {
        format!("the list has {}, the cloud runs {}", named(&listed), named(&expected))
    })
}

/// How many ids there are, and the first of them.
fn named(ids: &[ProviderId]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = ids.iter().take(SHOWN).map(ProviderId::as_str).collect();
    format!("{} instances ({})", ids.len(), shown.join(", "))
}
