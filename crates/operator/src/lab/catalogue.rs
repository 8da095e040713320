//! The instance types of the fake cloud: those of a file, or built-in ones.

use std::path::Path;

use anyhow::bail;
use fleetwright_core::model::{LabelSchema, NodeClassRef, labels::INSTANCE_TYPE};
use fleetwright_fake::catalogue::{Catalogue, Skipped, dump, kwok, realistic};
use fleetwright_instance_types::labels::GROUP;
use serde_json::Value;

use crate::{
    catalogue::{CatalogueOptions, ClassOffer, ClassRequest, OfflineCatalogue, of_file},
    cli::Catalog,
    settings::Values,
};

/// Seed of the realistic catalogue's spot prices: the same in every process.
const MARKET: u64 = 1;
/// The built-in catalogues by name.
const NAMES: [&str; 2] = ["kwok", "realistic"];

/// Built-in instance types.
pub(super) fn built_in(name: Catalog) -> Catalogue {
    match name {
        Catalog::Kwok => kwok(),
        Catalog::Realistic => realistic(MARKET),
    }
}

/// The instance types of the settings, and the invalid ones of the file.
///
/// # Errors
/// If the file cannot be read or has no valid instance type, or there is no catalogue with the name.
pub(super) fn of_settings(values: &Values) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let file = values.text("INSTANCE_TYPES_FILE_PATH");
    if file.is_empty() {
        Ok((built_in(named(values.text("CATALOG"))?), Vec::new()))
    } else {
        of_file(Path::new(file))
    }
}

fn named(name: &str) -> anyhow::Result<Catalog> {
    match name {
        "" | "kwok" => Ok(Catalog::Kwok),
        "realistic" => Ok(Catalog::Realistic),
        other => bail!("CATALOG {other}: the fake cloud has {}", NAMES.join(", ")),
    }
}

/// The catalogue that has the instance types of the nodes: the demo's is another one than the tools' default.
fn of_nodes(nodes: &[&Value]) -> Option<&'static str> {
    let types = nodes.iter().filter_map(|node| node["metadata"]["labels"][INSTANCE_TYPE].as_str());
    let has = |name: &&str| {
        let known = named(name).map(built_in);
        known.is_ok_and(|known| types.clone().any(|wanted| known.types.get(wanted).is_some()))
    };
    NAMES.into_iter().find(has)
}

/// The fake cloud's catalogues for the tools.
pub struct FakeCatalogue;

impl OfflineCatalogue for FakeCatalogue {
    fn names(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        &*class.group == GROUP && &*class.kind == "KWOKNodeClass"
    }

    fn labels(&self) -> LabelSchema {
        (*kwok().schema).clone()
    }

    fn fields(&self) -> &'static str {
        "spec.nodeRegistrationDelay scalar"
    }

    fn offer(&self, request: &ClassRequest<'_>) -> anyhow::Result<ClassOffer> {
        let unnamed = request.values.text("CATALOG").is_empty();
        let name = if unnamed { of_nodes(request.nodes).unwrap_or(request.name) } else { request.name };
        let catalogue = built_in(named(name)?);
        Ok(ClassOffer {
            catalog: catalogue.types,
            schema: catalogue.schema,
            source: format!("{name} (instance types and prices of the fake cloud, which do not exist)"),
            priced: true,
            ..ClassOffer::default()
        })
    }

    fn export(&self, name: &str, _options: &CatalogueOptions, _values: &Values) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(&dump(&built_in(named(name)?)))? + "\n")
    }
}

#[cfg(test)]
mod tests {
    //! The catalogue that nobody named.
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_tell_the_catalogue() {
        let node = |name: &str| json!({"metadata": {"labels": {INSTANCE_TYPE: name}}});
        let (demo, kwok, other) = (node("m6a.4xlarge"), node("c-4x-amd64-linux"), node("x"));
        assert_eq!(of_nodes(&[&other, &demo]), Some("realistic"));
        assert_eq!(of_nodes(&[&kwok]), Some("kwok"));
        assert_eq!((of_nodes(&[&other]), of_nodes(&[])), (None, None));
    }
}
