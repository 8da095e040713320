//! What keeps a machine from being disrupted, as a condition of its NodeClaim: everything in one place, for
//! `kubectl describe`.
//!
//! Blocks that end within minutes by themselves are not written: they would cost a write to come and one to go. A
//! condition is written again when what blocks changes, not when a price in its message does.

use std::time::Duration;

use fleetwright_api::labels::condition::DISRUPTION_BLOCKED;
use fleetwright_core::disruption::{Blocker, Standing};
use jiff::Timestamp;

use crate::{
    patch,
    runtime::{Ctx, ReconcileError, gone_is_ok, later},
};

/// How often conditions are brought up to date.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// Blocks that end sooner are not written.
const SHORT: Duration = Duration::from_secs(120);
/// Conditions that are written at once; the next round goes on.
const AT_ONCE: usize = 50;
/// Blockers that a message names.
const NAMED: usize = 5;

/// Whether a block is worth a write.
fn lasts(blocker: &Blocker, now: Timestamp) -> bool {
    match blocker {
        Blocker::Queued
        | Blocker::NotManaged
        | Blocker::NoNode
        | Blocker::NotInitialized
        | Blocker::Deleting
        | Blocker::NotConsolidatable => false,
        Blocker::Budget { allowed, .. } => *allowed == 0,
        other => other.until().is_none_or(|until| until > later(now, SHORT)),
    }
}

/// Reason and message of the condition; `None` where nothing lasting blocks.
fn rendered(standing: &Standing, now: Timestamp) -> Option<(String, String)> {
    let lasting: Vec<&Blocker> = standing.blockers.iter().filter(|blocker| lasts(blocker, now)).collect();
    let first = lasting.first()?;
    let one = |blocker: &&Blocker| {
        let mut text = match blocker {
            // Without the time left, which changes with every look.
            Blocker::ConsolidateAfter { after, .. } => {
                format!("consolidateAfter of {}s is not over", after.as_secs())
            }
            other => other.to_string(),
        };
        if let Some(owner) = blocker.owner() {
            text = format!("{text} [{owner}]");
        }
        match blocker.until() {
            Some(until) => format!("{text} until {until}"),
            None => text,
        }
    };
    let mut texts: Vec<String> = lasting.iter().take(NAMED).map(one).collect();
    if lasting.len() > NAMED {
        texts.push(format!("and {} more", lasting.len() - NAMED));
    }
    Some((first.kind().to_owned(), texts.join("; ")))
}

/// Brings the conditions up to date with how machines stand.
///
/// # Errors
/// The first that could not be written; the others were tried too.
pub(super) async fn write(ctx: &Ctx, standings: &[Standing]) -> Result<(), ReconcileError> {
    let now = ctx.now();
    let mut result = Ok(());
    let mut written = 0;
    for standing in standings {
        let Some(name) = standing.node.claim_name() else { continue };
        let wanted = rendered(standing, now);
        let stands = ctx.index().claim(name).and_then(|claim| {
            let found =
                fleetwright_api::condition::find(&claim.status.as_ref()?.conditions, DISRUPTION_BLOCKED)?;
            Some(found.reason.clone())
        });
        if stands == wanted.as_ref().map(|(reason, _)| reason.clone()) {
            continue;
        }
        if written == AT_ONCE {
            break;
        }
        written += 1;
        let done = patch::claim_conditions(ctx, name, |conditions| match &wanted {
            Some((reason, message)) => {
                conditions.set_true_with_reason(DISRUPTION_BLOCKED, reason, message);
            }
            None => {
                // It is an independent condition, which can always be cleared.
                let _ = conditions.clear(DISRUPTION_BLOCKED);
            }
        });
        let done = gone_is_ok(done.await).map(|_| ());
        if result.is_ok() {
            result = done;
        }
    }
    result
}
