//! The quantity that a malformed text probably means.

use super::Quantity;

/// Units that people write, in small letters, and the suffix of Kubernetes. Without an `i`, units of bytes are taken for powers of two.
const UNITS: [(&str, &str); 29] = [
    ("core", ""),
    ("cores", ""),
    ("cpu", ""),
    ("cpus", ""),
    ("vcpu", ""),
    ("vcpus", ""),
    ("millicore", "m"),
    ("millicores", "m"),
    ("millicpu", "m"),
    ("mcpu", "m"),
    ("mcores", "m"),
    ("m", "m"),
    ("b", ""),
    ("bytes", ""),
    ("k", "Ki"),
    ("kb", "Ki"),
    ("ki", "Ki"),
    ("kib", "Ki"),
    ("mb", "Mi"),
    ("mi", "Mi"),
    ("mib", "Mi"),
    ("g", "Gi"),
    ("gb", "Gi"),
    ("gi", "Gi"),
    ("gib", "Gi"),
    ("t", "Ti"),
    ("tb", "Ti"),
    ("ti", "Ti"),
    ("tib", "Ti"),
];

/// The quantity that a text probably means, if it is none: with the unit that Kubernetes has, without spaces and separators of thousands.
#[must_use]
pub fn meant(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|letter| !letter.is_whitespace() && *letter != '_').collect();
    let end = plain.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(plain.len());
    let (number, unit) = plain.split_at(end);
    let number = match number.rsplit_once(',') {
        Some((_, thousands)) if thousands.len() == 3 => number.replace(',', ""),
        // A decimal comma.
        _ => number.replace(',', "."),
    };
    let unit = match unit {
        "" => "",
        unit => {
            let lower = unit.to_ascii_lowercase();
            UNITS.iter().find(|(known, _)| *known == lower).map(|(_, suffix)| *suffix)?
        }
    };
    let meant = format!("{number}{unit}");
    (meant != text && meant.parse::<Quantity>().is_ok()).then_some(meant)
}

#[cfg(test)]
mod tests {
    //! What people write, and what is meant.
    use super::*;

    #[test]
    fn what_people_write() {
        for (text, expected) in [
            ("1 core", Some("1")),
            ("2 vCPUs", Some("2")),
            ("500 m", Some("500m")),
            ("250 millicores", Some("250m")),
            ("512MB", Some("512Mi")),
            ("512 MiB", Some("512Mi")),
            ("8Gib", Some("8Gi")),
            ("1.5gb", Some("1.5Gi")),
            ("1g", Some("1Gi")),
            ("64K", Some("64Ki")),
            ("1,5", Some("1.5")),
            ("1,500Mi", Some("1500Mi")),
            ("1_000", Some("1000")),
            (" 1 ", Some("1")),
            ("half", None),
            ("", None),
            ("50%", None),
            ("1.5.2", None),
            ("9E9E", None),
            ("1Gi", None),
        ] {
            assert_eq!(meant(text).as_deref(), expected, "{text}");
        }
    }
}
