//! The custom resource definitions of a cloud, and their schemas.

use std::{collections::BTreeMap, sync::OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::input::definition::Definition;

/// Schemas by API version and kind.
pub(crate) type Schemas = BTreeMap<(String, String), Definition>;

/// Definitions of one cloud.
pub(crate) struct Definitions {
    make: Box<dyn Fn() -> Vec<CustomResourceDefinition> + Send + Sync>,
    schemas: OnceLock<Schemas>,
}

impl Definitions {
    pub(super) fn new(make: impl Fn() -> Vec<CustomResourceDefinition> + Send + Sync + 'static) -> Self {
        Self { make: Box::new(make), schemas: OnceLock::new() }
    }

    /// The definitions.
    pub(super) fn all(&self) -> Vec<CustomResourceDefinition> {
        (self.make)()
    }

    /// Their schemas, parsed once.
    ///
    /// # Errors
    /// If one is invalid.
    pub(super) fn schemas(&self) -> anyhow::Result<&Schemas> {
        if let Some(parsed) = self.schemas.get() {
            return Ok(parsed);
        }
        let parsed = parse(self.all())?;
        Ok(self.schemas.get_or_init(|| parsed))
    }
}

fn parse(definitions: Vec<CustomResourceDefinition>) -> anyhow::Result<Schemas> {
    let mut parsed = Schemas::new();
    for crd in definitions {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let Some(schema) = schema else { continue };
            let key = (format!("{}/{}", crd.spec.group, version.name), crd.spec.names.kind.clone());
            parsed.insert(key, Definition::parse(serde_json::to_value(schema)?)?);
        }
    }
    Ok(parsed)
}
