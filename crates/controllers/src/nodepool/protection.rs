//! `nodepool.protection`: Kubernetes deletes the NodeClaims of a deleted NodePool by their owner references,
//! and their nodes with them. If the NodePool is annotated, a finalizer delays its deletion while it has NodeClaims.
//!
//! A foreground deletion cannot be held: the garbage collector deletes the NodeClaims first, whatever
//! finalizers the NodePool has.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_api::{
    self as api,
    labels::{DELETE_PROTECTION, condition::DELETION_HELD},
};
use fleetwright_core::model::labels::NODEPOOL;
use fleetwright_state::{Change, Index, Key, WatchedKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::pool_status::PoolStatus;
use crate::{
    events::{Event, regarding},
    runtime::{ApiClient, Cluster, Controller, Ctx, ReconcileError, Recorder, Requeue, ignore_not_found},
};

/// How often the event about a held deletion is repeated.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Holds the deletion of protected NodePools while they have NodeClaims.
pub struct Protection {
    client: ApiClient,
    cluster: Cluster,
    pools: PoolStatus,
    recorder: Recorder,
}

impl Protection {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            pools: PoolStatus::new(ctx),
            recorder: ctx.recorder.clone(),
        }
    }
}

/// The next step for a NodePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    AddFinalizer,
    RemoveFinalizer,
    /// Report that this number of NodeClaims holds its deletion.
    PublishHeld(usize),
}

/// Decides for a NodePool with this number of NodeClaims.
fn decide(pool: &api::NodePool, claims: usize) -> Action {
    let meta = &pool.metadata;
    let written = meta.annotations.as_ref().and_then(|all| all.get(DELETE_PROTECTION));
    let is_protected = written.is_some_and(|value| value.trim() != "false");
    let has_finalizer = meta.finalizers.iter().flatten().any(|name| name == DELETE_PROTECTION);
    match (is_protected, has_finalizer, meta.deletion_timestamp.is_some()) {
        (true, true, true) if claims > 0 => Action::PublishHeld(claims),
        (true, true, true) | (false, true, _) => Action::RemoveFinalizer,
        // The API server accepts no new finalizer once the deletion has begun.
        (true, false, false) => Action::AddFinalizer,
        (true, true, false) | (true, false, true) | (false, false, _) => Action::Nothing,
    }
}

#[async_trait]
impl Controller for Protection {
    fn name(&self) -> &'static str {
        "nodepool.protection"
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let key = match change.kind {
            WatchedKind::NodePool => Some(change.key.clone()),
            // The deletion of the last NodeClaim ends the hold.
            WatchedKind::NodeClaim if change.is_deleted() => {
                let labels = change.claim().and_then(|claim| claim.metadata.labels.as_ref());
                let pool = labels.and_then(|labels| labels.get(NODEPOOL));
                let deleting = |name: &&String| {
                    index.pool(name).is_some_and(|pool| pool.metadata.deletion_timestamp.is_some())
                };
                pool.filter(deleting).map(|name| Key::cluster(name.as_str()))
            }
            _ => None,
        };
        key.into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let (pool, claims) = {
            let index = self.cluster.index();
            let Some(pool) = index.pool(&key.name).cloned() else { return Ok(Requeue::No) };
            let of = |claim: &&Arc<api::NodeClaim>| {
                let labels = claim.metadata.labels.as_ref();
                labels.and_then(|labels| labels.get(NODEPOOL)).is_some_and(|name| **name == *key.name)
            };
            let claims = index.claims().filter(of).count();
            (pool, claims)
        };
        match decide(&pool, claims) {
            Action::Nothing => Ok(Requeue::No),
            Action::AddFinalizer => write(&self.client, &self.cluster, &pool, true).await,
            Action::RemoveFinalizer => write(&self.client, &self.cluster, &pool, false).await,
            Action::PublishHeld(claims) => {
                let text = format!(
                    "this NodePool is deleted and kept, for it has {claims} NodeClaim(s), which would be deleted with it: take \
                     annotation {DELETE_PROTECTION} off to let that happen, or delete the NodeClaims one by one; nothing is \
                     launched for it any more, and a deletion cannot be taken back"
                );
                let event = Event::warning(regarding(&*pool), DELETION_HELD, text.clone());
                self.recorder
                    .publish(event.with_dedupe_values([&*key.name]).with_dedupe_timeout(PUBLISH_INTERVAL));
                self.pools
                    .change_conditions(&pool, |conditions| {
                        conditions.set_true_with_reason(DELETION_HELD, "DeleteProtection", &text);
                    })
                    .await?;
                Ok(Requeue::After(PUBLISH_INTERVAL))
            }
        }
    }
}

/// Adds or removes our finalizer.
async fn write(
    client: &ApiClient,
    cluster: &Cluster,
    pool: &api::NodePool,
    add: bool,
) -> Result<Requeue, ReconcileError> {
    let mut finalizers = pool.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != DELETE_PROTECTION);
    if add {
        finalizers.push(DELETE_PROTECTION.to_owned());
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    // Fails on a conflict, so that no write of another is lost.
    let body = json!({"metadata": {
        "resourceVersion": pool.metadata.resource_version, "uid": pool.metadata.uid, "finalizers": finalizers,
    }});
    let (api, params, body) = (client.cluster::<api::NodePool>(), PatchParams::default(), Patch::Merge(body));
    let result = client.call("write nodepool finalizers", api.patch(name, &params, &body)).await;
    if let Some(written) = ignore_not_found(result)? {
        let gone = written.metadata.deletion_timestamp.is_some()
            && written.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        if gone {
            cluster.forget(&written);
        } else {
            cluster.observe(written);
        }
        tracing::info!(NodePool.name = name, protected = add, "delete protection of a nodepool");
    }
    Ok(Requeue::No)
}

#[cfg(test)]
mod tests {
    //! The decisions, and their effect with the garbage collector of the API server.
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Harness;

    fn pool(annotation: Option<&str>, finalizers: &[&str], deleting: bool) -> api::NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default", "finalizers": finalizers,
                "annotations": annotation.map(|value| json!({ DELETE_PROTECTION: value })),
                "deletionTimestamp": deleting.then_some("2025-01-01T00:00:00Z")},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}},
        }))
        .unwrap()
    }

    const OURS: &[&str] = &["example.com/theirs", DELETE_PROTECTION];

    #[rstest]
    #[case::not_asked_for(None, &[], false, 3, Action::Nothing)]
    #[case::asked_for(Some("true"), &[], false, 0, Action::AddFinalizer)]
    #[case::unreadable_is_on(Some("yes please"), &[], false, 0, Action::AddFinalizer)]
    #[case::protected(Some("true"), OURS, false, 3, Action::Nothing)]
    #[case::taken_off(None, OURS, false, 3, Action::RemoveFinalizer)]
    #[case::switched_off(Some("false"), OURS, false, 3, Action::RemoveFinalizer)]
    #[case::held(Some("true"), OURS, true, 3, Action::PublishHeld(3))]
    #[case::nothing_left_to_keep(Some("true"), OURS, true, 0, Action::RemoveFinalizer)]
    #[case::let_go(None, OURS, true, 3, Action::RemoveFinalizer)]
    #[case::too_late(Some("true"), &["example.com/theirs"], true, 3, Action::Nothing)]
    fn decisions(
        #[case] annotation: Option<&str>,
        #[case] finalizers: &[&str],
        #[case] deleting: bool,
        #[case] claims: usize,
        #[case] expected: Action,
    ) {
        assert_eq!(decide(&pool(annotation, finalizers, deleting), claims), expected);
    }

    fn stored(harness: &Harness) -> Option<Value> {
        harness.server.get("karpenter.sh/v1", "NodePool", "", "default").map(|pool| (*pool).clone())
    }

    fn annotate(harness: &Harness, value: Value) {
        let mut pool = stored(harness).unwrap();
        pool["metadata"]["annotations"] = json!({ DELETE_PROTECTION: value });
        pool["metadata"]["finalizers"] =
            pool["metadata"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
        harness.server.apply(pool).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_protected_pool_is_not_deleted_while_it_has_claims() {
        let harness = Harness::new();
        harness.pool("default", json!({}));
        annotate(&harness, json!("true"));
        let uid = stored(&harness).unwrap()["metadata"]["uid"].clone();
        harness
            .server
            .apply(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "default"}, "ownerReferences": [
                    {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": uid, "blockOwnerDeletion": true}]},
                "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            }))
            .unwrap();
        let _running = harness.run(vec![Arc::new(Protection::new(&harness.ctx))]);
        harness.pass(5).await;
        assert_eq!(stored(&harness).unwrap()["metadata"]["finalizers"], json!([DELETE_PROTECTION]));
        harness.server.delete("karpenter.sh/v1", "NodePool", "", "default").unwrap();
        harness.pass(60).await;
        let claim = || harness.server.get("karpenter.sh/v1", "NodeClaim", "", "a");
        assert!(claim().is_some(), "the NodeClaim is not deleted");
        let held = stored(&harness).unwrap();
        let reported = held["status"]["conditions"].as_array().unwrap();
        let reported =
            reported.iter().find(|condition| condition["type"] == DELETION_HELD).expect("a condition");
        assert!(reported["message"].as_str().unwrap().contains("1 NodeClaim(s)"), "{reported}");
        let events = harness.events();
        assert!(
            events.iter().any(|event| event.starts_with("NodePool/default DeletionHeld: ")),
            "{events:?}"
        );
        annotate(&harness, json!("false"));
        harness.pass(5).await;
        assert!(
            stored(&harness).is_none() && claim().is_none(),
            "the NodePool is deleted, with its NodeClaims"
        );
    }
}
