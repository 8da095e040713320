//! Pods and pod templates: defaults, priority, default tolerations, quality of service.

use serde_json::{Map, Value, json};

use crate::cluster::ClusterState;
use crate::status::ApiError;
use crate::{object, quantity};

/// Defaults of a pod.
pub(super) fn default(value: &mut Value) {
    object::put_default(value, &["spec"], Map::new());
    if let Some(spec) = value.get_mut("spec") {
        default_spec(spec);
        object::put_default(spec, &["enableServiceLinks"], true);
        for list in ["initContainers", "containers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                requests_from_limits(container);
            }
        }
    }
}

/// Defaults of a pod template at a path.
pub(super) fn default_template(value: &mut Value, path: &[&str]) {
    if let Some(spec) = object::at_mut(value, path).and_then(|template| template.get_mut("spec")) {
        default_spec(spec);
    }
}

fn default_spec(spec: &mut Value) {
    for (field, default) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
    ] {
        object::put_default(spec, &[field], default);
    }
    // The deprecated alias has the field's value.
    if let Some(account) = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned() {
        object::put(spec, &["serviceAccountName"], account.clone());
        object::put(spec, &["serviceAccount"], account);
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value) {
    object::put_default(container, &["terminationMessagePath"], "/dev/termination-log");
    object::put_default(container, &["terminationMessagePolicy"], "File");
    object::put_default(container, &["resources"], Map::new());
    if object::text(container, &["imagePullPolicy"]).is_empty() {
        let image = object::text(container, &["image"]);
        let last = image.rsplit('/').next().unwrap_or_default();
        let latest = !image.contains('@') && (!last.contains(':') || last.ends_with(":latest"));
        object::put(container, &["imagePullPolicy"], if latest { "Always" } else { "IfNotPresent" });
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        object::put_default(port, &["protocol"], "TCP");
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = object::at_mut(variable, &["valueFrom", "fieldRef"]) {
            object::put_default(reference, &["apiVersion"], "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe) else { continue };
        for (field, default) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            object::put_default(probe, &[field], default);
        }
        if let Some(get) = probe.get_mut("httpGet") {
            object::put_default(get, &["path"], "/");
            object::put_default(get, &["scheme"], "HTTP");
        }
    }
}

fn default_volume(volume: &mut Value) {
    for (source, field) in [
        ("configMap", "defaultMode"),
        ("secret", "defaultMode"),
        ("projected", "defaultMode"),
        ("downwardAPI", "defaultMode"),
    ] {
        if let Some(source) = volume.get_mut(source) {
            object::put_default(source, &[field], 420);
        }
    }
    if let Some(source) = volume.get_mut("hostPath") {
        object::put_default(source, &["type"], "");
    }
    if volume.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("name")) {
        object::put(volume, &["emptyDir"], Map::new());
    }
}

/// A limit without a request is also the request.
fn requests_from_limits(container: &mut Value) {
    let limits = object::at(container, &["resources", "limits"]).and_then(Value::as_object).cloned();
    for (name, limit) in limits.into_iter().flatten() {
        object::put_default(container, &["resources", "requests", &name], limit);
    }
}

/// A new pod is pending, and its quality of service is set.
pub(super) fn prepare_create(value: &mut Value) {
    let class = quality_of_service(value);
    object::put(value, &["status"], json!({ "phase": "Pending", "qosClass": class }));
    if !object::list(value, &["spec", "schedulingGates"]).is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message,
            "lastProbeTime": null, "lastTransitionTime": null,
        });
        object::put(value, &["status", "conditions"], json!([condition]));
    }
}

fn quality_of_service(value: &Value) -> &'static str {
    let containers =
        ["containers", "initContainers"].iter().flat_map(|list| object::list(value, &["spec", list]));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let amount = |list: &str, name: &str| {
            object::at(container, &["resources", list, name])
                .and_then(Value::as_str)
                .and_then(quantity::parse)
                .filter(|amount| amount.nanos() > 0)
        };
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount("limits", name), amount("requests", name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The plugins Priority, DefaultTolerationSeconds and ServiceAccount.
pub(super) fn admit(cluster: &ClusterState, value: &mut Value) -> Result<(), ApiError> {
    priority(cluster, value)?;
    tolerate_by_default(value);
    object::put_default(value, &["spec", "serviceAccountName"], "default");
    object::put_default(value, &["spec", "serviceAccount"], "default");
    Ok(())
}

fn priority(cluster: &ClusterState, value: &mut Value) -> Result<(), ApiError> {
    let name = object::text(value, &["spec", "priorityClassName"]).to_owned();
    let classes = "priorityclasses.scheduling.k8s.io";
    let class = if name.is_empty() {
        cluster.scan(classes, "").find(|class| class["globalDefault"] == json!(true)).cloned()
    } else {
        let Some(class) = cluster.lookup(classes, "", &name) else {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(ApiError::forbidden("", "pods", object::name(value), &why));
        };
        Some(class.clone())
    };
    let (priority, policy) = match &class {
        Some(class) => {
            object::put(value, &["spec", "priorityClassName"], object::name(class));
            (class["value"].as_i64().unwrap_or(0), object::text(class, &["preemptionPolicy"]))
        }
        None => (0, ""),
    };
    let given = object::integer(value, &["spec", "priority"]);
    if given.is_some_and(|given| given != priority) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name",
            given.unwrap_or(0)
        );
        return Err(ApiError::forbidden("", "pods", object::name(value), &why));
    }
    object::put(value, &["spec", "priority"], priority);
    let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
    object::put_default(value, &["spec", "preemptionPolicy"], policy);
    Ok(())
}

/// DefaultTolerationSeconds: pods tolerate a NotReady or unreachable node for five minutes.
pub(super) fn tolerate_by_default(value: &mut Value) {
    let mut tolerations = object::list(value, &["spec", "tolerations"]).to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let (named, effect) = (object::text(toleration, &["key"]), object::text(toleration, &["effect"]));
            (named == key || named.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    if tolerations.len() != object::list(value, &["spec", "tolerations"]).len() {
        object::put(value, &["spec", "tolerations"], tolerations);
    }
}

/// The phase of a pod and whether its Ready condition is true.
pub(crate) fn effective_phase_ready(pod: &Value) -> (&str, bool) {
    let ready = object::list(pod, &["status", "conditions"])
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    (object::text(pod, &["status", "phase"]), ready)
}
