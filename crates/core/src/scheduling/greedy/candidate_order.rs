//! New NodeClaims by number of pods, then age: the order in which Karpenter tries them.

use crate::scheduling::{ids::NewClaimId, tables::bits::Bits};

/// New NodeClaims in tiers, one for each number of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct CandidateOrder {
    tiers: Vec<Bits<NewClaimId>>,
    /// Tiers that are not empty.
    used: Bits<usize>,
}

/// The position of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    tier: usize,
    word: usize,
}

impl CandidateOrder {
    /// Puts a new NodeClaim into a tier.
    pub(crate) fn put(&mut self, claim: NewClaimId, tier: usize) {
        if self.tiers.len() <= tier {
            self.tiers.resize(tier + 1, Bits::default());
        }
        self.tiers[tier].insert(claim);
        self.used.insert(tier);
    }

    /// Moves a new NodeClaim from one tier to another.
    pub(crate) fn shift(&mut self, claim: NewClaimId, from: usize, to: usize) {
        if from == to {
            return;
        }
        self.tiers[from].remove(claim);
        if self.tiers[from].is_empty() {
            self.used.remove(from);
        }
        self.put(claim, to);
    }

    /// The first of `candidates` from the cursor on, which stays there: a candidate that is refused is taken out of the
    /// set before the next is asked for.
    pub(crate) fn next(&self, candidates: &Bits<NewClaimId>, cursor: &mut Cursor) -> Option<NewClaimId> {
        loop {
            let tier = self.used.first_from(cursor.tier)?;
            if tier != cursor.tier {
                *cursor = Cursor { tier, word: 0 };
            }
            if let Some(claim) = self.tiers[tier].first_common(candidates, &mut cursor.word) {
                return Some(claim);
            }
            *cursor = Cursor { tier: tier + 1, word: 0 };
        }
    }
}

#[cfg(test)]
mod tests;
