//! NodeClaims.

use std::collections::BTreeMap;

use fleetwright_api::{self as api, labels as names, labels::condition};
use fleetwright_core::model::{
    BatchId, Condition, ConditionStatus, LabelSchema, NodeClaim, PodUid, PoolName, Positions,
    labels::NODEPOOL, nodeclaim::ConditionType,
};
use jiff::Timestamp;

use super::{Invalid, demand, labels, shared, supply, text, time};

/// The conditions that decisions read, by their names.
const CONDITIONS: [(&str, ConditionType); 10] = [
    (condition::LAUNCHED, ConditionType::Launched),
    (condition::REGISTERED, ConditionType::Registered),
    (condition::INITIALIZED, ConditionType::Initialized),
    (condition::CONSOLIDATABLE, ConditionType::Consolidatable),
    (condition::DRIFTED, ConditionType::Drifted),
    (condition::DRAINED, ConditionType::Drained),
    (condition::VOLUMES_DETACHED, ConditionType::VolumesDetached),
    (condition::INSTANCE_TERMINATING, ConditionType::InstanceTerminating),
    (condition::CONSISTENT_STATE_FOUND, ConditionType::ConsistentStateFound),
    (condition::DISRUPTION_REASON, ConditionType::DisruptionReason),
];

/// A NodeClaim.
///
/// # Errors
/// If a quantity or a requirement is invalid.
pub fn claim(claim: &api::NodeClaim, schema: &LabelSchema) -> Result<NodeClaim, Invalid> {
    let (meta, spec) = (&claim.metadata, &claim.spec);
    let none = api::NodeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&none);
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let uid = meta.uid.clone().unwrap_or_default();
    let hash = annotation(names::NODEPOOL_HASH).zip(annotation(names::NODEPOOL_HASH_VERSION));
    // A claim that was made by hand is its own batch.
    let position = annotation(names::BATCH_POSITION).and_then(|position| position.parse::<u32>().ok());
    let position = position.filter(|position| *position < Positions::LIMIT);
    let batch = annotation(names::BATCH_ID).zip(position);
    let (batch, position) =
        batch.map_or_else(|| (BatchId::from(uid.as_str()), 0), |(batch, at)| (BatchId::from(batch), at));
    let filled = |value: &str| (!value.is_empty()).then(|| text(value));
    Ok(NodeClaim {
        name: meta.name.clone().unwrap_or_default().into(),
        batch,
        position,
        uid: uid.into(),
        pool: label(NODEPOOL).map(PoolName::from),
        labels: labels(meta.labels.as_ref()),
        annotations: labels(meta.annotations.as_ref()),
        has_finalizer: meta.finalizers.iter().flatten().any(|name| name == names::TERMINATION_FINALIZER),
        created: time(meta.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: time(meta.deletion_timestamp.as_ref()),
        taints: shared::taints(spec.taints.as_ref()),
        startup_taints: shared::taints(spec.startup_taints.as_ref()),
        requirements: shared::requirements(&spec.requirements, schema, "spec.requirements")?,
        requests: demand("spec.resources.requests", Some(&spec.resources.requests))?,
        class: shared::class(&spec.node_class_ref),
        termination_grace_period: shared::duration(spec.termination_grace_period.as_ref()),
        expire_after: shared::duration(spec.expire_after.as_ref()),
        attempt: annotation(names::ATTEMPT).and_then(|attempt| attempt.parse().ok()).unwrap_or(0),
        attempt_members: annotation(names::ATTEMPT_MEMBERS)
            .and_then(|members| members.parse().ok())
            .unwrap_or_default(),
        intended_pods: annotation(names::NOMINATED_PODS).map(intended_pods).unwrap_or_default(),
        provider_id: filled(&status.provider_id).map(Into::into),
        node_name: filled(&status.node_name).map(Into::into),
        image_id: filled(&status.image_id),
        capacity: supply("status.capacity", Some(&status.capacity))?,
        allocatable: supply("status.allocatable", Some(&status.allocatable))?,
        conditions: conditions(&status.conditions),
        last_pod_event: time(status.last_pod_event_time.as_ref()),
        pool_hash: hash.map(|(hash, version)| (text(hash), text(version))),
        termination_deadline: annotation(names::TERMINATION_TIMESTAMP).and_then(|time| time.parse().ok()),
    })
}

/// The UIDs of `namespace/name:uid` joined by commas. Anything else is skipped.
#[must_use]
pub fn intended_pods(written: &str) -> Vec<PodUid> {
    let uids = written.split(',').filter_map(|entry| entry.rsplit_once(':'));
    uids.map(|(_, uid)| PodUid::from(uid)).filter(|uid| !uid.is_empty()).collect()
}

fn conditions(list: &[api::Condition]) -> BTreeMap<ConditionType, Condition> {
    let lowered = |condition: &api::Condition| {
        let (_, kind) = CONDITIONS.iter().find(|(name, _)| *name == condition.type_)?;
        let status = match condition.status {
            api::ConditionStatus::True => ConditionStatus::True,
            api::ConditionStatus::False => ConditionStatus::False,
            api::ConditionStatus::Unknown | api::ConditionStatus::Other(_) => ConditionStatus::Unknown,
        };
        let (reason, message) = (text(&condition.reason), text(&condition.message));
        Some((*kind, Condition { status, reason, message, since: condition.changed_at() }))
    };
    list.iter().filter_map(lowered).collect()
}
