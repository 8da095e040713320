//! From Kubernetes' objects to the model: one file per kind.
//!
//! Lowering never fails as a whole: an invalid object is marked with an [`Invalid`] that names the field, and everything else is used.

pub mod affinity;
pub mod buffer;
mod cel;
pub mod claim;
pub mod device;
pub mod limit_range;
pub mod node;
pub mod overlay;
pub mod pdb;
pub mod pod;
pub mod pool;
pub mod requests;
pub mod shared;
pub mod volume;

use std::collections::BTreeMap;

use fleetwright_core::{
    model::{
        Labels, Quantity, ResourceName, Resources, Str, quantity::QuantityError,
        requirement::RequirementError,
    },
    overlay::PriceChangeError,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::Time};

/// Why an object means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A quantity that does not parse.
    #[error("{field}: {source}")]
    Quantity {
        /// The field.
        field: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// A quantity below zero.
    #[error("{field}: {value} is negative: give zero or more")]
    Negative {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A requirement that is not well formed.
    #[error("{field}: {source}")]
    Requirement {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        source: RequirementError,
    },
    /// An operator that is not known.
    #[error("{field}: operator {operator:?} on key {key:?} is not known")]
    Operator {
        /// The field.
        field: &'static str,
        /// The label key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// A node selector whose terms are all empty.
    #[error("{field}: no term has a condition, so that no node matches: give one, or leave the affinity out")]
    NoTerm {
        /// The field.
        field: &'static str,
    },
    /// A price or a change of one that is not well formed.
    #[error("spec.{0}")]
    Price(#[from] PriceChangeError),
    /// A field that is required.
    #[error("{0}: required")]
    Missing(&'static str),
    /// An object that is not of its kind's form.
    #[error("{0}")]
    Malformed(String),
}

/// Labels or annotations.
pub(crate) fn labels(map: Option<&BTreeMap<String, String>>) -> Labels {
    map.into_iter().flatten().map(|(key, value)| (text(key), text(value))).collect()
}

/// A shared copy of a text.
pub(crate) fn text(text: &str) -> Str {
    text.into()
}

/// A text that is there and not empty.
pub(crate) fn filled(value: Option<&String>) -> Option<Str> {
    value.filter(|value| !value.is_empty()).map(|value| text(value))
}

/// A time.
pub(crate) fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

/// Amounts that are demanded: rounded up; below zero is an error.
pub(crate) fn demand(field: &str, map: Option<&BTreeMap<String, Text>>) -> Result<Resources, Invalid> {
    amounts(field, map, ResourceName::demand)
}

/// Amounts that are there: rounded down; below zero is an error.
pub(crate) fn supply(field: &str, map: Option<&BTreeMap<String, Text>>) -> Result<Resources, Invalid> {
    amounts(field, map, ResourceName::supply)
}

fn amounts(
    field: &str,
    map: Option<&BTreeMap<String, Text>>,
    convert: fn(&ResourceName, Quantity) -> i64,
) -> Result<Resources, Invalid> {
    let mut amounts = Resources::new();
    for (name, written) in map.into_iter().flatten() {
        let name = ResourceName::from(name.as_str());
        let quantity = quantity(&format!("{field}[{name}]"), written)?;
        amounts.set(&name, convert(&name, quantity));
    }
    Ok(amounts)
}

/// One quantity, zero or more.
pub(crate) fn quantity(field: &str, written: &Text) -> Result<Quantity, Invalid> {
    let quantity: Quantity =
        written.0.parse().map_err(|source| Invalid::Quantity { field: field.to_owned(), source })?;
    if quantity.is_negative() {
        return Err(Invalid::Negative { field: field.to_owned(), value: quantity.to_string() });
    }
    Ok(quantity)
}
