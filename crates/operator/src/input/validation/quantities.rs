//! Quantities: those of pods and their containers, of LimitRanges, ResourceQuotas and PersistentVolumeClaims.

use fleetwright_core::model::{Quantity, quantity::QuantityError};
use serde_json::{Map, Value};

use super::{meant_resource, plain};
use crate::input::invalid::{Invalid, add};

/// The amounts of a row of a LimitRange.
const OF_RANGE: [&str; 5] = ["default", "defaultRequest", "max", "min", "maxLimitRequestRatio"];
/// The resources that every container may have.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// `ParseQuantity` and `ValidateResourceQuantityValue` for each amount of a map.
pub(super) fn amounts(amounts: &Value, path: &str, found: &mut Vec<Invalid>) {
    for (name, value) in amounts.as_object().into_iter().flatten() {
        amount(value, &format!("{path}[{name}]"), found);
    }
}

pub(super) fn amount(value: &Value, path: &str, found: &mut Vec<Invalid>) {
    // Values that are neither texts nor numbers have another type.
    if !value.is_string() && !value.is_number() {
        return;
    }
    let text = plain(value);
    match text.parse::<Quantity>() {
        Ok(quantity) if quantity.is_negative() => {
            let message = format!("Invalid value: {text:?}: must be greater than or equal to 0");
            add(found, path.to_owned(), message, "write zero or more");
        }
        // What is too large is capped by the API server.
        Ok(_) | Err(QuantityError::OutOfRange(_)) => {}
        Err(error) => {
            add(found, path.to_owned(), format!("Invalid value: {text:?}: not a quantity"), error.fix());
        }
    }
}

/// `ValidateLimitRange`, of its amounts.
pub(super) fn limit_range(spec: &Value, found: &mut Vec<Invalid>) {
    for (at, row) in spec["limits"].as_array().into_iter().flatten().enumerate() {
        for part in OF_RANGE {
            amounts(&row[part], &format!("spec.limits[{at}].{part}"), found);
        }
        for (lower, upper) in [
            ("min", "max"),
            ("min", "default"),
            ("min", "defaultRequest"),
            ("default", "max"),
            ("defaultRequest", "max"),
        ] {
            in_order(row, (lower, upper), &format!("spec.limits[{at}]"), found);
        }
    }
}

/// An amount of a row of a LimitRange that is above the one that bounds it.
fn in_order(row: &Value, (lower, upper): (&str, &str), path: &str, found: &mut Vec<Invalid>) {
    let of = |part: &str| row[part].as_object().cloned().unwrap_or_else(Map::new);
    let most = of(upper);
    for (name, least) in of(lower) {
        let Some(most) = most.get(&name) else { continue };
        let above =
            super::quantity(&least).zip(super::quantity(most)).is_some_and(|(least, most)| least > most);
        if above {
            let message = format!(
                "Invalid value: {:?}: {lower} value {} is greater than {upper} value {}",
                plain(&least),
                plain(&least),
                plain(most)
            );
            add(
                found,
                format!("{path}.{lower}[{name}]"),
                message,
                format!("lower {lower}, or raise {upper}"),
            );
        }
    }
}

/// `validateContainerResourceName` and `ValidateResourceQuantityValue`.
pub(super) fn of_container(name: &str, value: &Value, path: &str, found: &mut Vec<Invalid>) {
    if !name.contains('/') && !STANDARD.contains(&name) && !super::is_huge_page(name) {
        let fix = meant_resource(name, &STANDARD).map_or_else(
            || "write the whole name, such as nvidia.com/gpu".to_owned(),
            |meant| format!("write {meant}"),
        );
        let message = format!("Invalid value: {name:?}: must be a standard resource for containers");
        add(found, path.to_owned(), message, fix);
    }
    amount(value, path, found);
    if !super::is_native(name) && super::quantity(value).is_some_and(|amount| !amount.is_whole()) {
        let message = format!("Invalid value: {:?}: must be an integer", plain(value));
        add(found, path.to_owned(), message, "write a whole number");
    }
}

/// The amounts of a container at `path` that are parts of bytes, as in `memory: 512m`: the API server takes them, and rounds up.
pub(crate) fn parts_of_bytes(container: &Value, path: &str) -> Vec<Invalid> {
    let mut found = Vec::new();
    for part in ["requests", "limits"] {
        for (name, amount) in container["resources"][part].as_object().into_iter().flatten() {
            let in_bytes = matches!(&**name, "memory" | "ephemeral-storage") || super::is_huge_page(name);
            let text = plain(amount);
            let parsed = text.parse::<Quantity>().ok().filter(|quantity| in_bytes && !quantity.is_whole());
            if let Some(quantity) = parsed {
                let bytes = match quantity.units_ceil() {
                    1 => "1 byte".to_owned(),
                    bytes => format!("{bytes} bytes"),
                };
                let (why, fix) = match text.strip_suffix('m') {
                    Some(digits) => (": m is a thousandth", format!("write {digits}Mi or {digits}M")),
                    None => ("", "write whole bytes, such as 512Mi".to_owned()),
                };
                let message = format!("{name}: {text} is {bytes}, rounded up{why}");
                add(&mut found, format!("{path}.resources.{part}.{name}"), message, fix);
            }
        }
    }
    found
}
