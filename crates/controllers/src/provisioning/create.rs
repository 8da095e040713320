//! Carries out the new NodeClaims of a plan: writes NodeClaims, each exactly once.
//!
//! The name is chosen before the call, and a call whose outcome is unknown is repeated under the same name; what cannot be
//! cleared up at once is cleared up before the next plan is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetwright_api as api;
use fleetwright_core::{
    disruption::lineage,
    model::{Pod, PodUid, Resources, Str, labels::LINEAGE},
    scheduling::NewClaim,
};
use fleetwright_state::raise::{self, Identity};
use futures::{StreamExt, stream};
use kube::api::PostParams;

use super::limits;
use crate::{
    metrics::scheduling as families,
    runtime::{Ctx, RateLimit, ReconcileError},
};

/// NodeClaims that are written at once.
const AT_ONCE: usize = 16;
/// Attempts to write one.
const ATTEMPTS: u32 = 4;
/// Delays between attempts.
const RETRY: RateLimit = RateLimit::new(Duration::from_millis(200), Duration::from_secs(2), 1, 1);

/// What became of one new NodeClaim.
pub(super) enum Created {
    /// It stands.
    Claim {
        /// Its name.
        name: Str,
        /// The pods that it is for.
        pods: Vec<Arc<Pod>>,
    },
    /// It was not written, because the pods are answered or gone by now.
    Needless,
    /// It was not written, for a reason that its pods should hear.
    Refused {
        /// The reason.
        why: String,
        /// The pods that wait on.
        pods: Vec<Arc<Pod>>,
    },
    /// It was not written, because as many were of late as may be; its pods wait for the next pass.
    Held,
    /// It may have been written under this name; nothing may be planned before that is known.
    Unknown {
        /// The name.
        name: String,
        /// What went wrong.
        error: ReconcileError,
    },
}

/// Why NodeClaims are created, for metrics.
pub(super) const REASON: &str = "provisioned";

/// Writes the NodeClaims of a plan's new NodeClaims, in order.
pub(super) async fn claims(ctx: &Ctx, new_claims: Vec<NewClaim>) -> Vec<Created> {
    let batches = batches(ctx, &new_claims);
    let mut taken = Taken::default();
    let mut prepared = Vec::with_capacity(new_claims.len());
    for (new_claim, batch) in new_claims.iter().zip(&batches) {
        if ctx.rates.create(ctx.steady(), 1).is_err() {
            prepared.push(Err(Created::Held));
            continue;
        }
        let claim = prepare(ctx, new_claim, batch, &mut taken);
        if claim.is_err() {
            ctx.rates.not_created();
        }
        prepared.push(claim);
    }
    let writes = prepared.into_iter().zip(new_claims).map(|(prepared, new_claim)| async move {
        match prepared {
            Ok((claim, pods)) => {
                let name = claim.metadata.name.clone().unwrap_or_default();
                let created = write(ctx, claim, pods, &new_claim, REASON).await;
                // What may stand is cleared up before anybody plans for its pods again.
                if !matches!(created, Created::Unknown { .. }) {
                    ctx.index().end_creation(&name);
                }
                created
            }
            Err(instead) => instead,
        }
    });
    stream::iter(writes).buffered(AT_ONCE).collect().await
}

/// A batch id for each new NodeClaim: those that are launched alike share one.
fn batches(ctx: &Ctx, new_claims: &[NewClaim]) -> Vec<String> {
    let plan = ctx.names.suffix(10);
    raise::shapes(new_claims).into_iter().map(|shape| format!("{plan}-{shape}")).collect()
}

/// What this pass has given out so far.
#[derive(Default)]
struct Taken {
    pods: BTreeSet<PodUid>,
    /// By pool: resources and nodes in use at most, with what this pass adds.
    pools: BTreeMap<Str, (Resources, i64)>,
}

/// The NodeClaim to write, or what there is instead: everything is looked at again, as it stands now.
fn prepare(
    ctx: &Ctx,
    new_claim: &NewClaim,
    batch: &str,
    taken: &mut Taken,
) -> Result<(api::NodeClaim, Vec<Arc<Pod>>), Created> {
    let mut index = ctx.index();
    let waits = |pod: &&Arc<Pod>| {
        if pod.is_virtual {
            return true;
        }
        let now = index.pod_by_uid(&pod.uid);
        // A pod is answered by one claim at a time, until that claim is initialized or gone.
        now.is_some_and(|now| now.is_active() && now.node == pod.node)
            && !taken.pods.contains(&pod.uid)
            && !index.has_claim_in_flight(&pod.uid)
    };
    let pods: Vec<Arc<Pod>> = new_claim.pods.iter().filter(waits).cloned().collect();
    if pods.is_empty() {
        return Err(Created::Needless);
    }
    let name: Str = new_claim.pool.name.as_str().into();
    let refuse = |why: String| Created::Refused { why, pods: pods.clone() };
    let Some(pool) = index.pool(&name).filter(|pool| pool.metadata.deletion_timestamp.is_none()) else {
        return Err(refuse(format!("nodepool {name:?} is gone")));
    };
    let largest = limits::most(new_claim);
    let used = taken.pools.entry(name.clone()).or_insert_with(|| index.usage_at_most(&name));
    // The newest limits count, not those of the snapshot.
    let with_it = (used.0.plus(&largest), used.1 + 1);
    limits::hold(&index, &name, &with_it).map_err(|exceeded| refuse(exceeded.to_string()))?;
    *used = with_it;
    taken.pods.extend(pods.iter().map(|pod| pod.uid.clone()));
    let identity =
        Identity { name: format!("{name}-{}", ctx.names.suffix(5)), batch, cluster_uid: &ctx.cluster_uid };
    let written_as = identity.name.clone();
    let mut claim = raise::claim(new_claim, pool, &pods, identity);
    let now = ctx.now();
    if ctx.displaced_pods().recreates(&pods, now) {
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(LINEAGE.to_owned(), lineage::of_recreated(now));
    }
    index.reserve(written_as.as_str(), name, largest);
    index.begin_creation(written_as, pods.iter().map(|pod| pod.uid.clone()).collect());
    Ok((claim, pods))
}

async fn write(
    ctx: &Ctx,
    mut claim: api::NodeClaim,
    pods: Vec<Arc<Pod>>,
    new_claim: &NewClaim,
    reason: &str,
) -> Created {
    let api = ctx.cluster_api::<api::NodeClaim>();
    let mut unknown = None;
    for attempt in 0..ATTEMPTS {
        if unknown.is_some() {
            ctx.clock.sleep(RETRY.delay(attempt)).await;
        }
        let name = claim.metadata.name.clone().unwrap_or_default();
        match ctx.call("create nodeclaim", api.create(&PostParams::default(), &claim)).await {
            Ok(created) => return stands(ctx, created, pods, new_claim, reason),
            Err(error) if error.is_conflict() => match taken_by(ctx, &name).await {
                // An earlier attempt had its effect after all.
                Ok(Some(other)) if is_same(&other, &claim) => {
                    return stands(ctx, other, pods, new_claim, reason);
                }
                Ok(_) => {
                    claim.metadata.name = Some(format!("{}-{}", new_claim.pool.name, ctx.names.suffix(5)));
                    unknown = None;
                }
                Err(error) => unknown = Some(error),
            },
            Err(error) if is_refusal(&error) => {
                return Created::Refused { why: format!("creating nodeclaim, {error}"), pods };
            }
            Err(error) => unknown = Some(error),
        }
    }
    let name = claim.metadata.name.unwrap_or_default();
    let error = unknown.unwrap_or_else(|| ReconcileError::Other("every generated name was taken".to_owned()));
    Created::Unknown { name, error }
}

/// Whether the server said no, so that nothing was written.
fn is_refusal(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::NotFound { .. } => true,
        ReconcileError::Kube { source, .. } => {
            matches!(&**source, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
        }
        _ => false,
    }
}

async fn taken_by(ctx: &Ctx, name: &str) -> Result<Option<api::NodeClaim>, ReconcileError> {
    ctx.call("get nodeclaim", ctx.cluster_api::<api::NodeClaim>().get_opt(name)).await
}

/// Whether a claim is the one that was to be written. Its launch may have begun meanwhile, as a batch of its own.
fn is_same(found: &api::NodeClaim, wanted: &api::NodeClaim) -> bool {
    let of = |claim: &api::NodeClaim, key: &str| claim.metadata.annotations.as_ref()?.get(key).cloned();
    let same = |key: &str| of(found, key).is_some() && of(found, key) == of(wanted, key);
    let batch = of(found, api::labels::BATCH_ID);
    let alone = batch.is_some() && batch == found.metadata.uid;
    (alone || same(api::labels::BATCH_ID))
        && same(api::labels::CLUSTER_UID)
        && same(api::labels::NOMINATED_PODS)
}

/// The claim stands: what we wrote is visible at once.
fn stands(
    ctx: &Ctx,
    created: api::NodeClaim,
    pods: Vec<Arc<Pod>>,
    new_claim: &NewClaim,
    reason: &str,
) -> Created {
    let name: Str = created.metadata.name.as_deref().unwrap_or_default().into();
    let relaxed = new_claim.annotations.contains_key(api::labels::MIN_VALUES_RELAXED);
    let labels = [reason, &new_claim.pool.name, if relaxed { "true" } else { "false" }];
    ctx.metrics.inc(&families::NODECLAIMS_CREATED, &labels);
    tracing::info!(
        NodeClaim = &*name,
        NodePool = &*new_claim.pool.name,
        requests = %new_claim.requests,
        instance_types = new_claim.instance_types.len(),
        expected = &*new_claim.chosen.instance_type,
        zone = &*new_claim.chosen.zone,
        capacity_type = &*new_claim.chosen.capacity_type,
        pods = pods.len(),
        "created nodeclaim"
    );
    ctx.observe(created);
    Created::Claim { name, pods }
}

/// The NodeClaim that replaces nodes which a disruption command takes; `None` where its NodePool is gone.
pub(crate) fn replacement(ctx: &Ctx, new_claim: &NewClaim, batch: &str) -> Option<api::NodeClaim> {
    let index = ctx.index();
    let pool = index.pool(&new_claim.pool.name)?;
    let name = format!("{}-{}", new_claim.pool.name, ctx.names.suffix(5));
    let identity = Identity { name, batch, cluster_uid: &ctx.cluster_uid };
    Some(raise::claim(new_claim, pool, &new_claim.pods, identity))
}

/// Writes a replacement that has its room ([`super::reserve`]), and returns the name that it got. It answers those of the new NodeClaim's pods that have no answer
/// yet: a pod that was pending when the command was decided may have got one since.
///
/// # Errors
/// Where it was refused, or it is not known whether it was written.
pub(crate) async fn write_replacement(
    ctx: &Ctx,
    mut claim: api::NodeClaim,
    new_claim: &NewClaim,
    reason: &str,
) -> Result<Str, ReconcileError> {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let pods: Vec<Arc<Pod>> = {
        let mut index = ctx.index();
        let free = new_claim.pods.iter().filter(|pod| !index.has_claim_in_flight(&pod.uid));
        let pods: Vec<Arc<Pod>> = free.cloned().collect();
        index.begin_creation(name.as_str(), pods.iter().map(|pod| pod.uid.clone()).collect());
        pods
    };
    raise::note_pods(claim.metadata.annotations.get_or_insert_default(), &pods);
    let written = write(ctx, claim, pods, new_claim, reason).await;
    ctx.index().end_creation(&name);
    match written {
        Created::Claim { name, .. } => Ok(name),
        Created::Unknown { error, .. } => Err(error),
        Created::Refused { why, .. } => Err(ReconcileError::Other(why)),
        // Who writes a replacement took its token, and knows that it is needed.
        Created::Needless | Created::Held => {
            Err(ReconcileError::Other("the replacement is not needed any more".to_owned()))
        }
    }
}

/// Learns what became of a claim whose writing had an unknown outcome.
pub(super) async fn clear_up(ctx: &Ctx, name: &str) -> Result<(), ReconcileError> {
    if let Some(found) = taken_by(ctx, name).await? {
        ctx.observe(found);
    }
    ctx.index().end_creation(name);
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Which claim is the one that was to be written.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn claim(uid: Option<&str>, batch: &str, pods: &str) -> api::NodeClaim {
        let annotations = json!({
            api::labels::BATCH_ID: batch, api::labels::CLUSTER_UID: "cluster", api::labels::NOMINATED_PODS: pods,
        });
        let object = json!({
            "metadata": {"name": "a", "uid": uid, "annotations": annotations},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        });
        serde_json::from_value(object).unwrap()
    }

    #[rstest]
    #[case::as_written("b-0", "n/p:1", true)]
    #[case::launched_as_a_batch_of_its_own("its-uid", "n/p:1", true)]
    #[case::of_another_batch("b-1", "n/p:1", false)]
    #[case::for_another_pod("b-0", "n/p:2", false)]
    fn a_claim_is_known_by_what_it_answers(#[case] batch: &str, #[case] pods: &str, #[case] same: bool) {
        assert_eq!(is_same(&claim(Some("its-uid"), batch, pods), &claim(None, "b-0", "n/p:1")), same);
    }
}
