//! Amounts of resources for people: in the unit that fits, rounded. Documents for programs have the exact quantities.

use std::fmt;

use super::resources::{ResourceName, Resources};

/// Where a figure goes that has more digits than are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Down, for supply: what is shown as free is free.
    Down,
    /// To the nearest figure, where nothing is compared.
    Nearest,
    /// Up, for demand: what is shown as requested is enough.
    Up,
}

/// More digits than this of an exact quantity are rounded.
const MAX_DIGITS: usize = 5;

/// An amount of a resource: exact in Kubernetes' own writing (`1500m`, `1536Mi`), but CPUs and bytes of more than five digits in the unit that
/// fits (`255.9`, `702.1Gi`).
#[must_use]
pub fn amount(resource: &ResourceName, amount: i64, rounding: Rounding) -> String {
    let exact = resource.quantity(amount).to_string();
    if exact.bytes().filter(u8::is_ascii_digit).count() <= MAX_DIGITS {
        return exact;
    }
    match resource {
        ResourceName::Cpu => cpu(amount, rounding),
        ResourceName::Memory | ResourceName::EphemeralStorage => bytes(amount, rounding),
        ResourceName::Other(name) if name.starts_with("hugepages-") => bytes(amount, rounding),
        ResourceName::Pods | ResourceName::Other(_) => exact,
    }
}

/// Milli-CPUs as CPUs with at most two digits.
#[must_use]
pub fn cpu(milli: i64, rounding: Rounding) -> String {
    decimal(divided(i128::from(milli), 10, rounding), 2)
}

/// Bytes in the unit that keeps the figure below 1024, with one digit.
#[must_use]
pub fn bytes(amount: i64, rounding: Rounding) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut unit = 0;
    let mut divisor: i128 = 1;
    while unit + 1 < UNITS.len() && i128::from(amount).abs() >= divisor * 1024 {
        divisor *= 1024;
        unit += 1;
    }
    format!("{}{}", decimal(divided(i128::from(amount) * 10, divisor, rounding), 1), UNITS[unit])
}

fn divided(number: i128, divisor: i128, rounding: Rounding) -> i128 {
    let more = match rounding {
        Rounding::Down => 0,
        Rounding::Nearest => divisor / 2,
        Rounding::Up => divisor - 1,
    };
    (number + more).div_euclid(divisor)
}

/// A number of 10^-places, without zeros at its end.
fn decimal(number: i128, places: u32) -> String {
    let scale = 10_i128.pow(places);
    let (sign, number) = if number < 0 { ("-", -number) } else { ("", number) };
    let rest = format!("{:0width$}", number % scale, width = usize::try_from(places).unwrap_or(0));
    match rest.trim_end_matches('0') {
        "" => format!("{sign}{}", number / scale),
        rest => format!("{sign}{}.{rest}", number / scale),
    }
}

/// Requests as messages show them: `cpu: 100m, memory: 1Gi, pods: 1`, rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Requested<'a>(pub &'a Resources);

impl fmt::Display for Requested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, requested)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {}", amount(&name, requested, Rounding::Up))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Units and rounding.
    use rstest::rstest;

    use super::*;

    const MI: i64 = 1 << 20;

    #[rstest]
    #[case::exact("cpu", 1_500, ["1500m", "1500m", "1500m"])]
    #[case::cpus("cpu", 255_901, ["255.9", "255.9", "255.91"])]
    #[case::exact_bytes("memory", 1_536 * MI, ["1536Mi", "1536Mi", "1536Mi"])]
    #[case::a_large_node("memory", 718_987 * MI, ["702.1Gi", "702.1Gi", "702.2Gi"])]
    #[case::odd_bytes("ephemeral-storage", 12_345_678_901, ["11.4Gi", "11.5Gi", "11.5Gi"])]
    #[case::pages("hugepages-2Mi", 200_002 * MI, ["195.3Gi", "195.3Gi", "195.4Gi"])]
    #[case::devices("example.com/tokens", 1_234_567, ["1234567", "1234567", "1234567"])]
    #[case::none("memory", 0, ["0", "0", "0"])]
    #[case::over_drawn("cpu", -1_255_901, ["-1255.91", "-1255.9", "-1255.9"])]
    fn amounts_fit_their_unit(#[case] resource: &str, #[case] exact: i64, #[case] expected: [&str; 3]) {
        let resource = ResourceName::from(resource);
        let all = [Rounding::Down, Rounding::Nearest, Rounding::Up];
        assert_eq!(all.map(|rounding| amount(&resource, exact, rounding)), expected);
    }

    /// A request that is larger than what is free looks larger.
    #[test]
    fn what_does_not_fit_looks_so() {
        for free in [718_987 * MI, (1 << 40) - 1, 1_048_575] {
            let shown = |exact, rounding| amount(&ResourceName::Memory, exact, rounding);
            assert_ne!(shown(free, Rounding::Down), shown(free + 1, Rounding::Up));
        }
    }

    #[test]
    fn requests_are_rounded_up() {
        let requests = Resources::of(500, 718_987 * MI).with("pods", 1);
        assert_eq!(Requested(&requests).to_string(), "cpu: 500m, memory: 702.2Gi, pods: 1");
    }
}
