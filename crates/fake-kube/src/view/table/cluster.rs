//! Nodes, namespaces, services, events, configuration and leases.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{condition, int, labels, list, name, size, text, text_or};
use super::{Printer, age};

pub(super) fn printer(key: (&str, &str)) -> Option<Printer> {
    Some(match key {
        ("", "nodes") => Printer::new(
            &[
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "*Internal-IP",
                "*External-IP",
                "*OS-Image",
                "*Kernel-Version",
                "*Container-Runtime",
            ],
            node,
        ),
        ("", "namespaces") => Printer::new(&["Name", "Status", "Age"], |object, now| {
            vec![name(object), json!(text(object, "/status/phase")), age::cell(object, now)]
        }),
        ("", "services") => Printer::new(
            &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"],
            service,
        ),
        ("" | "events.k8s.io", "events") => Printer::new(
            &[
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "*Subobject",
                "*Source",
                "Message",
                "*First Seen",
                "*Count",
                "*Name",
            ],
            event,
        ),
        ("coordination.k8s.io", "leases") => Printer::new(&["Name", "Holder", "Age"], |object, now| {
            vec![name(object), json!(text(object, "/spec/holderIdentity")), age::cell(object, now)]
        }),
        ("scheduling.k8s.io", "priorityclasses") => Printer::new(
            &["Name", "Value:integer", "Global-Default:boolean", "Age", "*PreemptionPolicy"],
            |object, now| {
                let default = object.get("globalDefault").and_then(Value::as_bool).unwrap_or(false);
                let policy = text(object, "/preemptionPolicy");
                vec![
                    name(object),
                    json!(int(object, "/value")),
                    json!(default),
                    age::cell(object, now),
                    json!(policy),
                ]
            },
        ),
        _ => return configuration(key),
    })
}

fn configuration(key: (&str, &str)) -> Option<Printer> {
    Some(match key {
        ("", "configmaps") => Printer::new(&["Name", "Data", "Age"], |object, now| {
            let entries = size(object, "/data") + size(object, "/binaryData");
            vec![name(object), json!(entries), age::cell(object, now)]
        }),
        ("", "secrets") => Printer::new(&["Name", "Type", "Data", "Age"], |object, now| {
            vec![
                name(object),
                json!(text(object, "/type")),
                json!(size(object, "/data")),
                age::cell(object, now),
            ]
        }),
        ("", "serviceaccounts") => {
            Printer::new(&["Name", "Age"], |object, now| vec![name(object), age::cell(object, now)])
        }
        _ => return None,
    })
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(object, "Ready") {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind| {
        let found = list(object, "/status/addresses").iter().find(|address| text(address, "/type") == kind);
        found.map_or("<none>", |address| text(address, "/address"))
    };
    let info = |field: &str| json!(text_or(object, &format!("/status/nodeInfo/{field}"), "<unknown>"));
    vec![
        name(object),
        json!(status),
        json!(roles(object)),
        age::cell(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/") {
            roles.insert(role);
        } else if key == "kubernetes.io/role" {
            roles.insert(value.as_str().unwrap_or_default());
        }
    }
    roles.remove("");
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    vec![
        name(object),
        json!(text(object, "/spec/type")),
        json!(text_or(object, "/spec/clusterIPs/0", text_or(object, "/spec/clusterIP", "<none>"))),
        json!(external_ip(object)),
        json!(ports),
        age::cell(object, now),
        json!(labels(object.pointer("/spec/selector"))),
    ]
}

fn port(port: &Value) -> String {
    let protocol = text_or(port, "/protocol", "TCP");
    match int(port, "/nodePort") {
        0 => format!("{}/{protocol}", int(port, "/port")),
        node => format!("{}:{node}/{protocol}", int(port, "/port")),
    }
}

fn external_ip(service: &Value) -> String {
    let mut addresses: Vec<&str> = Vec::new();
    let otherwise = match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => "<none>",
        "LoadBalancer" => {
            for ingress in list(service, "/status/loadBalancer/ingress") {
                addresses.push(text_or(ingress, "/ip", text(ingress, "/hostname")));
            }
            "<pending>"
        }
        "ExternalName" => return text(service, "/spec/externalName").to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    addresses.extend(list(service, "/spec/externalIPs").iter().filter_map(Value::as_str));
    if addresses.is_empty() { otherwise.to_owned() } else { addresses.join(",") }
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let since = |pointers: &[&str]| {
        let time = pointers.iter().map(|pointer| text(object, pointer)).find(|text| !text.is_empty());
        json!(age::since(time, now))
    };
    // The group events.k8s.io names the same things differently.
    let either = |core: &str, new: &str| text_or(object, core, text(object, new)).to_owned();
    let about = if object.get("regarding").is_some() { "/regarding" } else { "/involvedObject" };
    let kind = text(object, &format!("{about}/kind")).to_lowercase();
    let target = match text(object, &format!("{about}/name")) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = either("/source/component", "/reportingComponent");
    let component =
        if component.is_empty() { text(object, "/reportingController").to_owned() } else { component };
    let instance = either("/source/host", "/reportingInstance");
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    let count = match object.get("series").filter(|series| !series.is_null()) {
        Some(series) => int(series, "/count"),
        None => int(object, "/count").max(int(object, "/deprecatedCount")).max(1),
    };
    vec![
        since(&[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/deprecatedLastTimestamp",
            "/firstTimestamp",
            "/deprecatedFirstTimestamp",
            "/eventTime",
        ]),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(object, &format!("{about}/fieldPath"))),
        json!(source),
        json!(either("/message", "/note").trim()),
        since(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]),
        json!(count),
        name(object),
    ]
}
