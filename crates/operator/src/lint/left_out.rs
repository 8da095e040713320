//! What `plan` leaves out of an input as invalid is a finding: that of a rule, and otherwise the reason itself.

use fleetwright_core::model::NamespacedName;
use serde_json::Value;

use super::{LintReport, placement::is_of, rules::Severity};
use crate::input::{Item, load::Loaded, select::identity};

/// Adds the objects and pods that `loaded`, made from `expanded`, lacks. Each has a finding at most.
pub(super) fn check(items: &[Item], expanded: &[Item], loaded: &Loaded, report: &mut LintReport) {
    for (kind, id, why) in &loaded.refused {
        let has_id = |item: &&Item| {
            let (_, of, namespace, name) = identity(&item.value);
            of == *kind && *id.name == *name && (id.namespace.is_empty() || *id.namespace == *namespace)
        };
        if let Some(item) = items.iter().rev().find(has_id) {
            add(item, why, "correct the object: `plan` leaves it out", report);
        }
    }
    for (id, aside) in &loaded.broken_pods {
        if let Some(item) = owner(items, expanded, id) {
            let fix = match aside.reason {
                "Forbidden" => "change the pods, or the LimitRange or ResourceQuota of their namespace",
                _ => "correct the pods: `plan` leaves them out",
            };
            add(item, &aside.message, fix, report);
        }
    }
}

fn add(item: &Item, why: &str, fix: &str, report: &mut LintReport) {
    let (file, ..) = report.places.of(item, "");
    let object = super::object(item);
    let is_known = report
        .findings
        .iter()
        .any(|known| known.severity == Severity::Error && known.file == file && known.object == object);
    if !is_known {
        report.add("L002", item, "spec", why, fix);
    }
}

/// The object of the input that a pod is, or is made from.
fn owner<'a>(items: &'a [Item], expanded: &[Item], id: &NamespacedName) -> Option<&'a Item> {
    let has_id = |item: &&Item| {
        let (_, kind, namespace, name) = identity(&item.value);
        kind == "Pod" && (&*namespace, &*name) == (&*id.namespace, &*id.name)
    };
    if let Some(item) = items.iter().rev().find(has_id) {
        return Some(item);
    }
    let pod = expanded.iter().find(has_id)?;
    let text = |at: &str| pod.value.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let key = (
        text("/metadata/ownerReferences/0/kind")?,
        id.namespace.to_string(),
        text("/metadata/ownerReferences/0/name")?,
    );
    items.iter().rev().find(|item| is_of(item, &key))
}
