//! The task that watches, waits and sends calls.

use std::{collections::BTreeSet, future::Future, pin::pin, sync::Arc, time::Duration};

use fleetwright_core::{clock::SharedClock, model::labels::UNREACHABLE_TAINT};
use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::watcher::{self, Event},
};

use super::{
    KubeletConfig,
    decide::{NodeAct, PodAct},
    objects,
    queue::{Call, Key, KubeletQueue, Outcome},
    view::{NodeView, PodView},
};
use crate::cloud::Cloud;

/// The kubelets of a fake cloud's instances.
pub struct Kubelets {
    client: Client,
    cloud: Arc<Cloud>,
    clock: SharedClock,
    config: KubeletConfig,
    queue: KubeletQueue,
    seen: u64,
    listed_nodes: BTreeSet<String>,
    listed_pods: BTreeSet<Key>,
}

type Ended = (Key, Call, Outcome);

impl Kubelets {
    /// Runs the kubelets of all instances of `cloud` until `shutdown`.
    pub async fn run(
        client: Client,
        cloud: Arc<Cloud>,
        clock: SharedClock,
        config: KubeletConfig,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let queue = KubeletQueue::new(config.clone());
        let kubelets = Self {
            client,
            cloud,
            clock,
            config,
            queue,
            seen: 0,
            listed_nodes: BTreeSet::new(),
            listed_pods: BTreeSet::new(),
        };
        kubelets.work(shutdown).await;
    }

    async fn work(mut self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let mut nodes = watch::<Node>(Api::all(self.client.clone()), self.clock.clone(), self.config.backoff);
        let mut pods = watch::<Pod>(Api::all(self.client.clone()), self.clock.clone(), self.config.backoff);
        let mut changes = self.cloud.subscribe();
        let mut calls: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        loop {
            self.read_cloud();
            while self.queue.calls() < self.config.max_calls.max(1) {
                let Some((key, call)) = self.queue.next_call(self.clock.now()) else { break };
                calls.push(self.call(key, call));
            }
            let wait = self.wait();
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                Some((key, call, outcome)) = calls.next() => self.on_outcome(&key, &call, outcome),
                Some(event) = nodes.next() => self.on_node(event),
                Some(event) = pods.next() => self.on_pod(event),
                Ok(()) = changes.changed() => {}
                () = wait => {}
            }
        }
    }

    /// Completes when the next work is due.
    fn wait(&self) -> BoxFuture<'static, ()> {
        let now = self.clock.now();
        // At the limit of calls, wait for one to complete.
        let own = if self.queue.calls() < self.config.max_calls { self.queue.next_due() } else { None };
        let Some(due) = own.into_iter().chain(self.cloud.next_due()).min() else {
            return futures::future::pending().boxed();
        };
        self.clock.sleep(until(now, due))
    }

    fn read_cloud(&mut self) {
        let (changed, seen) = self.cloud.changes_since(self.seen);
        self.seen = seen;
        let now = self.clock.now();
        for instance in changed {
            self.queue.on_instance(instance, now);
        }
    }

    fn on_outcome(&mut self, key: &Key, call: &Call, outcome: Outcome) {
        if let Some(joined) = self.queue.on_outcome(key, call, outcome, self.clock.now()) {
            self.cloud.mark_joined(&joined);
        }
    }

    fn on_node(&mut self, event: Event<Node>) {
        let now = self.clock.now();
        match event {
            Event::Init => self.listed_nodes.clear(),
            Event::InitApply(node) => {
                self.listed_nodes.insert(node.name_any());
                self.queue.on_node(&node.name_any(), Some(NodeView::of(&node)), now);
            }
            Event::InitDone => self.queue.nodes_complete(&std::mem::take(&mut self.listed_nodes), now),
            Event::Apply(node) => self.queue.on_node(&node.name_any(), Some(NodeView::of(&node)), now),
            Event::Delete(node) => self.queue.on_node(&node.name_any(), None, now),
        }
    }

    fn on_pod(&mut self, event: Event<Pod>) {
        let now = self.clock.now();
        let key = |pod: &Pod| Key::Pod(pod.namespace().unwrap_or_default(), pod.name_any());
        match event {
            Event::Init => self.listed_pods.clear(),
            Event::InitApply(pod) => {
                self.listed_pods.insert(key(&pod));
                self.queue.on_pod(key(&pod), PodView::of(&pod), now);
            }
            Event::InitDone => self.queue.pods_complete(&std::mem::take(&mut self.listed_pods), now),
            Event::Apply(pod) => self.queue.on_pod(key(&pod), PodView::of(&pod), now),
            Event::Delete(pod) => self.queue.on_pod(key(&pod), None, now),
        }
    }

    fn call(&self, key: Key, call: Call) -> BoxFuture<'static, Ended> {
        let (client, clock, config) = (self.client.clone(), self.clock.clone(), self.config.clone());
        let now = clock.now();
        async move {
            let made = tokio::select! {
                biased;
                made = send(&client, &config, &call, now) => made,
                () = clock.sleep(config.call_deadline) => {
                    tracing::warn!(?key, "a kubelet's call took too long");
                    Ok(Outcome::Failed)
                }
            };
            let outcome = made.unwrap_or_else(|error| outcome_of(&key, &error));
            (key, call, outcome)
        }
        .boxed()
    }
}

fn outcome_of(key: &Key, error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) if status.code == 404 => Outcome::Done,
        kube::Error::Api(status) if status.reason == "AlreadyExists" => Outcome::Exists,
        kube::Error::Api(status) if status.code == 409 => Outcome::Failed,
        error => {
            tracing::warn!(?key, %error, "a kubelet's call failed");
            Outcome::Failed
        }
    }
}

pub(super) fn until(now: Timestamp, due: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// A watch that never ends: errors cause a growing backoff.
pub(super) fn watch<K>(api: Api<K>, clock: SharedClock, backoff: Duration) -> BoxStream<'static, Event<K>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let stream = watcher::watcher(api, watcher::Config::default());
    paused(stream, clock, backoff).boxed()
}

fn paused<K: Send + 'static>(
    stream: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    clock: SharedClock,
    backoff: Duration,
) -> impl Stream<Item = Event<K>> + Send {
    let state = (stream.boxed(), clock, 0_u32);
    futures::stream::unfold(state, move |(mut stream, clock, mut failures)| async move {
        loop {
            match stream.next().await? {
                Ok(event) => return Some((event, (stream, clock, 0))),
                Err(error) => {
                    tracing::warn!(%error, "a kubelet's watch broke");
                    let pause = backoff.saturating_mul(1 << failures.min(6));
                    failures = failures.saturating_add(1);
                    clock.sleep(pause).await;
                }
            }
        }
    })
}

async fn send(
    client: &Client,
    config: &KubeletConfig,
    call: &Call,
    now: Timestamp,
) -> Result<Outcome, kube::Error> {
    match call {
        Call::Pod { act, pod, host_ip } => update_pod(client, *act, pod, host_ip, now).await,
        Call::Node { act: NodeAct::Join, instance, .. } => {
            let node: Node =
                serde_json::from_value(objects::node(instance, now)).map_err(kube::Error::SerdeError)?;
            Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await?;
            Ok(Outcome::Done)
        }
        Call::Node { act, instance, node: Some(node) } => {
            let api: Api<Node> = Api::all(client.clone());
            let params = PatchParams::default();
            let name = instance.node_name.as_str();
            match act {
                NodeAct::Join => {}
                NodeAct::BecomeReady => {
                    let status = serde_json::json!({"status": objects::node_status(instance, true, now)});
                    api.patch_status(name, &params, &Patch::Merge(status)).await?;
                }
                NodeAct::Untaint => {
                    api.patch(name, &params, &Patch::Merge(objects::untaint(node))).await?;
                }
                NodeAct::LateTaint(taint) => {
                    let patch = objects::add_taint(node, &taint.key, &taint.value, &taint.effect);
                    api.patch(name, &params, &Patch::Merge(patch)).await?;
                }
                NodeAct::LoseContact => {
                    if !node.has_taint(UNREACHABLE_TAINT) {
                        let patch = objects::add_taint(node, UNREACHABLE_TAINT, "", "NoSchedule");
                        api.patch(name, &params, &Patch::Merge(patch)).await?;
                    }
                    if !node.is_unknown() {
                        api.patch_status(name, &params, &Patch::Merge(objects::lost_status(now))).await?;
                    }
                }
                NodeAct::Remove => {
                    api.delete(name, &only(&node.uid)).await?;
                }
                NodeAct::Renew => renew(client, config, name, node, now).await?,
            }
            Ok(Outcome::Done)
        }
        Call::Node { .. } => Ok(Outcome::Done),
    }
}

/// Renews a node's lease, or creates it.
async fn renew(
    client: &Client,
    config: &KubeletConfig,
    name: &str,
    node: &NodeView,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let seconds = config.lease_interval.map_or(10, |interval| interval.as_secs());
    let lease = objects::lease(name, &node.uid, seconds, now);
    let patch = serde_json::json!({"spec": lease["spec"]});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &lease).await.map(drop)
        }
        answer => answer.map(drop),
    }
}

async fn update_pod(
    client: &Client,
    act: PodAct,
    pod: &PodView,
    host_ip: &str,
    now: Timestamp,
) -> Result<Outcome, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    if act == PodAct::Finish {
        let params = DeleteParams { grace_period_seconds: Some(0), ..only(&pod.uid) };
        return match api.delete(&pod.name, &params).await {
            // Another pod has taken the name: the watch will report it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Outcome::Done),
            answer => answer.map(|_| Outcome::Done),
        };
    }
    let mut patch = objects::pod_status(pod, act, host_ip, now);
    patch["metadata"] = serde_json::json!({"uid": pod.uid});
    api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Outcome::Done)
}

fn only(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}
