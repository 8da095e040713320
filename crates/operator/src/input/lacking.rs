//! What a dump does not have, or a cluster does not show, although decisions read it: each absence changes the result and is reported.

use serde_json::Value;

use super::{Item, Source, prepare};

/// Notes on the kinds that a dump lacks. Manifests and live clusters lack none but StorageClasses: what
/// else they do not have does not exist.
pub(crate) fn lacking(items: &[Item]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(storage_classes(items));
    let of_files = items.iter().filter(|item| matches!(item.source, Source::File { .. }));
    let dumped =
        |kind: &str| of_files.clone().any(|item| item.value["kind"] == kind && prepare::is_dump(&item.value));
    if !dumped("Node") && !dumped("Pod") {
        return notes;
    }
    let has = |kind: &str| items.iter().any(|item| item.value["kind"] == kind);
    let volumes = |pod: &Value| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        volumes.into_iter().flatten().any(|volume| volume["persistentVolumeClaim"].is_object())
    };
    let claimants = items.iter().filter(|item| item.value["kind"] == "Pod" && volumes(&item.value)).count();
    if !has("DaemonSet") {
        notes.push(
            "no DaemonSets in the input: node overhead is not counted, and nodes look cheaper than they are"
                .to_owned(),
        );
    }
    if claimants > 0 && !has("PersistentVolumeClaim") {
        let pods =
            if claimants == 1 { "1 pod that uses".to_owned() } else { format!("{claimants} pods that use") };
        notes.push(format!("no PersistentVolumeClaims in the input: {pods} them cannot be placed"));
    }
    if dumped("Pod") && !has("Node") {
        notes.push("no Nodes in the input: pods are placed on new nodes only".to_owned());
    }
    if dumped("Node") && !has("NodeClaim") {
        notes.push(
            "no NodeClaims in the input: nodes do not count against the limits of NodePools".to_owned(),
        );
    }
    notes
}

/// A note on a kind of a cluster, by its plural, that may not be listed: what the answer lacks without it.
pub(crate) fn denied(plural: &str) -> String {
    let lacks = match plural {
        "daemonsets" => "node overhead is not counted, and nodes look cheaper than they are",
        "poddisruptionbudgets" => "nodes whose pods they protect look disruptable",
        "persistentvolumeclaims" => "pods that use them cannot be placed",
        "persistentvolumes" | "storageclasses" | "csinodes" | "volumeattachments" => {
            "zones and limits of volumes are not known"
        }
        "services" | "replicationcontrollers" | "replicasets" | "statefulsets" => {
            "the default topology spread of their pods is not known"
        }
        "namespaces" => "pod affinity that selects namespaces selects none",
        "limitranges" | "resourcequotas" => "new pods are taken as admitted unchanged",
        "resourceslices" | "resourceclaims" | "resourceclaimtemplates" | "deviceclasses" => {
            "pods with resource claims cannot be placed"
        }
        "nodeoverlays" => "prices and capacity are those of the cloud",
        "capacitybuffers" | "podtemplates" => "room of CapacityBuffers is not planned",
        "deployments" | "jobs" | "cronjobs" => "they are not checked, and --replicas does not find them",
        "horizontalpodautoscalers" | "scaledobjects" => "the least pods of workloads are not known",
        _ => "they are left out",
    };
    format!("{plural} may not be listed: {lacks}")
}

/// A note where claims of files have to be provisioned and the input has no StorageClass at all: its author did not read them, rather than
/// that each class is mistyped.
fn storage_classes(items: &[Item]) -> Option<String> {
    let is_file = |item: &&Item| matches!(item.source, Source::File { .. });
    let is_unbound = |item: &&Item| {
        let text = |pointer: &str| item.value.pointer(pointer).and_then(Value::as_str);
        item.value["kind"] == "PersistentVolumeClaim"
            && text("/spec/volumeName").is_none_or(str::is_empty)
            && text("/spec/storageClassName") != Some("")
    };
    let count = items.iter().filter(is_file).filter(is_unbound).count();
    if count == 0 || items.iter().any(|item| item.value["kind"] == "StorageClass") {
        return None;
    }
    let claims = if count == 1 {
        "1 unbound PersistentVolumeClaim cannot".to_owned()
    } else {
        format!("{count} unbound PersistentVolumeClaims cannot")
    };
    Some(format!(
        "no StorageClasses in the input: {claims} be provisioned, and their pods cannot be placed; add `kubectl get storageclasses -o yaml`"
    ))
}

#[cfg(test)]
mod tests {
    //! Which dumps lack something.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    const NODE: &str =
        "{apiVersion: v1, kind: Node, metadata: {name: a, uid: a}, status: {capacity: {cpu: 1}}}";
    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a, uid: a}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}, status: {phase: Running}}";
    const REST: &str = "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}\n---\n{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: a}}";

    #[rstest]
    #[case::manifests("{apiVersion: v1, kind: Pod, metadata: {name: a}}", &[])]
    #[case::nodes(NODE, &["no DaemonSets", "no NodeClaims"])]
    #[case::pods(POD, &["no DaemonSets", "no PersistentVolumeClaims in the input: 1 pod that uses", "no Nodes"])]
    #[case::claims_of_manifests("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: gp3}}", &["no StorageClasses in the input: 1 unbound PersistentVolumeClaim cannot"])]
    #[case::static_claim("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: ''}}", &[])]
    #[case::bound_claim("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: gp3, volumeName: v}}", &[])]
    #[case::whole(&format!("{NODE}{REST}"), &[])]
    fn what_is_missing_is_reported(#[case] text: &str, #[case] expected: &[&str]) {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), text, &mut items).unwrap();
        let notes = lacking(&items);
        assert_eq!(notes.len(), expected.len(), "{notes:?}");
        for (note, expected) in notes.iter().zip(expected) {
            assert!(note.starts_with(expected), "{note}");
        }
    }
}
