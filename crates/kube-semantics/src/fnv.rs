//! Fowler–Noll–Vo hashes. Names and tokens contain their values, so the functions never change.

const BASIS_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
/// FNV-1a with 64 bits of no bytes.
pub const BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const BASIS_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// FNV-1a with 32 bits, as Kubernetes hashes pod templates.
#[must_use]
pub fn fnv1a_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(BASIS_32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME_32))
}

/// FNV-1a with 64 bits.
#[must_use]
pub fn fnv1a_64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    fnv1a_64_more(BASIS_64, bytes)
}

/// FNV-1a with 64 bits: continues `hash` with more bytes.
#[must_use]
pub fn fnv1a_64_more(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME_64))
}

/// FNV-1a with 128 bits.
#[must_use]
pub fn fnv1a_128(bytes: impl IntoIterator<Item = u8>) -> u128 {
    bytes.into_iter().fold(BASIS_128, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME_128))
}

/// FNV-1 with 64 bits, which multiplies first: the hash behind Karpenter's drift annotations.
#[must_use]
pub fn fnv1_64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(BASIS_64, |hash, byte| hash.wrapping_mul(PRIME_64) ^ u64::from(byte))
}

#[cfg(test)]
mod tests {
    //! Published test values.
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(fnv1a_32("".bytes()), 0x811c_9dc5);
        assert_eq!(fnv1a_32("foobar".bytes()), 0xbf9c_f968);
        assert_eq!(fnv1a_64("foobar".bytes()), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1_64("foobar".bytes()), 0x340d_8765_a4dd_a9c2);
        assert_eq!(fnv1a_128("".bytes()), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a_128("a".bytes()), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a_64_more(fnv1a_64("foo".bytes()), "bar".bytes()), fnv1a_64("foobar".bytes()));
    }
}
