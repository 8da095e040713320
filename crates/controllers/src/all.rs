//! Every controller, one line per module.

use std::sync::Arc;

use fleetwright_core::cloud::ProviderStep;

use crate::{
    capacitybuffer, disruption,
    nodeclaim::{self, LifecycleCache},
    nodeoverlay, nodepool, observability, provider_steps, provisioning,
    runtime::{Controller, Ctx, RunError, Shutdown},
};

/// All controllers, in the order in which changes reach them.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let mut controllers = provisioning::controllers(ctx);
    controllers.extend(claim_controllers(ctx, ctx.cloud.steps()));
    if ctx.settings.gates.capacity_buffer {
        controllers.push(Arc::new(capacitybuffer::BufferController::new(ctx)));
    }
    if ctx.settings.gates.node_overlay {
        controllers.push(Arc::new(nodeoverlay::OverlayStatus::new(ctx)));
    }
    controllers.extend(disruption::controllers(ctx));
    controllers.extend(observability::controllers(ctx));
    controllers
}

/// The controllers of a NodeClaim's life and of its NodePool's status, and those that run the steps of the provider.
pub(crate) fn claim_controllers(ctx: &Ctx, steps: Vec<Arc<dyn ProviderStep>>) -> Vec<Arc<dyn Controller>> {
    let cache = Arc::new(LifecycleCache::default());
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(nodeclaim::Lifecycle::new(ctx, &cache)),
        Arc::new(nodeclaim::NodeTermination::new(ctx, &cache)),
        Arc::new(nodeclaim::EvictionQueue::new(ctx, &cache)),
        Arc::new(nodeclaim::Expiration::new(ctx, &cache)),
        Arc::new(nodeclaim::GarbageCollection::new(ctx, &cache)),
        Arc::new(nodeclaim::Consistency::new(ctx, &cache)),
        Arc::new(nodeclaim::Disruption::new(ctx, &cache)),
        Arc::new(nodeclaim::PodEvents::new(ctx)),
        Arc::new(nodeclaim::Validation::new(ctx)),
        Arc::new(nodeclaim::ClaimHydration::new(ctx)),
        Arc::new(nodeclaim::NodeHydration::new(ctx)),
        Arc::new(nodepool::Hash::new(ctx)),
        Arc::new(nodepool::Counter::new(ctx)),
        Arc::new(nodepool::Validation::new(ctx)),
        Arc::new(nodepool::Readiness::new(ctx)),
        Arc::new(nodepool::Protection::new(ctx)),
        Arc::new(nodepool::RegistrationHealth::new(ctx, &cache)),
        Arc::new(nodepool::ObservedReaper::new(ctx)),
        Arc::new(nodepool::CapacityObserver::new(ctx)),
        Arc::new(nodepool::FeatureStatus::new(ctx)),
        Arc::new(nodeclaim::InitializationDeadline::new(ctx, &cache)),
    ];
    if ctx.settings.gates.static_capacity {
        all.push(Arc::new(nodepool::StaticProvisioning::new(ctx)));
        all.push(Arc::new(nodepool::StaticDeprovisioning::new(ctx)));
    }
    if ctx.settings.nominate_pods {
        all.push(Arc::new(nodeclaim::NominatedNode::new(ctx)));
    }
    if ctx.settings.gates.node_repair {
        all.push(Arc::new(nodeclaim::Repair::new(ctx, &cache)));
    }
    all.extend(provider_steps::controllers(ctx, &cache, steps));
    all
}

/// Runs all watches and controllers until shutdown.
///
/// # Errors
/// If a loop ends without a shutdown: the process should then exit and be restarted.
pub async fn run(ctx: Ctx, stop: Shutdown) -> Result<(), RunError> {
    let controllers = controllers(&ctx);
    crate::runtime::run(ctx, controllers, stop).await
}

#[cfg(test)]
mod tests {
    //! Beside the operator of another cloud.
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Harness;

    /// Objects of another cloud's operator: they get no status, hash, event, taint or finalizer, and are not deleted.
    #[tokio::test(start_paused = true)]
    async fn objects_of_another_cloud_are_left_alone() {
        let harness = Harness::new();
        let class = json!({"group": "acme.example", "kind": "AcmeNodeClass", "name": "default"});
        let label = json!({"karpenter.sh/nodepool": "theirs", "acme.example/acmenodeclass": "default"});
        let pod = |name: &str, selector: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeSelector": {"karpenter.sh/nodepool": selector}, "containers":
                    [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Pending", "conditions":
                    [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
        };
        let nodes = |name: &str, deleted: bool| {
            let id = format!("acme:///{name}");
            let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": name, "labels": label, "finalizers": ["karpenter.sh/termination"]},
                "spec": {"requirements": [], "nodeClassRef": class, "expireAfter": "1s"},
                "status": {"providerID": id}});
            if deleted {
                claim["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            }
            let node = json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": label, "finalizers": ["karpenter.sh/termination"]},
                "spec": {"providerID": id,
                    "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}});
            [claim, node]
        };
        let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "theirs"}, "spec": {"template": template}});
        let mut theirs = vec![pool];
        theirs.extend(nodes("launched", false).into_iter().chain(nodes("deleted", true)));
        for object in theirs.iter().cloned().chain([pod("for-theirs", "theirs"), pod("for-ours", "ours")]) {
            harness.server.apply(object).unwrap();
        }
        harness.pool("ours", json!({}));
        let stored = |object: &Value| {
            let (kind, name) =
                (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            harness.server.get(object["apiVersion"].as_str().unwrap(), kind, "", name)
        };
        let before: Vec<_> = theirs.iter().map(stored).collect();
        assert!(before.iter().all(Option::is_some));
        let (_trigger, _task) = harness.run(controllers(&harness.ctx));
        harness.pass(1800).await;
        let after: Vec<_> = theirs.iter().map(stored).collect();
        assert_eq!(after, before);
        let events = harness.events();
        let about_theirs = |event: &&String| {
            let object = event.split(' ').next().unwrap_or_default();
            matches!(object.rsplit('/').next(), Some("theirs" | "launched" | "deleted"))
        };
        let found: Vec<_> = events.iter().filter(about_theirs).collect();
        assert!(found.is_empty(), "{found:?}");
        // The controllers were at work all the while.
        let ours = harness.server.get("karpenter.sh/v1", "NodePool", "", "ours").unwrap();
        assert!(ours["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].is_string(), "{ours}");
    }
}
