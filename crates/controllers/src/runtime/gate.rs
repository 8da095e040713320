//! Fresh or passive: controllers act only while what they see is known to be recent.
//!
//! Every kind must have been listed once, and its watch must have shown a sign of life not long ago. A process that
//! does not lead is passive for the same reason: what it would do, another one does.

use std::time::Duration;

use fleetwright_state::{Index, Kind};
use jiff::Timestamp;

/// How old the last sign of life of a watch may be.
pub const MAX_SILENCE: Duration = Duration::from_secs(120);

/// Why controllers are passive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Passive {
    /// Another process leads.
    #[error("another replica holds the lease")]
    NotLeading,
    /// It leads, and has not seen yet what its predecessor left.
    #[error("NodeClaims have not been listed since this replica took the lease")]
    TakingOver,
    /// A kind was not listed yet.
    #[error("{0} objects have not been listed yet")]
    NotListed(Kind),
    /// A kind's watch is silent.
    #[error("the watch of {0} objects has been silent for more than two minutes")]
    Silent(Kind),
}

/// Whether controllers may act at `now`, a moment of the steady clock as signs of life are; the first reason why not.
///
/// # Errors
/// The reason.
pub fn may_act(index: &Index, now: Timestamp) -> Result<(), Passive> {
    // Every worker asks at every turn.
    let oldest = now.checked_sub(MAX_SILENCE).unwrap_or(Timestamp::MIN);
    for kind in index.followed() {
        let Some(last) = index.last_progress(kind) else { return Err(Passive::NotListed(kind)) };
        if last < oldest {
            return Err(Passive::Silent(kind));
        }
    }
    Ok(())
}
