//! New NodeClaims packed again by price.
//!
//! `improver` is the entry:
//!
//! 1. `members`: which new NodeClaims may be packed again, and what their pods keep; `build`: the [`problem`] that they are.
//! 2. `search`: ruin and recreate over `bins`. It recreates by `patterns` (column generation, `fill`; `exact` where pods are equal)
//!    or by `insertion`, at the prices of a `table`. With time for it, `whole` rounds the solution of the pattern program.
//! 3. `commit`: what was found, as new NodeClaims.

mod bins;
mod build;
mod commit;
mod exact;
mod fill;
pub(crate) mod improver;
mod insertion;
pub(crate) mod members;
mod patterns;
mod problem;
mod random;
mod search;
mod table;
mod whole;

/// What a node counts as in the search beside its effective price, in nano-dollars per hour. It decides between packings that cost
/// nearly the same, and keeps the search off the smallest sizes, whose perfect fits leave what is hard to place. No plan's price
/// contains it: what a node costs beside its instance is part of the effective price ([`Objective`](crate::model::Objective)).
pub(crate) const NODE_OVERHEAD: i64 = 3_000_000;
/// An amount as guidance for a search.
#[expect(clippy::cast_precision_loss, reason = "it guides the search; feasibility is decided in integers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}
