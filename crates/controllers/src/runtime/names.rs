//! Generated names: the alphabet of Kubernetes' generateName, from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Without vowels and easily confused characters, as in Kubernetes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A stream of pseudo-random names. The same seed gives the same names.
#[derive(Debug)]
pub struct Names(AtomicU64);

impl Names {
    /// A stream from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next 64 bits (splitmix64).
    pub fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random suffix of `length` characters, at most 12.
    pub fn suffix(&self, length: usize) -> String {
        let mut bits = self.next_u64();
        let mut text = String::with_capacity(length);
        for _ in 0..length.min(12) {
            let at = usize::try_from(bits % 27).unwrap_or(0);
            text.push(char::from(ALPHABET[at]));
            bits /= 27;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    //! Names follow from the seed.
    use super::*;

    #[test]
    fn the_same_seed_generates_the_same_names() {
        let names = |seed| {
            let names = Names::new(seed);
            (0..100).map(|_| names.suffix(5)).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        let mut distinct = names(1);
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 100);
        assert!(distinct.iter().all(|name| name.len() == 5));
    }
}
