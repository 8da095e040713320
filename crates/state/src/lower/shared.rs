//! What NodePools and NodeClaims have in common: requirements, taints, durations, class references.

use std::time::Duration;

use fleetwright_api::{self as api, NillableDuration};
use fleetwright_core::model::{
    LabelSchema, NodeClassRef, Operator, Requirement, Requirements, Taint, TaintEffect,
};

use super::{Invalid, text};

/// Requirements, keys normalised.
///
/// # Errors
/// If one of them is invalid.
pub fn requirements(
    list: &[api::Requirement],
    schema: &LabelSchema,
    field: &'static str,
) -> Result<Requirements, Invalid> {
    list.iter().map(|wanted| requirement(wanted, schema, field)).collect()
}

fn requirement(
    wanted: &api::Requirement,
    schema: &LabelSchema,
    field: &'static str,
) -> Result<Requirement, Invalid> {
    let operator = Operator::parse(wanted.operator.as_str()).ok_or_else(|| Invalid::Operator {
        field,
        key: wanted.key.clone(),
        operator: wanted.operator.as_str().to_owned(),
    })?;
    let min_values = wanted.min_values.and_then(|min| u32::try_from(min).ok());
    Requirement::new(schema.normalize(&wanted.key), operator, wanted.values.iter().map(String::as_str))
        .map(|requirement| requirement.with_min_values(min_values))
        .map_err(|source| Invalid::Requirement { field, source })
}

/// Taints; an effect that is not known is left out.
#[must_use]
pub fn taints(list: Option<&Vec<api::Taint>>) -> Vec<Taint> {
    let known = |taint: &api::Taint| {
        Some(Taint::new(&*taint.key, &*taint.value, TaintEffect::parse(taint.effect.as_str())?))
    };
    list.into_iter().flatten().filter_map(known).collect()
}

/// A duration; `None` for unset, `Never` and what does not parse. Durations below zero count as zero.
#[must_use]
pub fn duration(value: Option<&NillableDuration>) -> Option<Duration> {
    Some(Duration::try_from(value?.finite()?).unwrap_or_default())
}

/// A reference to a provider's class.
#[must_use]
pub fn class(class: &api::NodeClassRef) -> NodeClassRef {
    NodeClassRef { group: text(&class.group), kind: text(&class.kind), name: text(&class.name) }
}
