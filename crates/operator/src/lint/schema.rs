//! The custom resource definitions, offline: unknown fields, types, patterns, enumerations and CEL rules, as the API server applies them.

use serde_json::Value;

use super::LintReport;
use crate::{
    catalogue::Schemas,
    input::{Item, definition::Definition, retired},
};

/// The schemas of the registered clouds: those of NodeClasses, and of Karpenter's kinds with the cloud's rules about labels.
pub(super) struct OfClouds<'a>(pub(super) Vec<&'a Schemas>);

impl OfClouds<'_> {
    /// Adds what the API server would refuse of an object.
    pub(super) fn check(&self, item: &Item, report: &mut LintReport) {
        let text = |at: &str| item.value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (text("/apiVersion"), text("/kind"));
        let Some(of_cloud) = self.of_object(item, &key) else {
            return self.check_version(item, &key, report);
        };
        let Some(served) = of_cloud.get(&key) else { return };
        let is_other = |kind: &str| kind != key.1 && (kind == "NodePool" || kind.ends_with("NodeClass"));
        let others: Vec<(&str, &Definition)> = of_cloud
            .iter()
            .filter(|((_, kind), _)| is_other(kind))
            .map(|((_, kind), definition)| (kind.as_str(), definition))
            .collect();
        for (path, fix) in served.unknown_fields(&item.value, &others) {
            report.add("L001", item, &path, format!("unknown field {path:?}"), fix);
        }
        for invalid in served.problems(&item.value) {
            report.invalid(item, invalid);
        }
    }

    /// The definitions that apply to an object: those of the cloud whose NodeClass it is or names. The first that have its kind, where no
    /// cloud has such a NodeClass.
    fn of_object(&self, item: &Item, key: &(String, String)) -> Option<&Schemas> {
        let at = ["/spec/template/spec/nodeClassRef", "/spec/nodeClassRef"];
        let class = at.iter().find_map(|at| item.value.pointer(at));
        let is_of_class = |of_cloud: &&&Schemas| {
            class.is_some_and(|class| {
                of_cloud
                    .keys()
                    .any(|(version, kind)| class["kind"] == kind.as_str() && class["group"] == group(version))
            })
        };
        let mut serving = self.0.iter().filter(|of_cloud| of_cloud.contains_key(key));
        serving.clone().find(is_of_class).or_else(|| serving.next()).copied()
    }

    /// Reports an object whose version is not served any more, or never was by one of Karpenter's kinds.
    fn check_version(&self, item: &Item, (version, kind): &(String, String), report: &mut LintReport) {
        let keys = || self.0.iter().flat_map(|of_cloud| of_cloud.keys());
        let served = keys().find(|(known, of)| of == kind && group(known) == group(version));
        let fix = match (retired::successor(version, kind), served) {
            (Some(successor), _) => format!("convert the object to {successor}"),
            (None, Some((served, _))) => format!("convert the object to {served} {kind}"),
            (None, None) => return,
        };
        report.add("L002", item, "apiVersion", format!("{kind} of {version} is not served"), fix);
    }
}

fn group(version: &str) -> &str {
    version.split('/').next().unwrap_or_default()
}
