//! Resources of a CustomResourceDefinition.

use std::sync::Arc;

use serde_json::Value;

use super::{Resource, ResourceInfo};
use crate::object;
use fleetwright_kube_schema::{SchemaError, Structural};

/// One version of a CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct Custom {
    /// The definition itself.
    pub(crate) definition: Value,
    /// The raw OpenAPI v3 schema of the version.
    pub(crate) schema: Value,
    /// The parsed schema.
    pub(crate) structural: Arc<Structural>,
    /// JSON paths of selectable fields, such as `.spec.color`.
    pub(crate) selectable: Vec<String>,
    /// Paths of the scale subresource.
    pub(crate) scale: Option<ScalePaths>,
}

/// The paths of the scale subresource, as field names from the object's root.
#[derive(Debug)]
pub(crate) struct ScalePaths {
    /// Desired replicas.
    pub(crate) spec: Vec<String>,
    /// Observed replicas.
    pub(crate) status: Vec<String>,
    /// Label selector in text form.
    pub(crate) selector: Vec<String>,
}

/// Splits `.spec.replicas` into field names.
pub(crate) fn split_path(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `spec.group` and `spec.names.plural`.
pub(super) fn group_and_plural(definition: &Value) -> (&str, &str) {
    (object::text(definition, &["spec", "group"]), object::text(definition, &["spec", "names", "plural"]))
}

fn texts(value: &[Value]) -> Vec<String> {
    value.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The served versions of a definition.
///
/// # Errors
/// The part of a schema that is not supported.
pub(crate) fn resources(definition: &Value) -> Result<Vec<Resource>, SchemaError> {
    object::list(definition, &["spec", "versions"])
        .iter()
        .filter(|version| version["served"].as_bool() == Some(true))
        .map(|version| resource(definition, version))
        .collect()
}

fn resource(definition: &Value, version: &Value) -> Result<Resource, SchemaError> {
    let (group, plural) = group_and_plural(definition);
    let kind = object::text(definition, &["spec", "names", "kind"]);
    let singular = match object::text(definition, &["spec", "names", "singular"]) {
        "" => kind.to_lowercase(),
        given => given.to_owned(),
    };
    let parts = version.get("subresources").cloned().unwrap_or_default();
    let subresources: Vec<String> = ["scale", "status"]
        .into_iter()
        .filter(|name| parts.get(*name).is_some_and(|value| !value.is_null()))
        .map(str::to_owned)
        .collect();
    let scale = parts.get("scale").filter(|value| value.is_object()).map(|value| ScalePaths {
        spec: split_path(object::text(value, &["specReplicasPath"])),
        status: split_path(object::text(value, &["statusReplicasPath"])),
        selector: split_path(object::text(value, &["labelSelectorPath"])),
    });
    let verbs = "delete deletecollection get list patch create update watch";
    let info = ResourceInfo {
        group: group.to_owned(),
        version: object::text(version, &["name"]).to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular,
        short_names: texts(object::list(definition, &["spec", "names", "shortNames"])),
        categories: texts(object::list(definition, &["spec", "names", "categories"])),
        namespaced: object::text(definition, &["spec", "scope"]) == "Namespaced",
        verbs: verbs.split(' ').map(str::to_owned).collect(),
        subresources,
    };
    let selectable = object::list(version, &["selectableFields"])
        .iter()
        .map(|field| object::text(field, &["jsonPath"]).to_owned())
        .collect();
    let schema = object::at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or_default();
    let structural = Structural::shared(&schema)?;
    let custom = Custom { definition: definition.clone(), schema, structural, selectable, scale };
    Ok(Resource { storage: format!("{plural}.{group}").into(), info, custom: Some(custom) })
}
