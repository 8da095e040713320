//! Describes deletions of NodeClaims, and terminations of instances, that are part of no disruption.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    describe::draft,
    digest::Digest,
    record::{
        Choice, DecisionDraft, DecisionInputs, DecisionOutcome, DeletionChoice, OutcomeStatus, ReasonRow,
        bounded,
    },
};
use crate::{
    clock::written,
    model::{
        Node, NodeClaim, Pod, Price, ProviderId,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE},
        nodeclaim::ConditionType,
    },
    safety::Cause,
};

/// A NodeClaim to delete, with what runs on it.
pub struct DeletedClaim<'a> {
    /// The NodeClaim.
    pub claim: &'a NodeClaim,
    /// Its Nodes.
    pub nodes: &'a [Arc<Node>],
    /// Their pods.
    pub pods: &'a [Arc<Pod>],
    /// Its list price, if the catalogue of its NodePool has it.
    pub price: Option<Price>,
    /// What the controller found, with figures; without it, what the NodeClaim shows of the cause.
    pub found: Option<&'a str>,
}

/// The deletion of a NodeClaim, which has been requested.
pub fn of_deletion(deleted: &DeletedClaim<'_>, cause: Cause, now: Timestamp) -> DecisionDraft {
    let DeletedClaim { claim, nodes, pods, price, found } = *deleted;
    let label = |key| claim.labels.get(key).map(ToString::to_string);
    let choice = DeletionChoice {
        of: "NodeClaim".to_owned(),
        name: claim.name.to_string(),
        cause: cause.word().to_owned(),
        node_pool: claim.pool.as_ref().map(ToString::to_string),
        node: nodes.first().map(|node| node.name.to_string()),
        provider_id: claim.provider_id.as_ref().map(ToString::to_string),
        instance_type: label(INSTANCE_TYPE),
        capacity_type: label(CAPACITY_TYPE),
        price: price.map(|price| price.to_string()),
        pods: pods.iter().filter(|pod| pod.is_reschedulable()).count(),
    };
    described(choice, found.map_or_else(|| shown(cause, claim), str::to_owned), now)
}

/// The termination of an instance that no NodeClaim accounts for, which is about to be requested.
pub fn of_orphan(id: &ProviderId, now: Timestamp) -> DecisionDraft {
    let choice = DeletionChoice {
        of: "Instance".to_owned(),
        name: id.to_string(),
        cause: "orphaned".to_owned(),
        provider_id: Some(id.to_string()),
        ..DeletionChoice::default()
    };
    described(choice, "no NodeClaim accounts for the instance".to_owned(), now)
}

fn described(choice: DeletionChoice, message: String, now: Timestamp) -> DecisionDraft {
    let mut digest = Digest::new();
    [&choice.of, &choice.name, &choice.cause, &message].iter().for_each(|text| digest.text(text));
    let inputs = DecisionInputs { digest: digest.to_string(), ..DecisionInputs::default() };
    let reason = ReasonRow {
        reason: choice.cause.clone(),
        message: bounded(message),
        node_pool: choice.node_pool.clone(),
    };
    DecisionDraft {
        reasons: vec![reason],
        outcome: Some(DecisionOutcome::new(OutcomeStatus::Started, now, None)),
        ..draft(Choice::Deletion(choice), inputs)
    }
}

/// What a NodeClaim shows of the cause of its deletion.
fn shown(cause: Cause, claim: &NodeClaim) -> String {
    let since = |condition: ConditionType| claim.conditions.get(&condition).map(|known| known.since);
    let id = claim.provider_id.as_deref().unwrap_or_default();
    match cause {
        Cause::InsufficientCapacity => "no offering that it allows has capacity".to_owned(),
        Cause::NodeClassNotReady => format!("{} is not ready", claim.class),
        Cause::LaunchTimeout => format!("created at {}, and not launched in time", claim.created),
        Cause::RegistrationTimeout => {
            let launched = since(ConditionType::Launched).unwrap_or(claim.created);
            format!("instance {id} was launched at {launched}, and its node did not register in time")
        }
        Cause::InitializationTimeout => "its node was not initialized in time".to_owned(),
        Cause::Expired => {
            let age = claim.expire_after.map(written).unwrap_or_default();
            format!("created at {}, and older than its expireAfter of {age}", claim.created)
        }
        Cause::GarbageCollected => format!("the cloud has no instance {id}"),
        Cause::Unhealthy => "a repair policy calls its node unhealthy".to_owned(),
        Cause::NodeDeleted => "its Node was deleted by another client".to_owned(),
        Cause::Surplus => "its NodePool has more nodes than replicas".to_owned(),
        Cause::Interrupted(kind) => kind.event().1.to_owned(),
    }
}
