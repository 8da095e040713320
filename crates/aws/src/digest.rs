//! A stable digest of text: for names and tokens that another process must come to as well.

use std::fmt::Debug;

/// FNV-1a with 128 bits, in hexadecimal.
#[must_use]
pub fn digest(text: &str) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

/// The digest of a value by what it shows of itself; derived `Debug` is the same in every process of one build.
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
