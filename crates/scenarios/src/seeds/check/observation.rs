//! The input of a check: the objects of the API server, the instances of the cloud, the operators' requests, the users' changes.

use std::{cmp::Ordering, collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use fleetwright_core::cloud::GroundTruth;
use fleetwright_fake_kube::{Request, Server};
use fleetwright_sim::simulator::Simulator;
use jiff::Timestamp;
use serde_json::Value;

use crate::seeds::{log::Entry, script::Interventions};

/// A pod, and what most checks ask of each pod at each step.
pub(in crate::seeds) struct PodView {
    object: Arc<Value>,
    pub(super) uid: String,
    /// Namespace and name.
    pub(super) key: String,
    /// The node that it is bound to; empty without one.
    pub(super) node: String,
    /// Whether it has succeeded or failed.
    pub(super) has_ended: bool,
    pub(super) is_running: bool,
    pub(super) is_deleting: bool,
    /// Whether it is annotated `karpenter.sh/do-not-disrupt: "true"`.
    pub(super) is_do_not_disrupt: bool,
    /// Whether a DaemonSet owns it.
    pub(super) is_daemon: bool,
}

impl PodView {
    pub(super) fn of(object: Arc<Value>) -> Self {
        let owners = field(&object, "/metadata/ownerReferences").and_then(Value::as_array);
        Self {
            uid: text(&object, "/metadata/uid").to_owned(),
            key: format!("{}/{}", text(&object, "/metadata/namespace"), name(&object)),
            node: text(&object, "/spec/nodeName").to_owned(),
            has_ended: matches!(text(&object, "/status/phase"), "Succeeded" | "Failed"),
            is_running: text(&object, "/status/phase") == "Running",
            is_deleting: is_deleting(&object),
            is_do_not_disrupt: annotation(&object, "karpenter.sh/do-not-disrupt") == "true",
            is_daemon: owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet"),
            object,
        }
    }
}

impl Deref for PodView {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

/// A pod that came or left between two observations; one that changed left and came.
pub(in crate::seeds) enum PodChange {
    Left(Arc<PodView>),
    Came(Arc<PodView>),
}

/// The pods of the last observation, of which few change within a second, and what changed since the last checks.
#[derive(Default)]
pub(in crate::seeds) struct PodViews {
    /// By namespace and name.
    views: Vec<Arc<PodView>>,
    changes: Vec<PodChange>,
}

impl PodViews {
    /// Views of these pods, which are ordered by namespace and name.
    fn update(&mut self, pods: Vec<Arc<Value>>) -> Vec<Arc<PodView>> {
        let mut before = std::mem::take(&mut self.views).into_iter().peekable();
        for pod in pods {
            let known = loop {
                let Some(first) = before.peek() else { break None };
                if Arc::ptr_eq(&first.object, &pod) {
                    break before.next();
                }
                match place(&first.object).cmp(&place(&pod)) {
                    Ordering::Greater => break None,
                    Ordering::Less | Ordering::Equal => {
                        self.changes.extend(before.next().map(PodChange::Left));
                    }
                }
            };
            self.views.push(known.unwrap_or_else(|| {
                let view = Arc::new(PodView::of(pod));
                self.changes.push(PodChange::Came(view.clone()));
                view
            }));
        }
        self.changes.extend(before.map(PodChange::Left));
        self.views.clone()
    }

    /// What changed since the last call, in order.
    pub(super) fn take_changes(&mut self) -> Vec<PodChange> {
        std::mem::take(&mut self.changes)
    }
}

/// Namespace and name.
fn place(object: &Value) -> (&str, &str) {
    (text(object, "/metadata/namespace"), name(object))
}

/// The current state.
pub(in crate::seeds) struct Observation<'a> {
    /// Virtual time since the start.
    pub(super) at: Duration,
    /// The time of the API server.
    pub(super) now: Timestamp,
    pub(super) claims: Vec<Arc<Value>>,
    pub(super) nodes: Vec<Arc<Value>>,
    pub(super) pods: Vec<Arc<PodView>>,
    /// The pods that came or left since the last step, in order.
    pub(super) pod_changes: Vec<PodChange>,
    pub(super) pools: Vec<Arc<Value>>,
    /// For rare queries; `None` in unit tests of a check.
    pub(super) server: Option<&'a Server>,
    /// The instances that run or are terminating.
    pub(super) instances: Vec<Arc<GroundTruth>>,
    /// Those that have gone since the last step, as they were then.
    pub(super) gone: Vec<Arc<GroundTruth>>,
    /// The leader, if one is elected.
    pub(super) leader: Option<String>,
    pub(super) log: &'a [Entry],
    pub(super) interventions: &'a Interventions,
}

impl<'a> Observation<'a> {
    pub(super) fn new(
        simulator: &'a Simulator,
        interventions: &'a Interventions,
        log: &'a [Entry],
        known: &mut PodViews,
    ) -> Self {
        let server = simulator.server();
        let lease = server.get("coordination.k8s.io/v1", "Lease", "kube-system", "karpenter-leader-election");
        Self {
            at: simulator.elapsed(),
            now: simulator.clock().now(),
            claims: server.list("karpenter.sh/v1", "NodeClaim", ""),
            nodes: server.list("v1", "Node", ""),
            pods: known.update(server.list("v1", "Pod", "")),
            pod_changes: Vec::new(),
            pools: server.list("karpenter.sh/v1", "NodePool", ""),
            server: Some(server),
            instances: simulator.ground_truth(),
            gone: Vec::new(),
            leader: lease.map(|lease| text(&lease, "/spec/holderIdentity").to_owned()),
            log,
            interventions,
        }
    }

    /// Instances that are terminating or have gone.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Arc<GroundTruth>> {
        self.instances.iter().filter(|instance| instance.terminating).chain(&self.gone)
    }

    /// Claims by name.
    pub(super) fn claims_by_name(&self) -> BTreeMap<&str, &Arc<Value>> {
        self.claims.iter().map(|claim| (name(claim), claim)).collect()
    }

    /// Changes that operators requested.
    pub(super) fn asked(&self) -> impl Iterator<Item = &'a Request> {
        self.log.iter().filter_map(|entry| match entry {
            Entry::Asked(request) => Some(request),
            Entry::Listed { .. } | Entry::Refused(..) => None,
        })
    }

    /// Events: far more numerous than other objects.
    pub(super) fn events(&self) -> Vec<Arc<Value>> {
        self.server.map(|server| server.list("v1", "Event", "")).unwrap_or_default()
    }

    /// The time since the last change by a user.
    pub(super) fn since_user_change(&self) -> Duration {
        self.at.saturating_sub(self.interventions.last)
    }
}

/// The value at a path such as `/spec/taints`. Field names are not escaped. Checks call it for every object at every step, hence the
/// split by bytes.
pub(super) fn field<'a>(object: &'a Value, at: &str) -> Option<&'a Value> {
    let mut rest = at.strip_prefix('/')?;
    let mut value = object;
    loop {
        let end = rest.bytes().position(|byte| byte == b'/');
        let (key, after) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        value = match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            other => other.get(key)?,
        };
        let Some(after) = after else { return Some(value) };
        rest = after;
    }
}

/// A text within an object, empty if absent.
pub(super) fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    field(object, at).and_then(Value::as_str).unwrap_or_default()
}

/// The name.
pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// A label.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    let labels = field(object, "/metadata/labels");
    labels.and_then(|labels| labels.get(key)?.as_str()).unwrap_or_default()
}

/// An annotation.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let all = field(object, "/metadata/annotations");
    all.and_then(|all| all.get(key)?.as_str()).unwrap_or_default()
}

/// The pool of a claim or a node.
pub(super) fn pool(object: &Value) -> &str {
    label(object, "karpenter.sh/nodepool")
}

/// Whether a condition is True.
pub(super) fn is(object: &Value, condition: &str) -> bool {
    let all = field(object, "/status/conditions").and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|c| c["type"] == condition && c["status"] == "True"))
}

/// Whether an object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether an object has the termination finalizer.
pub(super) fn is_held(object: &Value) -> bool {
    let all = field(object, "/metadata/finalizers").and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|held| held == "karpenter.sh/termination"))
}
