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
    let mut candidates: Bits<NewClaimId> = [0, 3, 129, 1, 2, 128].into_iter().map(NewClaimId::new).collect();
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
