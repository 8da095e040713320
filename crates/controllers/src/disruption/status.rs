//! The condition DisruptionBlocked of NodeClaims: all blockers of a node in one place, for `kubectl describe`.
//!
//! Blockers that end within minutes are not written: each would cost two writes. A condition is written again when a
//! blocker, its owner or its end changes, not when a figure in its message does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fleetwright_api::labels::condition::DISRUPTION_BLOCKED;
use fleetwright_core::{
    disruption::{Blocker, DisruptionStatus, Proposal, Unconsolidatable},
    model::{ClaimName, StateNode, Str, nodeclaim::ConditionType},
};
use jiff::Timestamp;

use crate::{
    patch::Patches,
    runtime::{Clocks, Cluster, ReconcileError, gone_is_ok, later},
};

/// How often conditions are updated.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// Blockers that end sooner are not written, nor are younger ones whose end is not known.
const SHORT: Duration = Duration::from_secs(120);
/// Conditions that are written in one round; the next round continues.
const AT_ONCE: usize = 50;
/// Blockers that a message names.
const NAMED: usize = 5;

/// One blocker of a condition, without the figures that change all the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    kind: &'static str,
    owner: Option<String>,
    until: Option<Timestamp>,
    /// Whether each pod event moves the end: the written end is the earliest, and the message says so.
    moves: bool,
    /// Whether consolidation found it: only passes that run every method know it for every node.
    found: bool,
}

impl Mark {
    fn of(blocker: &Blocker) -> Self {
        let moves = matches!(blocker, Blocker::ConsolidateAfter { .. });
        Self {
            kind: blocker.kind(),
            owner: blocker.owner().filter(|_| !moves),
            until: blocker.until(),
            moves,
            found: matches!(blocker, Blocker::Unconsolidatable(_)),
        }
    }

    /// Whether a written mark still covers this one.
    fn is_covered_by(&self, written: &Self, now: Timestamp) -> bool {
        let same_end =
            written.until == self.until || (self.moves && written.until.is_some_and(|until| until > now));
        (written.kind, &written.owner, same_end) == (self.kind, &self.owner, true)
    }
}

/// Whether a blocker is worth a write.
fn lasts(blocker: &Blocker, node: &StateNode, now: Timestamp) -> bool {
    match blocker {
        Blocker::Queued
        | Blocker::NotManaged
        | Blocker::NoNode
        | Blocker::Deleting
        | Blocker::NotConsolidatable
        // For minutes after each replacement.
        | Blocker::Unconsolidatable(Unconsolidatable::RecentReplacement { .. }) => false,
        Blocker::NotInitialized => {
            let claim = node.claim.as_ref();
            let joined = claim.and_then(|claim| claim.true_since(ConditionType::Registered));
            joined.is_some_and(|since| later(since, SHORT) <= now)
        }
        Blocker::Budget { allowed, .. } => *allowed == 0,
        other => other.until().is_none_or(|until| until > later(now, SHORT)),
    }
}

/// The condition as it should be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    marks: Vec<Mark>,
    /// Reason and message; `None` without lasting blockers.
    text: Option<(String, String)>,
}

impl Wanted {
    fn of(status: &DisruptionStatus, now: Timestamp) -> Self {
        let lasting: Vec<&Blocker> =
            status.blockers.iter().filter(|blocker| lasts(blocker, &status.node, now)).collect();
        let Some(first) = lasting.first() else { return Self::default() };
        let mut texts: Vec<String> = lasting.iter().take(NAMED).map(|blocker| text_of(blocker)).collect();
        if lasting.len() > NAMED {
            texts.push(format!("and {} more", lasting.len() - NAMED));
        }
        let marks = lasting.iter().map(|blocker| Mark::of(blocker)).collect();
        Self { marks, text: Some((first.kind().to_owned(), texts.join("; "))) }
    }

    /// Whether it differs from the written marks. Where not every method ran, what consolidation found stays.
    fn differs(&self, written: &[Mark], whole: bool, now: Timestamp) -> bool {
        let is_written = |mark: &Mark| written.iter().any(|written| mark.is_covered_by(written, now));
        let holds = |written: &Mark| self.marks.iter().any(|mark| mark.is_covered_by(written, now));
        !self.marks.iter().all(is_written)
            || !written.iter().all(|mark| holds(mark) || (mark.found && !whole))
    }
}

fn text_of(blocker: &Blocker) -> String {
    let mut text = match blocker {
        // Without the time left and the last pod, which change all the time.
        Blocker::ConsolidateAfter { after, until, .. } => {
            return format!("consolidateAfter of {}s is not over before {until}", after.as_secs());
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

/// For which nodes a pass knows all blockers.
#[derive(Debug)]
pub(super) struct Scope {
    /// Whether every method ran.
    complete: bool,
    /// NodeClaims that the pass did not reach.
    unreached: BTreeSet<Str>,
}

impl Scope {
    /// The scope of a pass: methods after the one that found commands did not run.
    pub(super) fn of(proposal: &Proposal) -> Self {
        Self {
            complete: proposal.commands.is_empty(),
            unreached: proposal.unreached.iter().cloned().collect(),
        }
    }

    fn is_whole(&self, claim: &str) -> bool {
        self.complete && !self.unreached.contains(claim)
    }
}

/// The conditions that this process has written; a new process compares the whole text once.
#[derive(Debug, Default)]
pub(super) struct Conditions(Mutex<BTreeMap<ClaimName, Vec<Mark>>>);

impl Conditions {
    fn get(&self, claim: &ClaimName) -> Option<Vec<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(claim).cloned()
    }

    fn set(&self, claim: &ClaimName, marks: Vec<Mark>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.clone(), marks);
    }

    /// Drops nodes that are gone.
    fn retain(&self, statuses: &[DisruptionStatus]) {
        let present: BTreeSet<&ClaimName> = statuses.iter().filter_map(|one| one.node.claim_name()).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| present.contains(name));
    }

    /// Updates the conditions.
    ///
    /// # Errors
    /// The first that could not be written; the others were tried too.
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
        let mut result = Ok(());
        let mut written = 0;
        for status in statuses {
            let Some(name) = status.node.claim_name() else { continue };
            let wanted = Wanted::of(status, now);
            let current = current(cluster, name);
            let same = match self.get(name) {
                Some(marks) => {
                    current.is_some() != marks.is_empty()
                        && !wanted.differs(&marks, scope.is_whole(name), now)
                }
                None => current == wanted.text,
            };
            if same {
                if self.get(name).is_none() {
                    self.set(name, wanted.marks);
                }
                continue;
            }
            if written == AT_ONCE {
                break;
            }
            written += 1;
            match set(patches, name, wanted.text.as_ref()).await {
                Ok(()) => self.set(name, wanted.marks),
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
    let found = fleetwright_api::condition::find(&status.conditions, DISRUPTION_BLOCKED)?;
    Some((found.reason.clone(), found.message.clone()))
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
    gone_is_ok(done.await).map(|_| ())
}

#[cfg(test)]
mod tests;
