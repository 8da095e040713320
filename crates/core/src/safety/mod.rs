//! The limits on acts that change capacity or move pods: creations, deletions, evictions, terminations and taints.
//!
//! A conclusion from conditions, lists, ages or silence may be wrong for all nodes at once. So each act passes [`admit`],
//! called where its write leaves, whatever decided it. [`limits_of`] is the table act × limit (docs/safety.md shows it);
//! [`Facts`] is what the cluster shows, [`Limits`] what this process has done; [`Held`] says which limit holds the act.
//!
//! Three rules stand outside the table. No controller acts unless its process leads and its watches are fresh
//! (`controllers::runtime::gate`), and disruption has budgets and gates of its own ([`crate::disruption`]). A forced
//! deletion of a pod passes no limit: the termination deadline of its node has come.

mod act;
mod backoff;
mod held;
pub mod launch_loop;
mod limits;
#[cfg(test)]
mod tests;
mod window;

pub use act::{Act, Cause, Limit, limits_of};
pub use backoff::{Pause, ReplicaBackoff};
pub use held::Held;
pub use limits::{Limits, Rate};
pub use window::{RemovalWindow, Share, WINDOW};

use std::time::Duration;

use jiff::Timestamp;

/// What the cluster shows of an act.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// The name of the object. Within a window, acts on the same name count once.
    pub subject: &'a str,
    /// All objects of its kind: windows let through a share of them.
    pub all: usize,
    /// How many objects the act creates, all or none.
    pub count: usize,
    /// How much longer acts by wall-clock time pause, because the wall clock jumped.
    pub clock_pause: Option<Duration>,
    /// NotReady nodes and all nodes, in an outage.
    pub outage: Option<(usize, usize)>,
    /// Missing instances and all instances, if the cloud's list is too short to be believed.
    pub short_list: Option<(usize, usize)>,
    /// The nodes that share their fate with a node that is to be repaired.
    pub health: Health,
    /// The pause of a NodePool with replicas whose NodeClaims keep failing.
    pub backoff: Option<Pause>,
    /// The pause of a demand that missed the nodes that were launched for it.
    pub launch_loop: Option<launch_loop::LoopPause>,
    /// How long until the pod's turn to be evicted.
    pub turn: Option<Duration>,
}

/// The nodes of a NodePool, or of the cluster, by what repair policies call them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The NodePool; `None` for the cluster.
    pub pool: Option<crate::model::Str>,
    /// Nodes that a repair policy calls unhealthy.
    pub unhealthy: usize,
    /// All nodes.
    pub nodes: usize,
}

/// Whether `act` may be done at `now`, a moment on the steady clock. Changes nothing: [`Limits::take`] also counts the act.
///
/// # Errors
/// The first limit of [`limits_of`] that holds it.
pub fn admit(act: Act, facts: &Facts<'_>, limits: &Limits, now: Timestamp) -> Result<(), Held> {
    limits_of(act).iter().try_for_each(|limit| held_by(*limit, facts, limits, now).map_or(Ok(()), Err))
}

/// The reason why `limit` holds an act, if it does.
fn held_by(limit: Limit, facts: &Facts<'_>, limits: &Limits, now: Timestamp) -> Option<Held> {
    match limit {
        Limit::ClockJump => facts.clock_pause.map(|left| Held::ClockJump { left }),
        Limit::StartupDelay => limits.startup_wait(now).map(|left| Held::StartupDelay { left }),
        Limit::Outage => facts.outage.map(|(unready, all)| Held::Outage { unready, all }),
        Limit::ShortList => facts.short_list.map(|(missing, all)| Held::ShortList { missing, all }),
        Limit::UnhealthyShare => {
            let Health { unhealthy, nodes, .. } = facts.health;
            is_too_many(unhealthy, nodes).then(|| Held::UnhealthyShare(facts.health.clone()))
        }
        Limit::ReplicaBackoff => facts.backoff.clone().map(Held::ReplicaBackoff),
        Limit::LaunchLoop => facts.launch_loop.clone().map(Held::LaunchLoop),
        Limit::CreationRate => limits.creation_wait(facts.count, now).map(|left| Held::CreationRate { left }),
        Limit::EvictionRate => facts.turn.map(|left| Held::EvictionRate { left }),
        Limit::ExpirationShare
        | Limit::RepairShare
        | Limit::CollectionShare
        | Limit::RegistrationShare
        | Limit::ImpairedShare
        | Limit::OrphanShare => limits.window(limit).and_then(|window| {
            (!window.lets_through(facts.subject, facts.all, now)).then(|| Held::Share {
                limit,
                share: window.share(),
                left: window.again(now),
            })
        }),
    }
}

/// Unhealthy nodes of a NodePool in percent. Beyond that the NodePool, the image or the network is at fault, and replacing
/// nodes would add to it.
pub const UNHEALTHY_PERCENT: usize = 20;

/// Whether the share of unhealthy `nodes` is too large for repair.
fn is_too_many(unhealthy: usize, nodes: usize) -> bool {
    unhealthy > nodes.saturating_mul(UNHEALTHY_PERCENT).div_ceil(100)
}
