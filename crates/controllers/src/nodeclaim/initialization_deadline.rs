//! `nodeclaim.initializationdeadline`: reports what is missing on nodes that are not initialized in time and who owns it,
//! replaces one node, then stops launches of the NodePool. Off unless a setting or annotation sets a deadline.
//!
//! Actions are recorded on the NodePool first: the annotation `initialization-failures` before the node is
//! replaced, and the condition InitializationHealthy, which stops launches.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_api::{
    self as api, HasConditions,
    condition::find,
    labels::{
        INITIALIZATION_FAILURES,
        condition::{INITIALIZATION_HEALTHY as HEALTHY, INITIALIZED_IN_TIME as IN_TIME},
    },
};
use fleetwright_core::{
    cloud::CloudProvider,
    nodeclaim::{
        ClaimStep, Next,
        answer::Misfit,
        deadline::{Decision, Missing, OverdueResponse, decide},
    },
    safety::Cause,
};
use fleetwright_state::{Change, Index, Key, WatchedKind, raise};
use k8s_openapi::api::core::v1::Node;

use super::{
    cache::LifecycleCache,
    claimed_node::{ClaimedNode, claim_of},
    executor::Executors,
    families,
    nominations::Nominations,
};
use crate::{
    events::{Event, regarding},
    metrics::Metrics,
    patch::Patches,
    pool_status::PoolStatus,
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, ReconcileError, Recorder, Requeue, ignore_not_found,
    },
    settings::Settings,
};

/// How often an overdue node is checked without a change.
const REQUEUE_AFTER: Duration = Duration::from_secs(5 * 60);

/// Enforces the deadline.
pub struct InitializationDeadline {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    patches: Patches,
    pools: PoolStatus,
    nominations: Nominations,
    executors: Executors,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl InitializationDeadline {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            patches: Patches::new(ctx),
            pools: PoolStatus::new(ctx),
            nominations: Nominations::new(ctx),
            executors: Executors::new(ctx, cache),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
        }
    }
}

#[async_trait]
impl Controller for InitializationDeadline {
    fn name(&self) -> &'static str {
        "nodeclaim.initializationdeadline"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        match change.kind {
            // A deadline may have been set.
            WatchedKind::NodePool => {
                let late =
                    index.claim_models().filter(|claim| claim.pool.as_deref() == Some(&*change.key.name));
                let late = late.filter(|claim| {
                    !claim.is(fleetwright_core::model::nodeclaim::ConditionType::Initialized)
                });
                late.map(|claim| Key::cluster(claim.name.as_str())).collect()
            }
            _ => claim_of(change, index).into_iter().collect(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        // Read before the decision: a change in between makes the write of the record a conflict.
        let pool = {
            let index = self.cluster.index();
            let name = index.claim_model(&key.name).and_then(|claim| claim.pool.clone());
            name.and_then(|name| index.pool(&name).cloned())
        };
        let node = ClaimedNode::find(&self.cluster, &self.settings, &key.name);
        let (Some(pool), Some(node)) = (pool, node) else { return Ok(Requeue::No) };
        let view = node.view(self.cloud.info());
        match decide(&view, self.settings.initialization_timeout, self.clocks.now()) {
            Decision::Nothing => Ok(Requeue::No),
            Decision::Wait(left) => Ok(Requeue::After(left)),
            Decision::Recovered => {
                recover(&self.cluster, &self.patches, &self.pools, &pool).await?;
                Ok(Requeue::No)
            }
            Decision::Overdue { missing, response } => {
                self.overdue(&node, &pool, &missing, response).await?;
                Ok(Requeue::After(REQUEUE_AFTER))
            }
        }
    }
}

impl InitializationDeadline {
    async fn overdue(
        &self,
        node: &ClaimedNode,
        pool: &Arc<api::NodePool>,
        missing: &Missing,
        response: OverdueResponse,
    ) -> Result<(), ReconcileError> {
        let name = node.claim.name.as_str();
        let reported = find(node.raw.conditions(), IN_TIME).is_some_and(|known| known.is_false());
        let text = self.explanation(node, missing).await?;
        self.patches
            .claim_conditions(name, |conditions| {
                conditions.set_false(IN_TIME, &missing.reason, &text);
            })
            .await?;
        self.recorder.publish(Event::warning(regarding(&*node.raw), "InitializationTimeout", text.clone()));
        if !reported {
            let labels = [&*missing.reason, node.pool_name()];
            self.metrics.inc(&families::INITIALIZATION_TIMEOUTS, &labels);
            tracing::warn!(
                NodeClaim.name = name,
                reason = &*missing.reason,
                text,
                "node was not initialized in time"
            );
        }
        match response {
            OverdueResponse::Replace { recorded } => {
                if !recorded {
                    record_failure(&self.clocks, &self.patches, pool, name).await?;
                }
                let message = format!("nodeclaim {name} is replaced: {text}");
                change_pool_conditions(&self.cluster, &self.pools, node.pool_name(), |conditions| {
                    conditions.set_unknown_with_reason(HEALTHY, "Replaced", &message);
                })
                .await?;
                let next = Next::steps([ClaimStep::Delete(Cause::InitializationTimeout)]);
                self.executors.on(node).because(text).execute(next).await?;
                Ok(())
            }
            OverdueResponse::Halt => {
                let message = format!(
                    "nothing is launched for this pool until its spec changes or a node of it is initialized: the node \
                     that replaced an earlier one, nodeclaim {name}, fails too: {text}"
                );
                change_pool_conditions(&self.cluster, &self.pools, node.pool_name(), |conditions| {
                    conditions.set_false(HEALTHY, "InitializationTimeout", &message);
                })
                .await?;
                self.recorder.publish(Event::warning(regarding(&**pool), "LaunchesSuspended", message));
                release_all_pods(&self.nominations, node).await
            }
            OverdueResponse::Report => release_all_pods(&self.nominations, node).await,
        }
    }

    /// Explains what is missing, since when, who owns it, and who wrote the node's taints last.
    async fn explanation(&self, node: &ClaimedNode, missing: &Missing) -> Result<String, ReconcileError> {
        let mut text = format!(
            "{} since the node joined at {}; this is for {} to change",
            missing.message, missing.since, missing.owner
        );
        let by_taint = missing.reason.ends_with("TaintsExist");
        if let Some(node) = node.nodes.first().filter(|_| by_taint) {
            let read = self.client.call("read node", self.client.cluster::<Node>().get(&node.name)).await;
            if let Some(writer) = ignore_not_found(read)?.as_ref().and_then(writer_of_taints) {
                text = format!("{text}; taints were last written by {writer}");
            }
        }
        Ok(text)
    }
}

/// The field manager that wrote a node's taints last, and the time.
fn writer_of_taints(node: &Node) -> Option<String> {
    let fields = node.metadata.managed_fields.iter().flatten();
    let wrote_taints = fields.filter(|entry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:taints").is_some())
    });
    let last = wrote_taints.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    let manager = last.manager.as_deref().unwrap_or("an unknown manager");
    Some(match &last.time {
        Some(time) => format!("{manager} at {}", time.0),
        None => manager.to_owned(),
    })
}

/// Records that the node of `claim` is being replaced. Fails if another replacement was recorded meanwhile.
async fn record_failure(
    clocks: &Clocks,
    patches: &Patches,
    pool: &Arc<api::NodePool>,
    claim: &str,
) -> Result<(), ReconcileError> {
    let (generation, now) = (pool.metadata.generation.unwrap_or(0), clocks.now());
    let before = pool.metadata.annotations.as_ref().and_then(|all| all.get(INITIALIZATION_FAILURES)).cloned();
    let raced = std::sync::atomic::AtomicBool::new(false);
    patches
        .annotate(pool.clone(), INITIALIZATION_FAILURES, |known| {
            if known != before.as_deref() {
                raced.store(true, std::sync::atomic::Ordering::Relaxed);
                return known.map(str::to_owned);
            }
            Some(raise::initialization_failure(generation, claim, now))
        })
        .await?;
    if raced.into_inner() {
        return Err(ReconcileError::Conflict { what: "note the replacement of a node" });
    }
    Ok(())
}

/// Changes conditions of NodePool `name`.
async fn change_pool_conditions(
    cluster: &Cluster,
    pools: &PoolStatus,
    name: &str,
    apply: impl FnOnce(&mut api::ConditionSet<'_>),
) -> Result<(), ReconcileError> {
    let Some(pool) = cluster.index().pool(name).cloned() else { return Ok(()) };
    pools.change_conditions(&pool, apply).await
}

async fn recover(
    cluster: &Cluster,
    patches: &Patches,
    pools: &PoolStatus,
    pool: &Arc<api::NodePool>,
) -> Result<(), ReconcileError> {
    patches.annotate(pool.clone(), INITIALIZATION_FAILURES, |_| None).await?;
    change_pool_conditions(cluster, pools, pool.metadata.name.as_deref().unwrap_or_default(), |conditions| {
        conditions.set_true(HEALTHY);
    })
    .await
}

/// Releases all pods that are nominated to a node that is not replaced.
async fn release_all_pods(nominations: &Nominations, node: &ClaimedNode) -> Result<(), ReconcileError> {
    let pods: BTreeSet<_> = node.claim.intended_pods.iter().cloned().collect();
    if pods.is_empty() {
        return Ok(());
    }
    let misfit = Misfit::NotInitialized;
    let text = format!("{misfit}; its {} pods may get another nodeclaim", pods.len());
    nominations.release_pods(&node.claim.name, misfit.reason(), &text, &pods).await
}
