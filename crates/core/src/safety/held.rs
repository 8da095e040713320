//! Why an act is held, and the text of it.

use std::{fmt, time::Duration};

use super::{Health, Limit, Pause, Share, UNHEALTHY_PERCENT, launch_loop::LoopPause};

/// The limit that holds an act, with its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// The wall clock jumped.
    ClockJump {
        /// How much longer acts by wall-clock time pause.
        left: Duration,
    },
    /// The process began a short time ago.
    StartupDelay {
        /// How much longer nodes are neither disrupted nor expired.
        left: Duration,
    },
    /// Nearly half of all nodes are NotReady.
    Outage {
        /// NotReady nodes.
        unready: usize,
        /// All nodes.
        all: usize,
    },
    /// The cloud's list misses too many instances.
    ShortList {
        /// Instances that it misses.
        missing: usize,
        /// Instances that it should have.
        all: usize,
    },
    /// Too many nodes are unhealthy.
    UnhealthyShare(Health),
    /// The share of the window is used up.
    Share {
        /// Which limit.
        limit: Limit,
        /// Its share.
        share: Share,
        /// How long until it may let through more.
        left: Option<Duration>,
    },
    /// The token bucket of NodeClaim creations is empty.
    CreationRate {
        /// How long until it has enough tokens.
        left: Duration,
    },
    /// NodeClaims of a NodePool with replicas keep failing.
    ReplicaBackoff(Pause),
    /// Pods of one owner and class keep missing the nodes that are launched for them.
    LaunchLoop(LoopPause),
    /// The pod's turn to be evicted has not come.
    EvictionRate {
        /// How long until then.
        left: Duration,
    },
}

impl Held {
    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self {
            Self::ClockJump { .. } => Limit::ClockJump,
            Self::StartupDelay { .. } => Limit::StartupDelay,
            Self::Outage { .. } => Limit::Outage,
            Self::ShortList { .. } => Limit::ShortList,
            Self::UnhealthyShare(_) => Limit::UnhealthyShare,
            Self::Share { limit, .. } => *limit,
            Self::CreationRate { .. } => Limit::CreationRate,
            Self::ReplicaBackoff(_) => Limit::ReplicaBackoff,
            Self::LaunchLoop(_) => Limit::LaunchLoop,
            Self::EvictionRate { .. } => Limit::EvictionRate,
        }
    }

    /// How long until the act may be admitted, if known.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        match self {
            Self::ClockJump { left }
            | Self::StartupDelay { left }
            | Self::CreationRate { left }
            | Self::EvictionRate { left } => Some(*left),
            Self::Share { left, .. } => *left,
            Self::ReplicaBackoff(pause) => Some(pause.left),
            Self::LaunchLoop(pause) => Some(pause.left),
            Self::Outage { .. } | Self::ShortList { .. } | Self::UnhealthyShare(_) => None,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClockJump { left } => {
                write!(f, "the wall clock jumped: acts by wall-clock time are suspended for {left:?}")
            }
            // Without the time that is left: equal texts are one event.
            Self::StartupDelay { .. } => f.write_str(
                "disruption and expiration are suspended after the start (STARTUP_DISRUPTION_DELAY)",
            ),
            Self::Outage { unready, all } => {
                write!(f, "{unready}/{all} nodes NotReady: expiration is suspended")
            }
            Self::ShortList { missing, all } => {
                write!(
                    f,
                    "the cloud's list misses {missing}/{all} instances: garbage collection is suspended"
                )
            }
            Self::UnhealthyShare(Health { pool, unhealthy, nodes }) => {
                let scope =
                    pool.as_ref().map_or_else(|| "the cluster".to_owned(), |pool| format!("nodepool {pool}"));
                write!(
                    f,
                    "more than {UNHEALTHY_PERCENT}% of the nodes of {scope} are unhealthy ({unhealthy} of {nodes}), repair waits"
                )
            }
            Self::Share { limit, share, .. } => write_share(f, *limit, *share),
            Self::CreationRate { left } => {
                write!(f, "NodeClaim creation rate limit reached; retrying in {left:?}")
            }
            Self::ReplicaBackoff(Pause { rounds, claim, left }) => write!(
                f,
                "NodeClaims keep failing before registration ({rounds} times in a row, last {claim}): none is created for {} s; \
                 see the events of the NodeClaim and who deletes NodeClaims",
                left.as_secs_f64().ceil()
            ),
            Self::LaunchLoop(LoopPause { owner, missed, claim, left }) => write!(
                f,
                "{missed} nodes were launched for pods of {owner} within an hour and none of its pods stayed on one (last {claim}): \
                 none is created for {} s; see the events of these pods and who preempts, evicts or deletes them",
                left.as_secs_f64().ceil()
            ),
            Self::EvictionRate { left } => write!(f, "eviction rate limit reached; retrying in {left:?}"),
        }
    }
}

/// The text of a share that is used up, without a time: equal texts are one event.
fn write_share(f: &mut fmt::Formatter<'_>, limit: Limit, share: Share) -> fmt::Result {
    let (what, objects, advice) = match limit {
        Limit::ExpirationShare => ("expiration limit reached", "nodes", ""),
        Limit::RepairShare => ("node repair limit reached", "nodes", ""),
        Limit::CollectionShare => {
            ("the cloud does not list the instance, and garbage collection limit reached", "NodeClaims", "")
        }
        Limit::RegistrationShare => (
            "node did not register in time, and registration timeout limit reached",
            "nodes",
            "; look for what the nodes have in common",
        ),
        Limit::ImpairedShare => ("limit of impaired instances reached", "nodes", ""),
        _ => ("limit of instances without a NodeClaim reached", "instances", ""),
    };
    let Share { percent, few, parts } = share;
    let part = if parts == 3 { ", a third of them at a time" } else { "" };
    write!(
        f,
        "{what}: at most the larger of {few} {objects} and {percent}% of all are deleted within 10 minutes{part}{advice}"
    )
}
