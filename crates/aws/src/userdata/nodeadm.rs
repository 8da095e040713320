//! Amazon Linux 2023: a NodeConfig for nodeadm, as the last part of a MIME archive, so that it takes precedence over the class's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::mime::{self, NODE_CONFIG, Part, SHELL};
use super::{Bootstrap, UserDataError, label_flag, yaml};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let mut parts = match bootstrap.custom {
        None | Some("") => Vec::new(),
        Some(text) if mime::is_archive(text) => mime::read(text)?,
        Some(text) if is_mapping(text) => vec![Part::new(NODE_CONFIG, text.replace('\r', ""))],
        Some(text) => vec![Part::new(SHELL, text.replace('\r', ""))],
    };
    parts.push(Part::new(NODE_CONFIG, node_config(bootstrap)?));
    Ok(mime::write(&parts))
}

/// Whether the first document of a text is a YAML mapping (JSON is YAML), or empty: otherwise it is a script.
fn is_mapping(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty() || *line == "---").peekable();
    let first: Vec<&str> = lines.by_ref().take_while(|line| *line != "---" && *line != "...").collect();
    matches!(serde_saphyr::from_str(&first.join("\n")), Ok(Value::Object(_) | Value::Null))
}

fn node_config(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cidr = bootstrap.service_cidr.filter(|cidr| !cidr.is_empty()).ok_or(UserDataError::NoCidr)?;
    let mut cluster = json!({
        "name": bootstrap.cluster_name,
        "apiServerEndpoint": bootstrap.endpoint,
        "cidr": cidr,
    });
    if !bootstrap.ca_bundle.is_empty() {
        let unreadable = |error: base64::DecodeError| UserDataError::Unreadable {
            form: "base64 (the cluster's certificate authority)",
            why: error.to_string(),
        };
        let bytes = STANDARD.decode(bootstrap.ca_bundle).map_err(unreadable)?;
        cluster["certificateAuthority"] = Value::from(STANDARD.encode(bytes));
    }
    let mut config: Map<String, Value> = bootstrap.kubelet.0.clone().into_iter().collect();
    let taint = |taint: &fleetwright_core::model::Taint| {
        let mut object = json!({"effect": taint.effect.as_str(), "key": &*taint.key});
        if !taint.value.is_empty() {
            object["value"] = Value::from(&*taint.value);
        }
        object
    };
    let taints: Vec<Value> = bootstrap.taints.iter().map(taint).collect();
    config.insert("registerWithTaints".to_owned(), Value::from(taints));
    let mut kubelet = json!({ "config": config });
    if let Some(flag) = label_flag(&bootstrap.labels) {
        kubelet["flags"] = json!([flag]);
    }
    let storage = if bootstrap.raid0 { json!({"strategy": "RAID0"}) } else { json!({}) };
    let document = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": cluster,
            "containerd": {},
            "instance": {"localStorage": storage},
            "kubelet": kubelet,
        },
    });
    Ok(format!("# Karpenter Generated NodeConfig\n{}", yaml::write(&document)))
}
