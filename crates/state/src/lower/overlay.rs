//! NodeOverlays.

use fleetwright_api as api;
use fleetwright_core::{
    model::{LabelSchema, Resources},
    overlay::{NodeOverlay, PriceChange},
};

use super::{Invalid, shared, supply, text};

/// A NodeOverlay; check it with [`crate::validate::overlay`] first.
///
/// # Errors
/// If a requirement, a price or a quantity is invalid.
pub fn overlay(overlay: &api::NodeOverlay, schema: &LabelSchema) -> Result<NodeOverlay, Invalid> {
    let spec = &overlay.spec;
    let requirements: Vec<api::Requirement> = spec.requirements.iter().map(as_requirement).collect();
    let price = match (&spec.price, &spec.price_adjustment) {
        (Some(price), _) => Some(PriceChange::parse_price(price)?),
        (None, Some(adjustment)) => Some(PriceChange::parse_adjustment(adjustment)?),
        (None, None) => None,
    };
    Ok(NodeOverlay {
        name: text(overlay.metadata.name.as_deref().unwrap_or_default()),
        weight: spec.weight.unwrap_or(0),
        requirements: shared::requirements(&requirements, schema, "spec.requirements")?,
        price,
        capacity: spec
            .capacity
            .as_ref()
            .map_or_else(|| Ok(Resources::new()), |capacity| supply("spec.capacity", Some(capacity)))?,
    })
}

/// The same requirement as NodePools write it.
pub(crate) fn as_requirement(wanted: &api::nodeoverlay::OverlayRequirement) -> api::Requirement {
    api::Requirement {
        key: wanted.key.clone(),
        min_values: None,
        operator: wanted.operator.clone(),
        values: wanted.values.clone(),
    }
}
