//! Runs the loops of the provider, and acts on their reports.

mod objects;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{Figure, FigureFamily, FigureShape, Interruption, Outlook, ProviderStep},
    nodeclaim::{Next, Step},
    safety::Cause,
};
use fleetwright_state::Key;

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
            if let Err(error) = objects::change(&self.client, &self.cluster, write).await {
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
    let FigureFamily { name, help, labels, shape } = *figure.family;
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

/// The cluster as input of the provider's loops.
fn outlook(cluster: &Cluster, clocks: &Clocks) -> Outlook {
    let index = cluster.index();
    let node = |name: &str| index.nodes_of_claim(name).next().cloned();
    let nodes = index.claim_models().map(|claim| (claim.clone(), node(&claim.name))).collect();
    let pools =
        index.pools().filter_map(|pool| index.pool_model(pool.metadata.name.as_deref()?).cloned()).collect();
    Outlook { now: clocks.now(), nodes, pools }
}

impl ProviderLoop {
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
        publish(&self.cluster, &self.recorder, &node, reason, message);
        publish(
            &self.cluster,
            &self.recorder,
            &node,
            "TerminatingOnInterruption",
            "Interruption triggered termination",
        );
        log::interrupted_nodeclaim(&node.claim.name, interruption.kind.as_str());
        let next = Next::steps([Step::Delete(Cause::Interrupted(interruption.kind))]);
        self.executors.on(&node).execute(next).await?;
        Ok(())
    }
}

/// Publishes an event on a NodeClaim and its Nodes.
fn publish(cluster: &Cluster, recorder: &Recorder, node: &ClaimedNode, reason: &'static str, message: &str) {
    recorder.publish(Event::warning(regarding(&*node.raw), reason, message));
    for node in &node.nodes {
        let node = cluster.index().node(&node.name).cloned();
        if let Some(node) = node {
            recorder.publish(Event::warning(regarding(&*node), reason, message));
        }
    }
}

#[cfg(test)]
mod tests {
    //! An interruption deletes the NodeClaim once, with Karpenter's events.
    use crate::nodeclaim::families;
    use fleetwright_core::cloud::{CloudError, InterruptionKind, Notice, Object, Round, Write};
    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    static GAUGE: FigureFamily = FigureFamily {
        name: "test_gauge",
        help: "of a provider",
        labels: &["which"],
        shape: FigureShape::Gauge,
    };

    /// Reports the same interruption at each run.
    struct RepeatedInterruption;

    #[async_trait]
    impl ProviderStep for RepeatedInterruption {
        fn name(&self) -> &'static str {
            "interruption"
        }

        async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
            let of = |id: &str| Interruption { id: id.into(), kind: InterruptionKind::Spot };
            let interruptions = vec![of("test:///unknown"), of("test:///i-1")];
            let object = Object::NodeClaim("b".into());
            let mut write = Write::to(object.clone());
            write.labels.insert("looked-at".into(), Some("true".into()));
            let notice = Notice { object, warning: false, reason: "Seen", message: "it is there".into() };
            let figure = |value: Option<f64>, label: &str| Figure {
                family: &GAUGE,
                labels: vec![label.into()],
                value,
            };
            Ok(Round {
                interruptions,
                writes: vec![write],
                notices: vec![notice],
                figures: vec![figure(Some(7.0), "stays"), figure(Some(8.0), "goes"), figure(None, "goes")],
                ..Round::quiet(Duration::from_secs(1))
            })
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
                "NodeClaim/a TerminatingOnInterruption: Interruption triggered termination",
                "NodeClaim/b Seen: it is there",
            ]
        );
        let labels = ["spot_interrupted", "default", "spot", "", "forceful"];
        assert_eq!(harness.ctx.metrics.value(&families::CLAIMS_DISRUPTED, &labels), 1.0);
        let exposition = harness.ctx.metrics.encode().unwrap();
        let gauge: Vec<&str> = exposition.lines().filter(|line| line.starts_with("test_gauge{")).collect();
        assert_eq!(gauge, ["test_gauge{which=\"stays\"} 7"]);
    }
}
