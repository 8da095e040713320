//! New NodeClaims packed by price.

pub(crate) mod patterns;
pub(crate) mod rearrange;

/// What a node weighs beside its price, in nano-dollars per hour: objects, addresses, images to pull. It decides
/// between packings that cost nearly the same, and keeps the search off the smallest sizes, whose perfect fits leave what
/// is hard to place. A plan's price does not contain it.
pub(crate) const NODE_OVERHEAD: i64 = 3_000_000;
