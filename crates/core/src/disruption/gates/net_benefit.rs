//! A replacement must save more over its expected lifetime than the move costs.
//!
//! A move has two costs: pods restart and lose some minutes of work, and for some minutes both old and new nodes are
//! paid. A command without replacements saves from the first second and always passes.

use std::time::Duration;

use jiff::Timestamp;

use super::Gate;
use crate::{
    disruption::{Candidate, Command, Context, DisruptionCost, Unconsolidatable},
    model::Price,
};

/// The longest time over which a saving counts: prices and load change within a day.
const HORIZON: Duration = Duration::from_secs(24 * 60 * 60);
/// The work that a pod of eviction cost 1 loses by a restart, as node time; in proportion for other pods.
const RESTART: Duration = Duration::from_secs(5 * 60);
/// How long both old and new nodes are paid: launch, start, drain.
const OVERLAP: Duration = Duration::from_secs(5 * 60);

/// Rejects replacements that cost more than they save.
pub(super) struct NetBenefit;

impl Gate for NetBenefit {
    fn admit_command(&self, context: &Context<'_>, command: &mut Command) -> Result<(), Unconsolidatable> {
        if command.replacements.is_empty() {
            return Ok(());
        }
        let lives = command.candidates.iter().map(|candidate| remaining_lifetime(candidate, context.now));
        let over = lives.min().unwrap_or(HORIZON);
        let savings = amount(command.effective_savings(), over);
        let cost = restarts(command).saturating_add(amount(command.effective_after(), OVERLAP));
        if savings > cost {
            return Ok(());
        }
        let price = |nanos: i128| Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        let currency = context.snapshot.currency;
        Err(Unconsolidatable::NoNetBenefit { savings: price(savings), over, cost: price(cost), currency })
    }
}

/// The remaining lifetime of a node without the move, at most [`HORIZON`]: at its expiration it is replaced anyway.
fn remaining_lifetime(candidate: &Candidate, now: Timestamp) -> Duration {
    let claim = candidate.node.claim.as_ref();
    let end = claim.and_then(|claim| claim.created.checked_add(claim.expire_after?).ok());
    let left = end.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    left.unwrap_or(HORIZON).min(HORIZON)
}

/// The cost of restarting the pods, in nano-dollars.
fn restarts(command: &Command) -> i128 {
    let of_one = |candidate: &Candidate| {
        let pods = i128::try_from(candidate.pods.len()).unwrap_or(i128::MAX).max(1);
        let evictions = i128::from(candidate.cost.units() - DisruptionCost::NODE.units());
        let unit = i128::from(DisruptionCost::NODE.units());
        amount(candidate.effective, RESTART).saturating_mul(evictions) / unit / pods
    };
    command.candidates.iter().map(of_one).sum()
}

/// The cost of a price per hour over a duration, in nano-dollars.
fn amount(price: Price, over: Duration) -> i128 {
    i128::from(price.nanos()) * i128::from(over.as_secs()) / 3600
}
