//! The custom resource definitions, offline: unknown fields, types, patterns, enumerations and CEL rules, as the API server applies them.

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

use super::LintReport;
use crate::input::{Item, definition::Definition, retired};

/// The definitions by API version and kind. The cloud's rules about labels are those of the kind of NodeClass.
pub(super) struct Schemas {
    of_aws: BTreeMap<(String, String), Definition>,
    of_kwok: BTreeMap<(String, String), Definition>,
}

impl Schemas {
    /// Those of this build, parsed once.
    ///
    /// # Errors
    /// If a definition of this build is invalid.
    pub(super) fn shared() -> anyhow::Result<&'static Self> {
        static LOADED: OnceLock<Schemas> = OnceLock::new();
        if let Some(known) = LOADED.get() {
            return Ok(known);
        }
        let loaded = Self::load()?;
        Ok(LOADED.get_or_init(|| loaded))
    }

    fn load() -> anyhow::Result<Self> {
        let all = |crds: Vec<_>| -> anyhow::Result<BTreeMap<(String, String), Definition>> {
            let mut found = BTreeMap::new();
            for crd in crds {
                let crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition = crd;
                for version in &crd.spec.versions {
                    let schema =
                        version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                    let Some(schema) = schema else { continue };
                    let key = (format!("{}/{}", crd.spec.group, version.name), crd.spec.names.kind.clone());
                    found.insert(key, Definition::parse(serde_json::to_value(schema)?)?);
                }
            }
            Ok(found)
        };
        Ok(Self { of_aws: all(fleetwright_aws_api::crds())?, of_kwok: all(fleetwright_api::crd::kwok())? })
    }

    /// Adds what the API server would refuse of an object.
    pub(super) fn check(&self, item: &Item, report: &mut LintReport) {
        let text = |at: &str| item.value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (text("/apiVersion"), text("/kind"));
        let class = item
            .value
            .pointer("/spec/template/spec/nodeClassRef/kind")
            .or_else(|| item.value.pointer("/spec/nodeClassRef/kind"));
        let is_kwok = class.is_some_and(|kind| kind == "KWOKNodeClass") || key.1 == "KWOKNodeClass";
        let order = if is_kwok { [&self.of_kwok, &self.of_aws] } else { [&self.of_aws, &self.of_kwok] };
        let Some(of_cloud) = order.iter().find(|all| all.contains_key(&key)) else {
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

    /// Reports an object whose version is not served any more, or never was by one of Karpenter's kinds.
    fn check_version(&self, item: &Item, (version, kind): &(String, String), report: &mut LintReport) {
        let group = version.split('/').next().unwrap_or_default();
        let served = [&self.of_aws, &self.of_kwok]
            .into_iter()
            .flat_map(BTreeMap::keys)
            .find(|(known, of)| of == kind && known.split('/').next() == Some(group));
        let fix = match (retired::successor(version, kind), served) {
            (Some(successor), _) => format!("convert the object to {successor}"),
            (None, Some((served, _))) => format!("convert the object to {served} {kind}"),
            (None, None) => return,
        };
        report.add("L002", item, "apiVersion", format!("{kind} of {version} is not served"), fix);
    }
}
