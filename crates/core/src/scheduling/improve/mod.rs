//! New NodeClaims packed by price.

pub(crate) mod patterns;
pub(crate) mod rearrange;

/// What a node weighs beside its price, in nano-dollars per hour: objects, addresses, images to pull. It decides
/// between packings that cost nearly the same, and keeps the search off the smallest sizes, whose perfect fits leave what
/// is hard to place. A plan's price does not contain it.
pub(crate) const NODE_OVERHEAD: i64 = 3_000_000;

/// An amount as guidance for a search.
#[expect(clippy::cast_precision_loss, reason = "it guides the search; feasibility is decided in integers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}
