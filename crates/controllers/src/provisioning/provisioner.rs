//! One scheduling pass: snapshot, plan, NodeClaims.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::CloudProvider,
    model::{Pod, PodUid, Snapshot},
    scheduling::{Effort, Plan, PreparedSnapshot, Purpose, Request, Unplaced},
};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use jiff::Timestamp;

use super::{
    buffers, catalog,
    create::{ClaimCreator, Created},
    eligible,
    inbox::Inbox,
    launch_loops::LaunchLoops,
    names::PROVISIONER as NAME,
    pod_events, zones,
};
use crate::{
    log,
    metrics::{Metrics, pod_times::PodTimes, scheduling as families},
    nodeclaim::nominations::Nominations,
    runtime::decisions::{Decided, Decisions},
    runtime::{
        Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue, Solvers, later,
    },
    safety::Safety,
    settings::{Packing, Settings, SolveEffort},
};

/// How soon another pass follows one that was incomplete or failed to create a NodeClaim.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Schedules pending pods, a batch at a time.
pub struct Provisioner {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    creator: ClaimCreator,
    nominations: Nominations,
    launch_loops: LaunchLoops,
    safety: Safety,
    solvers: Solvers,
    pod_times: Arc<PodTimes>,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    decisions: Decisions,
    inbox: Inbox,
    /// NodeClaims whose creation has an unknown outcome: no plan is computed before it is known.
    unknown: Mutex<BTreeSet<String>>,
}

impl Provisioner {
    /// A provisioner for the pods in `inbox`.
    pub(crate) fn new(ctx: &Ctx, inbox: Inbox) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            creator: ClaimCreator::new(ctx),
            nominations: Nominations::new(ctx),
            launch_loops: LaunchLoops::new(ctx),
            safety: Safety::new(ctx),
            solvers: ctx.solvers.clone(),
            pod_times: ctx.pod_times.clone(),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
            inbox,
            unknown: Mutex::default(),
        }
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Controller for Provisioner {
    fn name(&self) -> &'static str {
        NAME
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_millis(500), Duration::from_secs(30), 10, 100)
    }

    /// Pods that were unschedulable may fit a NodePool that becomes ready.
    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let ready = |object: &Option<fleetwright_state::Object>| match object {
            Some(fleetwright_state::Object::NodePool(pool)) => pool.status.as_ref().is_some_and(|status| {
                fleetwright_api::condition::is_true(
                    &status.conditions,
                    fleetwright_api::labels::condition::READY,
                )
            }),
            _ => false,
        };
        let became_ready =
            change.kind == WatchedKind::NodePool && ready(&change.after) && !ready(&change.before);
        if became_ready && index.pods().any(|pod| index.is_pending(pod)) {
            vec![Key::cluster("ready")]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let now = self.clocks.steady();
        if *key != Key::singleton() {
            self.inbox.push(&key.name, now);
            self.cluster.enqueue(NAME, Key::singleton());
            return Ok(Requeue::No);
        }
        match self.inbox.due() {
            None => return Ok(Requeue::No),
            Some(due) if due > now => {
                return Ok(Requeue::After(Duration::try_from(due.duration_since(now)).unwrap_or_default()));
            }
            Some(_) => {}
        }
        self.resolve_unknown().await?;
        self.inbox.take();
        if let Some(again) = self.pass().await? {
            self.inbox.push("again", self.clocks.steady());
            return Ok(Requeue::After(again));
        }
        Ok(Requeue::No)
    }
}

impl Provisioner {
    /// Checks whether NodeClaims whose creation had an unknown outcome exist.
    async fn resolve_unknown(&self) -> Result<(), ReconcileError> {
        let names: Vec<String> = self.unknown().iter().cloned().collect();
        for name in names {
            self.creator.resolve_unknown(&name).await?;
            self.unknown().remove(&name);
        }
        Ok(())
    }

    /// One pass. Returns how soon another should follow, if any.
    async fn pass(&self) -> Result<Option<Duration>, ReconcileError> {
        catalog::refresh_all(&self.cluster, &self.clocks, &*self.cloud).await;
        let now = self.clocks.now();
        let snapshot = self.cluster.index().snapshot(now);
        let pods = eligible::pods(&snapshot, now);
        let invalid = pod_events::invalid_pods(&self.cluster, &self.recorder);
        let known: BTreeSet<&PodUid> = pods.iter().map(|pod| &pod.uid).collect();
        self.inbox.retain(|uid| known.contains(uid));
        if pods.is_empty() {
            buffers::record(&self.cluster, BTreeMap::new(), BTreeMap::new());
            self.metrics.set(&families::IGNORED_PODS, &[], to_f64(invalid));
            self.metrics.set(&families::UNSCHEDULABLE_PODS, &[NAME], 0.0);
            self.metrics.replace(&families::ZONE_PODS, []);
            return Ok(None);
        }
        self.metrics.replace(&families::ZONE_PODS, zones::series(&snapshot, &pods, NAME));
        let id = snapshot.epoch.to_string();
        let plan = measured(
            &self.clocks,
            &self.metrics,
            &id,
            pods.len(),
            solve(&self.clocks, &self.settings, &self.solvers, snapshot.clone(), pods.clone()),
        )
        .await?;
        let decided = self.clocks.now();
        for pod in &pods {
            self.pod_times.decided(&pod.uid, decided);
            if let Some(waited) = self.inbox.decided(&pod.uid, self.clocks.steady()) {
                self.metrics.observe(&families::DECISION_DURATION, &[], waited.as_secs_f64());
            }
        }
        let took = Duration::try_from(decided.duration_since(now)).unwrap_or_default();
        self.metrics.observe(&families::SCHEDULING_DURATION, &[NAME], took.as_secs_f64());
        if !plan.new_claims.is_empty() {
            log::found_pods(pods.iter().map(|pod| pod.id.to_string()), took);
        }
        log::computed(&plan);
        let decision = self.decisions.plan(&plan, &snapshot, &pods);
        self.cluster.index().defer(not_reached(&plan));
        let (ignored, unschedulable) =
            pod_events::unschedulable(&self.cluster, &self.recorder, &snapshot, (&plan.unplaced, &decision));
        self.metrics.set(&families::IGNORED_PODS, &[], to_f64(ignored + invalid));
        self.metrics.set(&families::UNSCHEDULABLE_PODS, &[NAME], to_f64(unschedulable));
        self.execute_plan(&snapshot, plan, &decision).await
    }

    async fn execute_plan(
        &self,
        snapshot: &Snapshot,
        mut plan: Plan,
        decision: &Decided,
    ) -> Result<Option<Duration>, ReconcileError> {
        let until = later(self.clocks.now(), self.settings.nomination_window());
        for placement in &plan.existing {
            let node = &placement.node;
            let target = node.name();
            let refused =
                nominate(&self.cluster, &self.clocks, &self.pod_times, &placement.pods, target, until);
            let claim = node.claim_name().map(|name| format!("nodeclaim/{name}"));
            let node = node.node_name().map(|name| format!("node/{name}"));
            let names = claim.into_iter().chain(node).collect::<Vec<String>>().join(", ");
            let (refused, nominated): (Vec<_>, Vec<_>) =
                placement.pods.iter().cloned().partition(|pod| refused.contains(&pod.uid));
            pod_events::nominated(&self.recorder, &nominated, &names, decision);
            pod_events::not_bound(&self.recorder, &refused, &names);
        }
        let outcomes = buffers::outcomes(&plan);
        let mut chunks = buffers::chunks(&plan);
        let observed = self.nominations.resolve(snapshot, &mut plan).await?;
        let held = self.launch_loops.hold(&mut plan).await;
        let mut again = (plan.partial || observed).then_some(RETRY_AFTER).or(held);
        let (mut rate_limited, mut failure, mut missing) = (0, None, Vec::new());
        for created in self.creator.claims(plan.new_claims, decision).await {
            match created {
                Created::Claim { name, pods } => {
                    buffers::add_chunks(&mut chunks, &name, &pods);
                    nominate(&self.cluster, &self.clocks, &self.pod_times, &pods, &name, until);
                    pod_events::nominated(&self.recorder, &pods, &format!("nodeclaim/{name}"), decision);
                }
                Created::NotNeeded => {}
                Created::Held { held, pods } => {
                    for pod in &pods {
                        pod_events::held(&self.recorder, pod, &held.to_string());
                    }
                    rate_limited += 1;
                }
                Created::Refused { why, pods } => {
                    tracing::warn!(pods = pods.len(), why, "nodeclaim was not created");
                    for pod in &pods {
                        pod_events::failed(&self.recorder, pod, &why);
                    }
                    missing.push(why);
                }
                Created::Unknown { name, error } => {
                    missing.push(format!("whether {name} was created is not known: {error}"));
                    self.unknown().insert(name);
                    self.inbox.push("unknown", self.clocks.steady());
                    again = Some(RETRY_AFTER);
                    failure = Some(error);
                }
            }
        }
        buffers::record(&self.cluster, outcomes, chunks);
        if rate_limited > 0 {
            let wait =
                self.safety.limits().until_created(rate_limited, self.clocks.steady()).max(RETRY_AFTER);
            tracing::warn!(nodeclaims = rate_limited, ?wait, "NodeClaim creation rate limit reached");
            again = Some(again.map_or(wait, |soon| soon.min(wait)));
            missing.push(format!(
                "NodeClaim creation rate limit reached: {rate_limited} wait for the next plan"
            ));
        }
        self.decisions.planned(&decision.id, &missing);
        failure.map_or(Ok(again), Err)
    }
}

/// Pods that the solver did not reach within its bounds.
fn not_reached(plan: &Plan) -> BTreeSet<PodUid> {
    let left = plan.unplaced.iter().filter(|(_, why)| *why == Unplaced::NotReached);
    left.map(|(pod, _)| pod.uid.clone()).collect()
}

/// Nominates pods. Returns those that kube-scheduler has not bound to `target` since it could.
fn nominate(
    cluster: &Cluster,
    clocks: &Clocks,
    pod_times: &PodTimes,
    pods: &[Arc<Pod>],
    target: &str,
    until: Timestamp,
) -> BTreeSet<PodUid> {
    let now = clocks.now();
    let mut index = cluster.index();
    let mut refused = BTreeSet::new();
    for pod in pods.iter().filter(|pod| !pod.is_virtual) {
        pod_times.placed(&pod.uid, now);
        // It may have been bound or deleted while the plan was computed.
        let unchanged = index.pod_by_uid(&pod.uid).is_some_and(|now| now.is_active() && now.node == pod.node);
        if unchanged && !index.nominate(pod.uid.clone(), target, until) {
            refused.insert(pod.uid.clone());
        }
    }
    refused
}

/// How often the metrics of a running pass are updated.
const UPDATE: Duration = Duration::from_secs(1);

/// Awaits a pass and publishes its number of pods and its duration while it runs. Afterwards 0 pods wait; the series of a pass goes
/// with the next pass, as in Karpenter.
async fn measured<T>(
    clocks: &Clocks,
    metrics: &Metrics,
    id: &str,
    pods: usize,
    pass: impl Future<Output = T>,
) -> T {
    let labels = [NAME, id];
    let began = clocks.now();
    let depth = |pods| metrics.replace(&families::QUEUE_DEPTH, [(labels.map(str::to_owned).to_vec(), pods)]);
    depth(to_f64(pods));
    metrics.set(&families::UNFINISHED_WORK, &labels, 0.0);
    let mut pass = std::pin::pin!(pass);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut pass => break result,
            () = clocks.sleep(UPDATE) => {
                let worked = clocks.now().duration_since(began).as_secs_f64();
                metrics.set(&families::UNFINISHED_WORK, &labels, worked);
            }
        }
    };
    depth(0.0);
    metrics.remove(&families::UNFINISHED_WORK, &labels);
    result
}

/// Computes a plan on a thread that does not block the controllers.
pub(crate) async fn solve(
    clocks: &Clocks,
    settings: &Settings,
    solvers: &Solvers,
    snapshot: Arc<Snapshot>,
    pods: Vec<Arc<Pod>>,
) -> Result<Plan, ReconcileError> {
    let rules = settings.rules();
    let (effort, packing) = (settings.solve_effort, settings.packing);
    // Time passes during the computation only if it has its own thread.
    let deadline = match effort {
        SolveEffort::Time(time) if solvers.is_threaded() => Some(later(clocks.now(), time)),
        SolveEffort::Time(_) | SolveEffort::Iterations(_) => None,
    };
    let (clock, kept) = (clocks.clock().clone(), solvers.clone());
    let work = move || {
        let mut prepared = kept.on(&snapshot, &rules);
        let plan = solve_now(&mut prepared, &pods, (packing, effort), deadline, &clock);
        kept.keep(prepared);
        plan
    };
    solvers.offload(work).await
}

fn solve_now(
    prepared: &mut PreparedSnapshot,
    pods: &[Arc<Pod>],
    (packing, effort): (Packing, SolveEffort),
    deadline: Option<Timestamp>,
    clock: &SharedClock,
) -> Plan {
    let has_time_left = || deadline.is_some_and(|deadline| clock.now() < deadline);
    let effort = match (effort, deadline) {
        (SolveEffort::Iterations(rounds), _) => Effort::Iterations(rounds),
        (SolveEffort::Time(_), Some(_)) => Effort::While(&has_time_left),
        (SolveEffort::Time(_), None) => Effort::First,
    };
    let request = Request { pods, without: &[], purpose: Purpose::Provisioning, effort };
    packing.packer().pack(prepared, &request)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a gauge")]
fn to_f64(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
