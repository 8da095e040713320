//! The condition DisruptionBlocked of NodeClaims: all blockers of a node in one place, for `kubectl describe`.
//!
//! Blockers that end within minutes are not written: each would cost two writes. A condition is rewritten when a
//! blocker, its owner or its end changes, not when a figure in its message does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fleetwright_api::labels::condition::DISRUPTION_BLOCKED;
use fleetwright_core::{
    clock::written,
    disruption::{Blocker, DisruptionStatus, Proposal, Unconsolidatable},
    model::{ClaimName, StateNode, Str, nodeclaim::ConditionType},
};
use jiff::Timestamp;

use crate::{
    patch::Patches,
    runtime::{Clocks, Cluster, ReconcileError, ignore_not_found, later},
};

/// How often conditions are updated.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// Minimum remaining time of a blocker that is written; minimum age if its end is not known.
const MIN_DURATION: Duration = Duration::from_secs(120);
/// Maximum number of conditions that one update writes in a small cluster; the next one continues.
const MAX_WRITES: usize = 50;
/// The number of updates that write the conditions of all nodes of a larger cluster.
const UPDATES: usize = 10;
/// Maximum number of blockers in a message.
const MAX_NAMED: usize = 5;

/// A blocker as it was written, without the figures that change all the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WrittenBlocker {
    kind: &'static str,
    owner: Option<String>,
    until: Option<Timestamp>,
    /// Whether each pod event postpones the end. The written end is then the earliest one.
    end_moves: bool,
    /// Whether a consolidation method found it. Only passes that run every method know these for every node.
    by_consolidation: bool,
}

impl WrittenBlocker {
    fn of(blocker: &Blocker) -> Self {
        let end_moves = matches!(blocker, Blocker::ConsolidateAfter { .. });
        Self {
            kind: blocker.kind(),
            owner: blocker.owner().filter(|_| !end_moves),
            until: blocker.until(),
            end_moves,
            by_consolidation: matches!(blocker, Blocker::Unconsolidatable(_)),
        }
    }

    /// Whether a blocker that was written still describes this one.
    fn is_covered_by(&self, written: &Self, now: Timestamp) -> bool {
        let same_end =
            written.until == self.until || (self.end_moves && written.until.is_some_and(|until| until > now));
        (written.kind, &written.owner, same_end) == (self.kind, &self.owner, true)
    }
}

/// Whether a blocker lasts long enough to be written.
fn lasts(blocker: &Blocker, node: &StateNode, now: Timestamp) -> bool {
    match blocker {
        Blocker::Queued
        | Blocker::NotManaged
        | Blocker::NoNode
        | Blocker::Deleting
        | Blocker::NotConsolidatable
        // Lasts for minutes after each replacement.
        | Blocker::Unconsolidatable(Unconsolidatable::RecentReplacement { .. }) => false,
        Blocker::NotInitialized => {
            let claim = node.claim.as_ref();
            let joined = claim.and_then(|claim| claim.true_since(ConditionType::Registered));
            joined.is_some_and(|since| later(since, MIN_DURATION) <= now)
        }
        Blocker::Budget { allowed, .. } => *allowed == 0,
        other => other.until().is_none_or(|until| until > later(now, MIN_DURATION)),
    }
}

/// The desired condition.
#[derive(Debug, Default, PartialEq, Eq)]
struct DesiredCondition {
    blockers_written: Vec<WrittenBlocker>,
    /// Reason and message; `None` if no blocker lasts.
    text: Option<(String, String)>,
}

impl DesiredCondition {
    fn of(status: &DisruptionStatus, now: Timestamp) -> Self {
        let lasting: Vec<&Blocker> =
            status.blockers.iter().filter(|blocker| lasts(blocker, &status.node, now)).collect();
        let Some(first) = lasting.first() else { return Self::default() };
        let mut texts: Vec<String> = lasting.iter().take(MAX_NAMED).map(|blocker| text_of(blocker)).collect();
        if lasting.len() > MAX_NAMED {
            texts.push(format!("and {} more", lasting.len() - MAX_NAMED));
        }
        let blockers_written = lasting.iter().map(|blocker| WrittenBlocker::of(blocker)).collect();
        Self { blockers_written, text: Some((first.kind().to_owned(), texts.join("; "))) }
    }

    /// Whether it differs from what was written. After an incomplete pass, blockers of consolidation are not removed.
    fn differs(&self, written: &[WrittenBlocker], complete_pass: bool, now: Timestamp) -> bool {
        let is_written =
            |mark: &WrittenBlocker| written.iter().any(|written| mark.is_covered_by(written, now));
        let holds = |written: &WrittenBlocker| {
            self.blockers_written.iter().any(|mark| mark.is_covered_by(written, now))
        };
        !self.blockers_written.iter().all(is_written)
            || !written.iter().all(|mark| holds(mark) || (mark.by_consolidation && !complete_pass))
    }
}

fn text_of(blocker: &Blocker) -> String {
    let mut text = match blocker {
        // Without the time left and the last pod, which change all the time.
        Blocker::ConsolidateAfter { after, until, .. } => {
            return format!("consolidateAfter of {} is not over before {until}", written(*after));
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
}

/// The nodes whose blockers a pass knows completely.
#[derive(Debug)]
pub(super) struct Scope {
    /// Whether every method ran.
    complete: bool,
    /// NodeClaims that the pass did not reach.
    unreached: BTreeSet<Str>,
}

impl Scope {
    /// The scope of a pass. Methods after the one that found commands did not run.
    pub(super) fn of(proposal: &Proposal) -> Self {
        Self {
            complete: proposal.commands.is_empty(),
            unreached: proposal.unreached.iter().cloned().collect(),
        }
    }

    fn is_complete_for(&self, claim: &str) -> bool {
        self.complete && !self.unreached.contains(claim)
    }
}

/// Maximum number of conditions that one update of this many nodes writes.
fn most_writes(nodes: usize) -> usize {
    MAX_WRITES.max(nodes.div_ceil(UPDATES))
}

/// The conditions that this process has written. A new process compares the text of each condition once.
#[derive(Debug, Default)]
pub(super) struct Conditions(Mutex<BTreeMap<ClaimName, Vec<WrittenBlocker>>>);

impl Conditions {
    fn get(&self, claim: &ClaimName) -> Option<Vec<WrittenBlocker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(claim).cloned()
    }

    fn set(&self, claim: &ClaimName, blockers_written: Vec<WrittenBlocker>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.clone(), blockers_written);
    }

    /// Drops nodes that do not exist any more.
    fn retain(&self, statuses: &[DisruptionStatus]) {
        let present: BTreeSet<&ClaimName> = statuses.iter().filter_map(|one| one.node.claim_name()).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| present.contains(name));
    }

    /// Updates the conditions.
    ///
    /// # Errors
    /// The first failed write; all nodes are tried.
    pub(super) async fn write(
        &self,
        cluster: &Cluster,
        clocks: &Clocks,
        patches: &Patches,
        statuses: &[DisruptionStatus],
        scope: &Scope,
    ) -> Result<(), ReconcileError> {
        self.retain(statuses);
        let now = clocks.now();
        let most = most_writes(statuses.len());
        let mut result = Ok(());
        let mut written = 0;
        for status in statuses {
            let Some(name) = status.node.claim_name() else { continue };
            let desired = DesiredCondition::of(status, now);
            let current = current(cluster, name);
            let same = match self.get(name) {
                Some(blockers_written) => {
                    current.is_some() != blockers_written.is_empty()
                        && !desired.differs(&blockers_written, scope.is_complete_for(name), now)
                }
                None => current == desired.text,
            };
            if same {
                if self.get(name).is_none() {
                    self.set(name, desired.blockers_written);
                }
                continue;
            }
            if written == most {
                break;
            }
            written += 1;
            match set(patches, name, desired.text.as_ref()).await {
                Ok(()) => self.set(name, desired.blockers_written),
                Err(error) if result.is_ok() => result = Err(error),
                Err(_) => {}
            }
        }
        result
    }
}

/// Reason and message of the current condition.
fn current(cluster: &Cluster, claim: &str) -> Option<(String, String)> {
    let index = cluster.index();
    let status = index.claim(claim)?.status.as_ref()?;
    let condition = fleetwright_api::condition::find(&status.conditions, DISRUPTION_BLOCKED)?;
    Some((condition.reason.clone(), condition.message.clone()))
}

async fn set(patches: &Patches, claim: &str, text: Option<&(String, String)>) -> Result<(), ReconcileError> {
    let done = patches.claim_conditions(claim, |conditions| match text {
        Some((reason, message)) => {
            conditions.set_true_with_reason(DISRUPTION_BLOCKED, reason, message);
        }
        None => {
            // It is an independent condition, which can always be cleared.
            let _ = conditions.clear(DISRUPTION_BLOCKED);
        }
    });
    ignore_not_found(done.await).map(|_| ())
}

#[cfg(test)]
mod tests;
