//! Whether a replacement pays: what it saves over the time that it can be expected to last, against what the move costs.
//!
//! A move costs twice: pods start again, which throws away what their nodes did for some minutes, and for some
//! minutes old and new nodes are paid together. Moves that create nothing are not asked: they save from the first
//! second on.

use std::time::Duration;

use jiff::Timestamp;

use super::{Candidate, Command, DisruptionCost, Unconsolidatable};
use crate::model::Price;

/// A saving is counted for so long at most: prices and load change within a day.
pub(super) const HORIZON: Duration = Duration::from_secs(24 * 60 * 60);
/// The work that a plain pod loses by starting again, as time of its node. Pods of other eviction costs lose so much
/// more or less.
const RESTART: Duration = Duration::from_secs(5 * 60);
/// For so long old and new nodes are paid together: launch, start, drain.
const OVERLAP: Duration = Duration::from_secs(5 * 60);

/// Whether `command` saves more than it costs.
///
/// # Errors
/// The figures, where it does not.
pub(super) fn check(command: &Command, now: Timestamp) -> Result<(), Unconsolidatable> {
    if command.replacements.is_empty() {
        return Ok(());
    }
    let over = command.candidates.iter().map(|candidate| life_left(candidate, now)).min().unwrap_or(HORIZON);
    let savings = amount(command.savings(), over);
    let cost = restarts(command).saturating_add(amount(command.price_then(), OVERLAP));
    if savings > cost {
        return Ok(());
    }
    let price = |nanos: i128| Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
    Err(Unconsolidatable::NoNetBenefit { savings: price(savings), over, cost: price(cost) })
}

/// For how long a node would go on if it were left alone, at most [`HORIZON`]: at its expiry it is replaced anyway.
fn life_left(candidate: &Candidate, now: Timestamp) -> Duration {
    let claim = candidate.node.claim.as_ref();
    let end = claim.and_then(|claim| claim.created.checked_add(claim.expire_after?).ok());
    let left = end.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    left.unwrap_or(HORIZON).min(HORIZON)
}

/// What pods lose by starting again, in nano-dollars.
fn restarts(command: &Command) -> i128 {
    let of_one = |candidate: &Candidate| {
        let pods = i128::try_from(candidate.pods.len()).unwrap_or(i128::MAX).max(1);
        let evictions = i128::from(candidate.cost.units() - DisruptionCost::NODE.units());
        let whole = i128::from(DisruptionCost::NODE.units());
        amount(candidate.price, RESTART).saturating_mul(evictions) / whole / pods
    };
    command.candidates.iter().map(of_one).sum()
}

/// What a price per hour comes to over some time, in nano-dollars.
fn amount(price: Price, over: Duration) -> i128 {
    i128::from(price.nanos()) * i128::from(over.as_secs()) / 3600
}
