//! What is kept of one field, by its class.

use serde_json::{Map, Value};

use super::{ANNOTATIONS, FieldClass};

/// The conditions of a pod that are read.
const OF_POD: [&str; 3] = ["PodScheduled", "Ready", "PodResizePending"];
/// What finalizers that are read begin with.
const FINALIZERS: [&str; 3] = ["karpenter.sh/", "karpenter.k8s.aws/", "fleetwright.dev/"];

/// The part of a field that is kept; `None` where its value is not of its type.
pub(super) fn clean(class: FieldClass, value: &Value) -> Option<Value> {
    match class {
        FieldClass::Scalar | FieldClass::Text | FieldClass::Name | FieldClass::Uid | FieldClass::Key => {
            is_scalar(value).then(|| value.clone())
        }
        FieldClass::Scalars | FieldClass::Names | FieldClass::Keys => {
            let members = value.as_array()?.iter().filter(|member| is_scalar(member));
            Some(Value::Array(members.cloned().collect()))
        }
        FieldClass::Amounts | FieldClass::Labels => Some(map(value, |_| true)?),
        FieldClass::Annotations => Some(map(value, |key| ANNOTATIONS.contains(&key))?)
            .filter(|kept| *kept != Value::Object(Map::new())),
        FieldClass::Finalizers => {
            let is_read = |text: &&str| FINALIZERS.iter().any(|prefix| text.starts_with(prefix));
            let kept = value.as_array()?.iter().filter_map(Value::as_str).filter(is_read);
            Some(kept.map(Value::from).collect()).filter(|kept: &Value| *kept != Value::Array(Vec::new()))
        }
        FieldClass::Requirements => each(value, &["key", "operator", "minValues"], &["values"]),
        FieldClass::Selector => {
            let selector = value.as_object()?;
            let mut kept = Map::new();
            if let Some(labels) = selector.get("matchLabels").and_then(|labels| map(labels, |_| true)) {
                kept.insert("matchLabels".to_owned(), labels);
            }
            if let Some(terms) = selector.get("matchExpressions") {
                kept.extend(
                    each(terms, &["key", "operator"], &["values"])
                        .map(|terms| ("matchExpressions".to_owned(), terms)),
                );
            }
            Some(Value::Object(kept))
        }
        FieldClass::Taints => {
            each(value, &["key", "operator", "value", "effect", "tolerationSeconds", "timeAdded"], &[])
        }
        FieldClass::PodConditions => {
            let all = each(value, &["type", "status", "reason", "message", "lastTransitionTime"], &[])?;
            let is_read =
                |condition: &&Value| condition["type"].as_str().is_some_and(|type_| OF_POD.contains(&type_));
            Some(all.as_array()?.iter().filter(is_read).cloned().collect())
        }
        FieldClass::Conditions => each(value, &["type", "status", "reason", "lastTransitionTime"], &[]),
        FieldClass::ToldConditions => each(
            value,
            &["type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"],
            &[],
        ),
        FieldClass::Owners => each(value, &["apiVersion", "kind", "name", "uid", "controller"], &[]),
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_) | Value::Null)
}

/// The scalars of a map whose keys are taken.
fn map(value: &Value, takes: impl Fn(&str) -> bool) -> Option<Value> {
    let kept = value.as_object()?.iter().filter(|(key, value)| takes(key) && is_scalar(value));
    Some(Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

/// Of each object of a list, these scalars and lists of scalars.
fn each(value: &Value, scalars: &[&str], lists: &[&str]) -> Option<Value> {
    let members = value.as_array()?.iter().filter_map(|member| {
        let member = member.as_object()?;
        let of = |name: &str| member.get(name).filter(|value| is_scalar(value)).cloned();
        let mut kept: Map<String, Value> =
            scalars.iter().filter_map(|name| Some(((*name).to_owned(), of(name)?))).collect();
        for name in lists {
            let list = member.get(*name).and_then(Value::as_array);
            let list = list.map(|list| list.iter().filter(|value| is_scalar(value)).cloned().collect());
            kept.extend(list.map(|list| ((*name).to_owned(), Value::Array(list))));
        }
        Some(Value::Object(kept))
    });
    Some(Value::Array(members.collect()))
}
