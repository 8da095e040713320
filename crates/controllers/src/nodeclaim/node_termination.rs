//! `node.termination`: taint, drain, volumes, instance, finalizer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudProvider},
    model::{NamespacedName, Node, Pod, ProviderId, Str, nodeclaim::ConditionType, volume::VolumeRef},
    nodeclaim::{ClaimStep, InstanceState, drain, termination},
};
use fleetwright_state::{Change, Index, Key};

use super::{
    cache::{EVICTION_QUEUE, LifecycleCache, QueuedEviction},
    claimed_node::ClaimedNode,
    cloud_call::CloudCall,
    cloud_refusals,
    executor::FORCEFUL,
    families, node_patch, node_release,
};
use crate::{
    events::{Event, regarding},
    metrics::Metrics,
    nodeclaim::executor::Executors,
    patch::Patches,
    runtime::{ApiClient, Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue},
    settings::Settings,
};

/// How long an equal event about a failed lookup is suppressed.
const LOOKUP_DEDUPE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Finalizes deleted Nodes.
pub struct NodeTermination {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    patches: Patches,
    executors: Executors,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    cache: Arc<LifecycleCache>,
}

impl NodeTermination {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            patches: Patches::new(ctx),
            executors: Executors::new(ctx, cache),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            cache: cache.clone(),
        }
    }
}

#[async_trait]
impl Controller for NodeTermination {
    fn name(&self) -> &'static str {
        "node.termination"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(100, 5000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_millis(100), Duration::from_secs(10), 10, 100)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let is_deleting = |name: &&str| index.node_model(name).is_some_and(|node| node.deleting.is_some());
        let named: Option<&str> = match (change.node(), change.pod()) {
            (Some(_), _) => Some(&change.key.name),
            (_, Some(pod)) => pod.node.as_deref(),
            _ => None,
        };
        // The status of a NodeClaim that was deleted while its node registered never names that node.
        let of_claim = change.claim().into_iter().flat_map(|_| index.nodes_of_claim(&change.key.name));
        let of_claim = of_claim.map(|node| &*node.name);
        named.into_iter().chain(of_claim).filter(is_deleting).map(Key::cluster).collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let (node, claim) = {
            let index = self.cluster.index();
            let claim = index.claim_of_node(&key.name).and_then(|claim| claim.metadata.name.clone());
            (index.node_model(&key.name).cloned(), claim)
        };
        let Some(object) = node.filter(|node| node.deleting.is_some() && node.has_finalizer) else {
            return Ok(Requeue::No);
        };
        match claim.and_then(|claim| ClaimedNode::find(&self.cluster, &self.settings, &claim)) {
            Some(node) => self.finalize(&object, &node.only(&object)).await,
            None => self.finalize_unclaimed(&object).await,
        }
    }
}

impl NodeTermination {
    async fn finalize(&self, object: &Node, node: &ClaimedNode) -> Result<Requeue, ReconcileError> {
        let view = node.view(self.cloud.info());
        let attachments = attachments(&self.cluster, &self.clocks, object, &node.pods);
        let mut instance = match (&object.provider_id, object.ready) {
            (Some(id), false) => {
                let answer = state_of(&*self.cloud, id).await;
                cloud_refusals::record(
                    &self.clocks,
                    &self.patches,
                    &self.recorder,
                    &self.cache,
                    node,
                    CloudCall::Get,
                    answer,
                )
                .await??
            }
            _ => InstanceState::Unknown,
        };
        if cloud_refusals::clear_lookup_failure(&self.patches, node).await? {
            // The NodeClaim has changed.
            return Ok(Requeue::Now);
        }
        let mut executor = self.executors.on(node);
        loop {
            let stage =
                termination::NodeTermination { node: object, attachments: &attachments, instance: &instance };
            let next = stage.next(&view, self.clocks.now());
            let drained = |step: &ClaimStep| {
                matches!(step, ClaimStep::Condition(change) if change.condition == ConditionType::Drained
                    && change.reason == ConditionType::Drained.as_str().into())
            };
            if next.steps.iter().any(drained) && self.cache.note_drained(&node.claim.uid) {
                self.metrics.inc(&families::NODES_DRAINED, &[node.pool_name()]);
            }
            let done = executor.execute(next).await?;
            match done.instance {
                // The state of the instance decides the next step, once.
                Some(answer @ (InstanceState::Gone | InstanceState::NotOwned(_))) if answer != instance => {
                    instance = answer;
                }
                _ => return Ok(done.again.into()),
            }
        }
    }
}

impl NodeTermination {
    /// Drains a Node without a NodeClaim (whose finalizer was removed by hand), and finalizes it once its instance is terminated.
    async fn finalize_unclaimed(&self, node: &Node) -> Result<Requeue, ReconcileError> {
        let class_keys: Vec<String> =
            self.cloud.info().node_classes.iter().map(|class| class.named("").label_key()).collect();
        let is_ours = class_keys.iter().any(|key| node.labels.contains_key(&**key));
        if !is_ours {
            return Ok(Requeue::No);
        }
        let instance = match &node.provider_id {
            Some(id) => Some((id, state_of(&*self.cloud, id).await)),
            None => None,
        };
        let pods: Vec<Arc<Pod>> = self.cluster.index().pods_on(&node.name).cloned().collect();
        let state = instance.as_ref().map(|(_, answer)| answer.as_ref().unwrap_or(&InstanceState::Unknown));
        let next = termination::unclaimed(node, &pods, state, self.clocks.now());
        for step in next.steps {
            match step {
                ClaimStep::ChangeNode(change) => {
                    node_patch::write(&self.client, &self.cluster, &change, None).await?;
                }
                ClaimStep::Evict(pod) => {
                    let (key, node, reason) = (Key::from(pod.id), node.name.clone(), FORCEFUL.to_owned());
                    let queued = QueuedEviction { uid: pod.uid, node, reason, force: None };
                    if self.cache.evict(key.clone(), queued) {
                        self.cluster.enqueue(EVICTION_QUEUE, key);
                    }
                }
                ClaimStep::ReleaseNode(name) => {
                    let (node, now) = ((&*name, None), self.clocks.now());
                    node_release::release(&self.client, &self.cluster, &self.metrics, node, now).await?;
                }
                // The others concern a NodeClaim.
                _ => {}
            }
        }
        if let Some((id, Err(error))) = instance {
            self.report_lookup(node, id, &error);
            return Err(error.into());
        }
        Ok(next.again.into())
    }

    /// Publishes an event about a Node whose instance cannot be looked up, unless that passes.
    fn report_lookup(&self, node: &Node, id: &ProviderId, error: &CloudError) {
        let raw = self.cluster.index().node(&node.name).cloned();
        let Some(raw) = raw.filter(|_| !cloud_refusals::is_transient(error)) else { return };
        let text = format!(
            "the node is deleted, its nodeclaim is gone, and whether its instance {id} still exists cannot be looked up: \
             {error}; it stays until that can"
        );
        let event = Event::warning(regarding(&*raw), "InstanceLookupFailed", text);
        self.recorder
            .publish(event.with_dedupe_values([&*node.name]).with_dedupe_timeout(LOOKUP_DEDUPE_TIMEOUT));
    }
}

/// Looks up the state of an instance.
async fn state_of(cloud: &dyn CloudProvider, id: &ProviderId) -> Result<InstanceState, CloudError> {
    match cloud.get(id).await {
        Ok(_) => Ok(InstanceState::Exists),
        Err(CloudError::NotFound(_)) => Ok(InstanceState::Gone),
        Err(CloudError::NotOwned { why, .. }) => Ok(InstanceState::NotOwned(why)),
        Err(error) => Err(error),
    }
}

/// Names of the volumes to detach before the instance is terminated, without those of pods that are not drained.
fn attachments(cluster: &Cluster, clocks: &Clocks, node: &Node, pods: &[Arc<Pod>]) -> Vec<Str> {
    let (index, now) = (cluster.index(), clocks.now());
    let staying = pods.iter().filter(|pod| !drain::is_drainable(pod, now));
    let kept: BTreeSet<&str> = staying
        .flat_map(|pod| pod.spec.volumes.iter().map(move |volume| volume_claim(pod, volume)))
        .filter_map(|claim| index.volume_name(&claim))
        .collect();
    let volume = |attachment: &k8s_openapi::api::storage::v1::VolumeAttachment| {
        attachment.spec.source.persistent_volume_name.clone()
    };
    index
        .attachments_to(&node.name)
        .filter(|attachment| volume(attachment).is_some_and(|volume| !kept.contains(volume.as_str())))
        .filter_map(|attachment| attachment.metadata.name.as_deref().map(Str::from))
        .collect()
}

fn volume_claim(pod: &Pod, volume: &VolumeRef) -> NamespacedName {
    let name = match volume {
        VolumeRef::Claim(name) => name.clone(),
        VolumeRef::Ephemeral { volume, .. } => format!("{}-{volume}", pod.id.name).into(),
    };
    NamespacedName::new(pod.id.namespace.clone(), name)
}
