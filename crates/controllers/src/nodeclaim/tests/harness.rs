//! A test harness: the in-memory API server, a scripted cloud, and functions that act as the kubelet.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::{Clock, SharedClock},
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, NodeClassKind,
        ProviderInfo, RegistrationHold, RepairPolicy, Termination,
    },
    model::{BatchId, Catalog, ClaimName, Node, NodeClaim, NodePool, ProviderId, Resources, labels},
};
use fleetwright_fake_kube::{Config, Server};
use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    crash::{EffectOutcome, RemainingEffects},
    hooks::HookAnswer,
};
use crate::{
    all::claim_controllers,
    runtime::{self, Ctx, CtxParts, Leadership, Offload, RunError, Trigger},
    settings::Settings,
};

/// Virtual time over paused tokio time.
#[derive(Clone, Copy)]
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let epoch = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50);
        epoch + SignedDuration::try_from(self.0.elapsed()).expect("short tests")
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that is ahead of the API server's.
struct AheadClock(VirtualClock, SignedDuration);

impl Clock for AheadClock {
    fn now(&self) -> Timestamp {
        self.0.now() + self.1
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep(duration)
    }
}

/// A clock whose wall time can be set ahead by a number of seconds.
struct SettableClock(VirtualClock, Arc<AtomicI64>);

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        self.0.now() + SignedDuration::from_secs(self.1.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep(duration)
    }
}

/// What the cloud does at the next launches.
pub(super) enum LaunchFault {
    /// Launch, and lose the response.
    LoseResponse,
    /// Refuse.
    Refuse(LaunchError),
}

#[derive(Default)]
pub(super) struct CloudState {
    pub(super) instances: BTreeMap<ProviderId, Instance>,
    /// Every call for a launch: batch, attempt, claims.
    pub(super) calls: Vec<(BatchId, u32, Vec<ClaimName>)>,
    /// Whether each of them was the first of its attempt, as the caller says.
    pub(super) first_calls: Vec<bool>,
    pub(super) launch_faults: VecDeque<LaunchFault>,
    /// Without one, nodes may be registered.
    pub(super) hook_answer: Option<HookAnswer>,
    /// How often it was asked whether a node may be registered.
    pub(super) hook_calls: usize,
    /// A label of new instances, which no catalogue knows.
    pub(super) rack: Option<String>,
    /// Whether the instances belong to another cluster.
    pub(super) foreign: bool,
    /// The error of lookups and terminations.
    pub(super) refusal: Option<CloudError>,
    /// Number of termination requests.
    pub(super) terminations: usize,
    /// How many instances were ever launched.
    pub(super) launched: u32,
    /// Additional duration of a launch.
    pub(super) slow: Duration,
    /// A NodeClaim whose launches take longer, and by how much.
    pub(super) slow_claim: Option<(ClaimName, Duration)>,
    /// How many launches are under way, and how many were at most.
    pub(super) under_way: usize,
    pub(super) most_under_way: usize,
}

pub(super) struct TestCloud {
    info: ProviderInfo,
    state: Mutex<CloudState>,
    clock: VirtualClock,
    remaining_effects: Arc<RemainingEffects>,
}

impl TestCloud {
    pub(super) fn state(&self) -> MutexGuard<'_, CloudState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn instance(name: &str, claim: &str, batch: &str, attempt: u32) -> Instance {
    let pairs =
        [(labels::INSTANCE_TYPE, "medium"), (labels::ZONE, "a"), (labels::CAPACITY_TYPE, "on-demand")];
    let mut instance = Instance::new(format!("test:///{name}"))
        .of_claim(claim)
        .of_attempt(batch, attempt)
        .of_cluster("cluster")
        .with_image("image-1")
        .with_resources(
            Resources::of(4000, 8 << 30).with("pods", 110),
            Resources::of(3900, 7 << 30).with("pods", 110),
        );
    instance.labels = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    instance
}

#[async_trait]
impl CloudProvider for TestCloud {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn identify(&self, _: &str) -> Result<Identity, CloudError> {
        Ok(Identity::Proven)
    }

    async fn catalog(&self, _: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        Ok(Arc::default())
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let names = requests.iter().map(|request| request.claim.name.clone()).collect();
        let (fault, slow) = {
            let mut state = self.state();
            if let Some(first) = requests.first() {
                state.calls.push((first.batch.clone(), first.attempt, names));
                state.first_calls.push(first.first_call);
            }
            state.under_way += 1;
            state.most_under_way = state.most_under_way.max(state.under_way);
            let slow_claim = state
                .slow_claim
                .as_ref()
                .filter(|(name, _)| requests.iter().any(|request| request.claim.name == *name));
            let slow = state.slow + slow_claim.map_or(Duration::ZERO, |(_, by)| *by);
            (state.launch_faults.pop_front(), slow)
        };
        self.clock.sleep(slow.saturating_add(Duration::from_millis(200))).await;
        self.state().under_way -= 1;
        let outcome = self.remaining_effects.use_one();
        if outcome == EffectOutcome::Dropped {
            return std::future::pending().await;
        }
        if let Some(LaunchFault::Refuse(error)) = &fault {
            return requests.iter().map(|_| Err(error.clone())).collect();
        }
        let answers = self.instances_for(requests);
        if outcome == EffectOutcome::Unacknowledged {
            return std::future::pending().await;
        }
        match fault {
            // Without the response, the instances cannot be tagged.
            Some(LaunchFault::LoseResponse) => {
                requests.iter().map(|_| Err(LaunchError::Unknown("connection reset".into()))).collect()
            }
            _ => self.tag_instances(requests, answers),
        }
    }

    async fn terminate(&self, _: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.terminate_orphan(id).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        let outcome = self.remaining_effects.use_one();
        if outcome == EffectOutcome::Dropped {
            return std::future::pending().await;
        }
        let answer = self.end(id);
        if outcome == EffectOutcome::Unacknowledged {
            return std::future::pending().await;
        }
        answer
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let state = self.state();
        if let Some(error) = &state.refusal {
            return Err(error.clone());
        }
        let found = state.instances.get(id).cloned();
        found.ok_or_else(|| CloudError::NotFound(id.as_str().into()))
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        Ok(self.state().instances.values().cloned().collect())
    }

    async fn drift(&self, _: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        Ok(None)
    }

    async fn before_registration(
        &self,
        _: &NodeClaim,
        _: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        let answer = {
            let mut state = self.state();
            state.hook_calls += 1;
            state.hook_answer.clone()
        };
        match answer {
            None => Ok(None),
            Some(HookAnswer::Hold(hold)) => Ok(Some(hold)),
            Some(HookAnswer::Fail(error)) => Err(error),
            Some(HookAnswer::Hang) => std::future::pending().await,
        }
    }
}

impl TestCloud {
    /// The instances of a call: existing ones of the same launch, and new ones.
    fn instances_for(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let mut state = self.state();
        let (mut answers, mut dealt) = (Vec::new(), BTreeSet::new());
        for request in requests {
            let launch = Some((request.batch.clone(), request.attempt));
            let of_same_launch = |known: &&Instance| {
                known.launched_by == launch && known.claim.as_ref() == Some(&request.claim.name)
            };
            let unclaimed = |known: &&Instance| {
                known.launched_by == launch && known.claim.is_none() && !dealt.contains(&known.provider_id)
            };
            let all = || state.instances.values().filter(|known| !known.terminating);
            let known = all().find(of_same_launch).or_else(|| all().find(unclaimed)).cloned();
            let launched = known.unwrap_or_else(|| {
                state.launched += 1;
                let name = format!("i-{}", state.launched);
                let mut launched = instance(&name, &request.claim.name, &request.batch, request.attempt);
                let rack = state.rack.as_deref().map(|rack| ("example.com/rack".into(), rack.into()));
                launched.labels.extend(rack);
                launched
            });
            dealt.insert(launched.provider_id.clone());
            state.instances.insert(launched.provider_id.clone(), launched.clone());
            answers.push(Ok(launched));
        }
        answers
    }

    /// Tags instances with their NodeClaims.
    fn tag_instances(
        &self,
        requests: &[LaunchRequest],
        mut answers: Vec<Result<Instance, LaunchError>>,
    ) -> Vec<Result<Instance, LaunchError>> {
        let mut state = self.state();
        for (request, instance) in requests.iter().zip(answers.iter_mut().flatten()) {
            instance.claim = Some(request.claim.name.clone());
            state.instances.insert(instance.provider_id.clone(), instance.clone());
        }
        answers
    }

    fn end(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        let mut state = self.state();
        if let Some(error) = &state.refusal {
            return Err(error.clone());
        }
        if state.foreign {
            return Err(CloudError::NotOwned {
                id: id.as_str().into(),
                why: "tag of another cluster".into(),
            });
        }
        state.terminations += 1;
        match state.instances.get_mut(id) {
            None => Ok(Termination::Gone),
            Some(instance) if instance.terminating => {
                state.instances.remove(id);
                Ok(Termination::Gone)
            }
            Some(instance) => {
                instance.terminating = true;
                Ok(Termination::Accepted)
            }
        }
    }
}

/// The test environment.
pub(super) struct Harness {
    pub(super) server: Server,
    pub(super) ctx: Ctx,
    pub(super) cloud: Arc<TestCloud>,
    /// Requests that change something.
    pub(super) writes: Arc<Mutex<Vec<String>>>,
    /// The effects that the process may still have.
    pub(super) remaining_effects: Arc<RemainingEffects>,
    running: Option<(Trigger, tokio::task::JoinHandle<Result<(), RunError>>)>,
}

impl Harness {
    /// A server with CRDs, NodeClass and NodePool; no controller runs yet.
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same over a cloud that launches one by one, `concurrency` at a time.
    pub(super) fn one_by_one(concurrency: usize) -> Self {
        Self::with(|info| {
            info.launches_one_by_one = true;
            info.launch_concurrency = concurrency;
        })
    }

    /// The same over a cloud with another [`ProviderInfo`].
    fn with(change: impl FnOnce(&mut ProviderInfo)) -> Self {
        let clock = VirtualClock(tokio::time::Instant::now());
        let mut config = Config::new(Arc::new(move || clock.now()), 7);
        let writes = Arc::new(Mutex::new(Vec::new()));
        let observed_writes = writes.clone();
        config.audit = Some(Arc::new(move |request, code| {
            let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
            if !reads && code < 400 && request.resource != "events" {
                let line =
                    format!("{} {}/{} {}", request.verb, request.resource, request.name, request.subresource);
                observed_writes.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }));
        let remaining_effects = RemainingEffects::full();
        config.faults = Some(remaining_effects.clone());
        let server = Server::new(config);
        for crd in fleetwright_api::crd::kwok() {
            server.apply(serde_json::to_value(crd).expect("a crd")).expect("applies");
        }
        let class = NodeClassKind::new("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses");
        let mut info = ProviderInfo::new("test", [class]);
        info.repair_policies = vec![RepairPolicy::new("Ready", "False", Duration::from_secs(600))];
        info.bootstraps_startup_taints = false;
        change(&mut info);
        let cloud = Arc::new(TestCloud {
            info,
            state: Mutex::default(),
            clock,
            remaining_effects: remaining_effects.clone(),
        });
        let ctx = Self::process(&server, &cloud, Arc::new(clock), Settings::default(), 7);
        let harness = Self { server, ctx, cloud, writes, remaining_effects, running: None };
        harness.apply(json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {},
        }));
        harness.apply(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class_ref()}}},
        }));
        harness
    }

    /// A new process without state.
    fn process(
        server: &Server,
        cloud: &Arc<TestCloud>,
        clock: SharedClock,
        settings: Settings,
        seed: u64,
    ) -> Ctx {
        Ctx::new(CtxParts {
            api_server: "kubernetes".to_owned(),
            client: kube::Client::new(server.service(), "default"),
            clock,
            cloud: cloud.clone(),
            settings,
            seed,
            offload: Offload::Inline,
            cluster_uid: "cluster".to_owned(),
            leadership: Leadership::without_election(),
        })
    }

    /// Gives the process a clock that is ahead of the API server's.
    pub(super) fn ahead(mut self, by: SignedDuration) -> Self {
        let clock = Arc::new(AheadClock(self.cloud.clock, by));
        self.ctx = Self::process(&self.server, &self.cloud, clock, Settings::default(), 7);
        self
    }

    /// Gives the process a wall clock that can be set ahead by a number of seconds.
    pub(super) fn settable(mut self) -> (Self, Arc<AtomicI64>) {
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = Arc::new(SettableClock(self.cloud.clock, ahead.clone()));
        self.ctx = Self::process(&self.server, &self.cloud, clock, Settings::default(), 7);
        (self, ahead)
    }

    /// Enables node repair.
    pub(super) fn repairing(mut self) -> Self {
        let mut settings = (*self.ctx.settings).clone();
        settings.gates.node_repair = true;
        self.ctx.settings = Arc::new(settings);
        self
    }

    /// Starts the controllers.
    pub(super) fn run(mut self) -> Self {
        let (trigger, stop) = runtime::shutdown();
        let all = claim_controllers(&self.ctx, self.ctx.cloud.steps());
        let task = tokio::spawn(runtime::run(self.ctx.clone(), all, stop));
        self.running = Some((trigger, task));
        self
    }

    /// Kills the process; another one may be started.
    pub(super) fn crash(mut self) -> Self {
        if let Some((_, task)) = self.running.take() {
            task.abort();
        }
        self.remaining_effects.set(i64::MAX);
        let (clock, settings) = (Arc::new(self.cloud.clock), (*self.ctx.settings).clone());
        self.ctx = Self::process(&self.server, &self.cloud, clock, settings, 8);
        self
    }

    pub(super) fn apply(&self, value: Value) {
        self.server.apply(value).expect("applies");
    }

    /// Creates a NodeClaim of NodePool `default`, merged with `more`.
    pub(super) fn claim(&self, name: &str, more: Value) {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "requirements": [], "nodeClassRef": class_ref(), "resources": {"requests": {"cpu": "1"}},
                "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
            },
        });
        merge(&mut claim, more);
        self.apply(claim);
    }

    /// Joins the node of a NodeClaim as Node `name`, ready.
    pub(super) fn join(&self, name: &str, claim: &str) {
        let id = self.get_claim(claim).expect("a claim")["status"]["providerID"].clone();
        self.apply(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {
                "providerID": id,
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
            },
        }));
    }

    /// Removes a taint from a node.
    pub(super) fn untaint(&self, node: &str, key: &str) {
        let known = self.get("v1", "Node", node).expect("a node");
        let taints: Vec<Value> = known["spec"]["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|taint| taint["key"] != key)
            .cloned()
            .collect();
        self.apply(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints},
        }));
    }

    /// Creates a NodeClaim and waits until its node is initialized.
    pub(super) async fn initialized_node(&self, name: &str, node: &str, more: Value) {
        self.claim(name, more);
        self.until("launched", || self.condition(name, "Launched") == "True").await;
        self.join(node, name);
        self.until("registered", || self.condition(name, "Registered") == "True").await;
        self.untaint(node, "cni");
        self.until("initialized", || self.condition(name, "Initialized") == "True").await;
    }

    pub(super) fn pod(&self, name: &str, node: &str, more: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        merge(&mut pod, more);
        self.apply(pod);
    }

    /// Deletes a pod, as the kubelet does at its end.
    pub(super) async fn end_pod(&self, name: &str) {
        let api = self.ctx.client.namespaced::<k8s_openapi::api::core::v1::Pod>("default");
        let _ = api.delete(name, &DeleteParams::default().grace_period(0)).await;
    }

    pub(super) fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Arc<Value>> {
        self.server.get(api_version, kind, "", name)
    }

    pub(super) fn get_claim(&self, name: &str) -> Option<Arc<Value>> {
        self.get("karpenter.sh/v1", "NodeClaim", name)
    }

    /// The status of a NodeClaim's condition, followed by `/` and its reason if the status is not True.
    pub(super) fn condition(&self, claim: &str, condition: &str) -> String {
        self.get_claim(claim).map_or_else(|| "gone".to_owned(), |claim| condition_of(&claim, condition))
    }

    /// Reasons of all events so far.
    pub(super) fn events(&self) -> Vec<String> {
        let events = self.server.list("v1", "Event", "");
        events.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
    }

    pub(super) async fn sleep(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until a predicate holds, at most an hour; returns the seconds that it took.
    pub(super) async fn until(&self, what: &str, holds: impl Fn() -> bool) -> u64 {
        let start = tokio::time::Instant::now();
        while start.elapsed() < Duration::from_secs(3600) {
            if holds() {
                return start.elapsed().as_secs();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let claims = self.server.list("karpenter.sh/v1", "NodeClaim", "");
        panic!("never {what}: {claims:#?}, events {:?}", self.events());
    }
}

pub(super) fn condition_of(object: &Value, condition: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let Some(found) = all.iter().find(|known| known["type"] == condition) else { return String::new() };
    match (found["status"].as_str(), found["reason"].as_str()) {
        (Some("True"), _) => "True".to_owned(),
        (status, reason) => format!("{}/{}", status.unwrap_or_default(), reason.unwrap_or_default()),
    }
}

fn class_ref() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
