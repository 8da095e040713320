//! Executes the steps that the stages of `core::nodeclaim` return. It makes no decisions: a step succeeds, or it fails and
//! ends the pass.
//!
//! All status changes of a pass go into one patch, written at its end or before the NodeClaim is deleted. The patch carries the
//! resource version, so that it fails if another writer changed the NodeClaim.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use fleetwright_api::{
    self as api, HasConditions,
    condition::{Condition, find},
    labels as names,
};
use fleetwright_core::{
    cloud::{CloudError, CloudProvider, Instance, Termination},
    decisions::DeletedClaim,
    model::{ConditionStatus, ProviderId, Resources, labels, nodeclaim::ConditionType},
    nodeclaim::{ClaimStep, ClaimView, ConditionChange, InstanceState, Next, NodeChange},
    safety::Cause,
};
use fleetwright_state::Key;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    cache::{EVICTION_QUEUE, LifecycleCache, QueuedEviction, REGISTRATION_HEALTH, registration_condition},
    claimed_node::ClaimedNode,
    cloud_call::CloudCall,
    cloud_refusals, families,
    launch::LaunchContext,
    node_patch, node_release,
    publish::publish_notice,
};
use crate::{
    log,
    metrics::Metrics,
    runtime::decisions::Decisions,
    runtime::{ApiClient, Clocks, Cluster, Ctx, ReconcileError, Recorder, ignore_not_found},
    settings::Settings,
};

/// The result of a pass.
#[derive(Debug, Default)]
pub(crate) struct PassResult {
    /// When to reconcile again.
    pub(crate) again: Option<Duration>,
    /// The state of the instance, if the pass asked the cloud for it.
    pub(crate) instance: Option<InstanceState>,
}

/// Runs stages on the view of a NodeClaim.
pub(crate) type Stages = fn(&ClaimView<'_>, Timestamp) -> Next;

/// Makes an [`Executor`] for each pass.
pub(crate) struct Executors {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    decisions: Decisions,
    cache: Arc<LifecycleCache>,
}

impl Executors {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
            cache: cache.clone(),
        }
    }

    /// Starts a pass over `node`.
    pub(crate) fn on<'a>(&'a self, node: &'a ClaimedNode) -> Executor<'a> {
        let claim = (*node.raw).clone();
        Executor {
            executors: self,
            node,
            claim,
            instance: None,
            pending: Vec::new(),
            released: false,
            look_ahead_stages: None,
            found: None,
        }
    }
}

/// One pass over one NodeClaim.
pub(crate) struct Executor<'a> {
    executors: &'a Executors,
    node: &'a ClaimedNode,
    /// The NodeClaim as of our last write.
    claim: api::NodeClaim,
    instance: Option<Instance>,
    pending: Vec<StatusChange>,
    released: bool,
    look_ahead_stages: Option<Stages>,
    /// Why the NodeClaim is deleted, for the record of the decision.
    found: Option<String>,
}

/// A pending change of the status.
enum StatusChange {
    Set(ConditionChange),
    Clear(&'static str),
    NodeName(String),
    Adopt(Box<Instance>),
}

impl<'a> Executor<'a> {
    /// Runs `stages` on the status that is about to be written. If they change the status only, one patch writes both changes.
    pub(crate) fn with_look_ahead(self, stages: Stages) -> Self {
        Self { look_ahead_stages: Some(stages), ..self }
    }

    /// Records `found` as the reason of a deletion, in place of what the NodeClaim shows.
    pub(crate) fn because(self, found: String) -> Self {
        Self { found: Some(found), ..self }
    }

    /// Executes all steps in order, then writes the status.
    pub(crate) async fn execute(&mut self, next: Next) -> Result<PassResult, ReconcileError> {
        let mut done = PassResult { again: next.again, instance: None };
        let mut steps = VecDeque::from(next.steps);
        let mut result = Ok(());
        while let Some(step) = steps.pop_front() {
            match Box::pin(self.step(step, &mut done)).await {
                Ok(more) => {
                    for step in more.into_iter().rev() {
                        steps.push_front(step);
                    }
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            if matches!(done.instance, Some(InstanceState::NotOwned(_))) {
                break;
            }
        }
        if result.is_ok() {
            self.look_ahead();
        }
        // Status changes from before a failure are valid: write them.
        let written = self.flush().await;
        result.and(written).map(|()| done)
    }

    async fn step(
        &mut self,
        step: ClaimStep,
        done: &mut PassResult,
    ) -> Result<Vec<ClaimStep>, ReconcileError> {
        match step {
            ClaimStep::Launch => return self.launch(done).await,
            ClaimStep::Adopt => self.adopt().await?,
            ClaimStep::Condition(change) => self.pending.push(StatusChange::Set(change)),
            ClaimStep::Clear(condition) => self.pending.push(StatusChange::Clear(condition.as_str())),
            ClaimStep::Delete(cause) => {
                self.flush().await?;
                self.delete(cause).await?;
            }
            ClaimStep::ChangeNode(change) => self.change_node(&change).await?,
            ClaimStep::SetNodeName(name) => {
                self.count_created();
                self.pending.push(StatusChange::NodeName(name.to_string()));
            }
            ClaimStep::SetDeadline(at) => self.set_deadline(at, &[names::TERMINATION_TIMESTAMP]).await?,
            ClaimStep::SetRepairDeadline(at) => {
                self.set_deadline(at, &[names::TERMINATION_TIMESTAMP, names::REPAIR_DEADLINE]).await?;
            }
            ClaimStep::CancelRepair => self.cancel_repair().await?,
            ClaimStep::DeleteNodes(nodes) => {
                for node in nodes {
                    self.delete_node(&node).await?;
                }
            }
            ClaimStep::Evict(pod) => self.queue_eviction(pod.id.into(), pod.uid, None),
            ClaimStep::Force(pod, grace) => self.queue_eviction(pod.id.into(), pod.uid, Some(grace)),
            ClaimStep::Terminate(id) => self.terminate(&id, done).await?,
            ClaimStep::ReleaseNode(node) => self.release_node(&node).await?,
            ClaimStep::ReleaseClaim => self.release_claim().await?,
            ClaimStep::Publish(notice) => {
                publish_notice(&self.executors.cluster, &self.executors.recorder, self.node, &notice)
            }
            ClaimStep::CountRegistration(registered) => self.count_registration(registered),
        }
        Ok(Vec::new())
    }

    fn name(&self) -> &str {
        &self.node.claim.name
    }

    fn api(&self) -> Api<api::NodeClaim> {
        self.executors.client.cluster()
    }

    async fn patch(&mut self, what: &'static str, body: Value) -> Result<(), ReconcileError> {
        let (api, params, body) = (self.api(), PatchParams::default(), Patch::Merge(body));
        let patched = self.executors.client.call(what, api.patch(self.name(), &params, &body)).await?;
        self.claim = patched.clone();
        self.executors.cluster.observe(patched);
        Ok(())
    }

    fn finalizers(&self) -> Vec<String> {
        self.claim.metadata.finalizers.clone().unwrap_or_default()
    }

    async fn launch(&mut self, done: &mut PassResult) -> Result<Vec<ClaimStep>, ReconcileError> {
        let executors = self.executors;
        let (client, cluster, clocks) = (&executors.client, &executors.cluster, &executors.clocks);
        let launch = LaunchContext { client, cluster, clocks, cloud: &*executors.cloud };
        let outcome = executors.cache.launches.launch(launch, &self.node.claim).await;
        // The attempt was written on this NodeClaim too.
        let written = executors.cluster.index().claim(self.name()).cloned();
        if let Some(written) = written.filter(|written| written.metadata.uid == self.claim.metadata.uid) {
            self.claim = (*written).clone();
        }
        let (next, instance) = outcome?;
        self.instance = instance;
        if let Some(again) = next.again {
            done.again = Some(done.again.map_or(again, |earlier| earlier.min(again)));
        }
        Ok(next.steps)
    }

    /// Labels first, then the status: a NodeClaim that is Launched has its labels.
    async fn adopt(&mut self) -> Result<(), ReconcileError> {
        let Some(instance) = self.instance.take() else { return Ok(()) };
        let known = self.claim.metadata.labels.clone().unwrap_or_default();
        let decided = self.node.claim.requirements.labels();
        let desired = instance.labels.iter().chain(&decided);
        let missing: BTreeMap<&str, &str> = desired
            .filter(|(key, _)| !known.contains_key(&***key))
            .map(|(key, value)| (&**key, &**value))
            .collect();
        let annotations = self.claim.metadata.annotations.clone().unwrap_or_default();
        let noted: BTreeMap<&str, &str> = instance
            .annotations
            .iter()
            .filter(|(key, _)| !annotations.contains_key(&***key))
            .map(|(key, value)| (&**key, &**value))
            .collect();
        if !missing.is_empty() || !noted.is_empty() {
            // The UID makes sure that it is this NodeClaim.
            let uid = &self.claim.metadata.uid;
            let metadata = json!({"metadata": {"uid": uid, "labels": missing, "annotations": noted}});
            self.patch("write labels of the instance", metadata).await?;
        }
        log::launched_nodeclaim(self.name(), &instance);
        self.pending.push(StatusChange::Adopt(Box::new(instance)));
        Ok(())
    }

    async fn delete(&mut self, cause: Cause) -> Result<(), ReconcileError> {
        let (api, params) = (self.api(), only(&self.node.claim.uid));
        let result = self.executors.client.call("delete nodeclaim", api.delete(self.name(), &params)).await;
        match ignore_not_found(result)? {
            Some(either) => {
                if let Some(claim) = either.left() {
                    self.executors.cluster.observe(claim);
                }
            }
            None => return Ok(()),
        }
        let reason = cause.as_str();
        let price = self.node.price(&self.executors.cluster);
        let ClaimedNode { claim, nodes, pods, .. } = self.node;
        let deleted = DeletedClaim { claim, nodes, pods, price, found: self.found.as_deref() };
        self.executors.decisions.deletion(&deleted, cause);
        self.executors.decisions.claim_ended(self.name(), reason.unwrap_or("its Node was deleted"));
        tracing::info!(
            NodeClaim.name = self.name(),
            reason = reason.unwrap_or("node deleted"),
            "deleting nodeclaim"
        );
        if let Some(reason) = reason {
            let (pool, capacity_type) = (self.node.pool_name(), self.node.label(labels::CAPACITY_TYPE));
            let labels = [reason, pool, capacity_type, "", "forceful"];
            self.executors.metrics.inc(&families::CLAIMS_DISRUPTED, &labels);
        }
        Ok(())
    }

    async fn change_node(&mut self, change: &NodeChange) -> Result<(), ReconcileError> {
        node_patch::write(&self.executors.client, &self.executors.cluster, change, Some(&self.node.claim))
            .await
    }

    async fn set_deadline(&mut self, at: Timestamp, keys: &[&str]) -> Result<(), ReconcileError> {
        let at = at.round(jiff::Unit::Second).unwrap_or(at);
        let all: BTreeMap<&str, String> = keys.iter().map(|key| (*key, at.to_string())).collect();
        self.annotate("write termination deadline", json!(all)).await?;
        log::annotated_nodeclaim(self.name(), &at.to_string());
        Ok(())
    }

    /// Removes the deadline of a repair; a deadline of another writer is not removed.
    async fn cancel_repair(&mut self) -> Result<(), ReconcileError> {
        let all = self.claim.metadata.annotations.clone().unwrap_or_default();
        let Some(written) = all.get(names::REPAIR_DEADLINE) else { return Ok(()) };
        let deadline =
            all.get_key_value(names::TERMINATION_TIMESTAMP).filter(|(_, present)| *present == written);
        let keys = deadline.map(|(key, _)| key.as_str()).into_iter().chain([names::REPAIR_DEADLINE]);
        let none: BTreeMap<&str, Option<&str>> = keys.map(|key| (key, None)).collect();
        self.annotate("remove termination deadline", json!(none)).await
    }

    async fn annotate(&mut self, what: &'static str, annotations: Value) -> Result<(), ReconcileError> {
        let version = &self.claim.metadata.resource_version;
        let body = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        self.patch(what, body).await
    }

    async fn delete_node(&self, name: &str) -> Result<(), ReconcileError> {
        let Some(uid) = self.executors.cluster.index().node_model(name).map(|node| node.uid.clone()) else {
            return Ok(());
        };
        let api = self.executors.client.cluster::<Node>();
        let deleted =
            ignore_not_found(self.executors.client.call("delete node", api.delete(name, &only(&uid))).await)?;
        if let Some(node) = deleted.and_then(|either| either.left()) {
            self.executors.cluster.observe(node);
        }
        Ok(())
    }

    fn queue_eviction(&self, key: Key, uid: fleetwright_core::model::PodUid, force: Option<Duration>) {
        let Some(node) = self.node.nodes.first() else { return };
        let disrupted = &ConditionType::DisruptionReason;
        let reason = self.node.claim.conditions.get(disrupted).map(|condition| condition.reason.to_string());
        let reason = reason.unwrap_or_else(|| FORCEFUL.to_owned());
        let leaving = QueuedEviction { uid, node: node.name.clone(), reason, force };
        if self.executors.cache.evict(key.clone(), leaving) {
            self.executors.cluster.enqueue(EVICTION_QUEUE, key);
        }
    }

    async fn terminate(&mut self, id: &ProviderId, done: &mut PassResult) -> Result<(), ReconcileError> {
        let result = self.executors.cloud.terminate(&self.node.claim, id).await;
        let refused = cloud_refusals::note(
            &self.executors.clocks,
            &self.executors.recorder,
            &self.executors.cache,
            self.node,
            CloudCall::Terminate,
            &result,
        );
        self.pending.extend(refused.map(StatusChange::Set));
        done.instance = Some(match result {
            Ok(Termination::Accepted) => InstanceState::Exists,
            Ok(Termination::Gone) | Err(CloudError::NotFound(_)) => InstanceState::Gone,
            Err(CloudError::NotOwned { why, .. }) => InstanceState::NotOwned(why),
            Err(error) => return Err(error.into()),
        });
        Ok(())
    }

    async fn release_node(&self, name: &str) -> Result<(), ReconcileError> {
        let Executors { client, cluster, metrics, clocks, .. } = self.executors;
        node_release::release(client, cluster, metrics, (name, Some(self.name())), clocks.now()).await
    }

    async fn release_claim(&mut self) -> Result<(), ReconcileError> {
        let mut finalizers = self.finalizers();
        finalizers.retain(|name| name != names::TERMINATION_FINALIZER);
        let body = json!({"metadata": {
            "resourceVersion": self.claim.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let (api, params, body) = (self.api(), PatchParams::default(), Patch::Merge(body));
        let result =
            self.executors.client.call("remove finalizer", api.patch(self.name(), &params, &body)).await;
        self.released = true;
        self.executors.decisions.claim_ended(self.name(), "it was deleted before its node was initialized");
        self.executors.decisions.deletion_ended(self.name());
        if let Some(claim) = ignore_not_found(result)? {
            // Without finalizers, this write deletes the object.
            if claim.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
                self.executors.cluster.forget(&claim);
            } else {
                self.executors.cluster.observe(claim);
            }
        }
        let node = self.node;
        let (pool, zone) = (node.pool_name(), node.label(labels::ZONE));
        let labels = [pool, node.label(labels::CAPACITY_TYPE), zone];
        self.executors.metrics.inc(&families::CLAIMS_TERMINATED, &labels);
        let now = self.executors.clocks.now();
        if let Some(deleting) = node.claim.deleting {
            self.executors.metrics.observe(&families::CLAIM_TERMINATION, &[pool], seconds(deleting, now));
        }
        if let Some(since) = node.claim.true_since(ConditionType::InstanceTerminating) {
            self.executors.metrics.observe(&families::INSTANCE_TERMINATION, &[pool], seconds(since, now));
        }
        self.executors.cache.forget(&node.claim.uid);
        let status = self.claim.status.as_ref();
        let (provider_id, node_name) =
            status.map_or(("", ""), |status| (&*status.provider_id, &*status.node_name));
        log::deleted_nodeclaim(self.name(), provider_id, node_name);
        Ok(())
    }

    fn count_created(&self) {
        let labels = [self.node.pool_name(), self.node.label(labels::ZONE)];
        self.executors.metrics.inc(&families::NODES_CREATED, &labels);
    }

    fn count_registration(&self, registered: bool) {
        let Some(pool) = &self.node.pool else { return };
        // An earlier NodePool of the same name says nothing of this one.
        let owners = self.claim.metadata.owner_references.iter().flatten();
        if owners.filter(|owner| owner.kind == "NodePool").any(|owner| *owner.uid != *pool.uid) {
            return;
        }
        let index = self.executors.cluster.index();
        let stored =
            index.pool(&pool.name).map_or(ConditionStatus::Unknown, |raw| registration_condition(raw));
        drop(index);
        self.executors.cache.note_registration(&pool.uid, stored, registered);
        if !registered {
            self.executors.cache.note_failure(&pool.uid, &self.node.claim);
        }
        self.executors.cluster.enqueue(REGISTRATION_HEALTH, Key::cluster(pool.name.as_str()));
    }

    fn look_ahead(&mut self) {
        let Some(stages) = self.look_ahead_stages.filter(|_| !self.pending.is_empty() && !self.released)
        else {
            return;
        };
        let now = self.executors.clocks.now();
        let Some(node) =
            ClaimedNode::preview(&self.executors.cluster, &self.executors.settings, self.desired(now))
        else {
            return;
        };
        let steps = stages(&node.view(self.executors.cloud.info()), now).steps;
        if steps.iter().all(|step| matches!(step, ClaimStep::Condition(_))) {
            let changes = steps.into_iter().filter_map(|step| match step {
                ClaimStep::Condition(change) => Some(StatusChange::Set(change)),
                _ => None,
            });
            self.pending.extend(changes);
        }
    }

    /// The NodeClaim after the pending changes.
    fn desired(&self, now: Timestamp) -> api::NodeClaim {
        let mut desired = self.claim.clone();
        for change in &self.pending {
            apply(&mut desired, change, now);
        }
        desired
    }

    /// Writes the status changes of the pass.
    async fn flush(&mut self) -> Result<(), ReconcileError> {
        if self.pending.is_empty() || self.released {
            return Ok(());
        }
        let desired = self.desired(self.executors.clocks.now());
        self.pending.clear();
        if desired.status == self.claim.status {
            return Ok(());
        }
        let body = json!({
            "metadata": { "resourceVersion": self.claim.metadata.resource_version },
            "status": desired.status,
        });
        let (api, params, body) = (self.api(), PatchParams::default(), Patch::Merge(body));
        let result = self
            .executors
            .client
            .call("write nodeclaim status", api.patch_status(self.name(), &params, &body))
            .await;
        if let Some(patched) = ignore_not_found(result)? {
            let before = std::mem::replace(&mut self.claim, patched.clone());
            self.log_progress(&before);
            self.executors.cluster.observe(patched);
        }
        Ok(())
    }

    /// Logs that the NodeClaim became registered or initialized.
    fn log_progress(&self, before: &api::NodeClaim) {
        let Some(status) = &self.claim.status else { return };
        let became_true = |type_: &str| {
            let holds =
                |claim: &api::NodeClaim| find(claim.conditions(), type_).is_some_and(Condition::is_true);
            holds(&self.claim) && !holds(before)
        };
        if became_true(names::condition::REGISTERED) {
            log::registered_nodeclaim(self.name(), &status.provider_id, &status.node_name);
        }
        if became_true(names::condition::INITIALIZED) {
            self.executors.decisions.claim_initialized(self.name());
            let nodes = &self.node.nodes;
            let allocatable = nodes.first().map(|node| node.allocatable.clone()).unwrap_or_default();
            log::initialized_nodeclaim(self.name(), &status.provider_id, &status.node_name, &allocatable);
        }
    }
}

fn apply(claim: &mut api::NodeClaim, change: &StatusChange, now: Timestamp) {
    match change {
        StatusChange::Set(change) => {
            let mut set = claim.condition_set(now);
            let (condition, reason, message) = (change.condition.as_str(), &*change.reason, &*change.message);
            match change.status {
                ConditionStatus::True => set.set_true_with_reason(condition, reason, message),
                ConditionStatus::False => set.set_false(condition, reason, message),
                ConditionStatus::Unknown => set.set_unknown_with_reason(condition, reason, message),
            };
        }
        StatusChange::Clear(condition) => {
            // Only independent conditions are ever cleared.
            let _ = claim.condition_set(now).clear(condition);
        }
        StatusChange::NodeName(name) => claim.status.get_or_insert_default().node_name.clone_from(name),
        StatusChange::Adopt(instance) => {
            let status = claim.status.get_or_insert_default();
            status.provider_id = instance.provider_id.to_string();
            status.image_id = instance.image_id.as_deref().unwrap_or_default().to_owned();
            status.capacity = quantities(&instance.capacity);
            status.allocatable = quantities(&instance.allocatable);
        }
    }
}

/// Resources as Kubernetes quantities.
pub(crate) fn quantities(resources: &Resources) -> api::Quantities {
    let written = |(name, amount): (fleetwright_core::model::ResourceName, i64)| {
        (name.as_str().to_owned(), Quantity(name.quantity(amount).to_string()))
    };
    resources.iter().map(written).collect()
}

/// Why a pod is evicted from a node that no disruption command has taken.
pub(super) const FORCEFUL: &str = "Forceful Termination";

/// Restricts a deletion to the object with this UID, so that a later object with the same name is not deleted.
pub(crate) fn only(uid: &str) -> DeleteParams {
    let uid = (!uid.is_empty()).then(|| uid.to_owned());
    DeleteParams::default().preconditions(Preconditions { resource_version: None, uid })
}

/// Seconds from `since` to `now`; 0 if negative.
fn seconds(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}
