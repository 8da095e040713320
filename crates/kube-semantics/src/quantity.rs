//! Quantities of Kubernetes: exact values and their text.
//!
//! The value is held in nano units as `i128`, which covers the whole range of Kubernetes (±2^63 units at a precision
//! of one nano) without floats. Finer precision rounds up, away from zero, as Kubernetes does.

mod meant;

use std::{cmp::Ordering, fmt, str::FromStr};

pub use self::meant::meant;

/// Nano units in one unit.
const NANO: i128 = 1_000_000_000;
/// Kubernetes' largest magnitude: 2^63 - 1 units.
const MAX_NANOS: i128 = (i64::MAX as i128) * NANO;

/// The family of suffixes with which a quantity was written and is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// `n u m k M G T P E`
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `1e3`
    DecimalExponent,
}

/// An exact amount with its notation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by one of Kubernetes' suffixes.
    #[error("{0:?} is not a quantity: {fix}", fix = self.fix())]
    Malformed(String),
    /// Larger than Kubernetes can represent (2^63 - 1 units).
    #[error("{0:?} is out of range: {fix}", fix = self.fix())]
    OutOfRange(String),
}

impl QuantityError {
    /// What to write instead.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::Malformed(text) => match meant(text) {
                Some(meant) => format!("write {meant}"),
                None => "write a number with an optional suffix such as 100m, 1.5, 2Gi or 1e3".to_owned(),
            },
            Self::OutOfRange(_) => "the largest quantity is 9223372036854775807".to_owned(),
        }
    }
}

impl Quantity {
    /// A quantity of `milli` thousandths, printed with decimal suffixes.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * 1_000_000, format: Format::DecimalSi }
    }

    /// A quantity of whole `units`, printed with `format`.
    #[must_use]
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANO, format }
    }

    /// Reads a quantity as the API server stores it: a magnitude that is too large becomes the largest one.
    ///
    /// # Errors
    /// If the text is not a quantity.
    pub fn capped(text: &str) -> Result<Self, QuantityError> {
        match text.parse() {
            Err(QuantityError::OutOfRange(_)) => {
                let (_, suffix) = split(text.trim_start_matches(['+', '-']));
                let format = scale_of(suffix).map(|(format, _)| format).unwrap_or_default();
                Ok(Self { nanos: if text.starts_with('-') { -MAX_NANOS } else { MAX_NANOS }, format })
            }
            other => other,
        }
    }

    /// The exact value in nano units.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether the value is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the value is a whole number of units.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// Thousandths, rounded up (for demand).
    #[must_use]
    pub fn milli_ceil(self) -> i64 {
        saturate(ceil_div(self.nanos, 1_000_000))
    }

    /// Thousandths, rounded down (for supply).
    #[must_use]
    pub fn milli_floor(self) -> i64 {
        saturate(self.nanos.div_euclid(1_000_000))
    }

    /// Whole units, rounded up (for demand).
    #[must_use]
    pub fn units_ceil(self) -> i64 {
        saturate(ceil_div(self.nanos, NANO))
    }

    /// Whole units, rounded down (for supply).
    #[must_use]
    pub fn units_floor(self) -> i64 {
        saturate(self.nanos.div_euclid(NANO))
    }
}

fn ceil_div(value: i128, by: i128) -> i128 {
    -(-value).div_euclid(by)
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

// === impl FromStr ===

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(shorten(text));
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (number, suffix) = split(rest);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let (format, scale) = scale_of(suffix).ok_or_else(malformed)?;
        let magnitude =
            scaled(whole, fraction, scale).ok_or_else(|| QuantityError::OutOfRange(shorten(text)))?;
        if magnitude > MAX_NANOS {
            return Err(QuantityError::OutOfRange(shorten(text)));
        }
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, format })
    }
}

/// Splits digits from the suffix behind them.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

/// How the digits are scaled: by a power of ten or of two.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i64),
    Two(u32),
}

fn scale_of(suffix: &str) -> Option<(Format, Scale)> {
    let scale = match suffix {
        "n" => (Format::DecimalSi, Scale::Ten(-9)),
        "u" => (Format::DecimalSi, Scale::Ten(-6)),
        "m" => (Format::DecimalSi, Scale::Ten(-3)),
        "" => (Format::DecimalSi, Scale::Ten(0)),
        "k" => (Format::DecimalSi, Scale::Ten(3)),
        "M" => (Format::DecimalSi, Scale::Ten(6)),
        "G" => (Format::DecimalSi, Scale::Ten(9)),
        "T" => (Format::DecimalSi, Scale::Ten(12)),
        "P" => (Format::DecimalSi, Scale::Ten(15)),
        "E" => (Format::DecimalSi, Scale::Ten(18)),
        "Ki" => (Format::BinarySi, Scale::Two(10)),
        "Mi" => (Format::BinarySi, Scale::Two(20)),
        "Gi" => (Format::BinarySi, Scale::Two(30)),
        "Ti" => (Format::BinarySi, Scale::Two(40)),
        "Pi" => (Format::BinarySi, Scale::Two(50)),
        "Ei" => (Format::BinarySi, Scale::Two(60)),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // An exponent too long for an i64 is as far out of range as any large or small one.
            let beyond = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
            let value = exponent.strip_prefix('+').unwrap_or(exponent).parse().unwrap_or(beyond);
            (Format::DecimalExponent, Scale::Ten(value))
        }
    };
    Some(scale)
}

/// The magnitude in nanos, rounded up; `None` if it overflows.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> Option<i128> {
    // The value has 9 decimal places: digits beyond the 40th only round it up.
    let (kept, dropped) = fraction.split_at(fraction.len().min(40));
    let mut digits: i128 = 0;
    let mut places: i64 = 0;
    let mut inexact = dropped.bytes().any(|b| b != b'0');
    for byte in whole.bytes() {
        digits = digits.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    for byte in kept.trim_end_matches('0').bytes() {
        match digits.checked_mul(10).and_then(|d| d.checked_add(i128::from(byte - b'0'))) {
            Some(next) => {
                digits = next;
                places += 1;
            }
            None => inexact = true,
        }
    }
    if digits == 0 && !inexact {
        return Some(0);
    }
    let (mut value, shift) = match scale {
        Scale::Ten(power) => (digits, power.checked_add(9)?.checked_sub(places)?),
        Scale::Two(bits) => (digits.checked_mul(1_i128 << bits)?, 9 - places),
    };
    if shift >= 0 {
        value = value.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    } else {
        // Below 10^-38 of a nano every positive value rounds up to one nano.
        let divisor = u32::try_from(-shift).ok().and_then(|p| 10_i128.checked_pow(p)).unwrap_or(i128::MAX);
        inexact |= value % divisor != 0;
        value /= divisor;
    }
    value.checked_add(i128::from(inexact))
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

// === impl Display: Kubernetes' canonical form ===

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Binary suffixes stand for whole units; Kubernetes writes other amounts, and small ones, with decimal suffixes.
        let binary = self.is_whole() && self.nanos.abs() >= 1024 * NANO;
        match self.format {
            Format::BinarySi if binary => {
                let (units, power) = strip(self.nanos / NANO, 1024, 6);
                write!(f, "{units}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power])
            }
            Format::DecimalExponent => {
                let (units, power) = strip(self.nanos, 1000, 9);
                match i64::try_from(power).unwrap_or(0) * 3 - 9 {
                    0 => write!(f, "{units}"),
                    exponent => write!(f, "{units}e{exponent}"),
                }
            }
            Format::BinarySi | Format::DecimalSi => {
                let (units, power) = strip(self.nanos, 1000, 9);
                write!(f, "{units}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power])
            }
        }
    }
}

/// Divides by `base` while there is no remainder, at most `limit` times.
fn strip(mut value: i128, base: i128, limit: usize) -> (i128, usize) {
    let mut power = 0;
    while power < limit && value != 0 && value % base == 0 {
        value /= base;
        power += 1;
    }
    (value, power)
}

#[cfg(test)]
mod tests;
