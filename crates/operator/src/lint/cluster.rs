//! Rules about several objects.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::suggest;
use serde_json::Value;

use super::{LintReport, objects::pod_template};
use crate::{catalogue::Catalogues, input::Item, settings::Values};

pub(super) fn check(items: &[Item], report: &mut LintReport) {
    expiry(items, report);
    storage_classes(items, report);
}

/// Instances of the cluster's name that are of none of its NodeClaims, where the account is read.
pub(super) fn shared_name(
    items: &[Item],
    catalogues: &Catalogues,
    values: &Values,
    report: &mut LintReport,
) -> anyhow::Result<()> {
    // The instances of several clusters carry the name of one: how many there are does not say more.
    const SHOWN: usize = 5;
    let of_kind = |kind: &'static str| items.iter().filter(move |item| item.value["kind"] == kind);
    let claims: Vec<&Value> = of_kind("NodeClaim").map(|item| &item.value).collect();
    let Some(pool) = of_kind("NodePool").next() else { return Ok(()) };
    let found = catalogues.unclaimed(&claims, values)?;
    if found.is_empty() {
        return Ok(());
    }
    let shown = found.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let others = found.len().saturating_sub(SHOWN);
    let more = if others > 0 { format!(" and {others} others") } else { String::new() };
    report.add(
        "L107",
        pool,
        "metadata.name",
        format!(
            "no NodeClaim of the input has {shown}{more}, which the account has under this cluster's name"
        ),
        "give each cluster a name of its own; `fleetwright audit` lists whose they are",
    );
    Ok(())
}

/// Volume claims of a StorageClass that the input does not have, beside others that it has.
fn storage_classes(items: &[Item], report: &mut LintReport) {
    let of_classes = items.iter().filter(|item| item.value["kind"] == "StorageClass");
    let classes: BTreeSet<&str> =
        of_classes.filter_map(|item| item.value.pointer("/metadata/name").and_then(Value::as_str)).collect();
    if classes.is_empty() {
        return;
    }
    for item in items {
        for (path, claim) in claims(&item.value) {
            let name = claim["storageClassName"].as_str().unwrap_or_default();
            let is_bound = claim["volumeName"].as_str().is_some_and(|volume| !volume.is_empty());
            if name.is_empty() || is_bound || classes.contains(name) {
                continue;
            }
            let fix = suggest::nearest(name, classes.iter().copied()).map_or_else(
                || {
                    format!(
                        "create it, or use one of {}",
                        classes.iter().copied().collect::<Vec<_>>().join(", ")
                    )
                },
                |meant| format!("did you mean {meant:?}?"),
            );
            report.add(
                "L126",
                item,
                &format!("{path}.storageClassName"),
                format!("the input has no StorageClass {name}: without it, no volume is provisioned, and the pod gets no node"),
                fix,
            );
        }
    }
}

/// The specs of the volume claims that an object is or has, each with its path.
fn claims(value: &Value) -> Vec<(String, &Value)> {
    if value["kind"] == "PersistentVolumeClaim" {
        return vec![("spec".to_owned(), &value["spec"])];
    }
    let mut found = Vec::new();
    if value["kind"] == "StatefulSet" {
        let templates = value.pointer("/spec/volumeClaimTemplates");
        for (at, template) in list(templates).enumerate() {
            found.push((format!("spec.volumeClaimTemplates[{at}].spec"), &template["spec"]));
        }
    }
    if let Some((path, template)) = pod_template(value) {
        let base = if path.is_empty() { String::new() } else { format!("{path}.") };
        for (at, volume) in list(template.pointer("/spec/volumes")).enumerate() {
            if let Some(spec) = volume.pointer("/ephemeral/volumeClaimTemplate/spec") {
                found.push((format!("{base}spec.volumes[{at}].ephemeral.volumeClaimTemplate.spec"), spec));
            }
        }
    }
    found
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// NodePools whose nodes expire without a deadline, where pods refuse to be disrupted.
fn expiry(items: &[Item], report: &mut LintReport) {
    let is_protected = |item: &&Item| {
        pod_template(&item.value).is_some_and(|(_, template)| {
            template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"]
                .as_str()
                .is_some_and(|value| value != "false")
        })
    };
    let Some(protected) = items.iter().find(is_protected) else { return };
    let (_, kind, _, name) = crate::input::select::identity(&protected.value);
    for item in items.iter().filter(|item| item.value["kind"] == "NodePool") {
        let template = &item.value["spec"]["template"]["spec"];
        let expires = template["expireAfter"].as_str().unwrap_or("720h");
        if expires == "Never" || !template["terminationGracePeriod"].is_null() {
            continue;
        }
        let path = if template["expireAfter"].is_null() {
            "spec.template.spec"
        } else {
            "spec.template.spec.expireAfter"
        };
        report.add(
            "L102",
            item,
            path,
            format!(
                "nodes expire after {expires} and drain without a deadline, and pods such as those of {kind} {name} are never evicted: the node stays"
            ),
            "set spec.template.spec.terminationGracePeriod",
        );
    }
}

/// The resources that LimitRanges give to containers without them, by namespace.
pub(super) fn container_defaults(items: &[Item]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.value["kind"] == "LimitRange") {
        let (_, _, namespace, _) = crate::input::select::identity(&item.value);
        let limits = item.value.pointer("/spec/limits").and_then(Value::as_array);
        for limit in limits.into_iter().flatten().filter(|limit| limit["type"] == "Container") {
            let of_field = |field: &str| limit[field].as_object().into_iter().flatten();
            let names = ["default", "defaultRequest", "max", "min"].into_iter().flat_map(of_field);
            found.entry(namespace.clone()).or_default().extend(names.map(|(name, _)| name.clone()));
        }
    }
    found
}

/// Whether the input has a kind.
pub(super) fn has(items: &[Item], kind: &str) -> bool {
    items.iter().any(|item| item.value["kind"] == kind)
}

/// The NodePool of a name: of several, the last, as in an input.
pub(super) fn pool_item<'a>(items: &'a [Item], name: &str) -> Option<&'a Item> {
    items.iter().rev().find(|item| item.value["kind"] == "NodePool" && item.value["metadata"]["name"] == name)
}
