//! What the cases are written with.

use std::sync::Arc;

use super::{Failure, Harness, Verdict};
use crate::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{
        Catalog, NodeClaim, NodePool, ProviderId, Requirement, Requirements, Str,
        labels::{CAPACITY_TYPE, ON_DEMAND},
    },
};

/// Fails with a message unless `holds`.
pub(super) fn check(holds: bool, message: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Failure(message())) }
}

/// The value of an answer that must be good.
pub(super) fn good<T, E: std::fmt::Display>(what: &str, answer: Result<T, E>) -> Result<T, Failure> {
    answer.map_err(|error| Failure(format!("{what} failed: {error}")))
}

/// A pool that asks for nothing in particular.
pub(super) fn pool(harness: &dyn Harness) -> NodePool {
    NodePool::new("conformance", harness.class(), harness.now())
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

/// Launches one claim.
pub(super) async fn launch(
    harness: &dyn Harness,
    claim: &NodeClaim,
    attempt: u32,
) -> Result<Result<Instance, LaunchError>, Failure> {
    let mut answers = harness.provider().launch(&[request(claim, attempt)]).await;
    check(answers.len() == 1, || format!("{} answers to one request", answers.len()))?;
    answers.pop().ok_or_else(|| Failure("no answer".to_owned()))
}

/// Launches one claim, which must succeed.
pub(super) async fn launched(
    harness: &dyn Harness,
    claim: &NodeClaim,
    attempt: u32,
) -> Result<Instance, Failure> {
    good("launch", launch(harness, claim, attempt).await?)
}

/// The catalogue that the pool sees.
pub(super) async fn catalog(harness: &dyn Harness) -> Result<Arc<Catalog>, Failure> {
    good("catalog", harness.provider().catalog(&pool(harness)).await)
}

/// Every zone that the catalogue names, by name.
pub(super) fn zones(catalog: &Catalog) -> Vec<Str> {
    let offerings = catalog.instance_types.iter().flat_map(|t| &t.offerings);
    let mut zones: Vec<Str> = offerings.filter_map(|offering| offering.zone().cloned()).collect();
    zones.sort();
    zones.dedup();
    zones
}

/// The ids that list returns, once it returns all instances.
pub(super) async fn listed(harness: &dyn Harness) -> Result<Vec<ProviderId>, Failure> {
    harness.advance(harness.consistency()).await;
    let instances = good("list", harness.provider().list().await)?;
    let alive = instances.into_iter().filter(|instance| !instance.terminating);
    let mut ids: Vec<ProviderId> = alive.map(|instance| instance.provider_id).collect();
    ids.sort();
    Ok(ids)
}

/// That the cloud runs exactly these of ours.
pub(super) async fn runs_exactly(harness: &dyn Harness, expected: &[&Instance]) -> Verdict {
    let mut expected: Vec<ProviderId> =
        expected.iter().map(|instance| instance.provider_id.clone()).collect();
    expected.sort();
    let found = listed(harness).await?;
    check(found == expected, || format!("the cloud runs {found:?}, expected {expected:?}"))
}
