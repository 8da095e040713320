//! Prices in nano-dollars per hour: integers, so that ordering is total and sums are exact.

use std::{fmt, iter::Sum, ops::Add};

/// Nano-dollars per hour, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

/// Why a number is not a price.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PriceError {
    /// NaN, infinite, or beyond nine billion an hour.
    #[error("price {0} is not a finite amount: give a price per hour, such as 0.096")]
    NotFinite(f64),
    /// Below zero.
    #[error("price {0} is negative: give a price per hour, zero or more")]
    Negative(f64),
}

impl Price {
    /// Free of charge.
    pub const ZERO: Self = Self(0);
    /// Dearer than anything.
    pub const MAX: Self = Self(i64::MAX);

    /// From nano-dollars per hour; negative amounts become zero.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(if nanos > 0 { nanos } else { 0 })
    }

    /// From dollars per hour, rounded to the nearest nano-dollar.
    ///
    /// # Errors
    /// If the number is not a price.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    pub fn from_dollars(dollars: f64) -> Result<Self, PriceError> {
        if !dollars.is_finite() || dollars >= 9e9 {
            return Err(PriceError::NotFinite(dollars));
        }
        if dollars < 0.0 {
            return Err(PriceError::Negative(dollars));
        }
        Ok(Self((dollars * 1e9).round() as i64))
    }

    /// Nano-dollars per hour.
    #[must_use]
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// Dollars per hour, for display and search guidance only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show, not to decide by")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Subtracts; zero if the result would be negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self((self.0 - other.0).max(0))
    }

    /// The price of a whole of which `permille` thousandths cost this, rounded up.
    #[must_use]
    pub fn per_share(self, permille: u16) -> Self {
        let permille = i128::from(permille.max(1));
        let whole = (i128::from(self.0) * 1000 + permille - 1) / permille;
        Self::from_nanos(i64::try_from(whole).unwrap_or(i64::MAX))
    }

    /// The price of `count` at this price each.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        Self::from_nanos(self.0.saturating_mul(count))
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Add::add)
    }
}

/// Decimal dollars without a currency sign and without trailing zeros: `0.0425`.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        if let Some(places) = f.precision() {
            return write!(f, "{:.places$}", self.dollars());
        }
        let digits = format!("{nanos:09}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            rest => write!(f, "{whole}.{rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Text and range of prices.
    use super::*;

    #[test]
    fn text_is_exact() {
        for (dollars, text) in
            [(0.0, "0"), (0.0425, "0.0425"), (12.0, "12"), (0.1 + 0.2, "0.3"), (1e-9, "0.000000001")]
        {
            assert_eq!(Price::from_dollars(dollars).unwrap().to_string(), text);
        }
        assert_eq!(format!("{:.4}", Price::from_nanos(42_512_345)), "0.0425");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Price::from_dollars(f64::NAN).is_err());
        assert!(Price::from_dollars(f64::INFINITY).is_err());
        assert_eq!(Price::from_dollars(-0.5), Err(PriceError::Negative(-0.5)));
        assert_eq!(Price::from_nanos(-4), Price::ZERO);
    }
}
