//! Sets of small integers as bit words.

use smallvec::SmallVec;

/// A growable set of small integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bits {
    words: SmallVec<[u64; 4]>,
}

impl Bits {
    /// `0..len`.
    pub(super) fn full(len: usize) -> Self {
        let mut words = SmallVec::from_elem(u64::MAX, len.div_ceil(64));
        if let (Some(last), true) = (words.last_mut(), !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        Self { words }
    }

    /// Whether `at` is in the set.
    pub(super) fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Puts `at` into the set.
    pub(super) fn insert(&mut self, at: usize) {
        if at / 64 >= self.words.len() {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Takes `at` out of the set.
    pub(super) fn remove(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Keeps what is in `other` too.
    pub(super) fn intersect(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Whether nothing is in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The members that neither of two other sets has, ascending.
    pub(super) fn without<'a>(&'a self, a: &'a Self, b: &'a Self) -> impl Iterator<Item = usize> + 'a {
        let word = |set: &Self, at: usize| set.words.get(at).copied().unwrap_or(0);
        self.words
            .iter()
            .enumerate()
            .flat_map(move |(at, own)| members(at, own & !word(a, at) & !word(b, at)))
    }

    /// The members, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| members(at, *word))
    }
}

/// The members of the word at an index.
fn members(at: usize, word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            at * 64 + bit
        })
    })
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Self {
        let mut bits = Self::default();
        for member in members {
            bits.insert(member);
        }
        bits
    }
}
