//! Figures for people: money, quantities and times, rounded. Documents for programs have them exactly.

use fleetwright_core::model::{Currency, Quantity, ResourceName, Rounding, figures};
use jiff::Timestamp;

/// Hours of a month, as clouds bill it: 365 days of 24 hours in 12 months.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;

/// Maximum number of names in a row; the others are counted.
const MAX_NAMES: usize = 3;

/// A price per hour with four digits behind the point, without its currency. What rounds to nothing has no sign.
pub(crate) fn hourly(price: f64) -> String {
    let text = format!("{price:.4}");
    match text.strip_prefix('-') {
        Some(digits) if is_zero(digits) => digits.to_owned(),
        _ => text,
    }
}

/// The same of an exact decimal text; text that is no number stays.
pub(crate) fn hourly_text(exact: &str) -> String {
    exact.parse().map_or_else(|_| exact.to_owned(), hourly)
}

/// The same with its currency.
pub(crate) fn per_hour(currency: Currency, price: f64) -> String {
    currency.amount(hourly(price))
}

/// What an hourly price costs in a month: whole numbers above 1,000, with separators.
pub(crate) fn monthly(currency: Currency, price: f64) -> String {
    let month = price * HOURS_PER_MONTH;
    let text =
        if month.abs() < 1000.0 { format!("{:.2}", month.abs()) } else { format!("{:.0}", month.abs()) };
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let digits = whole.len();
    let mut shown = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (digits - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    let sign = if month < 0.0 && !is_zero(&text) { "-" } else { "" };
    currency.amount(format_args!("{sign}{shown}{rest}"))
}

/// Whether a figure has no digit but 0.
fn is_zero(text: &str) -> bool {
    !text.contains(|digit: char| ('1'..='9').contains(&digit))
}

/// Milli-CPUs as CPUs with at most two digits. Rounded up: demand that is shown too small would look as if it fitted.
pub(crate) fn cpu(milli: i64) -> String {
    figures::cpu(milli, Rounding::Up)
}

/// Bytes in the unit that keeps the figure below 1024, with one digit.
pub(crate) fn bytes(amount: i64) -> String {
    figures::bytes(amount, Rounding::Nearest)
}

/// An amount of a resource as exact text, in the unit that fits; text that is no quantity stays.
pub(crate) fn amount_text(resource: &str, exact: &str) -> String {
    let resource = ResourceName::from(resource);
    exact.parse::<Quantity>().map_or_else(
        |_| exact.to_owned(),
        |quantity| figures::amount(&resource, resource.supply(quantity), Rounding::Nearest),
    )
}

/// A point in time without fractions of seconds.
pub(crate) fn time(exact: &str) -> String {
    exact.parse::<Timestamp>().map_or_else(
        |_| exact.to_owned(),
        |time| {
            Timestamp::from_second(time.as_second())
                .map_or_else(|_| exact.to_owned(), |time| time.to_string())
        },
    )
}

/// `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The first few of many names.
pub(crate) fn names(names: &[String]) -> String {
    first_few(names, ", ")
}

/// The first few of many texts.
pub(crate) fn first_few(texts: &[String], separator: &str) -> String {
    first_of(texts, texts.len(), separator)
}

/// The first few of `total` texts that begin with these.
pub(crate) fn first_of(texts: &[String], total: usize, separator: &str) -> String {
    let shown: Vec<&str> = texts.iter().take(MAX_NAMES).map(String::as_str).collect();
    match total.saturating_sub(shown.len()) {
        0 => shown.join(separator),
        more => format!("{} and {more} more", shown.join(separator)),
    }
}

#[cfg(test)]
mod tests {
    //! Rounding.
    use super::*;

    #[test]
    fn money() {
        assert_eq!(
            (hourly(0.054_294_967), hourly_text("unknown")),
            ("0.0543".to_owned(), "unknown".to_owned())
        );
        assert_eq!([-0.000_01, -0.0, -0.000_1].map(hourly), ["0.0000", "0.0000", "-0.0001"]);
        for (hourly, expected) in [
            (0.0, "$0.00"),
            (0.1, "$73.00"),
            (1.5, "$1,095"),
            (2000.0, "$1,460,000"),
            (-0.5, "-$365.00"),
            (-0.000_001, "$0.00"),
        ] {
            assert_eq!(monthly(Currency::USD, hourly), expected, "{hourly}");
        }
    }

    #[test]
    fn money_in_another_currency() {
        assert_eq!(per_hour(Currency::EUR, -0.5), "-€0.5000");
        assert_eq!(monthly(Currency::CNY, 1.5), "CNY 1,095");
    }

    #[test]
    fn quantities() {
        assert_eq!([0, 1, 100, 1500, 1234, 96_000].map(cpu), ["0", "0.01", "0.1", "1.5", "1.24", "96"]);
        let kib = 1_i64 << 10;
        assert_eq!(
            [0, 1, kib, kib * kib * 3 / 2, kib * kib * kib * 8].map(bytes),
            ["0", "1", "1Ki", "1.5Mi", "8Gi"]
        );
        assert_eq!(bytes(94_372_040 * kib * kib), "90Ti");
        assert_eq!(
            ["1536Mi", "2901105Mi", "plenty"].map(|text| amount_text("memory", text)),
            ["1536Mi", "2.8Ti", "plenty"]
        );
    }

    #[test]
    fn times() {
        assert_eq!(time("2026-01-01T02:54:06.436292681Z"), "2026-01-01T02:54:06Z");
        assert_eq!((count(1, "node"), count(0, "node")), ("1 node".to_owned(), "0 nodes".to_owned()));
    }
}
