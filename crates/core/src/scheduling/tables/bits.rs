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
    id_type: PhantomData<I>,
}

impl<I> Default for Bits<I> {
    fn default() -> Self {
        Self { words: SmallVec::new(), id_type: PhantomData }
    }
}

impl<I: Id> Bits<I> {
    /// `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut bits = Self::default();
        bits.fill(len);
        bits
    }

    /// Makes this `0..len`, in the memory that it has.
    pub(crate) fn fill(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len / 64, u64::MAX);
        if !len.is_multiple_of(64) {
            self.words.push((1 << (len % 64)) - 1);
        }
    }

    /// Whether an id is in the set.
    pub(crate) fn has(&self, id: I) -> bool {
        let position = id.position();
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Adds a member.
    pub(crate) fn insert(&mut self, id: I) {
        let position = id.position();
        if position / 64 >= self.words.len() {
            self.words.resize(position / 64 + 1, 0);
        }
        self.words[position / 64] |= 1 << (position % 64);
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, id: I) {
        let position = id.position();
        if let Some(word) = self.words.get_mut(position / 64) {
            *word &= !(1 << (position % 64));
        }
    }

    /// Adds or removes a member.
    pub(crate) fn set(&mut self, id: I, is_in: bool) {
        if is_in {
            self.insert(id);
        } else {
            self.remove(id);
        }
    }

    /// Keeps the members that are in `other` too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        self.words.iter_mut().skip(other.words.len()).for_each(|word| *word = 0);
    }

    /// How many members it has.
    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds the members of `other`.
    pub(crate) fn unite(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Removes the members of `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Whether the sets have a member in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether `other` has all of its members.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(others).all(|(word, other)| word & !other == 0)
    }

    /// The first member that is not below `start`.
    pub(crate) fn first_from(&self, start: usize) -> Option<I> {
        let mut word_index = start / 64;
        let mut word = self.words.get(word_index)? & (u64::MAX << (start % 64));
        while word == 0 {
            word_index += 1;
            word = *self.words.get(word_index)?;
        }
        Some(I::new(word_index * 64 + word.trailing_zeros() as usize))
    }

    /// The first member from `start` on that neither of two other sets has.
    pub(crate) fn first_without(&self, a: &Self, b: &Self, start: usize) -> Option<I> {
        let mut word_index = start / 64;
        let mut mask = u64::MAX << (start % 64);
        loop {
            let not_in = |set: &Self| !set.words.get(word_index).copied().unwrap_or(0);
            let word = self.words.get(word_index)? & not_in(a) & not_in(b) & mask;
            if word != 0 {
                return Some(I::new(word_index * 64 + word.trailing_zeros() as usize));
            }
            (word_index, mask) = (word_index + 1, u64::MAX);
        }
    }

    /// The first member that `other` has too, from the word at an index on; the index moves to its word.
    pub(crate) fn first_common(&self, other: &Self, word_index: &mut usize) -> Option<I> {
        loop {
            let common = self.words.get(*word_index)? & other.words.get(*word_index)?;
            if common != 0 {
                return Some(I::new(*word_index * 64 + common.trailing_zeros() as usize));
            }
            *word_index += 1;
        }
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(word_index, word)| members(word_index, *word)).map(I::new)
    }
}

/// The members of the word at an index.
fn members(word_index: usize, word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            word_index * 64 + bit
        })
    })
}

impl<I: Id> FromIterator<I> for Bits<I> {
    fn from_iter<A: IntoIterator<Item = I>>(members: A) -> Self {
        let mut bits = Self::default();
        members.into_iter().for_each(|member| bits.insert(member));
        bits
    }
}

#[cfg(test)]
mod tests {
    //! Sets of ids beside those of the standard library, within a word and across words.
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sets_of_ids_behave_as_sets() {
        let across: Vec<usize> = (60..70).chain([128, 200]).collect();
        let lists: [&[usize]; 7] = [&[], &[0], &[63], &[64], &[0, 63, 64, 127], &[1, 200], &across];
        for (left, right) in lists.iter().flat_map(|left| lists.map(|right| (*left, right))) {
            let (a, b): (Bits<usize>, Bits<usize>) =
                (left.iter().copied().collect(), right.iter().copied().collect());
            let (c, d): (BTreeSet<usize>, BTreeSet<usize>) =
                (left.iter().copied().collect(), right.iter().copied().collect());
            let changed = |change: fn(&mut Bits<usize>, &Bits<usize>)| {
                let mut set = a.clone();
                change(&mut set, &b);
                set.iter().collect::<BTreeSet<usize>>()
            };
            assert_eq!(changed(Bits::subtract), &c - &d, "{left:?} without {right:?}");
            assert_eq!(changed(Bits::unite), &c | &d, "{left:?} or {right:?}");
            assert_eq!(changed(Bits::intersect), &c & &d, "{left:?} and {right:?}");
            assert_eq!((a.meets(&b), a.len(), a.is_empty()), (!c.is_disjoint(&d), c.len(), c.is_empty()));
            assert_eq!(a.is_within(&b), c.is_subset(&d), "{left:?} within {right:?}");
            assert_eq!(a.first_common(&b, &mut 0), (&c & &d).first().copied());
            for start in [0, 1, 63, 64, 65, 200, 201, 1000] {
                assert_eq!(a.first_from(start), c.range(start..).next().copied(), "{left:?} from {start}");
                let expected = c.range(start..).find(|member| !d.contains(member)).copied();
                assert_eq!(a.first_without(&b, &Bits::default(), start), expected);
                assert_eq!(a.first_without(&Bits::default(), &b, start), expected);
            }
        }
    }
}
