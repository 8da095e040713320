//! Kubernetes quantities: parsing, canonical text and comparison. Values are exact down to a billionth
//! and capped at 2^63-1, as in apimachinery's `resource.Quantity`.

use std::fmt;

use serde_json::Value;

/// How a quantity was written, which decides its canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// A parsed quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Billionths.
    nano: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;
const LARGEST: i128 = 9_223_372_036_854_775_807 * NANO;
const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: &[&str] = &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Reads a quantity such as `100m`, `1.5Gi` or `1e3`.
pub(crate) fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end =
        rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (base, power, format) = read_suffix(suffix)?;
    let nano = scale(whole, fraction, base, power);
    Some(Quantity { nano: if negative { -nano } else { nano }, format })
}

fn read_suffix(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((10, *power, Format::Decimal));
    }
    if let Some(index) = BINARY.iter().position(|name| *name == suffix) {
        return Some((1024, i32::try_from(index).ok()?.saturating_add(1), Format::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.trim_start_matches(['+', '-']);
    if digits.is_empty()
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
        || exponent.len() > digits.len() + 1
    {
        return None;
    }
    // More than any representable value needs: the result is capped or rounded anyway.
    let power =
        exponent.parse::<i32>().unwrap_or_else(|_| if exponent.starts_with('-') { -1000 } else { 1000 });
    Some((10, power.clamp(-1000, 1000), Format::Exponent))
}

/// `whole.fraction * base^power` in billionths, rounded up and capped.
fn scale(whole: &str, fraction: &str, base: i128, power: i32) -> i128 {
    let digits: String = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return 0;
    }
    let fraction_digits = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    if base == 1024 {
        let Ok(mantissa) = digits.parse::<i128>() else { return LARGEST };
        let factor = 1024_i128.checked_pow(power.unsigned_abs()).unwrap_or(LARGEST);
        let Some(product) = mantissa.checked_mul(factor) else { return LARGEST };
        return shift(product, 9_i32.saturating_sub(fraction_digits));
    }
    let total = power.saturating_add(9).saturating_sub(fraction_digits);
    match digits.parse::<i128>() {
        Ok(mantissa) => shift(mantissa, total),
        Err(_) if total < -30 => 1,
        Err(_) => LARGEST,
    }
}

/// `value * 10^power`, rounded up and capped.
fn shift(value: i128, power: i32) -> i128 {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    match (power >= 0, factor) {
        (true, Some(factor)) => value.checked_mul(factor).unwrap_or(LARGEST).min(LARGEST),
        (true, None) => LARGEST,
        (false, Some(factor)) => ((value / factor) + i128::from(value % factor != 0)).min(LARGEST),
        (false, None) => 1,
    }
}

impl Quantity {
    /// Whether the value is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Whether the value is a whole number.
    pub(crate) fn is_whole(&self) -> bool {
        self.nano % NANO == 0
    }

    /// Billionths, for comparison.
    pub(crate) fn nano(&self) -> i128 {
        self.nano
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return formatter.write_str("0");
        }
        let whole = self.nano / NANO;
        if self.format == Format::Binary && whole.abs() >= 1024 {
            let mut mantissa = whole + i128::from(self.nano > 0 && self.nano % NANO != 0);
            let mut power = 0;
            while mantissa % 1024 == 0 && power < BINARY.len() {
                mantissa /= 1024;
                power += 1;
            }
            let suffix = power.checked_sub(1).map_or("", |index| BINARY[index]);
            return write!(formatter, "{mantissa}{suffix}");
        }
        let (mut mantissa, mut index) = (self.nano, 0);
        while mantissa % 1000 == 0 && index + 1 < DECIMAL.len() {
            mantissa /= 1000;
            index += 1;
        }
        let (suffix, power) = DECIMAL[index];
        match (self.format, power) {
            (Format::Exponent, 0) => write!(formatter, "{mantissa}"),
            (Format::Exponent, power) => write!(formatter, "{mantissa}e{power}"),
            _ => write!(formatter, "{mantissa}{suffix}"),
        }
    }
}

/// Fields whose value is a map from resource names to quantities.
const LISTS: &[&str] = &[
    "allocatable",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "min",
    "overhead",
    "requests",
    "used",
    "allocatedResources",
];

/// Brings all quantities of a built-in object into canonical form.
///
/// # Errors
/// The decoder's message when one cannot be read.
pub(crate) fn canonicalise(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(map) => map.iter_mut().try_for_each(|(key, field)| match field {
            Value::Object(entries) if LISTS.contains(&key.as_str()) => entries.values_mut().try_for_each(one),
            Value::String(_) | Value::Number(_) if key == "sizeLimit" || key == "divisor" => one(field),
            field => canonicalise(field),
        }),
        Value::Array(list) => list.iter_mut().try_for_each(canonicalise),
        _ => Ok(()),
    }
}

fn one(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    let parsed = parse(&text).ok_or_else(|| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    })?;
    *value = Value::String(parsed.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_canonical_text() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1024Ki", "1Mi"),
            ("1e3", "1e3"),
            ("1e400", "9223372036854775807"),
            ("9E9", "9e9"),
            ("0", "0"),
            ("-1", "-1"),
            ("1000000k", "1G"),
            ("100u", "100u"),
            ("1.0000000001", "1000000001n"),
        ] {
            let parsed = parse(text).unwrap_or_else(|| panic!("{text} is a quantity"));
            assert_eq!(parsed.to_string(), canonical, "{text}");
        }
        for bad in ["", "abc", "9E9E", "1 ", "1..2", "-", "1e", "Gi", "1mi"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
