//! The instance types of the tools, without a connection to a cloud: each cloud describes those of its NodeClasses.
//!
//! - [`OfflineCatalogue`]: what a cloud registers with `Operator::catalogue`.
//! - [`offer`]: the catalogue of each NodePool of an input.
//! - [`file`]: instance types of a file, for any NodeClass.

mod definitions;
mod file;
mod offer;
mod options;

use std::{path::Path, sync::Arc};

use fleetwright_core::model::{Catalog, Currency, InstanceType, LabelSchema, NodeClassRef};
use serde_json::Value;

pub(crate) use self::definitions::Schemas;
#[cfg(feature = "lab")]
pub(crate) use self::file::of_file;
pub(crate) use self::offer::{Catalogues, Footer, Offer, SourceRow};
pub use options::CatalogueOptions;

use crate::settings::{Values, table::Setting};

/// Describes the instance types of a cloud's NodeClasses without a connection to the cloud. `plan`, `disrupt` and `explain` decide with
/// them. It reports what it does not know in [`ClassOffer::gaps`] and never invents a type or a price.
pub trait OfflineCatalogue: Send + Sync + 'static {
    /// The values of `--catalog` that choose among its catalogues; the first one is the default.
    fn names(&self) -> &'static [&'static str];

    /// Whether it describes NodeClasses of this group and kind.
    fn serves(&self, class: &NodeClassRef) -> bool;

    /// Whether a file of instance types (`--instance-types`) has the form of this catalogue. Other files are read in the form of
    /// Karpenter's kwok provider.
    fn reads(&self, _text: &str) -> bool {
        false
    }

    /// Its settings: flags and environment variables, which [`ClassRequest::values`] has beside those of the operator.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// What label keys mean on its nodes, whatever the input has: `lint` knows them beside those of the NodePools. By default, Karpenter's own.
    fn labels(&self) -> LabelSchema {
        LabelSchema::default()
    }

    /// What decisions read of the NodeClasses that it serves, beside their conditions: a line per field with its path and the class of its
    /// value, as in `fleetwright_state::fields`. `dump` and recordings hold nothing else of them.
    fn fields(&self) -> &'static str {
        ""
    }

    /// Fields of a NodeClass that select an image which changes by itself, so that nodes drift without a change of the NodeClass: `lint`
    /// warns of them (L108).
    fn moving_images(&self, _class: &Value) -> Vec<MovingImage> {
        Vec::new()
    }

    /// What is unclear about the images that the status of a NodeClass names, for the instance types that its NodePools allow: `lint` warns of it
    /// (L108). By default nothing is known.
    fn unclear_images(&self, _class: &Value, _types: &[Arc<InstanceType>]) -> Vec<MovingImage> {
        Vec::new()
    }

    /// Instances that carry the cluster's name and are of none of its NodeClaims, all of which are `claims`: `lint` warns of them (L107). By default, and where the
    /// catalogue called `name` does not read the account, none are known.
    ///
    /// # Errors
    /// If the account cannot be read.
    fn unclaimed(&self, _name: &str, _claims: &[&Value], _values: &Values) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The instance types of a NodeClass.
    ///
    /// # Errors
    /// If an option or a file is invalid. Unknown data is a gap of the offer.
    fn offer(&self, request: &ClassRequest<'_>) -> anyhow::Result<ClassOffer>;

    /// What a change of the spec of a NodeClass that it serves does to the nodes of the class, as far as the two objects say it. By
    /// default the provider alone knows.
    fn class_change(&self, _old: &Value, _new: &Value) -> ClassChange {
        ClassChange::of_provider()
    }

    /// Writes one of its catalogues as a file that `--instance-types` takes.
    ///
    /// # Errors
    /// If an option is invalid.
    fn export(&self, name: &str, options: &CatalogueOptions, values: &Values) -> anyhow::Result<String>;
}

/// A field of a NodeClass that selects an image which changes by itself, or several among which nothing decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MovingImage {
    /// The path of the field, such as `spec.images[0].name`.
    pub field: String,
    /// What happens.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl MovingImage {
    /// A field, what happens by it, and what to write instead.
    pub fn new(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), fix: fix.into() }
    }
}

/// What a change of a NodeClass does to its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassChange {
    /// They drift.
    Drifts,
    /// They stay as they are.
    Stays,
    /// The objects do not say it, for the reason in the text.
    Unknown(String),
}

impl ClassChange {
    pub(crate) fn of_provider() -> Self {
        Self::Unknown("which of its nodes drift by the change is known to its provider alone".to_owned())
    }
}

/// A request for the instance types of one NodeClass.
#[derive(Clone, Copy)]
pub struct ClassRequest<'a> {
    /// The NodeClass.
    pub class: &'a NodeClassRef,
    /// The object; `None` if the input does not have it.
    pub object: Option<&'a Value>,
    /// The NodePools that use it.
    pub pools: &'a [&'a Value],
    /// All Nodes of the input.
    pub nodes: &'a [&'a Value],
    /// One of [`OfflineCatalogue::names`].
    pub name: &'a str,
    /// A file that [`OfflineCatalogue::reads`]: path and text.
    pub file: Option<(&'a Path, &'a str)>,
    /// Options of the command line.
    pub options: &'a CatalogueOptions,
    /// The settings of the controller.
    pub values: &'a Values,
}

/// The instance types of a NodeClass.
#[derive(Clone, Debug, Default)]
pub struct ClassOffer {
    /// The instance types.
    pub catalog: Arc<Catalog>,
    /// The label schema.
    pub schema: Arc<LabelSchema>,
    /// The sources of types and prices, with their dates; shown below each table.
    pub source: String,
    /// Whether prices are known. If not, all types are in [`Catalog::unpriced`].
    pub priced: bool,
    /// What prices are in, if that follows from the NodeClass, such as by its region. Otherwise `CloudConnector::currency` says it.
    pub currency: Option<Currency>,
    /// Assumptions and omissions.
    pub notes: Vec<String>,
    /// Gaps of the catalogue. With any, a tool exits with status 3.
    pub gaps: Vec<String>,
}
