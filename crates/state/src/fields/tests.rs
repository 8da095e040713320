//! What is listed is kept, and nothing else is.

use serde_json::{Value, json};

use super::*;

const PLANTED: &str = "s3cr3t";

/// A value of a class; with what must not be kept of it.
fn sample(class: FieldClass) -> Value {
    match class {
        FieldClass::Scalar | FieldClass::Text | FieldClass::Name | FieldClass::Uid | FieldClass::Key => {
            json!("kept")
        }
        FieldClass::Scalars | FieldClass::Names | FieldClass::Keys => json!(["kept", {"a": PLANTED}]),
        FieldClass::Amounts | FieldClass::Labels => json!({"kept": "1", "other": {"a": PLANTED}}),
        FieldClass::Requirements => {
            json!([{"key": "kept", "operator": "In", "values": ["a", {"b": PLANTED}], "other": PLANTED}])
        }
        FieldClass::Selector => json!({
            "matchLabels": {"kept": "1", "other": [PLANTED]},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"], "other": PLANTED}],
            "other": PLANTED,
        }),
        FieldClass::Taints => json!([{"key": "kept", "effect": "NoSchedule", "other": PLANTED}]),
        FieldClass::Annotations => json!({ANNOTATIONS[0]: "true", "acme.example/token": PLANTED}),
        FieldClass::Finalizers => json!(["karpenter.sh/termination", PLANTED]),
        FieldClass::PodConditions => json!([
            {"type": "Ready", "status": "True", "other": PLANTED},
            {"type": "acme.example/checked", "status": "True", "message": PLANTED},
        ]),
        FieldClass::Conditions => json!([{"type": "Ready", "status": "True", "message": PLANTED}]),
        FieldClass::ToldConditions => json!([{"type": "Ready", "status": "True", "other": PLANTED}]),
        FieldClass::Owners => json!([{"kind": "Job", "name": "a", "other": PLANTED}]),
    }
}

/// An object with every listed field, and with planted ones at every level.
fn full(fields: &Fields) -> Value {
    match fields {
        Fields::Object(fields) => {
            let mut object: Map<String, Value> =
                fields.iter().map(|(name, below)| ((*name).to_owned(), full(below))).collect();
            for name in ["env", "args", "planted"] {
                object.insert(name.to_owned(), json!([{"name": "TOKEN", "value": PLANTED}]));
            }
            Value::Object(object)
        }
        Fields::List(below) => json!([full(below), PLANTED]),
        Fields::Map(below) => json!({"key": full(below)}),
        Fields::Leaf(class) => sample(*class),
    }
}

fn count(fields: &Fields, value: &mut Value) -> usize {
    let mut found = 0;
    fields.visit(value, &mut |_, _| found += 1);
    found
}

#[test]
fn each_listed_field_is_kept_and_no_other() {
    for (group, kind) in kinds::all() {
        let fields = kinds::fields(group, kind).unwrap();
        let mut object = full(fields);
        assert!(object.to_string().contains(PLANTED));
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
        let mut kept = project(&object, None).unwrap();
        assert!(!kept.to_string().contains(PLANTED), "{kind}: {kept:#}");
        assert_eq!(count(fields, &mut kept), count(fields, &mut object), "{kind}");
        assert_eq!(project(&kept, None).as_ref(), Some(&kept), "{kind}: projecting again changes nothing");
    }
}

#[test]
fn a_pod_with_every_field_loses_what_no_decision_reads() {
    let container = json!({
        "name": "main", "image": PLANTED, "command": [PLANTED], "args": [PLANTED], "workingDir": PLANTED,
        "env": [{"name": "A", "value": PLANTED}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": PLANTED, "key": "k"}}}],
        "envFrom": [{"secretRef": {"name": PLANTED}}],
        "livenessProbe": {"exec": {"command": [PLANTED]}}, "lifecycle": {"preStop": {"exec": {"command": [PLANTED]}}},
        "volumeMounts": [{"name": PLANTED, "mountPath": PLANTED}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "ports": [{"name": PLANTED, "hostPort": 80, "containerPort": 80}],
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": {"app": "web"},
            "managedFields": [{"manager": PLANTED}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": PLANTED, "vault.example/token": PLANTED,
                "karpenter.sh/do-not-disrupt": "true",
            },
        },
        "spec": {
            "containers": [container], "initContainers": [container], "ephemeralContainers": [container],
            "serviceAccountName": PLANTED, "imagePullSecrets": [{"name": PLANTED}], "hostname": PLANTED,
            "hostAliases": [{"ip": "1.1.1.1", "hostnames": [PLANTED]}], "dnsConfig": {"searches": [PLANTED]},
            "securityContext": {"seLinuxOptions": {"user": PLANTED}},
            "volumes": [
                {"name": PLANTED, "secret": {"secretName": PLANTED}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        },
        "status": {
            "phase": "Running", "message": PLANTED, "podIP": PLANTED,
            "containerStatuses": [{"name": "main", "image": PLANTED, "imageID": PLANTED, "state": {"terminated": {"message": PLANTED}}}],
        },
    });
    let kept = project(&pod, None).unwrap();
    let text = kept.to_string();
    assert!(!text.contains(PLANTED), "{kept:#}");
    assert_eq!(kept["spec"]["containers"][0]["resources"], container["resources"]);
    assert_eq!(kept["spec"]["volumes"], json!([pod["spec"]["volumes"][1]]));
    assert_eq!(kept["metadata"]["labels"], pod["metadata"]["labels"]);
    assert_eq!(kept["metadata"]["annotations"], json!({"karpenter.sh/do-not-disrupt": "true"}));
}

#[test]
fn kinds_that_no_decision_reads_are_left_out() {
    let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "data": {"k": PLANTED}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    for (version, kind) in [("v1", "Secret"), ("v1", "ConfigMap"), ("acme.example/v1", "Pod")] {
        assert_eq!(project(&of(version, kind), None), None, "{kind}");
    }
    // A NodeClass of any provider.
    let acme = of("acme.example/v1", "AcmeNodeClass");
    let class = project(&acme, Some("")).unwrap();
    assert_eq!(class["status"]["conditions"][0]["type"], "Ready");
    assert!(!class.to_string().contains(PLANTED));
    let mut class = project(&acme, Some("data.k name")).unwrap();
    assert_eq!(class["data"], json!({"k": PLANTED}));
    let mut names = Vec::new();
    visit(&mut class, "data.k name", &mut |class, value| {
        if class == FieldClass::Name && *value == PLANTED {
            names.push(value.clone());
        }
    });
    assert_eq!(names, [PLANTED]);
}

#[test]
fn every_line_of_the_lists_is_understood() {
    for line in kinds::lines() {
        assert_eq!(invalid_line(line), None);
    }
    assert_eq!(invalid_line("spec.a name\n spec.b nmae\n"), Some("spec.b nmae"));
    assert_eq!(invalid_line("spec.a"), Some("spec.a"));
}

#[test]
fn requirements_keep_their_values() {
    let wanted = json!([{"key": "team", "operator": "In", "values": ["a", "b"], "minValues": 2}]);
    assert_eq!(clean::clean(FieldClass::Requirements, &wanted), Some(wanted));
}
