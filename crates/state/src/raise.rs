//! From plans to Kubernetes objects: the NodeClaim of a plan's new NodeClaim.

mod constraints;

use std::{collections::BTreeMap, sync::Arc};

pub use constraints::constraints;

use fleetwright_api::{self as api, labels as names, nodeclaim::ResourceRequirements};
use fleetwright_core::{
    model::{Operator, Pod, PodUid, Positions, Requirement, Resources, Taint, labels},
    scheduling::NewClaim,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{ObjectMeta, OwnerReference},
};

/// The record on a NodePool, of this generation, that the node of `claim` is replaced because it was not initialized in time.
#[must_use]
pub fn initialization_failure(generation: i64, claim: &str, now: Timestamp) -> String {
    format!("{generation}/{claim}/{now}")
}

/// The fields of a NodeClaim that do not follow from the plan.
#[derive(Clone, Debug)]
pub struct Identity<'a> {
    /// `metadata.name`.
    pub name: String,
    /// The launch batch that it belongs to.
    pub batch: &'a str,
    /// Its position in the batch.
    pub position: u32,
    /// The cluster's UID.
    pub cluster_uid: &'a str,
}

/// The NodeClaim to create for `new_claim`, from its NodePool as it is now, for `pods` (those of `new_claim` that have no
/// NodeClaim in flight).
#[must_use]
pub fn claim(
    new_claim: &NewClaim,
    pool: &api::NodePool,
    pods: &[Arc<Pod>],
    identity: Identity<'_>,
) -> api::NodeClaim {
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let mut node_labels = strings(&new_claim.labels);
    node_labels.insert(labels::NODEPOOL.to_owned(), pool.metadata.name.clone().unwrap_or_default());
    node_labels.insert(new_claim.pool.template.class.label_key(), class.name.clone());
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    annotations.extend(strings(&new_claim.annotations));
    annotations.insert(names::NODEPOOL_HASH.to_owned(), pool.drift_hash());
    annotations
        .insert(names::NODEPOOL_HASH_VERSION.to_owned(), names::CURRENT_NODEPOOL_HASH_VERSION.to_owned());
    annotations.insert(names::BATCH_ID.to_owned(), identity.batch.to_owned());
    annotations.insert(names::BATCH_POSITION.to_owned(), identity.position.to_string());
    annotations.insert(names::CLUSTER_UID.to_owned(), identity.cluster_uid.to_owned());
    note_pods(&mut annotations, pods);
    let metadata = ObjectMeta {
        name: Some(identity.name),
        labels: Some(node_labels),
        annotations: Some(annotations),
        // The finalizer precedes the launch.
        finalizers: Some(vec![names::TERMINATION_FINALIZER.to_owned()]),
        owner_references: Some(vec![OwnerReference {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            name: pool.metadata.name.clone().unwrap_or_default(),
            uid: pool.metadata.uid.clone().unwrap_or_default(),
            block_owner_deletion: Some(true),
            controller: None,
        }]),
        ..ObjectMeta::default()
    };
    let spec = api::NodeClaimSpec {
        expire_after: template.spec.expire_after.clone(),
        node_class_ref: class.clone(),
        requirements: requirements(new_claim),
        resources: ResourceRequirements { requests: quantities(&new_claim.requests) },
        startup_taints: taints(&new_claim.startup_taints),
        taints: taints(&new_claim.taints),
        termination_grace_period: template.spec.termination_grace_period.clone(),
    };
    api::NodeClaim { metadata, spec, status: None }
}

/// Writes the pods that a NodeClaim is created for, and their constraints.
pub fn note_pods(annotations: &mut BTreeMap<String, String>, pods: &[Arc<Pod>]) {
    annotations.insert(names::NOMINATED_PODS.to_owned(), intended_pods(pods));
    let constraints = constraints(pods);
    if constraints.is_empty() {
        annotations.remove(names::POD_CONSTRAINTS);
    } else {
        annotations.insert(names::POD_CONSTRAINTS.to_owned(), constraints);
    }
}

/// The most bytes of a record with names and UIDs: all annotations of an object together may have 256 KiB. A UID alone takes
/// 38 bytes, so that the 737 pods of the largest AWS node always fit.
const NAMED_BYTES: usize = 64 << 10;
/// The most bytes of a record of intended pods.
const RECORD_BYTES: usize = 128 << 10;

/// `namespace/name:uid` joined by commas, as [`crate::lower::claim::intended_pods`] reads it. Beyond [`NAMED_BYTES`]
/// pods are recorded by UID alone (`:uid`); those that exceed [`RECORD_BYTES`] are left out.
#[must_use]
pub fn intended_pods(pods: &[Arc<Pod>]) -> String {
    let mut record = String::new();
    for pod in pods.iter().filter(|pod| !pod.is_virtual) {
        let full = format!("{}:{}", pod.id, pod.uid);
        let entry = if record.len() + full.len() < NAMED_BYTES { full } else { format!(":{}", pod.uid) };
        if record.len() + entry.len() >= RECORD_BYTES {
            break;
        }
        if !record.is_empty() {
            record.push(',');
        }
        record.push_str(&entry);
    }
    record
}

/// The record without those of its entries that name one of `released`.
#[must_use]
pub fn without_pods(record: &str, released: &std::collections::BTreeSet<PodUid>) -> String {
    let stays =
        |entry: &&str| entry.rsplit_once(':').is_none_or(|(_, uid)| !released.contains(&PodUid::from(uid)));
    record.split(',').filter(stays).collect::<Vec<_>>().join(",")
}

/// The launch batch of each new NodeClaim and its position there: those with equal launch requirements share a batch, of
/// [`Positions::LIMIT`] at most. `plan` distinguishes the plans.
#[must_use]
pub fn launch_batches(plan: &str, new_claims: &[NewClaim]) -> Vec<(String, u32)> {
    let mut batches: Vec<(&NewClaim, u32)> = Vec::new();
    let mut places = Vec::with_capacity(new_claims.len());
    for new_claim in new_claims {
        let has_room =
            |(known, size): &(&NewClaim, u32)| *size < Positions::LIMIT && same_launch(known, new_claim);
        let at = batches.iter().position(has_room).unwrap_or_else(|| {
            batches.push((new_claim, 0));
            batches.len() - 1
        });
        let size = &mut batches[at].1;
        places.push((format!("{plan}-{at}"), *size));
        *size += 1;
    }
    places
}

/// Whether two new NodeClaims have equal launch requirements: they share a batch.
#[must_use]
pub fn same_launch(a: &NewClaim, b: &NewClaim) -> bool {
    let types = |new_claim: &NewClaim| -> Vec<_> {
        new_claim.instance_types.iter().map(|instance_type| instance_type.name.clone()).collect()
    };
    a.pool.name == b.pool.name
        && a.requirements == b.requirements
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.taints == b.taints
        && a.startup_taints == b.startup_taints
        && types(a) == types(b)
}

/// Whether a NodeClaim is the one that was to be created. Its launch may have begun meanwhile.
#[must_use]
pub fn is_same(found: &api::NodeClaim, wanted: &api::NodeClaim) -> bool {
    let of = |claim: &api::NodeClaim, key: &str| claim.metadata.annotations.as_ref()?.get(key).cloned();
    let same = |key: &str| of(found, key).is_some() && of(found, key) == of(wanted, key);
    [names::BATCH_ID, names::CLUSTER_UID, names::NOMINATED_PODS].into_iter().all(same)
}

fn strings(labels: &labels::Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn taints(taints: &[Taint]) -> Option<Vec<api::Taint>> {
    let raised = |taint: &Taint| api::Taint {
        effect: taint.effect.as_str().into(),
        key: taint.key.to_string(),
        time_added: None,
        value: taint.value.to_string(),
    };
    (!taints.is_empty()).then(|| taints.iter().map(raised).collect())
}

/// Amounts as Kubernetes writes them.
#[must_use]
pub fn quantities(resources: &Resources) -> api::Quantities {
    resources
        .iter()
        .map(|(name, amount)| (name.to_string(), Quantity(name.quantity(amount).to_string())))
        .collect()
}

/// The new NodeClaim's requirements with the instance types that are left, cheapest first.
fn requirements(new_claim: &NewClaim) -> Vec<api::Requirement> {
    let mut raised = Vec::new();
    // The host has no name yet; within a plan the key only distinguishes new NodeClaims.
    for wanted in new_claim.requirements.iter().filter(|wanted| &**wanted.key() != labels::HOSTNAME) {
        if &**wanted.key() == labels::INSTANCE_TYPE && !new_claim.instance_types.is_empty() {
            continue;
        }
        raised.extend(requirement(wanted));
    }
    if !new_claim.instance_types.is_empty() {
        let wanted = new_claim.requirements.get(labels::INSTANCE_TYPE);
        raised.push(api::Requirement {
            key: labels::INSTANCE_TYPE.to_owned(),
            min_values: wanted.and_then(Requirement::min_values).map(i64::from),
            operator: api::Operator::In,
            values: new_claim.instance_types.iter().map(|known| known.name.to_string()).collect(),
        });
    }
    raised.sort_by(|a, b| a.key.cmp(&b.key));
    raised
}

/// One requirement; bounds and exclusions take an entry each.
#[must_use]
pub fn requirement(wanted: &Requirement) -> Vec<api::Requirement> {
    let key = wanted.key().to_string();
    let entry = |operator: Operator, values: Vec<String>| api::Requirement {
        key: key.clone(),
        min_values: None,
        operator: operator.as_str().into(),
        values,
    };
    let mut entries = Vec::new();
    if let Some(bound) = wanted.gte() {
        // No label has a negative value, and no NodeClaim may name one.
        entries.push(entry(Operator::Gte, vec![bound.max(0).to_string()]));
    }
    if let Some(bound) = wanted.lte() {
        entries.push(entry(Operator::Lte, vec![bound.to_string()]));
    }
    // Bounds imply that the label exists.
    if entries.is_empty() || !wanted.values().is_empty() {
        let values = wanted.values().iter().map(ToString::to_string).collect();
        entries.push(entry(wanted.operator(), values));
    }
    if wanted.is_present_beside() {
        entries.push(entry(Operator::Exists, Vec::new()));
    }
    if let Some(first) = entries.first_mut() {
        first.min_values = wanted.min_values().map(i64::from);
    }
    entries
}

#[cfg(test)]
mod tests;
