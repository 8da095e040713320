//! The index: objects as watches deliver them, the controller's own intents, instance types, and the snapshot of them all.

mod launches;
mod snapshot;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

use fleetwright_api::{self as api, labels::LAUNCH_LOOPS};
use fleetwright_core::model::{
    BatchId, Catalog, ClaimName, Currency, LabelSchema, LeaseBound, NamespacedName, NodeClassRef,
    NominationEvent, Objective, Pod, PodUid, PoolName, Snapshot, Str,
};
use fleetwright_core::safety::launch_loop::{LaunchHistory, LoopPause, LoopRecord};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;

use crate::{
    buffers::{BufferOutcome, Buffers},
    catalogs::{Catalogs, OverlayOutcome},
    change::{Change, Object, Put},
    feature::Refusal,
    intents::{CommandIntent, Intents},
    kind::{Key, WatchedKind},
    launch_loops,
    lower::{Invalid, limit_range::ContainerDefaults},
    objects::{NodeClassStatus, Objects},
    tracked::{Tracked, TrackedObject},
    watches::{self, Watches},
};

/// The state of the cluster, as far as decisions read it.
///
/// It dereferences to [`Objects`], which has the lookups of single objects; every change goes through the index.
#[derive(Debug)]
pub struct Index {
    watches: Watches,
    objects: Objects,
    intents: Intents,
    launches: LaunchHistory,
    catalogs: Catalogs,
    buffers: Buffers,
    objective: Objective,
    currency: Currency,
    /// NodeClaims or commands changed since the last snapshot, and with them [`Snapshot::nominated`].
    nominated_stale: bool,
    /// Anything but nodes and nominations changed since the last snapshot.
    stale: bool,
    epoch: u64,
    latest: Option<Arc<Snapshot>>,
}

impl Deref for Index {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl Index {
    /// An empty index for a provider whose NodeClasses are of these groups and kinds.
    #[must_use]
    pub fn new(schema: Arc<LabelSchema>, classes: Vec<NodeClassRef>) -> Self {
        Self {
            watches: Watches::default(),
            objects: Objects::new(schema, classes),
            intents: Intents::default(),
            launches: LaunchHistory::default(),
            catalogs: Catalogs::default(),
            buffers: Buffers::default(),
            objective: Objective::LIST,
            currency: Currency::default(),
            nominated_stale: true,
            stale: true,
            epoch: 0,
            latest: None,
        }
    }

    /// Sets what plans minimize; list prices alone without it.
    pub fn set_objective(&mut self, objective: Objective) {
        self.objective = objective;
        self.stale = true;
    }

    /// Sets what prices are in; US dollars without it.
    pub fn set_currency(&mut self, currency: Currency) {
        self.currency = currency;
        self.stale = true;
    }

    // === Objects ===

    /// Stores an object from a watch or from the response to our own write. `None` if it is not newer than the stored one.
    pub fn apply<T: Tracked>(&mut self, object: T) -> Option<Change> {
        let key = object.key();
        let version = watches::version(object.meta().resource_version.as_deref());
        if self.is_off(T::KIND) || !self.watches.is_newer(T::KIND, &key, version) {
            return None;
        }
        let (before, after) = self.put(&key, T::wrap(Some(object)));
        Some(Change { kind: T::KIND, key: key.outside(T::KIND), before, after })
    }

    /// Stores what could be read of a pod that is malformed: `why` says how. On a node it keeps its place, and its node is not disrupted.
    pub fn apply_malformed_pod(&mut self, pod: KubePod, why: String) {
        self.put_pod(&pod.key(), Some(Arc::new(pod)), Some(Invalid::Malformed(why)));
    }

    /// Records the deletion of an object. `None` if it is not stored, or was recreated since.
    pub fn delete<T: Tracked>(&mut self, object: &T) -> Option<Change> {
        let version = watches::version(object.meta().resource_version.as_deref());
        self.remove::<T>(object.key(), version)
    }

    fn remove<T: Tracked>(&mut self, key: Key, version: u64) -> Option<Change> {
        if !self.watches.is_deleted(T::KIND, &key, version) {
            return None;
        }
        let (before, after) = self.put(&key, T::wrap(None));
        Some(Change { kind: T::KIND, key: key.outside(T::KIND), before, after })
    }

    /// Takes in a complete list as of `version`: an object that it does not contain was deleted, unless it is newer. The
    /// watch shows a sign of life at `now`, see [`Self::progress`].
    pub fn reset<T: Tracked>(&mut self, objects: Vec<T>, version: &str, now: Timestamp) -> Vec<Change> {
        let changes = self.replace(objects, version, |_| true);
        self.progress(T::KIND, now);
        changes
    }

    /// Takes in a complete list of one kind of NodeClass, as [`Self::reset`] does. Each kind has a watch of its own, and all
    /// share one table.
    pub fn reset_class<T: Tracked>(
        &mut self,
        class: &NodeClassRef,
        objects: Vec<T>,
        version: &str,
        now: Timestamp,
    ) -> Vec<Change> {
        let part = Key::of_class(&class.group, &class.kind, "").namespace;
        let changes = self.replace(objects, version, |key| key.namespace == part);
        self.class_progress(class, now);
        changes
    }

    /// Takes in a list that is complete for the keys that `covers` admits.
    fn replace<T: Tracked>(
        &mut self,
        objects: Vec<T>,
        version: &str,
        covers: impl Fn(&Key) -> bool,
    ) -> Vec<Change> {
        self.watches.serve(T::KIND);
        self.refusal_changed(T::KIND);
        let version = watches::version(Some(version));
        let listed: BTreeSet<Key> = objects.iter().map(Tracked::key).collect();
        let deleted = self.watches.missing_from(T::KIND, &listed, version).into_iter().filter(covers);
        let mut changes: Vec<Change> = deleted.filter_map(|key| self.remove::<T>(key, version)).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.apply(object)));
        changes
    }

    fn put(&mut self, key: &Key, object: TrackedObject) -> Put {
        use TrackedObject as T;
        let objects = &mut self.objects;
        match object {
            T::Pod(pod) => self.put_pod(key, pod, None),
            T::NodeClaim(claim) => self.put_claim(key, claim),
            T::NodePool(pool) => self.put_pool(key, pool),
            T::NodeOverlay(overlay) => self.catalogs.put_overlay(key, overlay, &objects.schema),
            T::CapacityBuffer(buffer) => self.buffers.put(key, buffer),
            T::Node(node) => objects.put_node(key, node),
            T::Namespace(namespace) => objects.put_namespace(key, namespace),
            T::StorageClass(class) => objects.put_storage_class(key, class),
            T::PersistentVolume(volume) => objects.put_volume(key, volume),
            T::PersistentVolumeClaim(claim) => objects.put_volume_claim(key, claim),
            T::CsiNode(node) => objects.put_csi_node(key, node),
            T::VolumeAttachment(attachment) => objects.put_attachment(key, attachment),
            T::PodDisruptionBudget(pdb) => objects.put_pdb(key, pdb),
            T::DaemonSet(set) => objects.put_daemon_set(key, set),
            T::NodeClass(class) => objects.put_class_object(key.class(), class),
            T::Service(service) => objects.put_service(key, service),
            T::ReplicationController(controller) => objects.put_replication_controller(key, controller),
            T::ReplicaSet(set) => objects.put_replica_set(key, set),
            T::StatefulSet(set) => objects.put_stateful_set(key, set),
            T::DeviceClass(class) => objects.put_device_class(key, class),
            T::ResourceSlice(slice) => objects.put_resource_slice(key, slice),
            T::ResourceClaimTemplate(template) => objects.put_claim_template(key, template),
            T::ResourceClaim(claim) => objects.put_resource_claim(key, claim),
            T::LimitRange(range) => objects.put_limit_range(key, range),
        }
    }

    fn put_pod(&mut self, key: &Key, pod: Option<Arc<KubePod>>, malformed: Option<Invalid>) -> Put {
        let (before, after) = self.objects.put_pod(key, pod, malformed);
        let seen = self.latest.as_ref().map(|latest| latest.taken_at);
        launches::pod_changed(&mut self.launches, &self.objects, before.as_deref(), after.as_deref(), seen);
        let replaced = |before: &&Arc<Pod>| after.as_ref().is_none_or(|after| after.uid != before.uid);
        if let Some(gone) = before.as_ref().filter(replaced) {
            self.change_nomination(&gone.uid, NominationEvent::Done);
        }
        if let Some(pod) = &after {
            if pod.node.is_some() || !pod.is_active() {
                self.change_nomination(&pod.uid, NominationEvent::Done);
            } else if pod.unschedulable {
                self.change_nomination(&pod.uid, NominationEvent::Unschedulable(pod.refusal.clone()));
            }
        }
        (before.map(Object::Pod), after.map(Object::Pod))
    }

    fn put_claim(&mut self, key: &Key, claim: Option<Arc<api::NodeClaim>>) -> Put {
        let (put, (before, after)) = self.objects.put_claim(key, claim);
        self.intents.nominations.claim_changed(before.as_deref(), after.as_deref());
        let seen = self.latest.as_ref().map(|latest| latest.taken_at);
        launches::claim_changed(&mut self.launches, before.as_deref(), after.as_deref(), seen);
        if let (None, Some(claim)) = (&before, &after) {
            launches::claim_seen(&mut self.launches, claim);
        }
        self.nominated_stale = true;
        put
    }

    fn put_pool(&mut self, key: &Key, pool: Option<Arc<api::NodePool>>) -> Put {
        let records = |pool: &api::NodePool| pool.metadata.annotations.as_ref()?.get(LAUNCH_LOOPS).cloned();
        let written = pool.as_deref().and_then(records);
        let before = self.objects.pool(&key.name).and_then(|known| records(known));
        if let Some(written) = written.filter(|written| before.as_ref() != Some(written)) {
            launch_loops::read(&written).into_iter().for_each(|record| self.launches.restore(record));
        }
        let (put, observations_changed) = self.objects.put_pool(key, pool);
        if observations_changed {
            self.catalogs.apply_observed(&key.name.clone().into(), &mut self.objects);
        }
        self.catalogs.pool_changed();
        put
    }

    /// Sets the status of a NodeClass; `None` if it was deleted.
    pub fn put_class(&mut self, id: NodeClassRef, status: Option<NodeClassStatus>) {
        self.objects.put_class(id, status);
    }

    // === Watches ===

    /// Records a sign of life of a kind's watch at `now`, on a monotonic clock.
    pub fn progress(&mut self, kind: WatchedKind, now: Timestamp) {
        if kind == WatchedKind::NodeClass {
            for class in self.objects.class_kinds() {
                self.watches.class_progressed(class.clone(), now);
            }
        }
        self.watches.progressed(kind, now);
    }

    /// Records a sign of life of the watch of one kind of NodeClass, as [`Self::progress`] does.
    pub fn class_progress(&mut self, class: &NodeClassRef, now: Timestamp) {
        let kind = NodeClassRef { name: "".into(), ..class.clone() };
        self.watches.class_progressed(kind, now);
    }

    /// When a kind's watch last showed a sign of life; `None` before its first list.
    #[must_use]
    pub fn last_progress(&self, kind: WatchedKind) -> Option<Timestamp> {
        match kind {
            WatchedKind::NodeClass => self.watches.last_progress_of_classes(self.objects.class_kinds()),
            kind => self.watches.last_progress(kind),
        }
    }

    /// Whether a kind was listed once.
    #[must_use]
    pub fn synced(&self, kind: WatchedKind) -> bool {
        self.last_progress(kind).is_some()
    }

    /// Records that the API server refuses a kind. Where the controller can do without it ([`WatchedKind::feature`]), its objects are
    /// forgotten and decisions wait for it no longer, until it is listed again.
    pub fn refuse<T: Tracked>(&mut self, refusal: Refusal) -> Vec<Change> {
        self.watches.refuse(T::KIND, refusal);
        self.refusal_changed(T::KIND);
        if T::KIND.feature().is_none() {
            return Vec::new();
        }
        let known = self.watches.forget(T::KIND);
        let gone = known.into_iter().map(|key| {
            let (before, after) = self.put(&key, T::wrap(None));
            Change { kind: T::KIND, key: key.outside(T::KIND), before, after }
        });
        gone.collect()
    }

    /// Hands on to the table of devices which of its kinds are refused.
    fn refusal_changed(&mut self, kind: WatchedKind) {
        if WatchedKind::DEVICES.contains(&kind) {
            let refusals = WatchedKind::DEVICES.iter().filter_map(|kind| self.watches.refusal(*kind));
            let texts: Vec<String> = refusals.map(Refusal::to_string).collect();
            let refused = (!texts.is_empty()).then(|| texts.join("; ").into());
            self.stale |= self.objects.devices.set_refused(refused);
        }
    }

    /// Why the API server refuses a kind.
    #[must_use]
    pub fn refusal(&self, kind: WatchedKind) -> Option<&Refusal> {
        self.watches.refusal(kind)
    }

    /// Whether the controller does without a kind, because the API server refuses it.
    #[must_use]
    pub fn is_off(&self, kind: WatchedKind) -> bool {
        kind.feature().is_some() && self.refusal(kind).is_some()
    }

    /// Follows another kind beside those of [`WatchedKind::ALL`]: decisions wait for its first list too.
    pub fn follow(&mut self, kind: WatchedKind) {
        self.watches.follow(kind);
    }

    /// All kinds that are followed.
    pub fn followed(&self) -> impl Iterator<Item = WatchedKind> + '_ {
        self.watches.followed()
    }

    // === Nominations ===

    /// Nominates a pod to the Node or NodeClaim called `target`: a lease until then, which ends when the pod is bound or
    /// deleted, or is rejected by kube-scheduler. On an initialized node its renewals are bounded
    /// ([`crate::intents::RENEWALS`]): returns whether there was another one.
    pub fn nominate(&mut self, pod: PodUid, target: impl Into<Str>, until: Timestamp) -> bool {
        let target = target.into();
        // kube-scheduler does not try a pod that still runs elsewhere.
        let unbound = self.objects.pod_by_uid(&pod).is_none_or(|pod| pod.node.is_none());
        let bounded = unbound && self.objects.is_initialized(&target);
        self.lease(&pod, target, until, bounded);
        self.lease_of(&pod).is_some()
    }

    /// Keeps a pod nominated to a node that cannot run it now: the caller bounds the renewals.
    pub fn keep_nominated(&mut self, pod: &PodUid, target: impl Into<Str>, until: Timestamp) {
        self.lease(pod, target.into(), until, false);
    }

    fn lease(&mut self, pod: &PodUid, target: Str, until: Timestamp, bounded: bool) {
        self.objects.nodes.mark(&target);
        let message = self.objects.pod_by_uid(pod).and_then(|pod| pod.refusal.clone());
        let bound = if bounded { LeaseBound::Renewals(message) } else { LeaseBound::Caller(message) };
        self.change_nomination(pod, NominationEvent::Leased(target, until, bound));
    }

    fn change_nomination(&mut self, pod: &PodUid, event: NominationEvent) {
        if let Some(target) = self.intents.nominations.apply(pod, event) {
            self.objects.nodes.mark(&target);
        }
    }

    /// The Node or NodeClaim that a pod is leased, and until when.
    #[must_use]
    pub fn lease_of(&self, pod: &PodUid) -> Option<(&Str, Timestamp)> {
        self.intents.nominations.lease(pod)
    }

    /// Records that a NodeClaim called `claim` is being created for these pods. They get no other one until
    /// [`Self::end_creation`].
    pub fn begin_creation(&mut self, claim: impl Into<Str>, pods: Vec<PodUid>) {
        self.intents.begin_creation(claim.into(), pods);
    }

    /// The outcome of a creation is known: the NodeClaim exists, or never will. Returns the NodeClaims that waited for their batch
    /// ([`Self::awaits_batch`]), if this was the last creation in it: they can be launched now.
    #[must_use]
    pub fn end_creation(&mut self, claim: &str) -> BTreeSet<Str> {
        self.intents.end_creation(claim)
    }

    /// Keeps a launch batch from being launched while a NodeClaim of it is created, until [`Self::end_creation`].
    pub fn create_in_batch(&mut self, claim: impl Into<Str>, batch: impl Into<BatchId>) {
        self.intents.create_in_batch(claim.into(), batch.into());
    }

    /// Whether a NodeClaim of a launch batch is being created. If so, the [`Self::end_creation`] that completes the batch returns
    /// `claim`.
    #[must_use]
    pub fn awaits_batch(&mut self, claim: impl Into<Str>, batch: &BatchId) -> bool {
        self.intents.awaits_batch(claim.into(), batch)
    }

    /// Whether a pod has a NodeClaim that is in flight or being created.
    #[must_use]
    pub fn has_claim_in_flight(&self, pod: &PodUid) -> bool {
        self.intents.nominations.is_creating(pod) || self.intents.in_flight(pod).is_some()
    }

    /// The NodeClaims that exist and were created for a pod, in flight or initialized, by name, without those that a
    /// command removes.
    #[must_use]
    pub fn claims_created_for(&self, pod: &PodUid) -> Vec<ClaimName> {
        let claims = self.intents.nominations.created(pod);
        claims.filter(|claim| !self.intents.is_marked(claim)).cloned().collect()
    }

    /// Records that a NodeClaim was created for these pods, which had no node.
    pub fn record_launch(&mut self, claim: &ClaimName, pods: &[Arc<Pod>], now: Timestamp) {
        self.launches.launched(claim, pods, now);
    }

    /// Whether nodes were launched for the demand that a pod belongs to, within the last hour.
    #[must_use]
    pub fn has_launches(&self, pod: &Pod) -> bool {
        self.launches.knows(pod)
    }

    /// The pause of the demand that a pod belongs to: it has missed the nodes that were launched for it.
    pub fn launch_pause(&mut self, pod: &Pod, now: Timestamp) -> Option<LoopPause> {
        launches::pause(&mut self.launches, &self.objects, pod, now)
    }

    /// What is to be recorded of the demand that a pod belongs to, by the last [`Self::launch_pause`].
    #[must_use]
    pub fn launch_record(&self, pod: &Pod, now: Timestamp) -> Option<LoopRecord> {
        self.launches.record(pod, now)
    }

    /// Whether a record is still true: no launches that were answered since made up for it.
    #[must_use]
    pub fn holds_launch_record(&self, record: &LoopRecord, now: Timestamp) -> bool {
        !record.is_over(now) && self.launches.holds(record, now)
    }

    // === Intents ===

    /// Records the pods that a scheduling pass did not reach, in place of those of the pass before.
    pub fn defer(&mut self, pods: BTreeSet<PodUid>) {
        self.stale |= self.intents.defer(pods);
    }

    /// Records a disruption command: its nodes are marked for deletion until [`Self::end_command`].
    pub fn begin_command(&mut self, id: impl Into<Str>, command: CommandIntent) {
        let changed = self.intents.begin_command(id.into(), command);
        self.mark_commanded(&changed);
    }

    /// Forgets a disruption command that is done or rolled back.
    pub fn end_command(&mut self, id: &str) {
        let changed = self.intents.end_command(id);
        self.mark_commanded(&changed);
    }

    fn mark_commanded(&mut self, claims: &[ClaimName]) {
        self.nominated_stale = true;
        claims.iter().for_each(|claim| self.objects.nodes.mark_claim(claim));
    }

    /// All intents.
    #[must_use]
    pub fn intents(&self) -> &Intents {
        &self.intents
    }

    // === Instance types ===

    /// Sets the instance types of a NodePool, as the provider gives them; `None` forgets them.
    pub fn set_catalog(&mut self, pool: &PoolName, catalog: Option<Arc<Catalog>>) {
        self.catalogs.set(pool, catalog, &mut self.objects);
    }

    /// The instance types of a NodePool, as decisions see them.
    #[must_use]
    pub fn catalog(&self, pool: &str) -> Option<&Arc<Catalog>> {
        self.catalogs.effective().get(pool)
    }

    /// Whether there are NodeOverlays.
    #[must_use]
    pub fn has_overlays(&self) -> bool {
        self.catalogs.has_overlays()
    }

    /// A NodeOverlay as read.
    #[must_use]
    pub fn overlay(&self, name: &str) -> Option<&Arc<api::NodeOverlay>> {
        self.catalogs.overlay(name)
    }

    /// The outcome of every NodeOverlay, by name.
    pub fn overlay_outcomes(&mut self) -> BTreeMap<Str, OverlayOutcome> {
        self.catalogs.refresh(&mut self.objects);
        self.catalogs.overlay_outcomes()
    }

    // === CapacityBuffers ===

    /// Sets the virtual pods of a buffer; returns whether they are others than before.
    pub fn set_buffer_pods(&mut self, id: &NamespacedName, pods: Vec<Arc<Pod>>) -> bool {
        self.buffers.set_pods(id, pods)
    }

    /// Records the result of a pass for the buffers, and the number of chunks that it placed per Node or NodeClaim. Returns whether any
    /// buffer's result changed.
    pub fn set_buffer_outcomes(
        &mut self,
        outcomes: &BTreeMap<NamespacedName, BufferOutcome>,
        chunks: BTreeMap<Str, u32>,
    ) -> bool {
        for name in self.buffers.set_chunks(chunks) {
            self.objects.nodes.mark(&name);
        }
        self.buffers.set_outcomes(outcomes)
    }

    /// A buffer as read, with the number of its virtual pods and the outcome of the last pass.
    #[must_use]
    pub fn buffer(
        &self,
        id: &NamespacedName,
    ) -> Option<(&Arc<api::CapacityBuffer>, usize, Option<BufferOutcome>)> {
        self.buffers.get(id)
    }

    /// What the LimitRanges of a namespace add to new pods.
    #[must_use]
    pub fn container_defaults(&self, namespace: &str) -> ContainerDefaults {
        self.objects.limit_ranges.defaults(namespace)
    }

    /// All buffers, by namespace and name.
    pub fn buffers(&self) -> impl Iterator<Item = &NamespacedName> {
        self.buffers.ids()
    }
}

#[cfg(test)]
mod tests;
