//! Chance from a seed: the same seed throws the same dice on every platform and in every version of the dependencies.

/// `SplitMix64` (Steele, Lea, Flood 2014), which is enough for test input.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x51_7CC1_B727_220A)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of `from..=to`; `from` where the range is empty.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to.saturating_sub(from) + 1)
    }

    /// True in `percent` of 100 throws.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of `items`; `None` where there is none.
    pub(super) fn one<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(items.len()).ok().filter(|&count| count > 0)?;
        items.get(usize::try_from(self.next() % count).ok()?)
    }

    /// One of `items`, which is not empty by its type.
    pub(super) fn pick<T: Copy, const COUNT: usize>(&mut self, items: [T; COUNT]) -> T {
        const { assert!(COUNT > 0, "nothing to pick from") };
        let [first, ..] = items.as_slice() else { unreachable!("not empty") };
        *self.one(&items).unwrap_or(first)
    }

    /// Brings `items` into an order of chance.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u64::try_from(last).unwrap_or(u64::MAX);
            items.swap(last, usize::try_from(self.between(0, bound)).unwrap_or(last));
        }
    }
}
