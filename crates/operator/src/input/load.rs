//! Loads objects into the controller's index, so that the tools decide by the same code as the controller.

mod buffers;
mod pods;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api::{
    self as api, condition,
    labels::condition::{NODE_CLASS_READY, READY},
};
use fleetwright_controllers::settings::FeatureGates;
use fleetwright_core::{
    model::{Catalog, NamespacedName, NodeClassRef, Objective},
    suggest::did_you_mean,
};
use fleetwright_state::{Index, Key, NodeClassStatus, OverlayOutcome, Tracked, WatchedKind, validate};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        core::v1::{
            LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController,
            Service,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
        resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::buffers::Buffers;
pub(crate) use self::pods::{ContainerRequests, may_create_pods};
use super::{
    Item, Source,
    prepare::{self, Schemas},
    refused, retired,
};
use crate::{
    catalogue::{Offer, SourceRow},
    settings::{self, Values},
};

/// Namespaced kinds.
const NAMESPACED: [&str; 12] = [
    "Pod",
    "Job",
    "CronJob",
    "DaemonSet",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "Service",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "ResourceClaim",
    "ResourceClaimTemplate",
];

/// Kinds of Dynamic Resource Allocation.
const DEVICES: [&str; 4] = ["DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"];

/// The reason of a NodePool that breaks a rule of the controller.
const VALIDATION_FAILED: &str = "NodePoolValidationFailed";

/// A pod without a node that no plan contains.
#[derive(Clone, Debug)]
pub(crate) struct SetAside {
    /// Why, as one word.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Its labels, as far as they can be read.
    pub(crate) labels: BTreeMap<String, String>,
}

/// A cluster in the index, and notes on the input.
pub(crate) struct Loaded {
    pub(crate) index: Index,
    /// Parts that were ignored or assumed, each with its position, in the order of the input.
    pub(crate) notes: Vec<String>,
    /// Pods without a node that are invalid, or that the API server would refuse, with a reason and a message.
    pub(crate) broken_pods: BTreeMap<NamespacedName, SetAside>,
    /// Pods without a node for which no node is launched, with a reason and a message.
    pub(crate) held_pods: BTreeMap<NamespacedName, SetAside>,
    /// The containers of pods without a node, with what each requests.
    pub(crate) containers: BTreeMap<NamespacedName, Vec<ContainerRequests>>,
    /// Objects that are left out as invalid: kind, namespace and name, and why.
    pub(crate) refused: Vec<(String, NamespacedName, String)>,
    /// UID of the cluster, if the input has it.
    pub(crate) cluster_uid: String,
    /// The sources of the instance types.
    pub(crate) sources: Vec<SourceRow>,
    /// Whether the prices of all NodePools are known.
    pub(crate) priced: bool,
    /// Gaps of the catalogues and of the input. With any, a tool exits with status 3.
    pub(crate) gaps: Vec<String>,
}

/// Reads `items` into an index.
///
/// # Errors
/// If a CRD of this build is invalid.
pub(crate) fn load(items: Vec<Item>, offer: Offer, values: &Values) -> anyhow::Result<Loaded> {
    let classes = class_kinds(&items);
    let settings = settings::controllers(values);
    let mut index = Index::new(offer.schema, classes.clone());
    index.set_currency(offer.currency);
    // Without prices, nothing is minimized.
    index.set_objective(if offer.priced { settings.objective } else { Objective::LIST });
    let loaded = Loaded {
        index,
        notes: offer.notes,
        broken_pods: BTreeMap::new(),
        held_pods: BTreeMap::new(),
        containers: BTreeMap::new(),
        refused: Vec::new(),
        cluster_uid: String::new(),
        sources: offer.sources,
        priced: offer.priced,
        gaps: offer.gaps,
    };
    let mut loader = Loader {
        loaded,
        classes,
        class_ids: BTreeSet::new(),
        schemas: Schemas::shared()?,
        seen: BTreeSet::new(),
        skipped: BTreeMap::new(),
        pools: Vec::new(),
        catalogs: offer.pools,
        gates: settings.gates,
        ignore_dra: settings.ignore_dra_requests,
        limit_ranges: settings.limit_range_defaults,
        namespaces: BTreeSet::new(),
        buffers: Buffers::default(),
        refused: refused::refused(&items),
        left_out: pods::LeftOut::new(),
    };
    if items.is_empty() {
        loader.loaded.notes.push("the input has no objects".to_owned());
    }
    for item in items {
        loader.item(item);
    }
    loader.finish();
    Ok(loader.loaded)
}

/// Groups and kinds of the node classes that NodePools and NodeClaims name, as references without a name.
pub(crate) fn class_kinds(items: &[Item]) -> Vec<NodeClassRef> {
    let mut found = BTreeSet::new();
    for item in items {
        let at = match item.value["kind"].as_str() {
            Some("NodePool") => "/spec/template/spec/nodeClassRef",
            Some("NodeClaim") => "/spec/nodeClassRef",
            _ => continue,
        };
        let Some(class) = item.value.pointer(at) else { continue };
        if let (Some(group), Some(kind)) = (class["group"].as_str(), class["kind"].as_str()) {
            found.insert((group.to_owned(), kind.to_owned()));
        }
    }
    let reference = |(group, kind): (String, String)| NodeClassRef {
        group: group.into(),
        kind: kind.into(),
        name: "".into(),
    };
    found.into_iter().map(reference).collect()
}

pub(super) struct Loader {
    pub(super) loaded: Loaded,
    classes: Vec<NodeClassRef>,
    /// The NodeClasses of the input.
    class_ids: BTreeSet<NodeClassRef>,
    schemas: &'static Schemas,
    /// Kind, namespace and name of the objects that were read.
    seen: BTreeSet<(String, String, String)>,
    /// Kinds that no decision uses, with their number and the position of the first.
    skipped: BTreeMap<String, (usize, String)>,
    /// NodePools, until all NodeClasses are read.
    pools: Vec<(api::NodePool, Source)>,
    /// The instance types of each NodePool.
    catalogs: BTreeMap<String, Arc<Catalog>>,
    gates: FeatureGates,
    ignore_dra: bool,
    limit_ranges: bool,
    /// Namespaces of pods of files.
    namespaces: BTreeSet<String>,
    buffers: Buffers,
    /// New pods that the API server would refuse.
    refused: BTreeMap<NamespacedName, String>,
    left_out: pods::LeftOut,
}

/// An object of a type; otherwise which field is wrong, and how.
fn parse<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let quotes =
            if error.inner().to_string().ends_with("expected a string") { ": put it in quotes" } else { "" };
        // Generated types check the version after the other fields.
        let path = Some(error.path().to_string()).filter(|path| path != ".");
        let path = path.unwrap_or_else(|| "apiVersion".to_owned());
        format!("{path}: {}{quotes}", error.inner())
    })
}

impl Loader {
    pub(super) fn note(&mut self, place: impl std::fmt::Display, message: impl std::fmt::Display) {
        self.loaded.notes.push(format!("{place}: {message}"));
    }

    fn item(&mut self, item: Item) {
        let Item { mut value, source } = item;
        let of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (of("apiVersion"), of("kind"));
        if kind.is_empty() || version.is_empty() {
            let field = if kind.is_empty() { "kind" } else { "apiVersion" };
            return self.note(source, format_args!("{field} is missing: this is no Kubernetes object"));
        }
        let group = version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.classes.iter().any(|class| *class.group == *group && *class.kind == *kind) {
            if let Some(successor) = retired::successor(&version, &kind) {
                let fix = format!("it is read as if it were {successor}: convert it");
                self.note(&source, format_args!("{kind} {name} of {version} is not served any more: {fix}"));
            }
            return self.class(&group, &kind, &value);
        }
        let namespaced = NAMESPACED.contains(&&*kind) || buffers::NAMESPACED.contains(&&*kind);
        if name.is_empty() {
            let fix = match value.pointer("/metadata/name") {
                None | Some(Value::Null | Value::String(_)) => "is missing: give it a name",
                // YAML parses `n`, `off` and `007` as other types than string.
                Some(_) => "is no text: put it in quotes",
            };
            return self.note(source, format_args!("{kind}: metadata.name {fix}"));
        }
        if matches!(source, Source::File { .. }) && !prepare::is_dump(&value) {
            prepare::manifest(&kind, &mut value);
        }
        prepare::identify(&mut value, namespaced);
        let namespace =
            value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.dispatch(&group, &kind, value, &source) {
            let known = self.skipped.entry(format!("{version} {kind}"));
            known.or_insert_with(|| (0, source.to_string())).0 += 1;
        } else if !self.seen.insert((kind.clone(), namespace.clone(), name.clone())) {
            let slash = if namespace.is_empty() { "" } else { "/" };
            self.note(
                source,
                format_args!("{kind} {namespace}{slash}{name} is defined twice: the last one is used"),
            );
        }
    }

    /// Reads an object; false if no decision uses its kind.
    fn dispatch(&mut self, group: &str, kind: &str, mut value: Value, source: &Source) -> bool {
        if self.gates.capacity_buffer {
            self.shape(group, kind, &value, source);
        }
        match (group, kind) {
            ("", "Namespace") => {
                let uid = value["metadata"]["uid"].as_str().filter(|uid| *uid != "/kube-system");
                if let (Some("kube-system"), Some(uid)) = (value["metadata"]["name"].as_str(), uid) {
                    self.loaded.cluster_uid = uid.to_owned();
                }
                if let Source::File { .. } = source {
                    prepare::named(&mut value);
                }
                self.apply::<Namespace>(value, source);
            }
            ("", "Node") => self.apply::<Node>(value, source),
            ("", "Pod") => self.pod(value, source),
            ("", "PersistentVolume") => self.apply::<PersistentVolume>(value, source),
            ("", "PersistentVolumeClaim") => self.apply::<PersistentVolumeClaim>(value, source),
            ("", "Service") => self.apply::<Service>(value, source),
            ("", "ReplicationController") => self.apply::<ReplicationController>(value, source),
            ("apps", "DaemonSet") => self.apply::<DaemonSet>(value, source),
            ("apps", "ReplicaSet") => self.apply::<ReplicaSet>(value, source),
            ("apps", "StatefulSet") => self.apply::<StatefulSet>(value, source),
            ("policy", "PodDisruptionBudget") => self.pod_disruption_budget(value, source),
            ("storage.k8s.io", "StorageClass") => self.apply::<StorageClass>(value, source),
            ("storage.k8s.io", "CSINode") => self.apply::<CSINode>(value, source),
            ("storage.k8s.io", "VolumeAttachment") => self.apply::<VolumeAttachment>(value, source),
            ("resource.k8s.io", kind) if DEVICES.contains(&kind) && self.ignore_dra => {
                let fix = format!("{kind} is not read: set IGNORE_DRA_REQUESTS=false");
                self.note(source, fix);
            }
            ("resource.k8s.io", "DeviceClass") => self.apply::<DeviceClass>(value, source),
            ("resource.k8s.io", "ResourceSlice") => self.apply::<ResourceSlice>(value, source),
            ("resource.k8s.io", "ResourceClaim") => self.apply::<ResourceClaim>(value, source),
            ("resource.k8s.io", "ResourceClaimTemplate") => {
                self.apply::<ResourceClaimTemplate>(value, source);
            }
            ("karpenter.sh", "NodePool") => self.pool(value, source.clone()),
            ("karpenter.sh", "NodeClaim") => self.custom::<api::NodeClaim>(value, source),
            ("karpenter.sh", "NodeOverlay") if self.gates.node_overlay => {
                self.custom::<api::NodeOverlay>(value, source);
            }
            ("karpenter.sh", "NodeOverlay") => {
                let fix = "NodeOverlay is not read: set the feature gate NodeOverlay=true";
                self.note(source, fix);
            }
            ("", "PodTemplate") if self.gates.capacity_buffer => {}
            // Their pods are objects of their own.
            ("apps", "Deployment") | ("batch", "Job" | "CronJob") => {}
            ("", "LimitRange") if self.limit_ranges => self.apply::<LimitRange>(value, source),
            // Admission of new pods has read them.
            ("", "LimitRange") | ("node.k8s.io", "RuntimeClass") => {}
            ("", "ResourceQuota") if self.gates.capacity_buffer => self.quota(value, source),
            // New pods were checked against them.
            ("", "ResourceQuota") => {}
            // Their minimum is in a note.
            ("autoscaling", "HorizontalPodAutoscaler") | ("keda.sh", "ScaledObject") => {}
            ("autoscaling.x-k8s.io", "CapacityBuffer") if self.gates.capacity_buffer => {
                self.buffer(value, source);
            }
            ("autoscaling.x-k8s.io", "CapacityBuffer") => {
                let fix = "CapacityBuffer is not read: set the feature gate CapacityBuffer=true";
                self.note(source, fix);
            }
            _ => return false,
        }
        true
    }

    /// Reads an object of a built-in kind.
    fn apply<T: Tracked + DeserializeOwned>(&mut self, value: Value, source: &Source) {
        if let Some(object) = self.read::<T>(value, source) {
            let key = (object.meta().namespace.clone(), object.meta().name.clone());
            self.loaded.index.apply(object);
            self.note_invalid(T::KIND, key, source);
        }
    }

    /// Reads an object of one of Karpenter's kinds: with the API server's defaults and checks.
    pub(super) fn custom<T: Tracked + DeserializeOwned>(&mut self, mut value: Value, source: &Source) {
        if self.admit(&mut value, source) {
            self.apply::<T>(value, source);
        }
    }

    /// Whether an API server would accept the object. Objects of a cluster were accepted already.
    fn admit(&mut self, value: &mut Value, source: &Source) -> bool {
        if matches!(source, Source::Cluster) {
            return true;
        }
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let problems = self.schemas.admit(&kind, value);
        if !problems.is_empty() {
            let why = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            self.leave_out_object(&kind, &NamespacedName::new("", name), "invalid", &why, source);
        }
        problems.is_empty()
    }

    pub(super) fn read<T: DeserializeOwned>(&mut self, value: Value, source: &Source) -> Option<T> {
        let of = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = of("/kind");
        let id = NamespacedName::new(of("/metadata/namespace"), of("/metadata/name"));
        let why = match parse(value) {
            Ok(object) => return Some(object),
            Err(why) => why,
        };
        self.leave_out_object(&kind, &id, "malformed", &why, source);
        None
    }

    /// Reports an object that the index considers invalid.
    fn note_invalid(&mut self, kind: WatchedKind, key: (Option<String>, Option<String>), source: &Source) {
        if let Some(why) = self.invalid(kind, key.clone()) {
            let id = NamespacedName::new(key.0.unwrap_or_default(), key.1.unwrap_or_default());
            self.leave_out_object(&kind.to_string(), &id, "invalid", &why, source);
        }
    }

    /// Why the index considers an object invalid, if it does.
    fn invalid(
        &self,
        kind: WatchedKind,
        (namespace, name): (Option<String>, Option<String>),
    ) -> Option<String> {
        let key = Key::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        self.loaded.index.invalid().get(&(kind, key)).map(ToString::to_string)
    }

    /// Reports an object that is left out.
    fn leave_out_object(&mut self, kind: &str, id: &NamespacedName, how: &str, why: &str, source: &Source) {
        let slash = if id.namespace.is_empty() { "" } else { "/" };
        let name = format!("{}{slash}{}", id.namespace, id.name);
        self.note(source, format_args!("{kind} {name} is {how} and left out: {why}"));
        self.loaded.refused.push((kind.to_owned(), id.clone(), why.to_owned()));
    }

    /// Reads a PodDisruptionBudget. Of one that cannot be read, no node may look freer to disrupt than it is: it counts as one that selects
    /// every pod of its namespace and allows no eviction.
    fn pod_disruption_budget(&mut self, value: Value, source: &Source) {
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let key = (text("/metadata/namespace"), text("/metadata/name"));
        let (how, why) = match parse::<PodDisruptionBudget>(value) {
            Err(why) => ("malformed", why),
            Ok(budget) => {
                self.loaded.index.apply(budget);
                let Some(why) = self.invalid(WatchedKind::PodDisruptionBudget, key.clone()) else {
                    return;
                };
                ("invalid", why)
            }
        };
        let (namespace, name) = key;
        let id = NamespacedName::new(namespace.clone().unwrap_or_default(), name.clone().unwrap_or_default());
        let spec = PodDisruptionBudgetSpec {
            selector: Some(LabelSelector::default()),
            ..PodDisruptionBudgetSpec::default()
        };
        let metadata = ObjectMeta { namespace, name, ..ObjectMeta::default() };
        self.loaded.index.apply(PodDisruptionBudget { metadata, spec: Some(spec), status: None });
        self.loaded.refused.push(("PodDisruptionBudget".to_owned(), id.clone(), why.clone()));
        self.loaded.gaps.push(format!(
            "{source}: PodDisruptionBudget {id} is {how}, and counts as one that allows no eviction of any pod of its namespace: {why}"
        ));
    }

    fn pool(&mut self, mut value: Value, source: Source) {
        if self.admit(&mut value, &source)
            && let Some(pool) = self.read::<api::NodePool>(value, &source)
        {
            self.pools.push((pool, source));
        }
    }

    fn class(&mut self, group: &str, kind: &str, value: &Value) {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        let of = |key: &str| ready.and_then(|ready| ready[key].as_str()).unwrap_or_default();
        let state = NodeClassStatus {
            ready: ready.map(|ready| ready["status"] == "True"),
            why: (of("reason").into(), of("message").into()),
            generation: 0,
            deleting: value
                .pointer("/metadata/deletionTimestamp")
                .and_then(|time| time.as_str()?.parse().ok()),
            conditions: Vec::new(),
        };
        let id = NodeClassRef { group: group.into(), kind: kind.into(), name: name.into() };
        self.class_ids.insert(id.clone());
        self.loaded.index.put_class(id, Some(state));
    }

    /// The names of the NodeClasses of the input that are of the kind of `class`.
    fn class_names(&self, class: &NodeClassRef) -> Vec<String> {
        let alike = self.class_ids.iter().filter(|id| (&id.group, &id.kind) == (&class.group, &class.kind));
        alike.map(|id| id.name.to_string()).collect()
    }

    /// Loads NodePools once all NodeClasses are read, then buffers once all templates are.
    fn finish(&mut self) {
        self.add_namespaces();
        self.resolve_buffers();
        for (mut pool, source) in std::mem::take(&mut self.pools) {
            let name = pool.metadata.name.clone().unwrap_or_default();
            let ready = self.readiness(&pool, &source);
            let aside = match &ready {
                Err((_, message)) => Some(format!("is ignored: {message}")),
                Ok(()) if pool.metadata.deletion_timestamp.is_some() => {
                    Some("is ignored: it is being deleted".to_owned())
                }
                Ok(()) if pool.spec.replicas.is_some() => {
                    let fixed = "is not used for scheduling: it has a fixed number of nodes (spec.replicas)";
                    let gate = if self.gates.static_capacity {
                        ""
                    } else {
                        ", and the feature gate StaticCapacity, which would launch them, is off"
                    };
                    Some(format!("{fixed}{gate}"))
                }
                Ok(()) => None,
            };
            if let Err((VALIDATION_FAILED, why)) = &ready {
                let id = NamespacedName::new("", name.as_str());
                self.loaded.refused.push(("NodePool".to_owned(), id, why.clone()));
            }
            if let Some(why) = aside {
                self.note(&source, format_args!("NodePool {name} {why}"));
            }
            prepare::set_ready(&mut pool, ready);
            prepare::stamp(&mut pool);
            let key = (None, pool.metadata.name.clone());
            self.loaded.index.apply(pool);
            self.note_invalid(WatchedKind::NodePool, key, &source);
            let catalog = self.catalogs.get(&name).cloned();
            self.loaded.index.set_catalog(&name.into(), catalog);
        }
        for (name, state) in self.loaded.index.overlay_outcomes() {
            let why = match state {
                OverlayOutcome::Applied(_) => continue,
                OverlayOutcome::Invalid(why) => format!("is invalid and left out: {why}"),
                OverlayOutcome::Conflict(with) => format!("conflicts with {with} and is left out"),
            };
            self.note("NodeOverlay", format_args!("{name} {why}"));
        }
        for (kind, (count, place)) in std::mem::take(&mut self.skipped) {
            let effect = if pods::may_create(&kind) {
                "; pods that its controller may create are not planned: add `kubectl get pods -A -o yaml`"
            } else {
                ""
            };
            let retired = kind.split_once(' ').and_then(|(version, kind)| retired::successor(version, kind));
            match retired {
                Some(successor) => self.note(
                    place,
                    format_args!("{kind} is not served any more, {count} skipped: convert it to {successor}"),
                ),
                None => self
                    .note(place, format_args!("{kind}: not used by any decision, {count} skipped{effect}")),
            }
        }
        // Which nodes there are, and for which pods they were launched, is known now.
        self.note_strays();
        let index = &self.loaded.index;
        let is_pending = |id: &NamespacedName| index.pod(id).is_some_and(|pod| index.is_pending(pod));
        self.loaded.held_pods.retain(|id, held| held.reason != "Nominated" || !is_pending(id));
    }

    /// A namespace with pods in a file exists, with the name label of every namespace.
    fn add_namespaces(&mut self) {
        for name in std::mem::take(&mut self.namespaces) {
            if self.seen.contains(&("Namespace".to_owned(), String::new(), name.clone())) {
                continue;
            }
            let mut namespace = Namespace::default();
            let label = ("kubernetes.io/metadata.name".to_owned(), name.clone());
            namespace.metadata.labels = Some([label].into());
            namespace.metadata.name = Some(name);
            self.loaded.index.apply(namespace);
        }
    }

    /// Whether a NodePool is ready, as its readiness and validation controllers would decide.
    fn readiness(&mut self, pool: &api::NodePool, source: &Source) -> Result<(), (&'static str, String)> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let written = &pool.spec.template.spec.node_class_ref;
        let class = NodeClassRef {
            group: written.group.as_str().into(),
            kind: written.kind.as_str().into(),
            name: written.name.as_str().into(),
        };
        let schema = self.loaded.index.schema().clone();
        if let Err(problems) = validate::pool(pool, &schema) {
            return Err((VALIDATION_FAILED, problems.to_string()));
        }
        // A dump without the NodeClass may have the condition of the NodePool.
        let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let heard = condition::find(conditions, NODE_CLASS_READY).filter(|heard| heard.is_false());
        match (self.loaded.index.node_class(&class), heard) {
            (None, Some(heard)) => {
                Err(("NodeClassNotReady", format!("{class} is not ready: {}", heard.message)))
            }
            (None, None) => {
                let meant = did_you_mean(&class.name, self.class_names(&class).iter().map(String::as_str));
                self.note(
                    source,
                    format_args!(
                        "NodePool {name}: {class} is not in the input{meant} and is assumed to be ready"
                    ),
                );
                Ok(())
            }
            (Some(state), _) if state.deleting.is_some() => {
                Err(("NodeClassTerminating", format!("{class} is being deleted")))
            }
            (Some(state), _) if state.ready == Some(false) => {
                Err(("NodeClassNotReady", format!("{class} is not ready: {}", state.why.1)))
            }
            (Some(state), _) if state.ready.is_none() && !state.why.0.is_empty() => {
                Err(("NodeClassReadinessUnknown", format!("{class} has no Ready condition yet")))
            }
            (Some(_), _) => Ok(()),
        }?;
        // The controller reads this condition only.
        match condition::find(conditions, READY).filter(|ready| !ready.is_true()) {
            Some(ready) => Err((
                "NodePoolNotReady",
                format!("its condition Ready is {}: {}", ready.status.as_str(), ready.message),
            )),
            None => Ok(()),
        }
    }
}
