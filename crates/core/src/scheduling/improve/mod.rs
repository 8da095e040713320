//! New NodeClaims packed by price.
//!
//! - `patterns`: pods that topology says nothing about, packed together.
//! - `rearrange`: new NodeClaims packed again once topology has had its say.
//! - `commit`: what either found, as new NodeClaims.

mod commit;
pub(crate) mod patterns;
pub(crate) mod rearrange;

use crate::scheduling::request::Effort;

/// What a node weighs beside its price, in nano-dollars per hour: objects, addresses, images to pull. It decides
/// between packings that cost nearly the same, and keeps the search off the smallest sizes, whose perfect fits leave what
/// is hard to place. A plan's price does not contain it.
pub(crate) const NODE_OVERHEAD: i64 = 3_000_000;

/// Runs rounds of improvement until the effort is spent or `barren_max` rounds in a row saved nothing. A round returns whether
/// it saved anything.
fn improve(effort: Effort<'_>, barren_max: usize, mut round: impl FnMut() -> bool) {
    let (mut rounds, mut barren) = (0_u32, 0);
    while barren < barren_max
        && match effort {
            Effort::First => false,
            Effort::Iterations(rounds_max) => rounds < rounds_max,
            // Asking costs more than it is worth before every round.
            Effort::While(go_on) => !u32::is_multiple_of(rounds, 8) || go_on(),
        }
    {
        barren = if round() { 0 } else { barren + 1 };
        rounds += 1;
    }
}

/// An amount as guidance for a search.
#[expect(clippy::cast_precision_loss, reason = "it guides the search; feasibility is decided in integers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}
