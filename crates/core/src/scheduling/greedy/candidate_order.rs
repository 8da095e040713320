//! New NodeClaims by number of pods, then age: the order in which Karpenter tries them.

use crate::scheduling::{ids::NewClaimId, tables::bits::Bits};

/// New NodeClaims in tiers, one for each number of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct CandidateOrder {
    tiers: Vec<Bits<NewClaimId>>,
    /// How many new NodeClaims each tier has.
    counts: Vec<usize>,
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
            self.counts.resize(tier + 1, 0);
        }
        self.tiers[tier].insert(claim);
        self.counts[tier] += 1;
        self.used.insert(tier);
    }

    /// Moves a new NodeClaim from one tier to another.
    pub(crate) fn shift(&mut self, claim: NewClaimId, from: usize, to: usize) {
        if from == to {
            return;
        }
        self.tiers[from].remove(claim);
        self.counts[from] -= 1;
        if self.counts[from] == 0 {
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
mod tests {
    //! The order is that of a sort by tier, then index.
    use super::*;
    use crate::scheduling::ids::Id;

    #[test]
    fn orders_by_tier_and_skips_other_claims() {
        let mut candidate_order = CandidateOrder::default();
        for claim in 0..130 {
            candidate_order.put(Id::new(claim), claim % 3);
        }
        candidate_order.shift(Id::new(0), 0, 7);
        let mut candidates: Bits<NewClaimId> =
            [0, 3, 129, 1, 2, 128].into_iter().map(NewClaimId::new).collect();
        let mut order = Vec::new();
        let mut cursor = Cursor::default();
        while let Some(claim) = candidate_order.next(&candidates, &mut cursor) {
            order.push(claim.position());
            candidates.remove(claim);
        }
        assert_eq!(order, [3, 129, 1, 2, 128, 0]);
    }

    #[test]
    fn skips_an_empty_tier() {
        let mut candidate_order = CandidateOrder::default();
        candidate_order.put(Id::new(5), 0);
        candidate_order.shift(Id::new(5), 0, 1);
        candidate_order.shift(Id::new(5), 1, 1);
        let candidates: Bits<NewClaimId> = [NewClaimId::new(5)].into_iter().collect();
        assert_eq!(candidate_order.next(&candidates, &mut Cursor::default()), Some(Id::new(5)));
        assert!(!candidate_order.used.has(0));
    }
}
