//! The structural hash behind Karpenter's drift annotations.
//!
//! It reproduces mitchellh/hashstructure v2 (format 2, slices as sets, zero values ignored): FNV-1 with 64 bits over
//! strings and little-endian integers; maps and sets by exclusive or; structs by the names of their Go types and fields.
//! Two oddities are kept on purpose: equal elements of a set cancel each other, and a set is not finished by a last hash.

use fleetwright_kube_semantics::fnv::fnv1_64;

/// FNV-1 of some bytes.
pub fn bytes(bytes: &[u8]) -> u64 {
    fnv1_64(bytes.iter().copied())
}

/// Hash of a Go string.
pub fn text(text: &str) -> u64 {
    bytes(text.as_bytes())
}

/// Hash of a Go int or int64.
pub fn int64(value: i64) -> u64 {
    bytes(&value.to_le_bytes())
}

/// Hash of a Go int32.
pub fn int32(value: i32) -> u64 {
    bytes(&value.to_le_bytes())
}

/// Hash of a Go bool.
pub fn boolean(value: bool) -> u64 {
    bytes(&[u8::from(value)])
}

/// Hash of two hashes whose order matters.
pub fn ordered(first: u64, second: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&first.to_le_bytes());
    both[8..].copy_from_slice(&second.to_le_bytes());
    bytes(&both)
}

/// Hash of a Go map, from the hashes of its keys and values.
pub fn map(entries: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    finish(entries.into_iter().fold(0, |hash, (key, value)| hash ^ ordered(key, value)))
}

/// Hash of a Go slice as a set, from the hashes of its elements.
pub fn set(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |hash, element| hash ^ element)
}

/// Makes a combination by exclusive or safe for further combination.
fn finish(hash: u64) -> u64 {
    bytes(&hash.to_le_bytes())
}

/// Hash of a Go struct, built field by field in the order of declaration.
#[derive(Clone, Copy, Debug)]
#[must_use = "a struct's hash is read with finish"]
pub struct StructHash(u64);

impl StructHash {
    /// Starts with the name of the Go type.
    pub fn new(type_name: &str) -> Self {
        Self(text(type_name))
    }

    /// Adds a field by its Go name and the hash of its value; `None` is a zero or nil value, which is skipped.
    pub fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(finish(self.0 ^ ordered(text(name), value))),
            None => self,
        }
    }

    /// Adds a string field; the empty string is zero.
    pub fn text(self, name: &str, value: &str) -> Self {
        self.field(name, (!value.is_empty()).then(|| text(value)))
    }

    /// The hash of the struct.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test values of FNV-1; the order of multiplication and exclusive or distinguishes FNV-1 from FNV-1a.
    #[test]
    fn fnv_1() {
        assert_eq!(text(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(text("a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(text("foobar"), 0x340d_8765_a4dd_a9c2);
    }

    #[test]
    fn equal_elements_cancel_and_zero_fields_vanish() {
        assert_eq!(set([text("a"), text("a")]), set([]));
        assert_eq!(StructHash::new("T").text("A", "").finish(), StructHash::new("T").finish());
        assert_ne!(map([]), set([]));
        assert_ne!(ordered(1, 2), ordered(2, 1));
        assert_ne!(int32(1), int64(1));
        assert_ne!(boolean(true), boolean(false));
    }
}
