//! Sets of ids as bit words.

use std::marker::PhantomData;

use smallvec::SmallVec;

use crate::scheduling::ids::Id;

/// Words that need no allocation of their own: the rows of a catalogue of 640 types.
const INLINE: usize = 10;

/// A growable set of ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bits<I> {
    words: SmallVec<[u64; INLINE]>,
    of: PhantomData<I>,
}

impl<I> Default for Bits<I> {
    fn default() -> Self {
        Self { words: SmallVec::new(), of: PhantomData }
    }
}

impl<I: Id> Bits<I> {
    /// `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut words = SmallVec::from_elem(u64::MAX, len.div_ceil(64));
        if let (Some(last), true) = (words.last_mut(), !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        Self { words, of: PhantomData }
    }

    /// Makes this `0..len`, in the memory that it has.
    pub(crate) fn fill(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len / 64, u64::MAX);
        if !len.is_multiple_of(64) {
            self.words.push((1 << (len % 64)) - 1);
        }
    }

    /// Whether `at` is in the set.
    pub(crate) fn has(&self, id: I) -> bool {
        let at = id.position();
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Puts `at` into the set.
    pub(crate) fn insert(&mut self, id: I) {
        let at = id.position();
        if at / 64 >= self.words.len() {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Takes `at` out of the set.
    pub(crate) fn remove(&mut self, id: I) {
        let at = id.position();
        if let Some(word) = self.words.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Puts `at` in or takes it out.
    pub(crate) fn set(&mut self, at: I, is_in: bool) {
        if is_in {
            self.insert(at);
        } else {
            self.remove(at);
        }
    }

    /// Keeps what is in `other` too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Puts in what is in `other`.
    pub(crate) fn unite(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Takes out what is in `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Whether the sets have a member in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The first member that is not below `start`.
    pub(crate) fn first_from(&self, start: usize) -> Option<I> {
        let mut at = start / 64;
        let mut word = self.words.get(at)? & (u64::MAX << (start % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(I::new(at * 64 + word.trailing_zeros() as usize))
    }

    /// The first member from `start` on that neither of two other sets has.
    pub(crate) fn first_without(&self, a: &Self, b: &Self, start: usize) -> Option<I> {
        let mut at = start / 64;
        let mut mask = u64::MAX << (start % 64);
        loop {
            let not_in = |set: &Self| !set.words.get(at).copied().unwrap_or(0);
            let word = self.words.get(at)? & not_in(a) & not_in(b) & mask;
            if word != 0 {
                return Some(I::new(at * 64 + word.trailing_zeros() as usize));
            }
            (at, mask) = (at + 1, u64::MAX);
        }
    }

    /// The first member that `other` has too, from the word at an index on; the index moves to its word.
    pub(crate) fn first_common(&self, other: &Self, at: &mut usize) -> Option<I> {
        loop {
            let common = self.words.get(*at)? & other.words.get(*at)?;
            if common != 0 {
                return Some(I::new(*at * 64 + common.trailing_zeros() as usize));
            }
            *at += 1;
        }
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| members(at, *word)).map(I::new)
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

impl<I: Id> FromIterator<I> for Bits<I> {
    fn from_iter<A: IntoIterator<Item = I>>(members: A) -> Self {
        let mut bits = Self::default();
        for member in members {
            bits.insert(member);
        }
        bits
    }
}
