//! Starts the watches and the controllers, and waits until they end.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use fleetwright_api as api;
use fleetwright_state::WatchedKind;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
    core::v1::{
        LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
        Service,
    },
    policy::v1::PodDisruptionBudget,
    resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
    storage::v1::{CSINode, StorageClass, VolumeAttachment},
};
use tokio::task::JoinSet;

use super::{
    controller::Controller,
    ctx::Ctx,
    gate::may_act,
    hub::Route,
    queue::{Queue, later},
    reference_watch::ReferenceWatch,
    shutdown::Shutdown,
    watch::{Source, Watchable, follow},
    worker::Worker,
};
use crate::metrics::{
    cluster as families,
    runtime::{BUILD_INFO, CONVERSION_PANICS, LEADER, LEADER_SLOW},
};

/// Why the controllers ended without a shutdown.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The controllers are already running.
    #[error("the controllers of this context are already running")]
    AlreadyRunning,
    /// A loop of the runtime itself panicked.
    #[error("a loop ended unexpectedly: {0}")]
    LoopEnded(String),
}

/// Starts the watch of a kind.
type Watch = fn(&Ctx, &Shutdown) -> Task;
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `controllers` until shutdown.
///
/// # Errors
/// If a loop ends without a shutdown: the process should then exit and be restarted.
pub async fn run(
    ctx: Ctx,
    controllers: Vec<Arc<dyn Controller>>,
    mut stop: Shutdown,
) -> Result<(), RunError> {
    let controllers: Vec<(Arc<dyn Controller>, Arc<Queue>)> = controllers
        .into_iter()
        .map(|controller| (controller.clone(), Arc::new(Queue::new(controller.rate_limit()))))
        .collect();
    let routes = controllers.iter().map(|(controller, queue)| Route::new(controller, queue.clone()));
    if !ctx.cluster.hub().set_routes(routes.collect()) {
        return Err(RunError::AlreadyRunning);
    }
    ctx.gate.stops_with(&stop);
    let commit = option_env!("FLEETWRIGHT_COMMIT").unwrap_or_default();
    ctx.metrics.set(&BUILD_INFO, &[env!("CARGO_PKG_VERSION"), "", architecture(), commit], 1.0);
    ctx.metrics.add(&CONVERSION_PANICS, &[], 0.0);
    let mut tasks = JoinSet::new();
    for watch in watches(&ctx, &stop) {
        tasks.spawn(watch);
    }
    for (controller, queue) in controllers {
        for kind in controller.references() {
            let watch = ReferenceWatch::new(ctx.clone(), controller.clone(), queue.clone(), kind);
            tasks.spawn(watch.follow(stop.clone()));
        }
        tasks.spawn(Worker::new(ctx.clone(), controller, queue).run(stop.clone()));
    }
    tasks.spawn(update_state_gauges(ctx.clone(), stop.clone()));
    tasks.spawn(ctx.recorder.clone().run(
        ctx.client.clone(),
        ctx.names.clone(),
        ctx.features.clone(),
        stop.clone(),
    ));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            return Err(RunError::LoopEnded(error.to_string()));
        }
        if !stop.is_requested() {
            return Err(RunError::LoopEnded("without an error".to_owned()));
        }
    }
    stop.requested().await;
    Ok(())
}

/// One watch per kind; referenced kinds come first.
fn watches(ctx: &Ctx, stop: &Shutdown) -> Vec<Task> {
    fn of<K>(ctx: &Ctx, stop: &Shutdown) -> Task
    where
        K: Watchable + kube::Resource<DynamicType = ()>,
    {
        Box::pin(follow(ctx.clone(), Source::<K>::new(ctx), stop.clone()))
    }
    let followed: Vec<WatchedKind> = ctx.cluster.index().followed().collect();
    let all: [(WatchedKind, Watch); _] = [
        (WatchedKind::Namespace, of::<Namespace>),
        (WatchedKind::StorageClass, of::<StorageClass>),
        (WatchedKind::PersistentVolume, of::<PersistentVolume>),
        (WatchedKind::PersistentVolumeClaim, of::<PersistentVolumeClaim>),
        (WatchedKind::CsiNode, of::<CSINode>),
        (WatchedKind::VolumeAttachment, of::<VolumeAttachment>),
        (WatchedKind::PodDisruptionBudget, of::<PodDisruptionBudget>),
        (WatchedKind::DaemonSet, of::<DaemonSet>),
        (WatchedKind::NodePool, of::<api::NodePool>),
        (WatchedKind::NodeClaim, of::<api::NodeClaim>),
        (WatchedKind::Node, of::<Node>),
        (WatchedKind::Pod, of::<Pod>),
        (WatchedKind::NodeOverlay, of::<api::NodeOverlay>),
        (WatchedKind::CapacityBuffer, of::<api::CapacityBuffer>),
        (WatchedKind::Service, of::<Service>),
        (WatchedKind::ReplicationController, of::<ReplicationController>),
        (WatchedKind::ReplicaSet, of::<ReplicaSet>),
        (WatchedKind::StatefulSet, of::<StatefulSet>),
        (WatchedKind::DeviceClass, of::<DeviceClass>),
        (WatchedKind::ResourceSlice, of::<ResourceSlice>),
        (WatchedKind::ResourceClaimTemplate, of::<ResourceClaimTemplate>),
        (WatchedKind::ResourceClaim, of::<ResourceClaim>),
        (WatchedKind::LimitRange, of::<LimitRange>),
    ];
    let mut tasks: Vec<Task> = Vec::new();
    for (kind, watch) in all.into_iter().filter(|(kind, _)| followed.contains(kind)) {
        if kind == WatchedKind::NodePool {
            // NodePools refer to NodeClasses.
            for class in &ctx.cloud.info().node_classes {
                tasks.push(Box::pin(follow(ctx.clone(), Source::of_class(ctx, class), stop.clone())));
            }
        }
        tasks.push(watch(ctx, stop));
    }
    tasks
}

/// The architecture as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Updates the gauges of the cluster state, also while controllers are passive because it is not fresh.
async fn update_state_gauges(ctx: Ctx, mut stop: Shutdown) {
    const INTERVAL: Duration = Duration::from_secs(5);
    /// Delay and interval of log lines about unsynced state.
    const LOG_INTERVAL: Duration = Duration::from_secs(30);
    let (mut since, mut complained) = (ctx.clocks.steady(), ctx.clocks.steady());
    loop {
        let now = ctx.clocks.steady();
        let passive = may_act(&ctx.cluster.index(), now).err();
        if passive.is_none() {
            since = now;
        }
        let unsynced = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        ctx.metrics.set(&families::STATE_SYNCED, &[], if passive.is_none() { 1.0 } else { 0.0 });
        ctx.metrics.set(&families::STATE_UNSYNCED_TIME, &[], unsynced.as_secs_f64());
        if let Some((lease, held)) = ctx.gate.leadership().lease() {
            ctx.metrics.set(&LEADER, &[lease], if held { 1.0 } else { 0.0 });
            ctx.metrics.add(&LEADER_SLOW, &[lease], 0.0);
        }
        if let Some(why) =
            passive.filter(|_| unsynced >= LOG_INTERVAL && now >= later(complained, LOG_INTERVAL))
        {
            tracing::error!(%why, ?unsynced, "waiting for cluster state; controllers are passive");
            complained = now;
        }
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = ctx.clocks.sleep(INTERVAL) => {}
        }
    }
}
