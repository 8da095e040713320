//! The CustomResourceDefinitions, equal in meaning to those that Karpenter installs.
//!
//! Names, columns and subresources come from kube's derive, schemas from the module [`crate::schema`]. Providers add their label
//! rules and kinds to the common base.

mod files;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

pub use files::{Change, Drift, GenerateError, file_name, generate, to_yaml};

use crate::schema;
use crate::{
    CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, KwokNodeClass, KwokNodeClassSpec,
    KwokNodeClassStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeOverlay, NodeOverlaySpec,
    NodeOverlayStatus, NodePool, NodePoolSpec, NodePoolStatus,
};

/// The definitions that every cluster needs, in a fixed order. A provider adds its NodeClass with [`definition`] and the
/// rules of its labels with [`add_rules`].
#[must_use]
pub fn base() -> Vec<CustomResourceDefinition> {
    vec![
        definition::<CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus>(
            "A CapacityBuffer keeps capacity ready for future pods.",
        ),
        definition::<NodeClaim, NodeClaimSpec, NodeClaimStatus>("A NodeClaim requests one node."),
        definition::<NodeOverlay, NodeOverlaySpec, NodeOverlayStatus>(
            "A NodeOverlay adjusts prices and capacities of instance types.",
        ),
        definition::<NodePool, NodePoolSpec, NodePoolStatus>(
            "A NodePool defines which nodes may be created and how they are disrupted.",
        ),
    ]
}

/// The definitions of a cluster with KWOKNodeClass, the vocabulary of Karpenter's simulated provider: KWOKNodeClass first.
#[must_use]
pub fn kwok() -> Vec<CustomResourceDefinition> {
    let mut class = root::<KwokNodeClassSpec, KwokNodeClassStatus>(
        "A KWOKNodeClass configures the nodes of the simulated provider.",
    );
    if let Some(class) = class.as_object_mut() {
        class.remove("required");
    }
    let mut all = vec![with_schema(KwokNodeClass::crd(), class)];
    for mut definition in base() {
        match definition.spec.names.kind.as_str() {
            "NodePool" => add_rules(&mut definition, NODE_POOL_REQUIREMENT_KEYS, KWOK_KEYS),
            "NodeClaim" => add_rules(&mut definition, REQUIREMENT_KEYS, KWOK_KEYS),
            _ => {}
        }
        all.push(definition);
    }
    all
}

/// Where the labels of a NodePool's template are in its schema.
pub const NODE_POOL_LABELS: &str =
    "/properties/spec/properties/template/properties/metadata/properties/labels";
/// Where the keys of a NodePool's requirements are in its schema.
pub const NODE_POOL_REQUIREMENT_KEYS: &str =
    "/properties/spec/properties/template/properties/spec/properties/requirements/items/properties/key";
/// Where the keys of the requirements of a NodeClaim or NodeOverlay are in its schema.
pub const REQUIREMENT_KEYS: &str = "/properties/spec/properties/requirements/items/properties/key";

const KWOK_KEYS: &[(&str, &str)] = &[(
    r#"self in ["karpenter.kwok.sh/kwoknodeclass", "karpenter.kwok.sh/instance-cpu", "karpenter.kwok.sh/instance-memory", "karpenter.kwok.sh/instance-family", "karpenter.kwok.sh/instance-size"] || !self.find("^([^/]+)").endsWith("karpenter.kwok.sh")"#,
    r#"label domain "karpenter.kwok.sh" is restricted"#,
)];

/// The definition of a provider's own kind, whose spec is required: names from kube's derive, schema from the types.
pub fn definition<Kind: CustomResourceExt, Spec: JsonSchema, Status: JsonSchema>(
    description: &str,
) -> CustomResourceDefinition {
    with_schema(Kind::crd(), root::<Spec, Status>(description))
}

/// Adds CEL rules, as (rule, message), at a JSON pointer into the schema of every version. A pointer that leads nowhere
/// adds nothing, which the tests of the rules detect.
pub fn add_rules(crd: &mut CustomResourceDefinition, pointer: &str, rules: &[(&str, &str)]) {
    for version in &mut crd.spec.versions {
        let props = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(props) = props else { continue };
        let Ok(mut value) = serde_json::to_value(&*props) else { continue };
        add_to(&mut value, pointer, rules);
        if let Ok(changed) = serde_json::from_value(value) {
            *props = changed;
        }
    }
}

/// Adds rules at a JSON pointer. A pointer that leads nowhere adds nothing, which the tests of the rules detect.
fn add_to(schema: &mut Value, pointer: &str, rules: &[(&str, &str)]) {
    if let (Some(node), false) = (schema.pointer_mut(pointer), rules.is_empty()) {
        schema::append_rules(node, rules);
    }
}

/// The schema of a whole object.
fn root<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of the schema that the object follows."},
            "kind": {"type": "string", "description": "Kind of the object, in CamelCase."},
            "metadata": {"type": "object"},
            "spec": schema::of::<Spec>(),
            "status": schema::of::<Status>(),
        },
    })
}

/// Puts the schema into the definition's only version and fills in what the API server would.
fn with_schema(mut crd: CustomResourceDefinition, schema: Value) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    // Every key of the schemas is one of JSONSchemaProps'; the tests compare both forms.
    let props: Option<JSONSchemaProps> = serde_json::from_value(schema).ok();
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: props.clone() });
    }
    crd
}

#[cfg(test)]
mod tests;
