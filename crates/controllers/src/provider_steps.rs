//! Runs the loops of the provider, and acts on their reports.

mod merge;
mod objects;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        Figure, FigureFamily, FigureShape, Interruption, NodeCondition, NodeStatus, Outlook, ProviderStep,
        Write,
    },
    model::{NodeName, Str},
    nodeclaim::{ClaimStep, Next},
    safety::Cause,
};
use fleetwright_state::Key;
use k8s_openapi::api::core::v1 as k8s;

use crate::{
    events::{Event, regarding},
    log,
    metrics::{Family, Metrics},
    nodeclaim::{LifecycleCache, claimed_node::ClaimedNode, executor::Executors},
    runtime::{ApiClient, Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue},
    settings::Settings,
};

/// Minimum interval between two runs of a loop.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// One controller per loop of the provider.
pub(crate) fn controllers(
    ctx: &Ctx,
    cache: &Arc<LifecycleCache>,
    steps: Vec<Arc<dyn ProviderStep>>,
) -> Vec<Arc<dyn Controller>> {
    let controller = |step| Arc::new(ProviderLoop::new(ctx, cache, step)) as Arc<dyn Controller>;
    steps.into_iter().map(controller).collect()
}

/// A loop of the provider.
struct ProviderLoop {
    step: Arc<dyn ProviderStep>,
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    executors: Executors,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl ProviderLoop {
    fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>, step: Arc<dyn ProviderStep>) -> Self {
        Self {
            step,
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            executors: Executors::new(ctx, cache),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
        }
    }
}

#[async_trait]
impl Controller for ProviderLoop {
    fn name(&self) -> &'static str {
        self.step.name()
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 10, 100)
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let round = self.step.run(&outlook(&self.cluster, &self.clocks)).await?;
        for notice in &round.notices {
            objects::publish(&self.cluster, &self.recorder, notice);
        }
        round.figures.iter().for_each(|figure| expose(&self.metrics, figure));
        for write in round.writes.iter().filter(|write| !write.is_empty()) {
            // The next run decides again: a failed write does not delay the others.
            if let Err(error) = self.write(write).await {
                tracing::warn!(object = ?write.object, %error, "failed to write for a loop of the provider");
            }
        }
        for interruption in &round.interruptions {
            // The provider reports it again: a failure does not delay the others.
            if let Err(error) = self.delete_interrupted(interruption).await {
                tracing::warn!(id = %interruption.id, %error, "failed to act on an interruption; retrying");
            }
        }
        Ok(Requeue::After(round.again.max(MIN_INTERVAL)))
    }
}

/// Exposes a metric of the provider.
fn expose(metrics: &Metrics, figure: &Figure) {
    let FigureFamily { name, help, labels, shape, .. } = *figure.family;
    let values: Vec<&str> = figure.labels.iter().map(|value| &**value).collect();
    let family = match shape {
        FigureShape::Counter => Family::counter(name, labels, help),
        FigureShape::Gauge => Family::gauge(name, labels, help),
        FigureShape::Histogram(bounds) => Family::histogram(name, labels, bounds, help),
    };
    match (figure.value, shape) {
        (None, _) => metrics.remove(&family, &values),
        (Some(value), FigureShape::Counter) => metrics.add(&family, &values, value),
        (Some(value), FigureShape::Gauge) => metrics.set(&family, &values, value),
        (Some(value), FigureShape::Histogram(_)) => metrics.observe(&family, &values, value),
    }
}

/// What a Node reports, with its name.
fn node_status(node: &k8s::Node) -> (NodeName, NodeStatus) {
    let status = node.status.as_ref();
    let text = |text: &Option<String>| Str::from(text.as_deref().unwrap_or_default());
    let condition = |known: &k8s::NodeCondition| {
        let since = known.last_transition_time.as_ref().map(|time| time.0);
        let mut condition = NodeCondition::new(known.type_.as_str(), known.status.as_str(), since);
        (condition.reason, condition.message) = (text(&known.reason), text(&known.message));
        condition
    };
    let mut reported = NodeStatus::default();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    reported.conditions = conditions.unwrap_or_default().iter().map(condition).collect();
    let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default().iter();
    reported.addresses =
        addresses.map(|address| (address.type_.as_str().into(), address.address.as_str().into())).collect();
    (node.metadata.name.as_deref().unwrap_or_default().into(), reported)
}

/// The cluster as input of the provider's loops.
fn outlook(cluster: &Cluster, clocks: &Clocks) -> Outlook {
    let index = cluster.index();
    let node = |name: &str| index.nodes_of_claim(name).next().cloned();
    let nodes = index.claim_models().map(|claim| (claim.clone(), node(&claim.name))).collect();
    let pools =
        index.pools().filter_map(|pool| index.pool_model(pool.metadata.name.as_deref()?).cloned()).collect();
    let statuses = index.nodes().map(|node| node_status(node)).collect();
    Outlook::at(clocks.now()).with_nodes(nodes).with_pools(pools).with_statuses(statuses)
}

impl ProviderLoop {
    /// Changes an object: finalizers and conditions of the provider's own last, on what the rest of the change left.
    async fn write(&self, write: &Write) -> Result<(), ReconcileError> {
        objects::change(&self.client, &self.cluster, write).await?;
        if write.reads_first() {
            merge::merge(&self.client, write, self.clocks.now()).await?;
        }
        Ok(())
    }

    /// Deletes the NodeClaim of an instance that is about to be interrupted. Termination follows as after any deletion.
    async fn delete_interrupted(&self, interruption: &Interruption) -> Result<(), ReconcileError> {
        let name = {
            let index = self.cluster.index();
            let mut claims = index.claim_models();
            claims
                .find(|claim| claim.provider_id.as_ref() == Some(&interruption.id))
                .map(|claim| claim.name.clone())
        };
        let Some(node) = name.and_then(|name| ClaimedNode::find(&self.cluster, &self.settings, &name)) else {
            return Ok(());
        };
        if node.claim.deleting.is_some() {
            return Ok(());
        }
        let (reason, message) = interruption.kind.event();
        publish(&self.cluster, &self.recorder, &node, reason, [message; 2]);
        let messages =
            ["NodeClaim", "Node"].map(|of| format!("Interruption triggered termination for the {of}"));
        let messages = messages.each_ref().map(String::as_str);
        publish(&self.cluster, &self.recorder, &node, "TerminatingOnInterruption", messages);
        log::interrupted_nodeclaim(&node.claim.name, interruption.kind.as_str());
        let next = Next::steps([ClaimStep::Delete(Cause::Interrupted(interruption.kind))]);
        self.executors.on(&node).execute(next).await?;
        Ok(())
    }
}

/// Publishes an event on a NodeClaim and its Nodes, each with its message.
fn publish(
    cluster: &Cluster,
    recorder: &Recorder,
    node: &ClaimedNode,
    reason: &'static str,
    [of_claim, of_node]: [&str; 2],
) {
    recorder.publish(Event::warning(regarding(&*node.raw), reason, of_claim));
    for node in &node.nodes {
        let node = cluster.index().node(&node.name).cloned();
        if let Some(node) = node {
            recorder.publish(Event::warning(regarding(&*node), reason, of_node));
        }
    }
}

#[cfg(test)]
mod tests {
    //! An interruption deletes the NodeClaim once, with Karpenter's events.
    use crate::nodeclaim::families;
    use fleetwright_core::{
        cloud::{CloudError, ConditionWrite, InterruptionKind, Notice, Object, Round},
        model::ConditionStatus,
    };
    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    static GAUGE: FigureFamily =
        FigureFamily::new("test_gauge", "of a provider", &["which"], FigureShape::Gauge);

    /// Reports the same interruption at each run.
    struct RepeatedInterruption;

    #[async_trait]
    impl ProviderStep for RepeatedInterruption {
        fn name(&self) -> &'static str {
            "interruption"
        }

        async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
            let of = |id: &str| Interruption::new(id, InterruptionKind::Spot);
            let interruptions = vec![of("test:///unknown"), of("test:///i-1")];
            let object = Object::NodeClaim("b".into());
            let mut write = Write::to(object.clone());
            write.labels.insert("looked-at".into(), Some("true".into()));
            let notice = Notice::normal(object, "Seen", "it is there");
            let figure = |value: Option<f64>, label: &str| Figure::new(&GAUGE, vec![label.into()], value);
            let figures = vec![figure(Some(7.0), "stays"), figure(Some(8.0), "goes"), figure(None, "goes")];
            Ok(Round::quiet(Duration::from_secs(1))
                .with_interruptions(interruptions)
                .with_writes(vec![write])
                .with_notices(vec![notice])
                .with_figures(figures))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_interrupted_claim_is_deleted_once() {
        let harness = Harness::new();
        for name in ["a", "b"] {
            let id = if name == "a" { "test:///i-1" } else { "test:///i-2" };
            harness
                .server
                .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"],
                        "labels": {"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}},
                    "spec": {"requirements": [], "nodeClassRef":
                        {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
                    "status": {"providerID": id}}))
                .unwrap();
        }
        let (_trigger, _task) =
            harness.run(controllers(&harness.ctx, &Arc::default(), vec![Arc::new(RepeatedInterruption)]));
        harness.pass(10).await;
        let claims = harness.server.list("karpenter.sh/v1", "NodeClaim", "");
        let deleting: Vec<_> =
            claims.iter().map(|claim| claim["metadata"]["deletionTimestamp"].is_string()).collect();
        assert_eq!(deleting, [true, false]);
        assert_eq!(claims[1]["metadata"]["labels"]["looked-at"], "true");
        assert_eq!(
            harness.events(),
            [
                "NodeClaim/a SpotInterrupted: Spot interruption warning was triggered",
                "NodeClaim/a TerminatingOnInterruption: Interruption triggered termination for the NodeClaim",
                "NodeClaim/b Seen: it is there",
            ]
        );
        let labels = ["spot_interrupted", "default", "spot", "", "forceful"];
        assert_eq!(harness.ctx.metrics.value(&families::CLAIMS_DISRUPTED, &labels), 1.0);
        let exposition = harness.ctx.metrics.encode().unwrap();
        let gauge: Vec<&str> = exposition.lines().filter(|line| line.starts_with("test_gauge{")).collect();
        assert_eq!(gauge, ["test_gauge{which=\"stays\"} 7"]);
    }

    /// Finalizer and condition of its own on every NodeClaim; what it reads of Nodes.
    #[derive(Default)]
    struct Registrar {
        leaves: std::sync::atomic::AtomicBool,
        seen: std::sync::Mutex<Vec<String>>,
    }

    #[async_trait]
    impl ProviderStep for Registrar {
        fn name(&self) -> &'static str {
            "registrar"
        }

        async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
            let mut seen = self.seen.lock().unwrap();
            *seen = outlook
                .statuses
                .iter()
                .map(|(name, status)| {
                    let ready = status.condition("Ready").map(|ready| ready.status.to_string());
                    format!("{name} {ready:?} {:?}", status.address("InternalIP"))
                })
                .collect();
            let write = |claim: &str| {
                let write = Write::to(Object::NodeClaim(claim.into()));
                let registered = ConditionWrite::new("InLoadBalancer", ConditionStatus::True, "registered");
                let launched = ConditionWrite::new("Launched", ConditionStatus::False, "not its business");
                if self.leaves.load(std::sync::atomic::Ordering::Relaxed) {
                    return write
                        .remove_finalizer("acme.example/lb")
                        .remove_finalizer("karpenter.sh/termination");
                }
                write.add_finalizer("acme.example/lb").condition(registered).condition(launched)
            };
            let writes = outlook.nodes.iter().map(|(claim, _)| write(&claim.name)).collect();
            Ok(Round::quiet(Duration::from_secs(1)).with_writes(writes))
        }
    }

    /// Beside those of Karpenter, which stay as they are.
    #[tokio::test(start_paused = true)]
    async fn a_provider_has_finalizers_and_conditions_of_its_own() {
        let harness = Harness::new();
        let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z"});
        for object in [
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "finalizers": ["karpenter.sh/termination"]},
                "spec": {"requirements": [], "nodeClassRef":
                    {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
                "status": {"providerID": "test:///i-1", "conditions": [launched.clone()]}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": "test:///i-1"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}}),
        ] {
            harness.server.apply(object).unwrap();
        }
        let registrar = Arc::new(Registrar::default());
        let stored = || harness.server.list("karpenter.sh/v1", "NodeClaim", "").remove(0);
        let steps: Vec<Arc<dyn ProviderStep>> = vec![registrar.clone()];
        let (_trigger, _task) = harness.run(controllers(&harness.ctx, &Arc::default(), steps));
        harness.pass(5).await;
        assert_eq!(
            stored()["metadata"]["finalizers"],
            json!(["karpenter.sh/termination", "acme.example/lb"])
        );
        let conditions = stored()["status"]["conditions"].clone();
        assert_eq!(conditions[0], launched, "{conditions}");
        let own = (&conditions[1]["type"], &conditions[1]["status"], &conditions[1]["reason"]);
        assert_eq!(own, (&json!("InLoadBalancer"), &json!("True"), &json!("InLoadBalancer")));
        assert_eq!(*registrar.seen.lock().unwrap(), ["n Some(\"True\") Some(\"10.0.0.7\")"]);
        let version = stored()["metadata"]["resourceVersion"].clone();
        harness.pass(5).await;
        assert_eq!(stored()["metadata"]["resourceVersion"], version, "nothing changes any more");
        registrar.leaves.store(true, std::sync::atomic::Ordering::Relaxed);
        harness.pass(5).await;
        assert_eq!(stored()["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    }
}
