//! A test environment for controllers: the in-memory API server, a cloud that only has a catalogue, and a clock that follows
//! tokio's paused one.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api as api;
use fleetwright_core::{
    clock::Clock,
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, NodeClassKind,
        ProviderInfo, Termination,
    },
    decisions::DecisionRecord,
    model::{Catalog, NodeClaim, NodePool, ProviderId},
    testing::small_catalog,
};
use fleetwright_fake_kube::{Answer, ApiError, Config, Fault, Faults, Request, Server};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    runtime::{
        Controller, Ctx, CtxParts, Leadership, Offload, RunError, Trigger, decisions::DecisionQuery, run,
        shutdown,
    },
    settings::{FeatureGates, Settings},
};

/// Time that follows tokio's, from a fixed moment on. Its wall clock can be set.
pub(crate) struct TokioClock {
    start: Instant,
    epoch: Timestamp,
    /// Seconds by which the wall clock is ahead.
    ahead: AtomicI64,
}

impl TokioClock {
    /// A clock that starts now.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            epoch: Timestamp::from_second(1_750_000_000).unwrap(),
            ahead: AtomicI64::new(0),
        }
    }

    /// Sets the wall clock ahead by a number of seconds.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.steady() + jiff::SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Timestamp {
        self.epoch + self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A cloud that has a catalogue and refuses everything else.
pub(crate) struct CatalogOnly {
    pub(crate) info: ProviderInfo,
    pub(crate) catalog: Mutex<Arc<Catalog>>,
    prices_as_of: Option<Timestamp>,
}

impl CatalogOnly {
    /// A cloud whose prices were read at a given time, if prices age.
    pub(crate) fn priced(prices_as_of: Option<Timestamp>) -> Self {
        let class = NodeClassKind::new("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses");
        let info = ProviderInfo::new("test", [class]);
        Self { info, catalog: Mutex::new(small_catalog()), prices_as_of }
    }
}

#[async_trait]
impl CloudProvider for CatalogOnly {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }
    async fn identify(&self, _cluster_uid: &str) -> Result<Identity, CloudError> {
        Ok(Identity::Proven)
    }
    async fn catalog(&self, _pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        Ok(self.catalog.lock().unwrap().clone())
    }
    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        requests.iter().map(|_| Err(LaunchError::InsufficientCapacity("nothing here".into()))).collect()
    }
    async fn terminate(&self, _claim: &NodeClaim, _id: &ProviderId) -> Result<Termination, CloudError> {
        Ok(Termination::Gone)
    }
    async fn terminate_orphan(&self, _id: &ProviderId) -> Result<Termination, CloudError> {
        Ok(Termination::Gone)
    }
    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        Err(CloudError::NotFound(id.as_str().into()))
    }
    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        Ok(Vec::new())
    }
    async fn drift(&self, _claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        Ok(None)
    }
    fn prices_as_of(&self) -> Option<Timestamp> {
        self.prices_as_of
    }
}

/// Refuses a set of resources with one status code.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<(BTreeSet<String>, u16)>);

impl Refusals {
    /// Refuses these resources from now on.
    pub(crate) fn set(&self, resources: &[&str], code: u16) {
        *self.0.lock().unwrap() = (resources.iter().map(|name| (*name).to_owned()).collect(), code);
    }
}

impl Faults for Refusals {
    fn decide(&self, request: &Request) -> Fault {
        let (refused, code) = &*self.0.lock().unwrap();
        if !refused.contains(&request.resource) {
            return Fault::default();
        }
        let why = if *code == 403 {
            ApiError::new(403, "Forbidden", format!("{} is forbidden: no RBAC rule", request.resource))
        } else {
            ApiError::no_such_route()
        };
        Fault { answer: Answer::Refuse(why), ..Fault::default() }
    }
}

/// Records every request that writes, and every one about leases.
#[derive(Default)]
pub(crate) struct Writes(Mutex<Vec<String>>);

impl Writes {
    /// Verb and resource of each, in order.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Faults for Writes {
    fn decide(&self, request: &Request) -> Fault {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        if !reads || request.resource == "leases" {
            self.0.lock().unwrap().push(format!("{} {}", request.verb, request.resource));
        }
        Fault::default()
    }
}

/// A cluster with Karpenter's CRDs, a ready KWOKNodeClass and nothing else.
pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) ctx: Ctx,
    /// The clock of `ctx`.
    pub(crate) clock: Arc<TokioClock>,
}

impl Harness {
    /// A harness without faults. Must be made inside a paused runtime.
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// A harness whose API server injects faults.
    pub(crate) fn with(faults: Option<Arc<dyn Faults>>) -> Self {
        Self::of(faults, Settings::default())
    }

    /// A harness with other feature gates.
    pub(crate) fn gated(change: impl FnOnce(&mut FeatureGates)) -> Self {
        Self::set(|settings| change(&mut settings.gates))
    }

    /// A harness with other settings.
    pub(crate) fn set(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::of(None, settings)
    }

    /// A harness whose API server injects faults, with other settings.
    pub(crate) fn faulty(faults: Arc<dyn Faults>, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::of(Some(faults), settings)
    }

    /// A harness over another cloud.
    pub(crate) fn over(cloud: CatalogOnly) -> Self {
        let mut harness = Self::new();
        let of = Leadership::without_election();
        harness.ctx = Self::ctx(&harness.server, harness.clock.clone(), Settings::default(), cloud, of);
        harness
    }

    fn of(faults: Option<Arc<dyn Faults>>, settings: Settings) -> Self {
        let clock = Arc::new(TokioClock::new());
        let of_server = clock.clone();
        let mut config = Config::new(Arc::new(move || of_server.steady()), 7);
        config.faults = faults;
        let server = Server::new(config);
        for crd in api::crd::kwok() {
            server.apply(serde_json::to_value(crd).unwrap()).unwrap();
        }
        server
            .apply(json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}))
            .unwrap();
        let cloud = CatalogOnly::priced(None);
        let ctx = Self::ctx(&server, clock.clone(), settings, cloud, Leadership::without_election());
        Self { server, ctx, clock }
    }

    fn ctx(
        server: &Server,
        clock: Arc<TokioClock>,
        settings: Settings,
        cloud: CatalogOnly,
        leadership: Leadership,
    ) -> Ctx {
        Ctx::new(CtxParts {
            api_server: "kubernetes".to_owned(),
            client: kube::Client::new(server.service(), "default"),
            clock,
            cloud: Arc::new(cloud),
            settings,
            seed: 1,
            offload: Offload::Inline,
            cluster_uid: "cluster-uid".to_owned(),
            leadership,
        })
    }

    /// Restarts the controllers: same cluster, same time, no state.
    pub(crate) fn restart(&mut self) {
        self.led_by(Leadership::without_election());
    }

    /// Restarts the controllers in a process that acts while it holds `leadership`.
    pub(crate) fn led_by(&mut self, leadership: Leadership) {
        let (clock, settings) = (self.clock.clone(), (*self.ctx.settings).clone());
        let cloud = CatalogOnly::priced(None);
        let mut parts = Self::ctx(&self.server, clock, settings, cloud, leadership);
        // Another process generates other names.
        parts.names = Arc::new(crate::runtime::Names::new(self.ctx.names.next_u64()));
        self.ctx = parts;
    }

    /// Starts watches and controllers in the background.
    pub(crate) fn run(
        &self,
        controllers: Vec<Arc<dyn Controller>>,
    ) -> (Trigger, tokio::task::JoinHandle<Result<(), RunError>>) {
        let (trigger, stop) = shutdown();
        (trigger, tokio::spawn(run(self.ctx.clone(), controllers, stop)))
    }

    /// A NodePool of the KWOKNodeClass, ready.
    pub(crate) fn pool(&self, name: &str, spec: Value) {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": []}}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2025-06-15T15:06:40Z"}]}
        });
        for (key, value) in spec.as_object().unwrap() {
            pool["spec"][key] = value.clone();
        }
        self.server.apply(pool).unwrap();
    }

    /// Creates a pod that kube-scheduler could not bind.
    pub(crate) fn pending_pod(&self, name: &str, cpu: &str) {
        self.server
            .apply(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}]},
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
            }))
            .unwrap();
    }

    /// All NodeClaims, with the pods that each was created for.
    pub(crate) fn claims(&self) -> Vec<(String, Vec<String>)> {
        let all = self.server.list("karpenter.sh/v1", "NodeClaim", "");
        let pods = |claim: &Value| {
            let written =
                claim["metadata"]["annotations"]["fleetwright.dev/nominated-pods"].as_str().unwrap();
            let mut pods: Vec<String> =
                written.split(',').map(|entry| entry.rsplit_once(':').unwrap().0.to_owned()).collect();
            pods.sort();
            pods
        };
        all.iter()
            .map(|claim| (claim["metadata"]["name"].as_str().unwrap().to_owned(), pods(claim)))
            .collect()
    }

    /// `WatchedKind/name Reason: message` of all events, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = |event: &Arc<Value>| {
            let about = &event["involvedObject"];
            format!(
                "{}/{} {}: {}",
                about["kind"].as_str().unwrap_or_default(),
                about["name"].as_str().unwrap_or_default(),
                event["reason"].as_str().unwrap_or_default(),
                event["message"].as_str().unwrap_or_default()
            )
        };
        let mut events: Vec<String> = self.server.list("v1", "Event", "").iter().map(text).collect();
        events.sort();
        events
    }

    /// The decisions that the events of a reason name.
    pub(crate) fn decisions_of_events(&self, reason: &str) -> Vec<String> {
        let events = self.server.list("v1", "Event", "");
        let of_reason = events.iter().filter(|event| event["reason"] == reason);
        let named = of_reason.map(|event| event["metadata"]["annotations"][api::labels::DECISION].as_str());
        named.map(|id| id.unwrap_or("none").to_owned()).collect()
    }

    /// The recorded decisions of a kind.
    pub(crate) fn recorded(&self, kind: &str) -> Vec<Arc<DecisionRecord>> {
        let query = DecisionQuery { kinds: vec![kind.to_owned()], ..DecisionQuery::default() };
        self.ctx.decisions.ring().lock().read(&query)
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}
