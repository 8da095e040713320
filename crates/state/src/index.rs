//! The index itself: what comes in, and what can be looked up.

mod buffers;
mod devices;
mod overlays;
mod put;
mod snapshot;
mod usage;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api as api;
use fleetwright_core::model::{
    Catalog, ClaimName, Devices, LabelSchema, Labels, NamespacedName, NodeClassRef, Pod, PodDisruptionBudget,
    PodUid, PoolName, Snapshot, StorageClasses, Str, VolumeClaim, Workloads, nodeclaim::ConditionType,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim},
    storage::v1::{StorageClass, VolumeAttachment},
};

pub use self::{buffers::BufferOutcome, overlays::OverlayState};
use self::{buffers::Buffers, overlays::Overlays};
use crate::{
    answers::Answers,
    change::Change,
    intents::{CommandIntent, Intents},
    kind::{Key, Kind},
    ledger::{self, Ledger},
    lower::{Invalid, device::Selectors, pod::Interner},
    nodes::NodeTable,
    pods::Pods,
    tracked::Tracked,
};

/// The state of the cluster, as far as decisions read it.
#[derive(Debug)]
pub struct Index {
    schema: Arc<LabelSchema>,
    /// Groups and kinds of node classes that are ours.
    classes: Vec<NodeClassRef>,
    ledgers: BTreeMap<Kind, Ledger>,
    /// Kinds that are followed beside those that always are.
    followed: BTreeSet<Kind>,
    progress: BTreeMap<Kind, Timestamp>,
    invalid: BTreeMap<(Kind, Key), Invalid>,
    interner: Interner,

    pods: Pods,
    nodes: NodeTable,
    answers: Answers,
    pools: BTreeMap<PoolName, PoolEntry>,
    /// Instance types as decisions see them: NodeOverlays applied, and what nodes taught.
    catalogs: BTreeMap<PoolName, Arc<Catalog>>,
    /// The same before what nodes taught is applied.
    announced: BTreeMap<PoolName, Arc<Catalog>>,
    overlays: Overlays,
    buffers: Buffers,
    daemons: BTreeMap<NamespacedName, Arc<Pod>>,
    namespaces: Arc<BTreeMap<Str, Labels>>,
    pdbs: BTreeMap<NamespacedName, Arc<PodDisruptionBudget>>,
    claims: BTreeMap<NamespacedName, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<Str, Arc<PersistentVolume>>,
    storage_classes: BTreeMap<Str, Arc<StorageClass>>,
    deferred: Arc<BTreeSet<PodUid>>,
    class_models: Arc<StorageClasses>,
    volume_claims: Arc<BTreeMap<NamespacedName, VolumeClaim>>,
    workloads: Arc<Workloads>,
    devices: Arc<Devices>,
    selectors: Selectors,
    attachments: BTreeMap<Str, Arc<VolumeAttachment>>,
    node_classes: BTreeMap<NodeClassRef, ClassState>,
    intents: Intents,

    /// Claims or commands changed since the snapshot was taken, and with them who is answered.
    answers_stale: bool,
    /// Pods, pools and the rest changed since the snapshot was taken; nodes keep their own account.
    stale: bool,
    epoch: u64,
    latest: Option<Arc<Snapshot>>,
}

#[derive(Clone, Debug)]
struct PoolEntry {
    raw: Arc<api::NodePool>,
    model: Option<Arc<fleetwright_core::model::NodePool>>,
}

/// What is known of a provider's class object.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassState {
    /// Whether its `Ready` condition is True; where it has none, or that is Unknown, `None`.
    pub ready: Option<bool>,
    /// The condition's reason and message.
    pub why: (Str, Str),
    /// `metadata.generation`.
    pub generation: i64,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// All its conditions.
    pub conditions: Vec<api::Condition>,
}

impl Index {
    /// An empty index for a provider whose node classes are of these groups and kinds.
    #[must_use]
    pub fn new(schema: Arc<LabelSchema>, classes: Vec<NodeClassRef>) -> Self {
        Self {
            schema,
            classes,
            ledgers: BTreeMap::new(),
            followed: BTreeSet::new(),
            progress: BTreeMap::new(),
            invalid: BTreeMap::new(),
            interner: Interner::default(),
            pods: Pods::default(),
            nodes: NodeTable::default(),
            answers: Answers::default(),
            pools: BTreeMap::new(),
            catalogs: BTreeMap::new(),
            announced: BTreeMap::new(),
            overlays: Overlays::default(),
            buffers: Buffers::default(),
            daemons: BTreeMap::new(),
            namespaces: Arc::default(),
            pdbs: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            storage_classes: BTreeMap::new(),
            deferred: Arc::default(),
            class_models: Arc::default(),
            volume_claims: Arc::default(),
            workloads: Arc::default(),
            devices: Arc::default(),
            selectors: Selectors::default(),
            attachments: BTreeMap::new(),
            node_classes: BTreeMap::new(),
            intents: Intents::default(),
            answers_stale: true,
            stale: true,
            epoch: 0,
            latest: None,
        }
    }

    // === What comes in ===

    /// Takes in an object from a watch or from the answer to an own write. `None` where it is no news.
    pub fn apply<T: Tracked>(&mut self, object: T) -> Option<Change> {
        let key = ledger::key(object.meta());
        let version = ledger::version(object.meta().resource_version.as_deref());
        if !self.ledgers.entry(T::KIND).or_default().is_news(&key, version) {
            return None;
        }
        let (before, after) = T::put(self, &key, Some(object));
        Some(Change { kind: T::KIND, key, before, after })
    }

    /// Takes in that an object is gone. `None` where it was not there, or has come back since.
    pub fn delete<T: Tracked>(&mut self, object: &T) -> Option<Change> {
        let key = ledger::key(object.meta());
        let version = ledger::version(object.meta().resource_version.as_deref());
        self.bury::<T>(key, version)
    }

    fn bury<T: Tracked>(&mut self, key: Key, version: u64) -> Option<Change> {
        if !self.ledgers.entry(T::KIND).or_default().bury(&key, version) {
            return None;
        }
        let (before, after) = T::put(self, &key, None);
        Some(Change { kind: T::KIND, key, before, after })
    }

    /// Takes in a complete list as of `version`: what it does not have is gone, unless it is newer. The
    /// watch shows a sign of life at `now`, see [`Self::progress`].
    pub fn reset<T: Tracked>(&mut self, objects: Vec<T>, version: &str, now: Timestamp) -> Vec<Change> {
        let version = ledger::version(Some(version));
        let listed: BTreeSet<Key> = objects.iter().map(|object| ledger::key(object.meta())).collect();
        let gone = self.ledgers.entry(T::KIND).or_default().missing_from(&listed, version);
        let mut changes: Vec<Change> =
            gone.into_iter().filter_map(|key| self.bury::<T>(key, version)).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.apply(object)));
        self.progress(T::KIND, now);
        changes
    }

    /// Notes a sign of life of a kind's watch at `now`, on a clock that nobody sets.
    pub fn progress(&mut self, kind: Kind, now: Timestamp) {
        let last = self.progress.entry(kind).or_insert(now);
        *last = now.max(*last);
    }

    /// Puts in the instance types that decisions see; `None` forgets them.
    fn put_catalog(&mut self, pool: &PoolName, catalog: Option<Arc<Catalog>>) {
        let same = |a: &Option<Arc<Catalog>>, b: Option<&Arc<Catalog>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        if same(&catalog, self.announced.get(pool)) {
            return;
        }
        match catalog {
            Some(catalog) => self.announced.insert(pool.clone(), catalog),
            None => self.announced.remove(pool),
        };
        self.apply_observed(pool);
    }

    /// Corrects what is announced of a pool's instance types by what its nodes taught.
    fn apply_observed(&mut self, pool: &PoolName) {
        let observed =
            self.pools.get(pool).and_then(|entry| entry.model.as_ref()).map(|model| &model.observed);
        let announced = self.announced.get(pool);
        let after =
            announced.map(|known| observed.map_or_else(|| known.clone(), |observed| observed.applied(known)));
        let before = match after.clone() {
            Some(catalog) => self.catalogs.insert(pool.clone(), catalog),
            None => self.catalogs.remove(pool),
        };
        let overlaid = [before, after].into_iter().flatten().flat_map(|catalog| catalog.overlaid.clone());
        self.nodes.touch_pool(pool, &overlaid.collect());
        self.stale = true;
    }

    /// Follows another kind beside those of [`Kind::ALL`]: decisions wait for its first list too.
    pub fn follow(&mut self, kind: Kind) {
        self.followed.insert(kind);
    }

    /// All kinds that are followed.
    pub fn followed(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::ALL.into_iter().chain(self.followed.iter().copied())
    }

    // === Intents ===

    /// Expects a pod on the Node or NodeClaim called `target` until then: a lease, released when the pod binds or goes, or
    /// is refused by kube-scheduler. On a node that is ready it is renewed so often only ([`crate::intents::RENEWALS`]).
    pub fn nominate(&mut self, pod: PodUid, target: impl Into<Str>, until: Timestamp) {
        let target = target.into();
        // A pod that still runs elsewhere is not for kube-scheduler to bind yet.
        let waits = self.pods.by_uid(&pod).is_none_or(|pod| pod.node.is_none());
        let ready = waits && self.is_ready(&target);
        self.lease(pod, target, until, ready);
    }

    /// Expects a pod until then on a node that is kept for it although it cannot take it now: who keeps it bounds for
    /// how long.
    pub fn hold(&mut self, pod: PodUid, target: impl Into<Str>, until: Timestamp) {
        self.lease(pod, target.into(), until, false);
    }

    fn lease(&mut self, pod: PodUid, target: Str, until: Timestamp, ready: bool) {
        self.nodes.touch(&target);
        let refusal = self.pods.by_uid(&pod).and_then(|pod| pod.refusal.clone());
        if let Some(earlier) = self.intents.nominate(pod, target, until, ready, refusal.as_ref()) {
            self.nodes.touch(&earlier);
        }
    }

    /// Notes the pods that a scheduling pass did not reach, in place of those of the pass before.
    pub fn defer(&mut self, pods: BTreeSet<PodUid>) {
        if *self.deferred != pods {
            self.deferred = Arc::new(pods);
            self.stale = true;
        }
    }

    /// Whether the Node or NodeClaim called `target` is initialized.
    fn is_ready(&self, target: &str) -> bool {
        let by_label = |node: &Arc<fleetwright_core::model::Node>| {
            let label = node.labels.get(fleetwright_core::model::labels::INITIALIZED);
            label.is_some_and(|value| &**value == "true")
        };
        self.claim_model(target).is_some_and(|claim| claim.is(ConditionType::Initialized))
            || self.node_model(target).is_some_and(by_label)
    }

    /// A pod is bound, ended or gone: nothing is expected of it any more.
    fn settle_pod(&mut self, pod: &PodUid) {
        self.answers.bound(pod);
        if let Some(target) = self.intents.forget_pod(pod) {
            self.nodes.touch(&target);
        }
    }

    /// kube-scheduler says something of a pod that waits.
    fn hear_refusal(&mut self, pod: &Pod) {
        if let Some(target) = self.intents.refuse(&pod.uid, pod.refusal.as_ref()) {
            self.nodes.touch(&target);
        }
    }

    /// Releases a pod's nomination.
    pub fn release(&mut self, pod: &PodUid) {
        if let Some(target) = self.intents.release(pod) {
            self.nodes.touch(&target);
        }
    }

    /// Notes that a NodeClaim called `claim` is being written for these pods: until [`Self::written`] they have their
    /// answer, whoever else looks for one.
    pub fn writing(&mut self, claim: impl Into<Str>, pods: Vec<PodUid>) {
        self.intents.writing(claim.into(), pods);
    }

    /// What was being written under this name stands by now, or will never.
    pub fn written(&mut self, claim: &str) {
        self.intents.written(claim);
    }

    /// Whether a pod has its answer: a claim that is on its way, or that is being written.
    #[must_use]
    pub fn has_answer(&self, pod: &PodUid) -> bool {
        self.intents.is_written_for(pod) || self.answered_by(pod).is_some()
    }

    /// Notes a disruption command: its nodes are marked for deletion until [`Self::end_command`].
    pub fn begin_command(&mut self, id: impl Into<Str>, command: CommandIntent) {
        self.answers_stale = true;
        for claim in self.intents.begin(id.into(), command) {
            self.nodes.touch_claim(&claim);
        }
    }

    /// Forgets a disruption command that is done or rolled back.
    pub fn end_command(&mut self, id: &str) {
        self.answers_stale = true;
        for claim in self.intents.end(id) {
            self.nodes.touch_claim(&claim);
        }
    }

    /// All intents.
    #[must_use]
    pub fn intents(&self) -> &Intents {
        &self.intents
    }

    // === Lookups ===

    /// What label keys mean.
    #[must_use]
    pub fn schema(&self) -> &Arc<LabelSchema> {
        &self.schema
    }

    /// Whether a node class is of a group and kind that the provider has.
    #[must_use]
    pub fn is_managed(&self, group: &str, kind: &str) -> bool {
        self.classes.iter().any(|class| &*class.group == group && &*class.kind == kind)
    }

    /// When a kind's watch last showed a sign of life; `None` before its first list.
    #[must_use]
    pub fn last_progress(&self, kind: Kind) -> Option<Timestamp> {
        self.progress.get(&kind).copied()
    }

    /// Whether a kind was listed once.
    #[must_use]
    pub fn synced(&self, kind: Kind) -> bool {
        self.progress.contains_key(&kind)
    }

    /// Objects that mean nothing, and why.
    #[must_use]
    pub fn invalid(&self) -> &BTreeMap<(Kind, Key), Invalid> {
        &self.invalid
    }

    /// A NodeClaim as read.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&Arc<api::NodeClaim>> {
        self.nodes.claims.get(name).map(|entry| &entry.raw)
    }

    /// A NodeClaim lowered; `None` too where it is not ours or means nothing.
    #[must_use]
    pub fn claim_model(&self, name: &str) -> Option<&Arc<fleetwright_core::model::NodeClaim>> {
        self.nodes.claims.get(name)?.model.as_ref()
    }

    /// `claim` lowered as if it had been read; `None` as with [`Self::claim_model`].
    #[must_use]
    pub fn read_claim(&self, claim: &api::NodeClaim) -> Option<fleetwright_core::model::NodeClaim> {
        let class = &claim.spec.node_class_ref;
        let ours = self.is_managed(&class.group, &class.kind);
        ours.then(|| crate::lower::claim::claim(claim, &self.schema).ok()).flatten()
    }

    /// All NodeClaims as read, by name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<api::NodeClaim>> {
        self.nodes.claims.values().map(|entry| &entry.raw)
    }

    /// A Node as read.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.nodes.get(name).map(|entry| &entry.raw)
    }

    /// A Node lowered; `None` too where it means nothing.
    #[must_use]
    pub fn node_model(&self, name: &str) -> Option<&Arc<fleetwright_core::model::Node>> {
        self.nodes.nodes.get(name)?.model.as_ref()
    }

    /// All Nodes as read, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.nodes.values().map(|entry| &entry.raw)
    }

    /// All NodeClaims that are ours and mean something, by name.
    pub fn claim_models(&self) -> impl Iterator<Item = &Arc<fleetwright_core::model::NodeClaim>> {
        self.nodes.claims.values().filter_map(|entry| entry.model.as_ref())
    }

    /// All Nodes with a NodeClaim's provider id, lowered, by name. More than one is a contradiction.
    pub fn nodes_of_claim(&self, claim: &str) -> impl Iterator<Item = &Arc<fleetwright_core::model::Node>> {
        self.claim_model(claim).into_iter().flat_map(|claim| self.nodes_with(claim))
    }

    /// Nodes with the provider id of `claim`, by name.
    pub fn nodes_with(
        &self,
        claim: &fleetwright_core::model::NodeClaim,
    ) -> impl Iterator<Item = &Arc<fleetwright_core::model::Node>> {
        self.nodes.nodes_of(claim)
    }

    /// The Node of a NodeClaim, by provider id.
    #[must_use]
    pub fn node_of_claim(&self, claim: &str) -> Option<&Arc<Node>> {
        Some(&self.nodes.node_of(self.claim_model(claim)?)?.raw)
    }

    /// The NodeClaim of a Node, by provider id.
    #[must_use]
    pub fn claim_of_node(&self, node: &str) -> Option<&Arc<api::NodeClaim>> {
        Some(&self.nodes.claim_of(self.node_model(node)?)?.raw)
    }

    /// The NodeClaim with a provider id.
    #[must_use]
    pub fn claim_of_provider_id(&self, id: &str) -> Option<&Arc<api::NodeClaim>> {
        Some(&self.nodes.claim_by_provider_id(id)?.raw)
    }

    /// A NodePool as read.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<api::NodePool>> {
        self.pools.get(name).map(|entry| &entry.raw)
    }

    /// A NodePool lowered; `None` too where it is not ours or means nothing.
    #[must_use]
    pub fn pool_model(&self, name: &str) -> Option<&Arc<fleetwright_core::model::NodePool>> {
        self.pools.get(name)?.model.as_ref()
    }

    /// All NodePools as read, by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<api::NodePool>> {
        self.pools.values().map(|entry| &entry.raw)
    }

    /// The instance types of a pool.
    #[must_use]
    pub fn catalog(&self, pool: &str) -> Option<&Arc<Catalog>> {
        self.catalogs.get(pool)
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, id: &NamespacedName) -> Option<&Arc<Pod>> {
        self.pods.get(id)
    }

    /// A pod by its UID.
    #[must_use]
    pub fn pod_by_uid(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.pods.by_uid(uid)
    }

    /// All pods by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.all()
    }

    /// Pods bound to a node, by namespace and name; ended ones too.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.on_node(node)
    }

    /// PodDisruptionBudgets by namespace and name.
    pub fn pdbs(&self) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.pdbs.values()
    }

    /// VolumeAttachments to a node, by name.
    pub fn attachments_to<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Arc<VolumeAttachment>> {
        self.attachments.values().filter(move |attachment| attachment.spec.node_name == node)
    }

    /// A volume claim, lowered with its volume and class.
    #[must_use]
    pub fn volume_claim(&self, id: &NamespacedName) -> Option<&VolumeClaim> {
        self.volume_claims.get(id)
    }

    /// Name of the PersistentVolume that a claim is bound to.
    #[must_use]
    pub fn volume_name(&self, claim: &NamespacedName) -> Option<&str> {
        crate::lower::volume::volume_name(self.claims.get(claim)?)
    }

    /// A provider's class object.
    #[must_use]
    pub fn node_class(&self, class: &NodeClassRef) -> Option<&ClassState> {
        self.node_classes.get(class)
    }

    /// The NodeClaims that were created for a pod and are still there, on their way or initialized, by name. Ones that a
    /// command takes are left out.
    #[must_use]
    pub fn created_for(&self, pod: &PodUid) -> Vec<ClaimName> {
        let claims = self.answers.created_for(pod).into_iter();
        claims.filter(|claim| !self.intents.is_marked(claim)).cloned().collect()
    }

    /// The claim that answers a pod while it is not initialized; `None` where the pod is free to be scheduled.
    #[must_use]
    pub fn answered_by(&self, pod: &PodUid) -> Option<ClaimName> {
        self.answers.to(pod, &self.intents).cloned()
    }
}

#[cfg(test)]
mod tests;
