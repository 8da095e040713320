//! The currency of prices, and how people read amounts of it. No other place writes the sign of a currency.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The currency of a cloud's prices, by its ISO 4217 code. Documents have amounts as bare decimal text, and the code beside them.
///
/// ```
/// use fleetwright_core::model::Currency;
///
/// assert_eq!(Currency::USD.amount("0.05"), "$0.05");
/// assert_eq!(Currency::EUR.amount("-0.05"), "-€0.05");
/// assert_eq!(Currency::of("CHF").map(|francs| francs.amount(12)).as_deref(), Some("CHF 12"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// Chinese yuan.
    pub const CNY: Self = Self(*b"CNY");
    /// Euros.
    pub const EUR: Self = Self(*b"EUR");
    /// Pounds sterling.
    pub const GBP: Self = Self(*b"GBP");
    /// US dollars, the default.
    pub const USD: Self = Self(*b"USD");

    /// The currency with that code; `None` unless it is three capital letters.
    #[must_use]
    pub fn of(code: &str) -> Option<Self> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_uppercase).then_some(Self(letters))
    }

    /// The code: `USD`.
    #[must_use]
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// An amount as people read it: `$0.05`, `-$0.05`, `CHF 0.05`.
    #[must_use]
    pub fn amount(self, figure: impl fmt::Display) -> String {
        let figure = figure.to_string();
        let (minus, digits) = figure.strip_prefix('-').map_or(("", &*figure), |digits| ("-", digits));
        let gap = if self.sign() == self.code() { " " } else { "" };
        format!("{minus}{self}{gap}{digits}")
    }

    /// The sign, or the code of a currency whose sign others use too.
    fn sign(&self) -> &str {
        match *self {
            Self::USD => "$",
            Self::EUR => "€",
            Self::GBP => "£",
            _ => self.code(),
        }
    }
}

impl Default for Currency {
    fn default() -> Self {
        Self::USD
    }
}

/// Its sign, for the titles of columns: `$/H`, `CHF/H`.
impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sign())
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.code().to_owned()
    }
}

impl TryFrom<String> for Currency {
    type Error = String;

    fn try_from(code: String) -> Result<Self, String> {
        Self::of(&code).ok_or_else(|| format!("{code:?} is no code of a currency such as USD"))
    }
}

#[cfg(test)]
mod tests {
    //! Codes, signs and amounts.
    use super::*;

    #[test]
    fn amounts_have_the_sign_of_the_currency() {
        let francs = Currency::of("CHF").unwrap();
        for (currency, figure, expected) in [
            (Currency::default(), "0.0400", "$0.0400"),
            (Currency::GBP, "1", "£1"),
            (Currency::CNY, "-1,095", "-CNY 1,095"),
            (francs, "0", "CHF 0"),
        ] {
            assert_eq!(currency.amount(figure), expected);
        }
        assert_eq!((Currency::EUR.to_string(), francs.to_string()), ("€".to_owned(), "CHF".to_owned()));
    }

    #[test]
    fn documents_have_the_code() {
        assert_eq!(serde_json::to_value(Currency::EUR).unwrap(), "EUR");
        assert_eq!(serde_json::from_value::<Currency>("EUR".into()).unwrap(), Currency::EUR);
        for wrong in ["", "eur", "EURO", "€", "E1R"] {
            let error = serde_json::from_value::<Currency>(wrong.into()).unwrap_err();
            assert!(error.to_string().contains("is no code of a currency"), "{error}");
        }
    }
}
