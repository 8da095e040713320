//! Positions of NodeClaims within their batch: which of them a launch attempt is for.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

/// A set of positions below [`Positions::LIMIT`]. Written as ranges: `0-3,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions(Arc<[(u32, u32)]>);

/// A text that is not a set of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("positions are written as ranges such as 0-3,5, ascending, below {}", Positions::LIMIT)]
pub struct InvalidPositions;

impl Positions {
    /// Upper bound of positions, exclusive: the largest number of NodeClaims in a batch and of instances in a call.
    pub const LIMIT: u32 = 1000;

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// The number of smaller positions in the set; `None` if the position is not in the set.
    #[must_use]
    pub fn rank(&self, position: u32) -> Option<usize> {
        self.iter().position(|known| known == position)
    }

    /// The positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl FromIterator<u32> for Positions {
    fn from_iter<I: IntoIterator<Item = u32>>(positions: I) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for position in positions.into_iter().collect::<BTreeSet<u32>>() {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(position) => *last = position,
                _ => ranges.push((position, position)),
            }
        }
        Self(ranges.into())
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Positions {
    type Err = InvalidPositions;

    fn from_str(written: &str) -> Result<Self, InvalidPositions> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for range in written.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                return Err(InvalidPositions);
            };
            let ascending = first <= last && ranges.last().is_none_or(|(_, before)| *before < first);
            if !ascending || last >= Self::LIMIT {
                return Err(InvalidPositions);
            }
            ranges.push((first, last));
        }
        Ok(Self(ranges.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_ranges() {
        for (positions, written) in
            [(vec![0], "0"), (vec![3, 1, 2, 0, 5], "0-3,5"), (vec![7, 9, 8, 2], "2,7-9")]
        {
            let set: Positions = positions.iter().copied().collect();
            assert_eq!((set.to_string().as_str(), set.count()), (written, positions.len()));
            assert_eq!(written.parse(), Ok(set.clone()));
            assert!(positions.iter().all(|position| set.rank(*position).is_some()));
            assert_eq!(set.rank(6), None);
        }
        assert_eq!("2,7-9".parse::<Positions>().map(|set| set.rank(8)), Ok(Some(2)));
        for wrong in ["", "x", "1,", "3-1", "2,1", "1,1", "-1", "0-1000", "0-4294967295"] {
            assert_eq!(wrong.parse::<Positions>(), Err(InvalidPositions), "{wrong}");
        }
        assert!("0-999".parse::<Positions>().is_ok());
    }
}
