//! DaemonSets: one pod on every node that the template allows. The binder binds each to its node, by affinity.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, DaemonSetSpec},
    core::v1::{
        Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
        Toleration,
    },
};
use serde_json::json;

use super::{count, has_ended, is_active, is_ready, portion, template, uid, until_available};
use crate::actors::{
    actor::{Actor, Requeue},
    binder::{allowed, untolerated},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
    selector::Labels,
};

/// The revision of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// The actor.
pub(super) struct DaemonSets;

impl Actor for DaemonSets {
    fn name(&self) -> &'static str {
        "daemon-sets"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        match (&change.old, &change.new) {
            (_, Some(Object::DaemonSet(_))) => vec![change.key.clone()],
            (Some(Object::Node(old)), Some(Object::Node(new)))
                if old.metadata.labels == new.metadata.labels && old.spec == new.spec =>
            {
                Vec::new()
            }
            (_, Some(Object::Node(_))) | (Some(Object::Node(_)), None) => {
                tables.daemon_sets.keys().cloned().collect()
            }
            _ => super::controllers(change, "DaemonSet"),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let Some(set) = DaemonSetState::read(ctx, key) else { return Ok(Requeue::No) };
            if set.object.metadata.deletion_timestamp.is_none() {
                place(ctx, &set).await?;
                update(ctx, &set).await?;
            }
            match DaemonSetState::read(ctx, key) {
                Some(set) => status(ctx, key, &set).await,
                None => Ok(Requeue::No),
            }
        })
    }
}

/// A DaemonSet, the nodes, and its pods by node.
struct DaemonSetState {
    object: Arc<DaemonSet>,
    spec: DaemonSetSpec,
    /// The spec of its pods, to match nodes.
    pod: PodSpec,
    revision: String,
    nodes: Vec<Arc<Node>>,
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
}

impl DaemonSetState {
    fn read(ctx: &Ctx, key: &Key) -> Option<Self> {
        let tables = ctx.cache.tables();
        let object = tables.get::<DaemonSet>(key)?;
        let spec = object.spec.clone()?;
        let mut pods: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in tables.pods_of(uid(&object.metadata)) {
            if let Some(node) = target(&pod) {
                pods.entry(node).or_default().push(pod);
            }
        }
        let mut pod = spec.template.spec.clone().unwrap_or_default();
        tolerate(&mut pod);
        let revision = template::hash(&spec.template, 0);
        Some(Self { object, spec, pod, revision, nodes: tables.nodes.values().cloned().collect(), pods })
    }

    /// Whether a pod should be started on a node, and whether a running one may stay.
    fn wants(&self, node: &Node) -> (bool, bool) {
        let none = Labels::new();
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if !allowed(&self.pod, name, node.metadata.labels.as_ref().unwrap_or(&none)) {
            return (false, false);
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let tolerations = self.pod.tolerations.as_deref().unwrap_or_default();
        let stays = untolerated(&taints, tolerations, &["NoExecute"]).is_none();
        (stays && untolerated(&taints, tolerations, &["NoSchedule"]).is_none(), stays)
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)) == Some(&self.revision)
    }

    fn on(&self, node: &Node) -> &[Arc<Pod>] {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.pods.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The node that a pod runs on, or was created for.
fn target(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.clone().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == "metadata.name");
    named.next()?.values.as_ref()?.first().cloned()
}

/// The tolerations of every DaemonSet pod.
fn tolerate(spec: &mut PodSpec) {
    let mut wanted = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        wanted.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in wanted {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// Binds a pod to a node: required node affinity has been checked and is replaced.
fn pin(spec: &mut PodSpec, node: &str) {
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    nodes.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

async fn place(ctx: &Ctx, set: &DaemonSetState) -> Result<(), CallError> {
    for node in &set.nodes {
        let (starts, stays) = set.wants(node);
        let pods = set.on(node);
        let (active, other): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| is_active(pod));
        for pod in other.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            ctx.delete(pod.as_ref(), None).await?;
        }
        if !stays {
            for pod in active {
                ctx.delete(pod.as_ref(), None).await?;
            }
            continue;
        }
        for pod in active.iter().skip(1) {
            ctx.delete(pod.as_ref(), None).await?;
        }
        // A terminating pod is replaced once it is gone.
        if starts && pods.iter().all(|pod| has_ended(pod) && pod.metadata.deletion_timestamp.is_none()) {
            create(ctx, set, node).await?;
        }
    }
    // Its node was deleted before the pod was bound; bound pods are deleted with their node.
    let is_there = |name: &str| set.nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name));
    let left = set.pods.iter().filter(|(node, _)| !is_there(node)).flat_map(|(_, pods)| pods);
    let unbound = |pod: &&Arc<Pod>| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
    for pod in left.filter(unbound).filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        ctx.delete(pod.as_ref(), Some(0)).await?;
    }
    Ok(())
}

async fn create(ctx: &Ctx, set: &DaemonSetState, node: &Node) -> Result<(), CallError> {
    let mut pod = template::pod(set.object.as_ref(), &set.spec.template);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION.to_owned(), set.revision.clone());
    labels.insert(
        "pod-template-generation".to_owned(),
        set.object.metadata.generation.unwrap_or(1).to_string(),
    );
    let spec = pod.spec.get_or_insert_default();
    tolerate(spec);
    pin(spec, node.metadata.name.as_deref().unwrap_or_default());
    ctx.create(&pod).await.map(drop)
}

/// Deletes outdated pods, within `maxUnavailable`. Unavailable pods are deleted first and count.
async fn update(ctx: &Ctx, set: &DaemonSetState) -> Result<(), CallError> {
    let strategy = set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let wanted: Vec<&Arc<Node>> = set.nodes.iter().filter(|node| set.wants(node).0).collect();
    let bound = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_unavailable.as_ref());
    let most = portion(bound, count(wanted.len()), true, 1).max(1);
    let now = ctx.clock.now();
    let works = |pod: &Pod| {
        is_active(pod)
            && until_available(pod, set.spec.min_ready_seconds, now).is_some_and(|left| left.is_zero())
    };
    let down = wanted.iter().filter(|node| !set.on(node).iter().any(|pod| works(pod))).count();
    let mut room = most.saturating_sub(count(down));
    for pod in
        wanted.iter().flat_map(|node| set.on(node)).filter(|pod| is_active(pod) && !set.is_updated(pod))
    {
        if works(pod) {
            if room <= 0 {
                continue;
            }
            room = room.saturating_sub(1);
        }
        ctx.delete(pod.as_ref(), None).await?;
    }
    Ok(())
}

async fn status(ctx: &Ctx, key: &Key, set: &DaemonSetState) -> Result<Requeue, CallError> {
    let now = ctx.clock.now();
    let mut again = Requeue::No;
    let [mut desired, mut current, mut misplaced, mut ready, mut available, mut updated] = [0_i32; 6];
    for node in &set.nodes {
        let (starts, _) = set.wants(node);
        let pod = set.on(node).iter().find(|pod| is_active(pod));
        desired = desired.saturating_add(i32::from(starts));
        let Some(pod) = pod else { continue };
        if !starts {
            misplaced = misplaced.saturating_add(1);
            continue;
        }
        current = current.saturating_add(1);
        ready = ready.saturating_add(i32::from(is_ready(pod)));
        updated = updated.saturating_add(i32::from(set.is_updated(pod)));
        match until_available(pod, set.spec.min_ready_seconds, now) {
            Some(left) if left.is_zero() => available = available.saturating_add(1),
            Some(left) => again = again.or(Requeue::After(left)),
            None => {}
        }
    }
    let known = set.object.status.clone().unwrap_or_default();
    let same = known.observed_generation == set.object.metadata.generation
        && [known.desired_number_scheduled, known.current_number_scheduled, known.number_misscheduled]
            == [desired, current, misplaced]
        && [
            known.number_ready,
            known.number_available.unwrap_or(0),
            known.updated_number_scheduled.unwrap_or(0),
        ] == [ready, available, updated];
    if !same {
        let patch = json!({ "status": {
            "observedGeneration": set.object.metadata.generation, "desiredNumberScheduled": desired,
            "currentNumberScheduled": current, "numberMisscheduled": misplaced, "numberReady": ready,
            "numberAvailable": available, "updatedNumberScheduled": updated,
            "numberUnavailable": desired.saturating_sub(available),
        } });
        ignore_not_found(ctx.patch_status::<DaemonSet>(key, &patch).await)?;
    }
    Ok(again)
}
