//! Resources, requirements and durations as JSON.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::{Operator, Quantity, Requirement, Requirements, ResourceName, Resources, Str};
use serde::{Deserialize, Serialize};

/// Resources by name, as quantities.
pub type QuantityMap = BTreeMap<String, String>;

/// Resources in the form of Kubernetes.
#[must_use]
pub fn to_quantities(resources: &Resources) -> QuantityMap {
    resources.iter().map(|(name, amount)| (name.to_string(), name.quantity(amount).to_string())).collect()
}

/// Resources that an instance supplies, from quantities; rounded down.
///
/// # Errors
/// The resource whose quantity is invalid or negative, with the reason.
pub fn from_quantities(quantities: &QuantityMap) -> Result<Resources, (String, String)> {
    let mut resources = Resources::new();
    for (key, text) in quantities {
        let name = ResourceName::from(key.as_str());
        let quantity: Quantity = text.parse().map_err(|error| (key.clone(), format!("{error}")))?;
        if quantity.is_negative() {
            return Err((key.clone(), format!("{text:?} is negative: give zero or more")));
        }
        resources.set(&name, name.supply(quantity));
    }
    Ok(resources)
}

/// A requirement in the form of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireRequirement {
    /// The label key.
    pub key: Str,
    /// The operator.
    pub operator: String,
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Str>,
}

/// Requirements in the form of Kubernetes; one with bounds becomes several of the same key.
#[must_use]
pub fn to_wire(requirements: &Requirements) -> Vec<WireRequirement> {
    let mut wire = Vec::with_capacity(requirements.len());
    for requirement in requirements.iter() {
        let of = |operator: Operator, values: Vec<Str>| WireRequirement {
            key: requirement.key().clone(),
            operator: operator.as_str().to_owned(),
            values,
        };
        let (gte, lte) = (requirement.gte(), requirement.lte());
        let bounded = gte.is_some() || lte.is_some();
        if !bounded || requirement.operator() != Operator::Exists {
            wire.push(of(requirement.operator(), requirement.values().iter().cloned().collect()));
        }
        wire.extend(gte.map(|bound| of(Operator::Gte, vec![bound.to_string().into()])));
        wire.extend(lte.map(|bound| of(Operator::Lte, vec![bound.to_string().into()])));
    }
    wire
}

/// Parses requirements; several of one key are combined with AND.
///
/// # Errors
/// The key of the invalid requirement, with the reason.
pub fn from_wire(wire: &[WireRequirement]) -> Result<Requirements, (Str, String)> {
    let mut requirements = Requirements::new();
    for item in wire {
        let operator = Operator::parse(&item.operator).ok_or_else(|| {
            let known = "In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte";
            (item.key.clone(), format!("operator {:?} is unknown: use one of {known}", item.operator))
        })?;
        let requirement = Requirement::new(item.key.clone(), operator, item.values.iter().cloned())
            .map_err(|error| (item.key.clone(), error.to_string()))?;
        requirements.add(requirement);
    }
    Ok(requirements)
}

/// Parses a duration in Go's form, of whole numbers with `ms`, `s`, `m` or `h`: `30s`, `1m30s`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let millis = match &rest[..end] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        rest = &rest[end..];
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    //! Writing and reading return the same values.
    use super::*;

    #[test]
    fn requirements_survive_the_wire() {
        let requirement = |key: &str, operator, values: &[&str]| {
            Requirement::new(key, operator, values.iter().copied()).unwrap()
        };
        let mut all: Requirements = [
            requirement("a", Operator::In, &["1", "2"]),
            requirement("b", Operator::NotIn, &["1"]),
            requirement("c", Operator::Exists, &[]),
            requirement("d", Operator::DoesNotExist, &[]),
            requirement("e", Operator::Gt, &["3"]),
        ]
        .into_iter()
        .collect();
        all.add(requirement("e", Operator::Lt, &["9"]));
        all.add(requirement("e", Operator::NotIn, &["5"]));
        let wire = to_wire(&all);
        assert_eq!(from_wire(&wire).unwrap(), all, "{wire:?}");
        assert_eq!(wire.len(), 7, "{wire:?}");
    }

    #[test]
    fn resources_survive_the_wire() {
        let resources = Resources::of(1500, 3 << 30).with("nvidia.com/gpu", 2).with("pods", 58);
        let map = to_quantities(&resources);
        assert_eq!(map["cpu"], "1500m");
        assert_eq!(from_quantities(&map).unwrap(), resources);
    }

    #[test]
    fn durations() {
        for (text, millis) in
            [("30s", Some(30_000)), ("1m30s", Some(90_000)), ("250ms", Some(250)), ("2h", Some(7_200_000))]
        {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5s", "1d", "99999999999999999999s", "9999999999999999h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
