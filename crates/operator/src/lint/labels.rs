//! Labels that pods ask of nodes and that no node has: misspelt well-known ones, and those of nodes that Karpenter does not launch.

use std::collections::BTreeSet;

use fleetwright_core::{
    model::{LabelSchema, labels},
    suggest,
};
use serde_json::Value;

use super::{LintReport, cluster::has, objects::pod_template};
use crate::{explain::patches::LABELS_OF_OTHERS, input::Item};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Adds the findings. What NodePools, nodes, the `schema` of their clouds and the `clouds` of this build say of labels is known.
pub(super) fn check(items: &[Item], schema: &LabelSchema, clouds: LabelSchema, report: &mut LintReport) {
    let known = KnownLabels::of(items, schema, clouds);
    let beside = has(items, "NodePool");
    for item in items {
        let Some((at, template)) = pod_template(&item.value) else { continue };
        for (path, key) in keys(&template["spec"]) {
            if known.has(&key) {
                continue;
            }
            let path = if at.is_empty() { path } else { format!("{at}.{path}") };
            let Some((code, fix)) = known.finding(&key, beside) else { continue };
            // The solver names it with what it rules out.
            let is_told = report.findings.iter().any(|finding| {
                finding.code == "L117"
                    && finding.object == super::object(item)
                    && finding.message.contains(&key)
            });
            if !is_told {
                let who = if beside { "no node of a NodePool has" } else { "no node has" };
                report.add(code, item, &path, format!("{who} the label {key}"), fix);
            }
        }
    }
}

/// The labels that nodes have.
struct KnownLabels<'a> {
    schema: &'a LabelSchema,
    keys: BTreeSet<String>,
    /// The labels of the clouds of this build, whether or not a NodePool of the input is of one.
    clouds: LabelSchema,
}

impl<'a> KnownLabels<'a> {
    fn of(items: &[Item], schema: &'a LabelSchema, clouds: LabelSchema) -> Self {
        let of_schema = schema.well_known.iter().chain(schema.normalized.keys()).map(ToString::to_string);
        let mut keys: BTreeSet<String> = of_schema.collect();
        keys.extend([labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED].map(str::to_owned));
        for Item { value, .. } in items {
            let at = match value["kind"].as_str() {
                Some("Node") => "/metadata/labels",
                Some("NodePool") => "/spec/template/metadata/labels",
                _ => continue,
            };
            let own = value.pointer(at).and_then(Value::as_object);
            keys.extend(own.into_iter().flatten().map(|(key, _)| key.clone()));
            let wanted = value.pointer("/spec/template/spec/requirements").and_then(Value::as_array);
            let wanted = wanted.into_iter().flatten().filter_map(|wanted| wanted["key"].as_str());
            keys.extend(wanted.map(str::to_owned));
        }
        Self { schema, keys, clouds }
    }

    fn has(&self, key: &str) -> bool {
        self.keys.contains(key) || self.clouds.well_known.contains(key)
    }

    /// The rule that a label breaks which no node has, if it is no label of the user's own, and what to do.
    fn finding(&self, key: &str, beside: bool) -> Option<(&'static str, String)> {
        if let Some(meant) = self.nearest(key) {
            return Some(("L122", format!("did you mean {meant:?}?")));
        }
        if LABELS_OF_OTHERS.contains(&key) && beside {
            let fix = format!(
                "select {} or a label of a NodePool, unless the pods are to stay on nodes of that system",
                labels::NODEPOOL
            );
            return Some(("L125", fix));
        }
        let is_restricted = self.schema.is_restricted(key) || self.clouds.is_restricted(key);
        is_restricted.then(|| ("L122", "remove it".to_owned()))
    }

    /// The key that was meant: with the same name in a domain of nearly the same spelling, or with nearly the same name in the same one.
    fn nearest(&self, key: &str) -> Option<&str> {
        let (domain, name) = key.split_once('/')?;
        let same =
            |written: &str, known: &str| written == known || suggest::nearest(written, [known]).is_some();
        let of = |known: &&str| {
            let (of, called) = known.split_once('/').unwrap_or(("", known));
            (of == domain && same(name, called)) || (called == name && !of.is_empty() && same(domain, of))
        };
        let of_cloud = self.clouds.well_known.iter().map(|known| &**known);
        let meant = self.keys.iter().map(String::as_str).chain(of_cloud).find(of);
        // `lifecycle` of one system is the capacity type of another.
        meant.or_else(|| {
            let is_others = LABELS_OF_OTHERS.contains(&key);
            is_others
                .then(|| suggest::nearest(name, ["capacity-type"]))
                .flatten()
                .map(|_| labels::CAPACITY_TYPE)
        })
    }
}

/// The labels of nodes that a pod names, each with its path.
fn keys(spec: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        found.push((format!("spec.nodeSelector[{key}]"), key.clone()));
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default().into_iter().enumerate();
    let base = "spec.affinity.nodeAffinity";
    let nodes = &spec["affinity"]["nodeAffinity"];
    let mut of_term = |term: &Value, path: String| {
        for (at, wanted) in list(&term["matchExpressions"]) {
            // A node without the label meets the others.
            let needs = !matches!(wanted["operator"].as_str(), Some("NotIn" | "DoesNotExist"));
            if let Some(key) = wanted["key"].as_str().filter(|_| needs) {
                found.push((format!("{path}.matchExpressions[{at}].key"), key.to_owned()));
            }
        }
    };
    for (at, term) in list(&nodes[REQUIRED]["nodeSelectorTerms"]) {
        of_term(&term, format!("{base}.{REQUIRED}.nodeSelectorTerms[{at}]"));
    }
    for (at, weighted) in list(&nodes[PREFERRED]) {
        of_term(&weighted["preference"], format!("{base}.{PREFERRED}[{at}].preference"));
    }
    let mut topology = |term: &Value, path: String| {
        if let Some(key) = term["topologyKey"].as_str().filter(|key| !key.is_empty()) {
            found.push((format!("{path}.topologyKey"), key.to_owned()));
        }
    };
    for (at, spread) in list(&spec["topologySpreadConstraints"]) {
        topology(&spread, format!("spec.topologySpreadConstraints[{at}]"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (at, term) in list(&spec["affinity"][kind][REQUIRED]) {
            topology(&term, format!("spec.affinity.{kind}.{REQUIRED}[{at}]"));
        }
        for (at, weighted) in list(&spec["affinity"][kind][PREFERRED]) {
            let path = format!("spec.affinity.{kind}.{PREFERRED}[{at}].podAffinityTerm");
            topology(&weighted["podAffinityTerm"], path);
        }
    }
    found
}
