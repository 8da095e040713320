//! Starts the watches and the controllers, and waits for their end.

use std::{future::Future, pin::Pin, sync::Arc};

use fleetwright_api as api;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::{CSINode, StorageClass, VolumeAttachment},
};
use tokio::task::JoinSet;

use super::{
    controller::Controller, ctx::Ctx, hub::Route, queue::Queue, shutdown::Shutdown, watch::follow,
    worker::Worker,
};

/// Why the controllers ended although nobody asked them to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// They run already.
    #[error("the controllers of this context run already")]
    AlreadyRunning,
    /// A loop of the runtime itself panicked.
    #[error("a loop ended unexpectedly: {0}")]
    LoopEnded(String),
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `controllers` until shutdown.
///
/// # Errors
/// Where a loop ends by itself: the process should end then, and be started again.
pub async fn run(
    ctx: Ctx,
    controllers: Vec<Arc<dyn Controller>>,
    mut stop: Shutdown,
) -> Result<(), RunError> {
    let routes: Vec<Route> = controllers
        .into_iter()
        .map(|controller| Route { queue: Arc::new(Queue::new(controller.rate_limit())), controller })
        .collect();
    if !ctx.hub().open(routes) {
        return Err(RunError::AlreadyRunning);
    }
    let mut tasks = JoinSet::new();
    for watch in watches(&ctx, &stop) {
        tasks.spawn(watch);
    }
    for route in ctx.hub().routes() {
        let worker = Worker::new(ctx.clone(), route.controller.clone(), route.queue.clone());
        tasks.spawn(worker.run(stop.clone()));
    }
    tasks.spawn(ctx.recorder.clone().run(ctx.clone(), stop.clone()));
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

/// One watch per kind; what others refer to comes first.
fn watches(ctx: &Ctx, stop: &Shutdown) -> Vec<Task> {
    fn of<K: super::watch::Watchable>(ctx: &Ctx, stop: &Shutdown) -> Task {
        Box::pin(follow::<K>(ctx.clone(), stop.clone()))
    }
    [
        of::<Namespace>,
        of::<StorageClass>,
        of::<PersistentVolume>,
        of::<PersistentVolumeClaim>,
        of::<CSINode>,
        of::<VolumeAttachment>,
        of::<PodDisruptionBudget>,
        of::<DaemonSet>,
        of::<api::KwokNodeClass>,
        of::<api::NodePool>,
        of::<api::NodeClaim>,
        of::<Node>,
        of::<Pod>,
    ]
    .into_iter()
    .map(|watch| watch(ctx, stop))
    .collect()
}
