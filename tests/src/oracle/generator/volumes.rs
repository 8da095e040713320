//! Volumes: those that exist in a zone, and those that wait for their first consumer.

use serde_json::{Value, json};

use super::super::catalogue::ZONES;
use super::Draft;

/// Where the volumes of a workload come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A bound volume in a zone of its own per pod.
    Zonal,
    /// A claim that waits for its first consumer, in any zone.
    Late,
    /// The same; the class allows two zones only.
    LateInTwoZones,
}

/// The driver of all volumes.
const DRIVER: &str = "ebs.csi.aws.com";

/// Adds the classes; once per cluster that has volumes.
pub(super) fn add_classes(draft: &mut Draft) {
    let class = |name: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    let mut two_zones = class("late-two-zones");
    two_zones["allowedTopologies"] = json!([{"matchLabelExpressions": [
        {"key": "topology.kubernetes.io/zone", "values": ["test-zone-a", "test-zone-b"]},
    ]}]);
    draft.objects.extend([class("late"), two_zones]);
}

/// Adds the claim (and the volume) of a pod, and returns the pod's volumes.
pub(super) fn add(draft: &mut Draft, pod: &str, source: Source) -> Value {
    let class = match source {
        Source::Zonal | Source::Late => "late",
        Source::LateInTwoZones => "late-two-zones",
    };
    let name = format!("{pod}-data");
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class,
        },
    });
    if source == Source::Zonal {
        let zone = draft.dice.pick(ZONES);
        claim["spec"]["volumeName"] = json!(name);
        claim["metadata"]["annotations"] =
            json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
        claim["status"] =
            json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        draft.objects.push(volume(&name, &name, class, zone));
    }
    draft.objects.push(claim);
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
}

/// A volume in `zone` that belongs to the claim `claim`.
pub(in super::super) fn volume(name: &str, claim: &str, class: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ]}]}},
        },
    })
}
