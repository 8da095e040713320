//! PodDisruptionBudgets beside the pods that they select: several of one pod, none at all, and those that allow no eviction.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::suggest;
use serde_json::Value;

use super::LintReport;
use crate::{
    figures,
    input::{Item, autoscalers::Minimums, load, select::identity, selects_labels},
};

/// The pods of one workload in a namespace.
struct Group<'a> {
    /// `kind/name`.
    name: String,
    labels: &'a Value,
    /// How many there are, at least.
    count: i64,
    /// Whether each node has one.
    is_of_nodes: bool,
}

/// The workloads of a namespace.
type Groups<'a> = BTreeMap<String, Vec<Group<'a>>>;

/// Adds the findings; `expanded` has the pods of workloads.
pub(super) fn check(items: &[Item], expanded: &[Item], report: &mut LintReport) {
    let groups = groups(expanded);
    let budgets: Vec<&Item> =
        items.iter().filter(|item| item.value["kind"] == "PodDisruptionBudget").collect();
    for (at, item) in budgets.iter().enumerate() {
        let namespace = identity(&item.value).2;
        // What creates the pods may be elsewhere: a budget alone says nothing.
        let Some(known) = groups.get(&namespace) else { continue };
        let selected: Vec<&Group<'_>> =
            known.iter().filter(|group| selects(&item.value, group.labels)).collect();
        if selected.is_empty() {
            selects_nothing(items, item, known, report);
            continue;
        }
        let earlier = budgets.iter().take(at).filter(|other| identity(&other.value).2 == namespace);
        for other in earlier {
            if let Some(group) = selected.iter().find(|group| selects(&other.value, group.labels)) {
                let name = identity(&other.value).3;
                report.add(
                    "L120",
                    item,
                    "spec.selector",
                    format!("PodDisruptionBudget {name} selects pods of {} too: the API server answers each eviction of them with status 500, and their nodes are never drained", group.name),
                    "let one budget select the pods",
                );
            }
        }
        allows_nothing(item, &selected, report);
    }
}

/// The pods of an input, by namespace and workload; of a workload, pods with equal labels are one group.
fn groups(expanded: &[Item]) -> Groups<'_> {
    let minimums = Minimums::of(expanded);
    let mut found: BTreeMap<(String, String, String), Group<'_>> = BTreeMap::new();
    for Item { value, .. } in expanded {
        let (_, kind, namespace, name) = identity(value);
        let is_over = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let (labels, (of, owner), count) = match kind.as_str() {
            "Pod" if !is_over => (&value["metadata"]["labels"], owner(value), 1),
            "DaemonSet" => (&value["spec"]["template"]["metadata"]["labels"], (kind, name), 0),
            _ => continue,
        };
        // Their number follows from their work.
        if of == "Job" {
            continue;
        }
        let key = (namespace, format!("{of}/{owner}"), labels.to_string());
        let is_of_nodes = of == "DaemonSet";
        let group = Group { name: key.1.clone(), labels, count: 0, is_of_nodes };
        found.entry(key).or_insert(group).count += count;
    }
    let mut groups = Groups::new();
    for ((namespace, ..), mut group) in found {
        if let Some((kind, name)) = group.name.split_once('/') {
            group.count = group.count.max(minimums.least((kind, &namespace, name)).unwrap_or(0));
        }
        groups.entry(namespace).or_default().push(group);
    }
    groups
}

/// Kind and name of the workload of a pod, which may be itself.
fn owner(pod: &Value) -> (String, String) {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(controller) = controller else { return ("Pod".to_owned(), identity(pod).3) };
    let (kind, name) = (text(&controller["kind"]), text(&controller["name"]));
    let hash = text(&pod["metadata"]["labels"]["pod-template-hash"]);
    // The Deployment of a ReplicaSet, by the hash in its name.
    match name.strip_suffix(&format!("-{hash}")) {
        Some(deployment) if kind == "ReplicaSet" && !hash.is_empty() => {
            ("Deployment".to_owned(), deployment.to_owned())
        }
        _ => (kind, name),
    }
}

/// Whether a budget selects pods with these labels: without a selector it selects none, with an empty one all.
fn selects(budget: &Value, labels: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    selector.is_object() && selects_labels(selector, labels)
}

fn selects_nothing(items: &[Item], item: &Item, known: &[Group<'_>], report: &mut LintReport) {
    let selector = &item.value["spec"]["selector"];
    if selector.is_null() {
        let message = "without a selector the budget selects no pod: it protects nothing";
        return report.add("L121", item, "spec", message, "give it the labels of the pods with matchLabels");
    }
    let count = figures::count(known.len(), "workload");
    let message = format!("the budget selects no pod of the {count} of its namespace: it protects nothing");
    let namespace = identity(&item.value).2;
    // Pods of an operator's objects do not exist yet.
    let is_creator =
        |other: &Item| identity(&other.value).2 == namespace && load::may_create_pods(&other.value);
    let fix = match meant(&selector["matchLabels"], known) {
        Some(fix) => fix,
        None if items.iter().any(is_creator) => return,
        None => "give it labels that a pod template has".to_owned(),
    };
    report.add("L121", item, "spec.selector", message, fix);
}

/// The labels of a workload that differ from those of a selector in one, by a typing error.
fn meant(selector: &Value, known: &[Group<'_>]) -> Option<String> {
    let wanted = selector.as_object()?;
    let missing = |group: &Group<'_>| {
        wanted.iter().filter(|(key, value)| group.labels[key.as_str()] != **value).collect::<Vec<_>>()
    };
    known.iter().find_map(|group| {
        let [(key, value)] = missing(group).try_into().ok()?;
        let of_key = group.labels[key.as_str()].as_str();
        let meant = of_key.and_then(|of_key| {
            suggest::nearest(value.as_str()?, [of_key]).map(|meant| (key.as_str(), meant))
        });
        let keys = group.labels.as_object().into_iter().flatten();
        let same_value = || {
            let same: Vec<&str> = keys.filter(|(_, of)| *of == value).map(|(key, _)| key.as_str()).collect();
            suggest::nearest(key, same).and_then(|key| Some((key, value.as_str()?)))
        };
        let (key, value) = meant.or_else(same_value)?;
        Some(format!("did you mean {key}={value}, as {} has it?", group.name))
    })
}

/// A budget that its pods never exceed.
fn allows_nothing(item: &Item, selected: &[&Group<'_>], report: &mut LintReport) {
    let count: i64 = selected.iter().map(|group| group.count).sum();
    if count == 0 || selected.iter().any(|group| group.is_of_nodes) {
        return;
    }
    let spec = &item.value["spec"];
    let Some(least) = share(&spec["minAvailable"], count) else { return };
    // These are wrong whatever the number of pods is.
    let is_whole = spec["minAvailable"] == "100%";
    if least < count || is_whole {
        return;
    }
    let written =
        spec["minAvailable"].as_str().map_or_else(|| spec["minAvailable"].to_string(), str::to_owned);
    let names: BTreeSet<String> = selected.iter().map(|group| group.name.clone()).collect();
    let of = figures::names(&names.into_iter().collect::<Vec<_>>());
    let demands = if written.ends_with('%') { format!("{written}, which is {least},") } else { written };
    report.add(
        "L115",
        item,
        "spec.minAvailable",
        format!(
            "minAvailable {demands} of {} of {of} allows no eviction: their nodes are not consolidated, and drain only until their deadline",
            figures::count(usize::try_from(count).unwrap_or(usize::MAX), "pod"),
        ),
        format!("set maxUnavailable: 1, or run at least {} replicas", least.saturating_add(1)),
    );
}

/// A number or percentage of the pods, rounded up as the disruption controller does.
fn share(written: &Value, count: i64) -> Option<i64> {
    match written.as_str() {
        Some(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(count.saturating_mul(percent).saturating_add(99) / 100)
        }
        None => written.as_i64(),
    }
}
