//! The parts of Kubernetes that Fleetwright relies on, as small deterministic loops over a client.
//!
//! Each actor is a file: it names the keys that a change affects and reconciles one at a time, reading a shared cache and writing through
//! [`ctx::Ctx`]. They replace kube-scheduler ([`binder`]) and kube-controller-manager ([`workloads`], [`volumes`], [`nodes`]).

mod actor;
mod binder;
mod cache;
mod ctx;
mod feed;
mod nodes;
mod queue;
mod selector;
#[cfg(test)]
mod tests;
mod volumes;
mod worker;
mod workloads;

use std::sync::Arc;

use fleetwright_core::clock::SharedClock;
use kube::Client;
use serde::Deserialize as _;
use tokio::task::JoinSet;

use actor::Actor;
use ctx::Ctx;
use queue::Mailbox;

/// Configuration of the actors.
#[derive(Clone, Debug, PartialEq)]
pub struct ActorsConfig {
    /// The seed of all random draws.
    pub seed: u64,
    /// Zones for volumes of `Immediate` classes without allowed topologies.
    pub zones: Vec<String>,
}

/// Runs all actors until the future is dropped.
pub async fn run(client: Client, clock: SharedClock, config: ActorsConfig) {
    let ctx = Ctx::new(client, clock, config.seed);
    let mut actors: Vec<Arc<dyn Actor>> = vec![Arc::new(binder::Binder::default())];
    actors.extend(workloads::all());
    actors.extend(volumes::all(config.zones));
    actors.extend(nodes::all());
    // Dropping the set aborts its tasks.
    let mut tasks = JoinSet::new();
    for actor in actors {
        let mailbox = Arc::new(Mailbox::new(actor.clone(), ctx.clock.clone()));
        let listener = mailbox.clone();
        ctx.cache.subscribe(move |change, tables| listener.deliver(change, tables));
        tasks.spawn(worker::run(ctx.clone(), actor, mailbox));
    }
    for feed in feed::all(&ctx) {
        tasks.spawn(feed);
    }
    while tasks.join_next().await.is_some() {}
}

/// A pod's requests, from its JSON.
pub(crate) fn pod_requests(pod: &serde_json::Value) -> fleetwright_core::model::Resources {
    let spec = pod.get("spec").and_then(|spec| k8s_openapi::api::core::v1::PodSpec::deserialize(spec).ok());
    spec.as_ref().map(binder::requests).unwrap_or_default()
}
