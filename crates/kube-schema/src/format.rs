//! String formats (`k8s.io/kube-openapi/pkg/validation/strfmt`).
//!
//! The API server ignores `int32`, `int64`, `float`, `double` and every name that is not in its list, as does this
//! module. Formats of books, cards, social security numbers and colors are accepted unchecked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use jiff::civil::Date;

/// A format that is validated.
pub(crate) struct Format {
    /// The name in the schema, for messages.
    pub(crate) name: String,
    pub(crate) check: Check,
}

/// The check of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Any,
    DateTime,
    Date,
    Duration,
    Byte,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid(Option<char>),
    Hostname,
    Uri,
    Email,
    ShortName,
    LongName,
}

impl Format {
    /// `None` for names that validation ignores.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let check = match name.replace('-', "").as_str() {
            "datetime" => Check::DateTime,
            "date" => Check::Date,
            "duration" => Check::Duration,
            "byte" => Check::Byte,
            "ipv4" => Check::Ipv4,
            "ipv6" => Check::Ipv6,
            "cidr" => Check::Cidr,
            "mac" => Check::Mac,
            "uuid" => Check::Uuid(None),
            "uuid3" => Check::Uuid(Some('3')),
            "uuid4" => Check::Uuid(Some('4')),
            "uuid5" => Check::Uuid(Some('5')),
            "hostname" => Check::Hostname,
            "uri" => Check::Uri,
            "email" => Check::Email,
            "k8sshortname" => Check::ShortName,
            "k8slongname" => Check::LongName,
            "bsonobjectid" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" | "hexcolor"
            | "rgbcolor" | "password" => Check::Any,
            _ => return None,
        };
        Some(Self { name: name.to_owned(), check })
    }

    /// Whether a text has this format.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        match self.check {
            Check::Any => true,
            Check::DateTime => date_time(text),
            Check::Date => date(text),
            Check::Duration => duration(text),
            Check::Byte => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
            Check::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Check::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Check::Cidr => cidr(text),
            Check::Mac => mac(text),
            Check::Uuid(version) => uuid(text, version),
            Check::Hostname => labels(text, |c| c.is_alphanumeric() || c == '-' || c == '_'),
            Check::Uri => uri(text),
            Check::Email => {
                text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
            }
            Check::ShortName => label(text, dns_char),
            Check::LongName => labels(text, dns_char),
        }
    }
}

fn date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

/// RFC 3339 with a zone; any single character may precede the fraction, as in the server's pattern.
fn date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    date(day) && clock(time)
}

fn clock(time: &str) -> bool {
    let Some((hms, rest)) = time.split_at_checked(8) else { return false };
    let hms: Vec<&str> = hms.split(':').collect();
    let in_range = |text: &str, max: &str| text.len() == 2 && digits(text) && text <= max;
    let [hour, minute, second] = hms.as_slice() else { return false };
    if !in_range(hour, "23") || !in_range(minute, "59") || !in_range(second, "59") {
        return false;
    }
    if rest == "z" || offset(rest) {
        return true;
    }
    let mut fraction = rest.chars();
    fraction.next();
    let zone = fraction.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    zone.len() < fraction.as_str().len() && (zone == "z" || offset(zone))
}

fn offset(zone: &str) -> bool {
    let Some(rest) = zone.strip_prefix(['+', '-']) else { return false };
    rest.split_once(':').is_some_and(|(h, m)| h.len() == 2 && m.len() == 2 && digits(h) && digits(m))
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Go's duration, or one number with one of the longer unit names of Scala.
fn duration(text: &str) -> bool {
    go_duration(text) || {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        number.parse::<f64>().is_ok()
            && SCALA_UNITS.contains(&unit.trim().to_lowercase().trim_end_matches('s'))
    }
}

/// Without plural endings; that of seconds is empty.
const SCALA_UNITS: [&str; 18] = [
    "",
    "n",
    "nano",
    "nanosecond",
    "u",
    "micro",
    "microsecond",
    "\u{b5}",
    "m",
    "milli",
    "millisecond",
    "sec",
    "second",
    "min",
    "minute",
    "h",
    "hour",
    "day",
];

fn go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(split);
        if number.parse::<f64>().is_err() {
            return false;
        }
        let unit =
            ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"].iter().find(|u| after.starts_with(**u));
        let Some(unit) = unit else { return false };
        rest = &after[unit.len()..];
        any = true;
    }
    any
}

fn cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    digits(prefix) && prefix.parse::<u8>().is_ok_and(|bits| bits <= max)
}

fn mac(text: &str) -> bool {
    let separator = if text.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let dashes: Vec<usize> = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at).collect();
    hex.len() == 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && (dashes.is_empty() || dashes == [8, 13, 18, 23])
        && version.is_none_or(|version| hex.chars().nth(12) == Some(version))
}

fn uri(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    text.starts_with('/')
        || (scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)))
}

const fn dns_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

fn label(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.chars().all(allowed)
}

fn labels(text: &str, allowed: impl Fn(char) -> bool + Copy) -> bool {
    text.len() <= 253 && text.split('.').all(|part| label(part, allowed))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Format;

    #[rstest]
    #[case("date-time", "2024-01-01T01:01:01Z", true)]
    #[case("date-time", "2024-01-01t01:01:01.123456z", true)]
    #[case("date-time", "2024-01-01T01:01:01+02:00", true)]
    #[case("date-time", "2024-01-01T01:01:01.5-02:00", true)]
    #[case("date-time", "2024-01-01T01:01:01", false)]
    #[case("date-time", "2024-13-01T01:01:01Z", false)]
    #[case("date-time", "2024-01-01T24:01:01Z", false)]
    #[case("date-time", "2024-01-01", false)]
    #[case("date-time", "", false)]
    #[case("date", "2024-02-29", true)]
    #[case("date", "2023-02-29", false)]
    #[case("duration", "1h30m", true)]
    #[case("duration", "22 ns", true)]
    #[case("duration", "ten", false)]
    #[case("byte", "aGk=", true)]
    #[case("byte", "*", false)]
    #[case("cidr", "10.0.0.0/8", true)]
    #[case("cidr", "10.0.0.0/33", false)]
    #[case("ipv4", "10.0.0.1", true)]
    #[case("ipv6", "::1", true)]
    #[case("mac", "00:11:22:33:44:55", true)]
    #[case("uuid4", "7f4c2f1e-1d2c-4c3a-9f4e-000000000000", true)]
    #[case("uuid4", "7f4c2f1e-1d2c-3c3a-9f4e-000000000000", false)]
    #[case("uri", "https://a/b", true)]
    #[case("uri", "a b", false)]
    #[case("hostname", "a.b-c", true)]
    #[case("hostname", "-a", false)]
    fn formats(#[case] name: &str, #[case] text: &str, #[case] accepted: bool) {
        assert_eq!(Format::parse(name).unwrap().accepts(text), accepted, "{name} {text:?}");
    }

    #[rstest]
    #[case("int32")]
    #[case("int64")]
    #[case("double")]
    #[case("made-up")]
    fn formats_that_the_server_ignores(#[case] name: &str) {
        assert!(Format::parse(name).is_none());
    }
}
