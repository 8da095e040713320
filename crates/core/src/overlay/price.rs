//! What an overlay does to a price: exact, in nano-dollars.

use crate::model::Price;

/// One percent, in the unit of [`PriceChange::Percent`].
const PERCENT: i128 = NANO;
/// Nano units in one unit.
const NANO: i128 = 1_000_000_000;
/// More digits than this before the point are out of range: nine billion dollars, as for prices.
const MAX_WHOLE_DIGITS: usize = 9;

/// What becomes of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceChange {
    /// It is this.
    To(Price),
    /// So many nano-dollars more, or less.
    By(i64),
    /// So many billionths of a percent more, or less.
    Percent(i64),
}

/// Why a text is not a price or a change of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceChangeError {
    /// `spec.price`.
    #[error("price {0:?} is not an amount: give a price per hour, such as 0.096")]
    Price(String),
    /// `spec.priceAdjustment`.
    #[error(
        "priceAdjustment {0:?} is not a change: give a signed amount or percentage, such as -0.01 or +10%"
    )]
    Adjustment(String),
}

impl PriceChange {
    /// Reads `spec.price`.
    ///
    /// # Errors
    /// Where the text is no decimal number of zero or more.
    pub fn parse_price(text: &str) -> Result<Self, PriceChangeError> {
        let nanos = nanos(text).ok_or_else(|| PriceChangeError::Price(text.to_owned()))?;
        Ok(Self::To(Price::from_nanos(nanos)))
    }

    /// Reads `spec.priceAdjustment`: a sign, a decimal number, perhaps a percent sign; at least -100%.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn parse_adjustment(text: &str) -> Result<Self, PriceChangeError> {
        let error = || PriceChangeError::Adjustment(text.to_owned());
        let (sign, rest) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => return Err(error()),
        };
        match rest.strip_suffix('%') {
            Some(percent) => {
                let amount = sign * nanos(percent).ok_or_else(error)?;
                if i128::from(amount) < -100 * PERCENT {
                    return Err(error());
                }
                Ok(Self::Percent(amount))
            }
            None => Ok(Self::By(sign * nanos(rest).ok_or_else(error)?)),
        }
    }

    /// The price after the change, never below zero; parts of a nano-dollar are rounded to the nearest.
    #[must_use]
    pub fn apply(self, price: Price) -> Price {
        match self {
            Self::To(price) => price,
            Self::By(nanos) => Price::from_nanos(price.nanos().saturating_add(nanos)),
            Self::Percent(change) => {
                let whole = 100 * PERCENT;
                let scaled = i128::from(price.nanos()) * (whole + i128::from(change));
                Price::from_nanos(i64::try_from((scaled + whole / 2) / whole).unwrap_or(i64::MAX))
            }
        }
    }
}

/// Nano units of a decimal number without a sign; digits beyond the ninth place are cut off. `None` where it is none.
fn nanos(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let significant = whole.trim_start_matches('0');
    if significant.len() > MAX_WHOLE_DIGITS {
        return None;
    }
    let places: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let whole: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    i64::try_from(whole * NANO + places.parse::<i128>().ok()?).ok()
}
