//! `operatorpkg.<kind>.status`: the conditions of objects, their durations and transitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::{NodeClaim, condition::Condition};
use fleetwright_core::{
    cloud::{NodeClassKind, ProviderInfo},
    model::{NamespacedName, labels},
};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    events::{Event, ObjectReference, regarding, transition},
    metrics::{
        Family, Metrics,
        status::{DEFAULT_BUCKETS, Families, WIDE_BUCKETS},
    },
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Recorder, Requeue},
    settings::Settings,
};

/// Update interval of durations.
const INTERVAL: Duration = Duration::from_secs(30);

/// One controller per kind.
pub(super) fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let buffers = ctx.settings.gates.capacity_buffer;
    let kinds = kinds(ctx.cloud.info()).into_iter();
    let kinds = kinds.filter(|status_kind| status_kind.kind != WatchedKind::CapacityBuffer || buffers);
    let of = |status_kind| StatusMetrics {
        status_kind,
        last_states: Mutex::default(),
        cluster: ctx.cluster.clone(),
        clocks: ctx.clocks.clone(),
        recorder: ctx.recorder.clone(),
        metrics: ctx.metrics.clone(),
    };
    kinds.map(|status_kind| Arc::new(of(status_kind)) as Arc<dyn Controller>).collect()
}

fn kinds(provider: &ProviderInfo) -> Vec<StatusKind> {
    let mut kinds = vec![node_pools(), node_claims(provider), nodes(provider), capacity_buffers()];
    kinds.extend(provider.node_classes.iter().cloned().map(node_classes));
    kinds
}

/// The families of all kinds, for their documentation.
#[cfg(test)]
pub(crate) fn families(provider: &ProviderInfo) -> Vec<Families> {
    let of_kinds = kinds(provider).into_iter().map(|kind| kind.families);
    of_kinds.chain([Families::of_all_kinds()]).collect()
}

/// The labels of NodeClaims and Nodes that are labels of their series, as Karpenter has them: the NodeClass by the key
/// of its kind, and the NodePool.
fn owner_labels(provider: &ProviderInfo) -> Vec<String> {
    let class = |kind: &NodeClassKind| format!("{}/{}", kind.group, kind.kind.to_ascii_lowercase());
    let classes = provider.node_classes.iter().map(class);
    classes.chain([labels::NODEPOOL.to_owned()]).collect()
}

/// A label key as the name of a label in Prometheus: `karpenter.sh/nodepool` is `karpenter_sh_nodepool`.
fn label_name(key: &str) -> String {
    key.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_lowercase()
}

fn node_pools() -> StatusKind {
    StatusKind::new("karpenter.sh", "NodePool", WatchedKind::NodePool, &[], WIDE_BUCKETS, |index, key| {
        let pool = index.pool(&key.name)?;
        let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
        // The controllers of its status publish its transitions.
        Some(ObjectState::new(&pool.metadata, conditions, None))
    })
}

/// Whether a NodeClaim is of a NodeClass of this provider. The operator of another one publishes the transitions of its NodeClaims and nodes.
fn is_managed(index: &Index, claim: &NodeClaim) -> bool {
    let class = &claim.spec.node_class_ref;
    index.is_managed(&class.group, &class.kind)
}

fn node_claims(provider: &ProviderInfo) -> StatusKind {
    let further = owner_labels(provider);
    StatusKind::new(
        "karpenter.sh",
        "NodeClaim",
        WatchedKind::NodeClaim,
        &further,
        WIDE_BUCKETS,
        |index, key| {
            let claim = index.claim(&key.name)?;
            let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let is_ours = is_managed(index, claim);
            Some(ObjectState::new(&claim.metadata, conditions, is_ours.then(|| regarding(&**claim))))
        },
    )
}

fn nodes(provider: &ProviderInfo) -> StatusKind {
    let mut further = owner_labels(provider);
    further.push(labels::INITIALIZED.to_owned());
    let classes: Vec<String> =
        provider.node_classes.iter().map(|class| class.named("").label_key()).collect();
    let read = move |index: &Index, key: &Key| {
        let node = index.node(&key.name)?;
        let is_ours = match index.claim_of_node(&key.name) {
            Some(claim) => is_managed(index, claim),
            // Without its NodeClaim the labels say whose it is.
            None => {
                let has = |label: &str| node.metadata.labels.iter().any(|all| all.contains_key(label));
                !has(labels::NODEPOOL) || classes.iter().any(|class| has(class))
            }
        };
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions = conditions.map(|condition| {
            let state = ConditionState {
                status: condition.status.clone(),
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
                since: condition.last_transition_time.as_ref().map(|time| time.0),
            };
            (condition.type_.clone(), state)
        });
        Some(ObjectState {
            conditions: conditions.collect(),
            ..ObjectState::new(&node.metadata, &[], is_ours.then(|| regarding(&**node)))
        })
    };
    StatusKind {
        has_legacy: false,
        ..StatusKind::new("", "Node", WatchedKind::Node, &further, WIDE_BUCKETS, read)
    }
}

fn capacity_buffers() -> StatusKind {
    let group = "autoscaling.x-k8s.io";
    StatusKind::new(group, "CapacityBuffer", WatchedKind::CapacityBuffer, &[], WIDE_BUCKETS, |index, key| {
        let (buffer, ..) = index.buffer(&NamespacedName::from(key))?;
        let conditions = buffer.status.as_ref().map_or(&[][..], |status| &status.conditions);
        Some(ObjectState::new(&buffer.metadata, conditions, Some(regarding(&**buffer))))
    })
}

fn node_classes(kind: NodeClassKind) -> StatusKind {
    let (group, name) = (kind.group.to_string(), kind.kind.to_string());
    StatusKind::new(&group, &name, WatchedKind::NodeClass, &[], DEFAULT_BUCKETS, move |index, key| {
        let class = index.node_class(&kind.named(&key.name))?;
        // Providers publish the transitions of their classes.
        Some(ObjectState {
            deleting: class.deleting,
            ..ObjectState::new(&ObjectMeta::default(), &class.conditions, None)
        })
    })
}

/// The state of an object for series and events.
#[derive(Clone, Debug, Default, PartialEq)]
struct ObjectState {
    conditions: BTreeMap<String, ConditionState>,
    deleting: Option<Timestamp>,
    labels: BTreeMap<String, String>,
    finalizers: BTreeSet<String>,
    /// The object on which its transitions are published.
    reference: Option<ObjectReference>,
}

#[derive(Clone, Debug, PartialEq)]
struct ConditionState {
    status: String,
    reason: String,
    message: String,
    since: Option<Timestamp>,
}

impl ObjectState {
    fn new(metadata: &ObjectMeta, conditions: &[Condition], reference: Option<ObjectReference>) -> Self {
        let of = |condition: &Condition| {
            let state = ConditionState {
                status: condition.status.as_str().to_owned(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.as_ref().map(|time| time.0),
            };
            (condition.type_.clone(), state)
        };
        Self {
            conditions: conditions.iter().map(of).collect(),
            deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            labels: metadata.labels.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.iter().flatten().cloned().collect(),
            reference,
        }
    }
}

/// Reads an object of a kind.
type ReadState = dyn Fn(&Index, &Key) -> Option<ObjectState> + Send + Sync;

/// One kind of object and its families.
struct StatusKind {
    name: &'static str,
    kind: WatchedKind,
    group: String,
    /// The kind's name.
    object: String,
    /// Keys of the objects' labels that are labels of their series.
    further: Vec<String>,
    families: Families,
    legacy: Families,
    /// Whether the legacy set has its series too.
    has_legacy: bool,
    read: Box<ReadState>,
}

/// The conditions of one kind of object.
struct StatusMetrics {
    cluster: Cluster,
    clocks: Clocks,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    status_kind: StatusKind,
    last_states: Mutex<BTreeMap<Key, ObjectState>>,
}

#[async_trait]
impl Controller for StatusMetrics {
    fn name(&self) -> &'static str {
        self.status_kind.name
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn is_singleton(&self) -> bool {
        true
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        if change.kind == self.status_kind.kind { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        if *key == Key::singleton() {
            for (key, object) in self.lock().iter() {
                self.durations(key, object);
            }
            return Ok(Requeue::After(INTERVAL));
        }
        let now = (self.status_kind.read)(&self.cluster.index(), key);
        let mut last_states = self.lock();
        let before = last_states.remove(key);
        if let Some(before) = &before {
            self.publish(before, now.as_ref());
        }
        let before = before.unwrap_or_default();
        let after = now.clone().unwrap_or_default();
        for (type_, was) in &before.conditions {
            let is = after.conditions.get(type_);
            let same = is.is_some_and(|is| (&is.status, &is.reason) == (&was.status, &was.reason));
            if !same || before.labels != after.labels {
                let labels = condition_labels(key, type_, was);
                let remove = |family: &Family, labels: &[&str]| self.metrics.remove(family, labels);
                self.each(&before, &labels, remove, |f| &f.count);
                self.each(&before, &labels, remove, |f| &f.current);
            }
        }
        for (type_, is) in &after.conditions {
            let set = |family: &Family, labels: &[&str]| self.metrics.set(family, labels, 1.0);
            self.each(&after, &condition_labels(key, type_, is), set, |f| &f.count);
            self.changed(&after, type_, before.conditions.get(type_), is);
        }
        match now {
            Some(object) => {
                self.durations(key, &object);
                last_states.insert(key.clone(), object);
            }
            None => self.observe_deletion(key, &before),
        }
        Ok(Requeue::No)
    }
}

fn condition_labels<'a>(key: &'a Key, type_: &'a str, state: &'a ConditionState) -> Vec<&'a str> {
    vec![&key.namespace, &key.name, type_, &state.status, &state.reason]
}

impl StatusMetrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, ObjectState>> {
        self.last_states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the kind's own family and the one of all kinds.
    fn each(
        &self,
        object: &ObjectState,
        labels: &[&str],
        act: impl Fn(&Family, &[&str]),
        of: fn(&Families) -> &Family,
    ) {
        let value = |key: &String| object.labels.get(key).map_or("", String::as_str);
        let own: Vec<&str> =
            labels.iter().copied().chain(self.status_kind.further.iter().map(value)).collect();
        act(of(&self.status_kind.families), &own);
        if self.status_kind.has_legacy {
            act(
                of(&self.status_kind.legacy),
                &[labels, &[&self.status_kind.group, &self.status_kind.object]].concat(),
            );
        }
    }

    /// Publishes transitions of conditions, and finalizers that were removed.
    fn publish(&self, before: &ObjectState, after: Option<&ObjectState>) {
        let Some(reference) = after.map_or(&before.reference, |after| &after.reference) else { return };
        let finalizers = after.map(|after| &after.finalizers);
        for finalizer in &before.finalizers {
            if finalizers.is_none_or(|left| !left.contains(finalizer)) {
                let text = format!("Finalized {finalizer}");
                self.recorder.publish(Event::normal(reference.clone(), "Finalized", text));
            }
        }
        for (type_, is) in after.iter().flat_map(|after| &after.conditions) {
            // A condition that did not exist was Unknown.
            let was = before.conditions.get(type_).map_or("Unknown", |was| &was.status);
            if was != is.status {
                let text = transition(type_, was, &is.status, &is.reason, &is.message);
                self.recorder.publish(Event::normal(reference.clone(), type_.clone(), text));
            }
        }
    }

    /// Records a transition and the duration of the previous status.
    fn changed(&self, object: &ObjectState, type_: &str, was: Option<&ConditionState>, is: &ConditionState) {
        if was.is_some_and(|was| was.status == is.status) {
            return;
        }
        let labels = [type_, &is.status, &is.reason];
        self.each(object, &labels, |family, labels| self.metrics.inc(family, labels), |f| &f.transitions);
        let Some(was) = was else { return };
        if let (Some(from), Some(to)) = (was.since, is.since) {
            let seconds = to.duration_since(from).as_secs_f64().max(0.0);
            let observe = |family: &Family, labels: &[&str]| self.metrics.observe(family, labels, seconds);
            self.each(object, &[type_, &was.status], observe, |f| &f.transition);
        }
    }

    /// Updates the durations of an object.
    fn durations(&self, key: &Key, object: &ObjectState) {
        let now = self.clocks.now();
        let since = |from: Timestamp| now.duration_since(from).as_secs_f64().max(0.0);
        for (type_, state) in &object.conditions {
            if let Some(from) = state.since {
                let set = |family: &Family, labels: &[&str]| self.metrics.set(family, labels, since(from));
                self.each(object, &condition_labels(key, type_, state), set, |f| &f.current);
            }
        }
        if let Some(deleting) = object.deleting {
            let set = |family: &Family, labels: &[&str]| self.metrics.set(family, labels, since(deleting));
            self.each(object, &[&key.namespace, &key.name], set, |f| &f.terminating);
        }
    }

    /// Records how long the termination of an object took.
    fn observe_deletion(&self, key: &Key, before: &ObjectState) {
        let Some(deleting) = before.deleting else { return };
        let remove = |family: &Family, labels: &[&str]| self.metrics.remove(family, labels);
        self.each(before, &[&key.namespace, &key.name], remove, |f| &f.terminating);
        let seconds = self.clocks.now().duration_since(deleting).as_secs_f64().max(0.0);
        let observe = |family: &Family, labels: &[&str]| self.metrics.observe(family, labels, seconds);
        self.each(before, &[], observe, |f| &f.termination);
    }
}

impl StatusKind {
    fn new(
        group: &str,
        object: &str,
        kind: WatchedKind,
        further: &[String],
        buckets: &'static [f64],
        read: impl Fn(&Index, &Key) -> Option<ObjectState> + Send + Sync + 'static,
    ) -> Self {
        let names: Vec<String> = further.iter().map(|key| label_name(key)).collect();
        Self {
            name: interned(format!("operatorpkg.{}.status", object.to_ascii_lowercase())),
            kind,
            group: group.to_owned(),
            object: object.to_owned(),
            further: further.to_vec(),
            families: Families::of_kind(object, &names, buckets),
            legacy: Families::of_all_kinds(),
            has_legacy: true,
            read: Box::new(read),
        }
    }
}

/// Returns a name that lives as long as the process. Bounded: there is one controller per kind of the provider.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(last_states) = names.get(&*name) {
        return last_states;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    //! Transitions of conditions, and deletion of objects.
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Harness;

    fn claim(status: &str, at: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
            "status": {"conditions": [{"type": "Launched", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": at}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn transitions_are_counted_and_series_are_removed_with_their_object() {
        let harness = Harness::new();
        harness.server.apply(claim("Unknown", "2025-06-15T15:06:40Z")).unwrap();
        let (_trigger, _task) = harness.run(controllers(&harness.ctx));
        harness.pass(60).await;
        let text = harness.ctx.metrics.encode().unwrap();
        let series = "operator_nodeclaim_status_condition_count{karpenter_kwok_sh_kwoknodeclass=\"\",karpenter_sh_nodepool=\"p\",name=\"c\",namespace=\"\",reason=\"R\",status=\"Unknown\",type=\"Launched\"} 1\n";
        assert!(text.contains(series), "{text}");
        harness.server.apply(claim("True", "2025-06-15T15:07:10Z")).unwrap();
        harness.pass(60).await;
        let text = harness.ctx.metrics.encode().unwrap();
        assert!(!text.contains("status=\"Unknown\",type=\"Launched\"} 1\n\n"), "{text}");
        for expected in [
            "operator_nodeclaim_status_condition_transition_seconds_sum{karpenter_kwok_sh_kwoknodeclass=\"\",karpenter_sh_nodepool=\"p\",status=\"Unknown\",type=\"Launched\"} 30\n",
            "operator_status_condition_transitions_total{group=\"karpenter.sh\",kind=\"NodeClaim\",reason=\"R\",status=\"True\",type=\"Launched\"} 1\n",
            "operator_nodeclaim_status_condition_count{karpenter_kwok_sh_kwoknodeclass=\"\",karpenter_sh_nodepool=\"p\",name=\"c\",namespace=\"\",reason=\"R\",status=\"True\",type=\"Launched\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains(series), "{text}");
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "c").unwrap();
        harness.pass(60).await;
        let text = harness.ctx.metrics.encode().unwrap();
        assert!(!text.contains("name=\"c\""), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn transitions_and_removed_finalizers_are_published() {
        let harness = Harness::new();
        let finalized = |mut claim: Value, finalizers: &[&str]| {
            claim["metadata"]["finalizers"] = json!(finalizers);
            claim
        };
        harness.server.apply(finalized(claim("Unknown", "2025-06-15T15:06:40Z"), &["a/b", "c/d"])).unwrap();
        let (_trigger, _task) = harness.run(controllers(&harness.ctx));
        harness.pass(60).await;
        assert_eq!(harness.events(), Vec::<String>::new(), "nothing has changed");
        harness.server.apply(finalized(claim("True", "2025-06-15T15:07:10Z"), &["a/b"])).unwrap();
        harness.pass(60).await;
        let events = harness.events();
        for expected in [
            "NodeClaim/c Launched: Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: R",
            "NodeClaim/c Finalized: Finalized c/d",
        ] {
            assert!(events.iter().any(|event| event.contains(expected)), "{expected} in {events:?}");
        }
        assert_eq!(events.len(), 2, "{events:?}");
    }
}
