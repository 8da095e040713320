//! Nodes.

use fleetwright_api::labels::TERMINATION_FINALIZER;
use fleetwright_core::model::{Node, Taint, TaintEffect};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as k8s;

use super::{Invalid, filled, labels, supply, text, time};

/// A Node.
///
/// # Errors
/// If a quantity is invalid.
pub fn node(node: &k8s::Node) -> Result<Node, Invalid> {
    let (meta, spec, status) = (&node.metadata, node.spec.as_ref(), node.status.as_ref());
    let ready = status
        .and_then(|status| status.conditions.as_ref())
        .and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    Ok(Node {
        name: meta.name.clone().unwrap_or_default().into(),
        uid: text(meta.uid.as_deref().unwrap_or_default()),
        provider_id: spec.and_then(|spec| filled(spec.provider_id.as_ref())).map(Into::into),
        labels: labels(meta.labels.as_ref()),
        annotations: labels(meta.annotations.as_ref()),
        taints: spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten().filter_map(taint).collect(),
        cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        capacity: supply("status.capacity", status.and_then(|status| status.capacity.as_ref()))?,
        allocatable: supply("status.allocatable", status.and_then(|status| status.allocatable.as_ref()))?,
        ready: ready.is_some_and(|condition| condition.status == "True"),
        ready_since: ready.and_then(|condition| time(condition.last_transition_time.as_ref())),
        created: time(meta.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: time(meta.deletion_timestamp.as_ref()),
        has_finalizer: meta.finalizers.iter().flatten().any(|finalizer| finalizer == TERMINATION_FINALIZER),
    })
}

/// A taint; one with an effect that is not known does nothing and is left out.
#[must_use]
pub fn taint(taint: &k8s::Taint) -> Option<Taint> {
    let effect = TaintEffect::parse(&taint.effect)?;
    Some(Taint::new(&*taint.key, taint.value.as_deref().unwrap_or_default(), effect))
}
