//! `dump --compat`: what `compat` reads beyond decisions. Definitions of Karpenter's kinds, permissions, webhooks, leases; of workloads their
//! images and service accounts; of a controller of Karpenter's API its settings. Nothing else of an environment or of arguments is kept.

use std::collections::BTreeSet;

use fleetwright_api::labels;
use serde_json::{Map, Value, json};

use crate::{
    compat::{REMOVED, deployment::controller_container},
    settings::table::Setting,
};

/// Group, kind and fields: paths with `[]` behind the name of a list. Schemas of definitions are kept whole.
const KINDS: [(&str, &str, &[&str]); 8] = [
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[
            "spec.group",
            "spec.scope",
            "spec.names.kind",
            "spec.names.plural",
            "spec.versions[].name",
            "spec.versions[].served",
            "spec.versions[].storage",
            "spec.versions[].schema",
            "spec.conversion.strategy",
            "status.storedVersions",
            "status.conditions[].type",
            "status.conditions[].status",
            "status.conditions[].message",
        ],
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", ROLE),
    ("rbac.authorization.k8s.io", "Role", ROLE),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", BINDING),
    ("rbac.authorization.k8s.io", "RoleBinding", BINDING),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", WEBHOOKS),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", WEBHOOKS),
    ("coordination.k8s.io", "Lease", &["spec.holderIdentity", "spec.leaseDurationSeconds", "spec.renewTime"]),
];
const ROLE: &[&str] = &["rules[].apiGroups", "rules[].resources", "rules[].resourceNames", "rules[].verbs"];
const BINDING: &[&str] =
    &["roleRef.kind", "roleRef.name", "subjects[].kind", "subjects[].namespace", "subjects[].name"];
const WEBHOOKS: &[&str] = &[
    "webhooks[].name",
    "webhooks[].failurePolicy",
    "webhooks[].clientConfig.service.name",
    "webhooks[].clientConfig.service.namespace",
    "webhooks[].rules[].apiGroups",
];
/// Of every object.
const OBJECT: [&str; 6] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
];
/// Namespace of the leases of kubelets, one for each node, which `compat` does not read.
const OF_KUBELETS: &str = "kube-node-lease";

/// An object of a kind that only `compat` reads, with the fields that it reads. `groups` are those of the definitions that matter.
pub(super) fn object(value: &Value, groups: &BTreeSet<String>) -> Option<Value> {
    let version = value["apiVersion"].as_str()?;
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let (_, kind, paths) = KINDS.iter().find(|(of, kind, _)| *of == group && value["kind"] == **kind)?;
    let is_read = match *kind {
        "CustomResourceDefinition" => {
            value.pointer("/spec/group").and_then(Value::as_str).is_some_and(|group| groups.contains(group))
        }
        "Lease" => value["metadata"]["namespace"] != OF_KUBELETS,
        _ => true,
    };
    let mut kept = json!({});
    OBJECT.iter().chain(*paths).for_each(|path| copy(value, &mut kept, path));
    is_read.then_some(kept)
}

/// The groups whose definitions `compat` reads: Karpenter's, and those of NodeClasses.
pub(super) fn groups(classes: &BTreeSet<(String, String)>) -> BTreeSet<String> {
    let of_classes = classes.iter().map(|(group, _)| group.clone());
    of_classes.chain([labels::GROUP, labels::BUFFER_GROUP].map(str::to_owned)).collect()
}

/// Adds to the `kept` part of a workload what `compat` reads of it.
pub(super) fn workload(value: &Value, kept: &mut Value, all: &[Setting]) {
    let template = match value["kind"].as_str() {
        Some("Deployment" | "StatefulSet" | "DaemonSet") => "spec.template.spec",
        Some("CronJob") => "spec.jobTemplate.spec.template.spec",
        _ => return,
    };
    for field in ["serviceAccountName", "containers[].name", "containers[].image"] {
        copy(value, kept, &format!("{template}.{field}"));
    }
    let controller = controller_container(value).filter(|_| value["kind"] == "Deployment");
    let Some(container) = controller else { return };
    let containers = kept.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    let of_name = containers.into_iter().flatten().find(|known| known["name"] == container["name"]);
    if let Some(known) = of_name.and_then(Value::as_object_mut) {
        settings(container, known, all);
    }
}

/// Copies the settings of a controller: variables and flags of their names, those that Karpenter removed included, and the names of objects that set variables.
fn settings(container: &Value, kept: &mut Map<String, Value>, all: &[Setting]) {
    let is_setting = |name: &str| REMOVED.contains(&name) || all.iter().any(|setting| setting.env == name);
    let variables = container["env"].as_array().into_iter().flatten();
    let variables = variables.filter(|variable| variable["name"].as_str().is_some_and(is_setting));
    let variables = variables.map(|variable| {
        let paths = ["name", "value"].into_iter().map(str::to_owned).chain(
            ["configMapKeyRef", "secretKeyRef"]
                .iter()
                .flat_map(|of| ["name", "key"].map(|field| format!("valueFrom.{of}.{field}"))),
        );
        picked(variable, paths)
    });
    kept.insert("env".to_owned(), variables.collect());
    let sources = container["envFrom"].as_array().into_iter().flatten();
    let sources = sources.map(|source| {
        picked(source, ["prefix", "configMapRef.name", "secretRef.name"].into_iter().map(str::to_owned))
    });
    kept.insert("envFrom".to_owned(), sources.collect());
    let is_flag = |argument: &str| {
        let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
        argument.starts_with('-') && all.iter().any(|setting| setting.flag() == name)
    };
    let arguments = ["command", "args"].iter().flat_map(|field| container[*field].as_array()).flatten();
    let mut arguments = arguments.filter_map(Value::as_str).peekable();
    let mut flags = Vec::new();
    while let Some(argument) = arguments.next() {
        if is_flag(argument) {
            flags.push(argument);
            let takes_next = !argument.contains('=');
            flags.extend(arguments.next_if(|next| takes_next && !next.starts_with('-')));
        }
    }
    kept.insert("args".to_owned(), json!(flags));
}

fn picked(value: &Value, paths: impl Iterator<Item = String>) -> Value {
    let mut kept = json!({});
    paths.for_each(|path| copy(value, &mut kept, &path));
    kept
}

/// Copies the field at a path, if it is there, to the same place.
fn copy(from: &Value, to: &mut Value, path: &str) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let (Some(from), Some(to)) = (from.get(name), to.as_object_mut()) else { return };
    match from {
        Value::Array(members) if is_list => {
            let list = to.entry(name).or_insert_with(|| members.iter().map(|_| json!({})).collect());
            let kept = list.as_array_mut().into_iter().flatten();
            kept.zip(members).for_each(|(to, from)| copy(from, to, rest));
        }
        Value::Object(_) if !rest.is_empty() => {
            copy(from, to.entry(name).or_insert_with(|| json!({})), rest);
        }
        Value::Null => {}
        _ if rest.is_empty() && !is_list => {
            to.insert(name.to_owned(), from.clone());
        }
        _ => {}
    }
}
