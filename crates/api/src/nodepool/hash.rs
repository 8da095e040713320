//! The drift hash of a NodePool, version `v3`.
//!
//! It covers `spec.template` without `requirements`; limits, weight, disruption and replicas are outside the template.
//! The names below are those of Karpenter's Go types and fields: they are hashed, so they are on the wire.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{NodeClaimTemplate, NodeClaimTemplateSpec, NodePool};
use crate::duration::NillableDuration;
use crate::hash::{StructHash, bytes, int64, map, set, text};
use crate::shared::{NodeClassRef, Taint};

impl NodePool {
    /// The value of the annotation [`crate::labels::NODEPOOL_HASH`], of version
    /// [`crate::labels::CURRENT_NODEPOOL_HASH_VERSION`]: a NodeClaim that carries another one has drifted.
    pub fn drift_hash(&self) -> String {
        template(&self.spec.template).to_string()
    }
}

fn template(template: &NodeClaimTemplate) -> u64 {
    let meta = &template.metadata;
    let has_meta = meta.labels.is_some() || meta.annotations.is_some();
    let meta = has_meta.then(|| {
        StructHash::new("ObjectMeta")
            .field("Labels", meta.labels.as_ref().map(labels))
            .field("Annotations", meta.annotations.as_ref().map(labels))
            .finish()
    });
    // A spec is zero in Go when it has nothing at all; the CRD's required class reference rules that out.
    StructHash::new("NodeClaimTemplate")
        .field("ObjectMeta", meta)
        .field("Spec", Some(spec(&template.spec)))
        .finish()
}

fn spec(spec: &NodeClaimTemplateSpec) -> u64 {
    let taints = |taints: &Vec<Taint>| set(taints.iter().map(taint));
    let nanos = |text: &Option<NillableDuration>| {
        text.as_ref()
            .and_then(NillableDuration::finite)
            .and_then(|finite| i64::try_from(finite.as_nanos()).ok())
    };
    let period = nanos(&spec.termination_grace_period).map(|period| {
        // A plain number: zero is skipped.
        StructHash::new("Duration").field("Duration", (period != 0).then(|| int64(period))).finish()
    });
    let expiry = nanos(&spec.expire_after).map(|expiry| {
        // A pointer to a number: only nil is skipped. `Never` leaves it nil and the struct zero, as an absent field does.
        StructHash::new("NillableDuration").field("Duration", Some(int64(expiry))).finish()
    });
    StructHash::new("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_ref().map(taints))
        .field("StartupTaints", spec.startup_taints.as_ref().map(taints))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", period)
        .field("ExpireAfter", expiry)
        .finish()
}

fn node_class_ref(reference: &NodeClassRef) -> u64 {
    StructHash::new("NodeClassReference")
        .text("Kind", &reference.kind)
        .text("Name", &reference.name)
        .text("Group", &reference.group)
        .finish()
}

fn taint(taint: &Taint) -> u64 {
    StructHash::new("Taint")
        .text("Key", &taint.key)
        .text("Value", &taint.value)
        .text("Effect", taint.effect.as_str())
        .field("TimeAdded", taint.time_added.as_ref().map(time))
        .finish()
}

/// Go hashes a time by its binary form: a version byte, seconds since year 1, nanoseconds, the zone's offset in minutes.
/// The offset is that of the node's zone, which is 0 in a container without one.
fn time(time: &Time) -> u64 {
    const YEAR_1_TO_1970: i64 = 62_135_596_800;
    let mut form = vec![1_u8];
    form.extend(time.0.as_second().saturating_add(YEAR_1_TO_1970).to_be_bytes());
    form.extend(0_i32.to_be_bytes());
    form.extend(0_i16.to_be_bytes());
    StructHash::new("Time").field("Time", Some(bytes(&form))).finish()
}

fn labels(labels: &BTreeMap<String, String>) -> u64 {
    map(labels.iter().map(|(key, value)| (text(key), text(value))))
}

#[cfg(test)]
mod tests;
