//! Names and UIDs from a seed: the only randomness of the server.

/// A SplitMix64 stream (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Seeded {
    state: u64,
}

/// The alphabet of generated names in the API server: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Seeded {
    /// A stream from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream for a well-known name, independent of earlier draws.
    pub(crate) fn named(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { state: seed ^ hash }
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Five characters, as `generateName` appends them.
    pub(crate) fn suffix(&mut self) -> String {
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let index = usize::try_from(bits % 27).unwrap_or(0);
                bits /= 27;
                char::from(ALPHABET[index])
            })
            .collect()
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let variant = 0x8000 | ((low >> 48) & 0x3fff);
        format!(
            "{:08x}-{:04x}-4{:03x}-{variant:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}
