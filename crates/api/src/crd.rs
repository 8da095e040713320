//! The CustomResourceDefinitions, equal in meaning to those that Karpenter installs.
//!
//! Names, columns and subresources come from kube's derive, schemas from the module [`crate::schema`]. A provider adds the label
//! rules and the kinds of its own to the common base.

mod files;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

pub use files::{Change, Drift, GenerateError, file_name, generate, generate_from, to_yaml};

use crate::schema;
use crate::{
    CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, KwokNodeClass, KwokNodeClassSpec,
    KwokNodeClassStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeOverlay, NodeOverlaySpec,
    NodeOverlayStatus, NodePool, NodePoolSpec, NodePoolStatus,
};

/// Whose label rules and node class are added to the common base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The fake cloud, with Karpenter's kwok vocabulary.
    Fake,
    /// AWS. Its kinds and rules come from a crate of their own; from here comes the base.
    Aws,
}

/// What a provider adds to the base.
#[derive(Clone, Copy, Debug, Default)]
struct Additions {
    /// CEL rules for the keys of requirements in NodePools and NodeClaims, as (rule, message).
    requirement_keys: &'static [(&'static str, &'static str)],
    /// CEL rules for the labels of a NodePool's template, as (rule, message).
    labels: &'static [(&'static str, &'static str)],
}

const FAKE: Additions = Additions {
    requirement_keys: &[(
        r#"self in ["karpenter.kwok.sh/kwoknodeclass", "karpenter.kwok.sh/instance-cpu", "karpenter.kwok.sh/instance-memory", "karpenter.kwok.sh/instance-family", "karpenter.kwok.sh/instance-size"] || !self.find("^([^/]+)").endsWith("karpenter.kwok.sh")"#,
        r#"label domain "karpenter.kwok.sh" is restricted"#,
    )],
    labels: &[],
};

impl Provider {
    const fn additions(self) -> Additions {
        match self {
            Self::Fake => FAKE,
            Self::Aws => Additions { requirement_keys: &[], labels: &[] },
        }
    }
}

/// Every definition that a cluster needs for the provider, in a fixed order.
pub fn crds(provider: Provider) -> Vec<CustomResourceDefinition> {
    let Additions { requirement_keys, labels } = provider.additions();
    let mut pool =
        root::<NodePoolSpec, NodePoolStatus>("A NodePool says which nodes may be made and disrupted.");
    add(&mut pool, "/properties/spec/properties/template/properties/spec", "requirements", requirement_keys);
    add_to(&mut pool, "/properties/spec/properties/template/properties/metadata/properties/labels", labels);
    let mut claim = root::<NodeClaimSpec, NodeClaimStatus>("A NodeClaim asks for one node.");
    add(&mut claim, "/properties/spec", "requirements", requirement_keys);
    let overlay = root::<NodeOverlaySpec, NodeOverlayStatus>(
        "A NodeOverlay corrects prices and capacities of instance types.",
    );
    let buffer = root::<CapacityBufferSpec, CapacityBufferStatus>(
        "A CapacityBuffer keeps room ready for pods to come.",
    );
    let mut all = vec![
        with_schema(CapacityBuffer::crd(), buffer),
        with_schema(NodeClaim::crd(), claim),
        with_schema(NodeOverlay::crd(), overlay),
        with_schema(NodePool::crd(), pool),
    ];
    if provider == Provider::Fake {
        let mut class = root::<KwokNodeClassSpec, KwokNodeClassStatus>(
            "A KWOKNodeClass configures the nodes of the fake cloud.",
        );
        if let Some(class) = class.as_object_mut() {
            class.remove("required");
        }
        all.insert(0, with_schema(KwokNodeClass::crd(), class));
    }
    all
}

/// The definition of a provider's own kind, whose spec is required: names from kube's derive, schema from the types.
pub fn definition<Kind: CustomResourceExt, Spec: JsonSchema, Status: JsonSchema>(
    description: &str,
) -> CustomResourceDefinition {
    with_schema(Kind::crd(), root::<Spec, Status>(description))
}

/// Adds CEL rules, as (rule, message), at a JSON pointer into the schema of every version. A pointer that leads nowhere
/// adds nothing; the tests of the rules would tell.
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

/// Adds rules for the keys of a list of requirements.
fn add(schema: &mut Value, parent: &str, list: &str, rules: &[(&str, &str)]) {
    add_to(schema, &format!("{parent}/properties/{list}/items/properties/key"), rules);
}

/// Adds rules at a JSON pointer. A pointer that leads nowhere adds nothing; the tests of the rules would tell.
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
