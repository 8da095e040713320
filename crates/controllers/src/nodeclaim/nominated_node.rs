//! `nodeclaim.nominatednode`: writes `status.nominatedNodeName` of the pods that a node was launched for, until it is initialized.

use async_trait::async_trait;
use fleetwright_core::{
    model::{NodeName, Pod},
    nodeclaim::nominated_node::{Due, NodeNominations, joining_node},
};
use fleetwright_state::{Change, Feature, Index, Key, WatchedKind};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, Features, ReconcileError, Requeue, Shared,
        ignore_not_found,
    },
    settings::Settings,
};

/// Pods that are patched at once.
const CONCURRENCY: usize = 10;
/// The permission.
const STATUS: (&str, &str, &[&str]) = ("", "pods/status", &["patch"]);

/// Nominates pods to the nodes that are launched for them.
pub struct NominatedNode {
    client: ApiClient,
    cluster: Cluster,
    features: Features,
    clocks: Clocks,
    nominations: Shared<NodeNominations>,
}

impl NominatedNode {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        let (client, cluster) = (ctx.client.clone(), ctx.cluster.clone());
        let (features, clocks) = (ctx.features.clone(), ctx.clocks.clone());
        Self { client, cluster, features, clocks, nominations: Shared::default() }
    }

    /// The name of the node of a NodeClaim, and what to do for its pods.
    fn due(&self, key: &Key) -> Option<(NodeName, Due)> {
        let index = self.cluster.index();
        let claim = index.claim_model(&key.name)?;
        let node = joining_node(claim)?;
        let pods = index.pods_expected_by(claim);
        Some((node.clone(), self.nominations.lock().due(&key.name, pods, self.clocks.steady())))
    }

    async fn nominate(&self, key: &Key, pod: &Pod, node: &str) -> Result<(), ReconcileError> {
        let api = self.client.namespaced::<KubePod>(&pod.id.namespace);
        let body = Patch::Merge(json!({
            "metadata": { "uid": &*pod.uid },
            "status": { "nominatedNodeName": node },
        }));
        let params = PatchParams::default();
        let patched = self.client.call("nominate pod", api.patch_status(&pod.id.name, &params, &body)).await;
        // A pod that was bound or deleted meanwhile needs no nomination.
        let patched = match patched {
            Err(error) if error.is_conflict() => Ok(None),
            other => ignore_not_found(other),
        };
        if let Some(written) = self.features.optional(Feature::PodNominations, STATUS, patched)?.flatten() {
            self.nominations.lock().written(&key.name, &pod.uid);
            self.cluster.observe(written);
        }
        Ok(())
    }
}

#[async_trait]
impl Controller for NominatedNode {
    fn name(&self) -> &'static str {
        "nodeclaim.nominatednode"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 100)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        match change.kind {
            WatchedKind::NodeClaim => vec![change.key.clone()],
            WatchedKind::Node => {
                let claim = index.claim_of_node(&change.key.name);
                claim.and_then(|claim| claim.metadata.name.clone()).map(Key::cluster).into_iter().collect()
            }
            WatchedKind::Pod => {
                let pod = change.pod().filter(|pod| pod.node.is_none() && pod.nominated_node.is_none());
                pod.into_iter()
                    .flat_map(|pod| index.claims_expecting(&pod.uid))
                    .map(|claim| Key::cluster(&*claim))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((node, due)) = self.due(key) else {
            self.nominations.lock().forget(&key.name);
            return Ok(Requeue::No);
        };
        let calls: Vec<_> = due.pods.iter().map(|pod| self.nominate(key, pod, &node)).collect();
        let results: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).collect().await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(due.again.into())
    }
}

#[cfg(test)]
mod tests {
    //! Against the in-memory API server.
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        metrics::runtime::FEATURE_OFF,
        testing::{Harness, Refusals},
    };

    fn of_pod(harness: &Harness, at: &str) -> Value {
        let pod = harness.server.get("v1", "Pod", "default", "p").unwrap();
        pod.pointer(at).cloned().unwrap_or_default()
    }

    /// A pending pod, and the node that was launched for it, with a condition of its NodeClaim beside `Registered`.
    fn joining(harness: &Harness) {
        harness.pool("default", json!({}));
        harness.pending_pod("p", "1");
        let uid = of_pod(harness, "/metadata/uid");
        let labels = json!({"karpenter.sh/nodepool": "default"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels},
            "spec": {"providerID": "fake://n", "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
        harness.server.apply(node).unwrap();
        harness.server.apply(claim(&uid, &[])).unwrap();
    }

    fn claim(uid: &Value, further: &[&str]) -> Value {
        let uid = uid.as_str().unwrap_or_default();
        let conditions = ["Launched", "Registered"].iter().chain(further).map(|kind| {
            json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2025-06-15T15:06:40Z"})
        });
        let conditions: Vec<Value> = conditions.collect();
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "default"},
                "annotations": {"fleetwright.dev/nominated-pods": format!("default/p:{uid}")}},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
            "status": {"providerID": "fake://n", "nodeName": "n", "conditions": conditions}})
    }

    /// What kube-scheduler does with each failed attempt.
    fn clear(harness: &Harness) {
        let mut pod = harness.server.get("v1", "Pod", "default", "p").map(|pod| (*pod).clone()).unwrap();
        pod["status"]["nominatedNodeName"] = Value::Null;
        harness.server.apply(pod).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_nominated_until_its_node_is_initialized() {
        let harness = Harness::set(|settings| settings.nominate_pods = true);
        joining(&harness);
        let _running = harness.run(vec![Arc::new(NominatedNode::new(&harness.ctx))]);
        harness.pass(2).await;
        assert_eq!(of_pod(&harness, "/status/nominatedNodeName"), "n");
        clear(&harness);
        harness.pass(2).await;
        assert_eq!(of_pod(&harness, "/status/nominatedNodeName"), "n", "written again");
        harness.server.apply(claim(&of_pod(&harness, "/metadata/uid"), &["Initialized"])).unwrap();
        harness.pass(2).await;
        clear(&harness);
        harness.pass(2).await;
        assert_eq!(of_pod(&harness, "/status/nominatedNodeName"), Value::Null, "kube-scheduler decides");
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_permission_the_feature_is_off() {
        let refusals = Arc::new(Refusals::default());
        let harness = Harness::faulty(refusals.clone(), |settings| settings.nominate_pods = true);
        joining(&harness);
        let _running = harness.run(vec![Arc::new(NominatedNode::new(&harness.ctx))]);
        harness.pass(1).await;
        clear(&harness);
        refusals.set(&["pods"], 403);
        harness.pass(5).await;
        let off = harness.ctx.metrics.value(&FEATURE_OFF, &["pod-nominations", "pods/status", "Forbidden"]);
        assert_eq!(off, 1.0);
    }
}
