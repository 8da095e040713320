//! Pods of `DaemonSet`s, as the `DaemonSet` controller makes them for a node; for the templates that the generator writes.

use serde_json::{Value, json};

/// The pod of `set` on `node`, already bound; `None` where the template's selector or a taint keeps it away.
pub(super) fn pod(set: &Value, node: &Value) -> Option<Value> {
    let template = &set["spec"]["template"];
    let labels = &node["metadata"]["labels"];
    let selector = template["spec"]["nodeSelector"].as_object();
    let is_selected = selector.into_iter().flatten().all(|(key, value)| &labels[key] == value);
    let tolerates_all = template["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|each| each["operator"] == "Exists");
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let is_kept_away = taints.any(|taint| taint["effect"] != "PreferNoSchedule") && !tolerates_all;
    if !is_selected || is_kept_away {
        return None;
    }
    let (set_name, node_name) = (set["metadata"]["name"].as_str()?, node["metadata"]["name"].as_str()?);
    let mut spec = template["spec"].clone();
    spec["nodeName"] = json!(node_name);
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}],
    }}});
    Some(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{set_name}-{node_name}"),
            "namespace": "default",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": set_name,
                "uid": set["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": spec,
    }))
}
