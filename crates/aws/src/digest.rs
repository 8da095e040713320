//! A stable digest of text, for names and tokens that every process must compute alike.

use std::fmt::Debug;

use fleetwright_kube_semantics::fnv::fnv1a_128;

/// FNV-1a with 128 bits, in hexadecimal.
#[must_use]
pub fn digest(text: &str) -> String {
    format!("{:032x}", fnv1a_128(text.bytes()))
}

/// The digest of a value's `Debug` text; derived `Debug` is the same in every process of one build.
#[must_use]
pub fn digest_of(value: &impl Debug) -> String {
    digest(&format!("{value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test values of FNV-1a with 128 bits.
    #[test]
    fn fnv_1a() {
        assert_eq!(digest(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(digest("a"), "d228cb696f1a8caf78912b704e4a8964");
    }
}
