//! New NodeClaims by number of pods, then age: the order in which Karpenter tries them.

use super::bits::Bits;
use crate::scheduling::ids::NewClaimId;

/// New NodeClaims on rungs, one for each number of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    rungs: Vec<Bits<NewClaimId>>,
    /// How many new NodeClaims each rung has.
    counts: Vec<usize>,
    /// Rungs that are not empty.
    used: Bits<usize>,
}

/// Where a search stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    rung: usize,
    word: usize,
}

impl Ladder {
    /// Puts a new NodeClaim onto a rung.
    pub(super) fn put(&mut self, claim: NewClaimId, rung: usize) {
        if self.rungs.len() <= rung {
            self.rungs.resize(rung + 1, Bits::default());
            self.counts.resize(rung + 1, 0);
        }
        self.rungs[rung].insert(claim);
        self.counts[rung] += 1;
        self.used.insert(rung);
    }

    /// Moves a new NodeClaim from one rung to another.
    pub(super) fn shift(&mut self, claim: NewClaimId, from: usize, to: usize) {
        if from == to {
            return;
        }
        self.rungs[from].remove(claim);
        self.counts[from] -= 1;
        if self.counts[from] == 0 {
            self.used.remove(from);
        }
        self.put(claim, to);
    }

    /// The first of `candidates` from the cursor on, which stays there: a candidate that is refused is taken out of the
    /// set before the next is asked for.
    pub(super) fn next(&self, candidates: &Bits<NewClaimId>, cursor: &mut Cursor) -> Option<NewClaimId> {
        loop {
            let rung = self.used.first_from(cursor.rung)?;
            if rung != cursor.rung {
                *cursor = Cursor { rung, word: 0 };
            }
            if let Some(claim) = self.rungs[rung].first_common(candidates, &mut cursor.word) {
                return Some(claim);
            }
            *cursor = Cursor { rung: rung + 1, word: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    //! The order is that of a sort by rung, then index.
    use super::*;
    use crate::scheduling::ids::Id;

    #[test]
    fn goes_up_the_rungs_and_skips_what_is_no_candidate() {
        let mut ladder = Ladder::default();
        for claim in 0..130 {
            ladder.put(Id::new(claim), claim % 3);
        }
        ladder.shift(Id::new(0), 0, 7);
        let mut candidates: Bits<NewClaimId> =
            [0, 3, 129, 1, 2, 128].into_iter().map(NewClaimId::new).collect();
        let mut found = Vec::new();
        let mut cursor = Cursor::default();
        while let Some(claim) = ladder.next(&candidates, &mut cursor) {
            found.push(claim.position());
            candidates.remove(claim);
        }
        assert_eq!(found, [3, 129, 1, 2, 128, 0]);
    }

    #[test]
    fn an_empty_rung_is_left() {
        let mut ladder = Ladder::default();
        ladder.put(Id::new(5), 0);
        ladder.shift(Id::new(5), 0, 1);
        ladder.shift(Id::new(5), 1, 1);
        let candidates: Bits<NewClaimId> = [NewClaimId::new(5)].into_iter().collect();
        assert_eq!(ladder.next(&candidates, &mut Cursor::default()), Some(Id::new(5)));
        assert!(!ladder.used.has(0));
    }
}
