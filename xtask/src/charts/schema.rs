//! Whether objects have only fields that Kubernetes knows, with values of their types: what kubeconform would say.
//!
//! kubeconform downloads its schemas when it runs, so this check has the types of `k8s-openapi` instead: each object is read
//! as its type and written again, and a field that is lost on the way is one that the API server would refuse in a strict apply.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The fields of `objects` that do not exist or have a value of another type. Kinds of others (ServiceMonitor) are not checked.
pub(super) fn faults(objects: &[Value]) -> Vec<String> {
    objects.iter().flat_map(of_object).collect()
}

fn of_object(object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    match kind {
        "ClusterRole" => of::<ClusterRole>(object),
        "ClusterRoleBinding" => of::<ClusterRoleBinding>(object),
        "Deployment" => of::<Deployment>(object),
        "PodDisruptionBudget" => of::<PodDisruptionBudget>(object),
        "Role" => of::<Role>(object),
        "RoleBinding" => of::<RoleBinding>(object),
        "Service" => of::<Service>(object),
        "ServiceAccount" => of::<ServiceAccount>(object),
        "ServiceMonitor" => Vec::new(),
        _ => vec![format!("{kind}: no chart of ours has this kind")],
    }
}

fn of<Kind: DeserializeOwned + Serialize>(object: &Value) -> Vec<String> {
    let place = format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "");
    let mut read = object.clone();
    quantities_as_text(&mut read);
    let typed = match serde_json::from_value::<Kind>(read) {
        Ok(typed) => serde_json::to_value(typed).unwrap_or_default(),
        Err(error) => return vec![format!("{place}: {error}")],
    };
    let mut found = Vec::new();
    lost(&place, object, &typed, &mut found);
    found
}

/// The API server reads a quantity that is a number; the type takes text only.
fn quantities_as_text(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let quantities =
                    if matches!(key.as_str(), "requests" | "limits") { value.as_object_mut() } else { None };
                for quantity in quantities.into_iter().flatten().map(|(_, quantity)| quantity) {
                    if quantity.is_number() {
                        *quantity = Value::String(quantity.to_string());
                    }
                }
                quantities_as_text(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        _ => {}
    }
}

/// Collects the fields of `object` that `typed` lacks. Values may be written otherwise: a quantity `1` is the text `"1"`.
fn lost(path: &str, object: &Value, typed: &Value, found: &mut Vec<String>) {
    match (object, typed) {
        (Value::Object(object), Value::Object(typed)) => {
            for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}/{key}");
                match typed.get(key) {
                    Some(typed) => lost(&path, value, typed, found),
                    None => found.push(format!("{path}: no such field")),
                }
            }
        }
        (Value::Array(object), Value::Array(typed)) => {
            for (position, (object, typed)) in object.iter().zip(typed).enumerate() {
                lost(&format!("{path}/{position}"), object, typed, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(container: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "annotations": null},
               "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}})
    }

    #[test]
    fn misspelt_fields_and_other_types_are_found() {
        let sound = json!({"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "livenessProbe": {"httpGet": {"port": "http"}}});
        assert_eq!(faults(&[deployment(&sound)]), Vec::<String>::new());
        let misspelt = json!({"name": "c", "livenessProbe": {"httpGet": {"port": "http"}, "timeout": 3}});
        let place = "Deployment a/spec/template/spec/containers/0/livenessProbe/timeout";
        assert_eq!(faults(&[deployment(&misspelt)]), [format!("{place}: no such field")]);
        assert_eq!(faults(&[deployment(&json!({"name": "c", "args": "text"}))]).len(), 1);
        assert_eq!(faults(&[json!({"kind": "Secret", "metadata": {"name": "s"}})]).len(), 1);
    }
}
