//! Durations as Go writes them (`1h30m`, `720h`, `0s`), with `Never`.
//!
//! An object's text is kept as it was written, because it goes into copies of the object unchanged.

use std::borrow::Cow;
use std::fmt;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// The word for "no such duration".
pub const NEVER: &str = "Never";

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is empty or lacks a number.
    #[error("duration lacks a number: write it as 1h30m")]
    NoNumber,
    /// A number is not followed by a unit.
    #[error("duration lacks a unit: use one of ns, us, ms, s, m, h")]
    NoUnit,
    /// The unit is not one of Go's.
    #[error("duration has an unknown unit: use one of ns, us, ms, s, m, h")]
    UnknownUnit,
    /// More than about 292 years.
    #[error("duration is out of range: at most 2562047h")]
    OutOfRange,
}

/// A duration field of an object: a Go duration or [`NEVER`], together with the text that it was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NillableDuration {
    raw: String,
    value: Result<Option<SignedDuration>, DurationError>,
}

impl NillableDuration {
    /// Stores any text; [`Self::get`] reports an invalid one.
    pub fn new(raw: impl Into<String>) -> Self {
        let raw = raw.into();
        let value = if raw == NEVER { Ok(None) } else { parse(&raw).map(Some) };
        Self { raw, value }
    }

    /// `Never`.
    pub fn never() -> Self {
        Self::new(NEVER)
    }

    /// The text as written in the object.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The duration, `None` for `Never`.
    ///
    /// # Errors
    /// When the text, which some earlier CRD must have admitted, is not a duration.
    pub fn get(&self) -> Result<Option<SignedDuration>, DurationError> {
        self.value
    }

    /// The duration, or `None` for `Never` and for an unreadable text: a timer that cannot be read never fires.
    pub fn finite(&self) -> Option<SignedDuration> {
        self.value.ok().flatten()
    }
}

impl From<SignedDuration> for NillableDuration {
    fn from(duration: SignedDuration) -> Self {
        Self::new(format(duration))
    }
}

impl From<&str> for NillableDuration {
    fn from(raw: &str) -> Self {
        Self::new(raw)
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.raw)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for NillableDuration {
    fn schema_name() -> Cow<'static, str> {
        "NillableDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// Nanoseconds of a unit.
fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Reads a duration by the grammar of Go's `time.ParseDuration`: an optional sign, then numbers (decimals allowed) each
/// followed by a unit; `0` alone needs none. Fractions of a nanosecond are cut off.
///
/// # Errors
/// One variant per defect; the range is that of a signed 64-bit count of nanoseconds.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanos, tail) = term(rest)?;
        total = total.checked_add(nanos).ok_or(DurationError::OutOfRange)?;
        rest = tail;
    }
    let signed = if negative { -total } else { total };
    i64::try_from(signed).map(SignedDuration::from_nanos).map_err(|_| DurationError::OutOfRange)
}

/// One number with its unit at the start of `text`: its nanoseconds and what follows.
fn term(text: &str) -> Result<(i128, &str), DurationError> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(end);
    if unit.is_empty() {
        return Err(DurationError::NoUnit);
    }
    let scale = unit_nanos(unit).ok_or(DurationError::UnknownUnit)?;
    let whole: i128 =
        if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::OutOfRange)? };
    // Eighteen places are finer than a nanosecond for every unit, and leave room for the product below.
    let (mut numerator, mut denominator): (i128, i128) = (0, 1);
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + i128::from(digit - b'0');
        denominator *= 10;
    }
    let nanos = whole
        .checked_mul(scale)
        .and_then(|nanos| nanos.checked_add(numerator * scale / denominator))
        .ok_or(DurationError::OutOfRange)?;
    Ok((nanos, tail))
}

/// Splits off the leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Writes a duration as Go's `Duration.String` does: `1h0m0s`, `1.5s`, `2ms`, `0s`.
pub fn format(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    if magnitude == 0 {
        return "0s".to_owned();
    }
    for (limit, scale, unit) in
        [(1_000, 1, "ns"), (1_000_000, 1_000, "\u{b5}s"), (1_000_000_000, 1_000_000, "ms")]
    {
        if magnitude < limit {
            return format!("{sign}{}{unit}", decimal(magnitude, scale));
        }
    }
    const MINUTE: u128 = 60_000_000_000;
    let seconds = decimal(magnitude % MINUTE, 1_000_000_000);
    let minutes = magnitude / MINUTE;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / scale` as a decimal without trailing zeros; `scale` is a power of ten.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    format!("{whole}.{}", format!("{fraction:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
