//! Commands that have started, and what happens to them next.
//!
//! 1. Mark the nodes, then create the replacements.
//! 2. Wait until all replacements are initialized ([`progress`]).
//! 3. Delete the NodeClaims of the candidates, unless they are blocked by then: then the command is abandoned,
//!    its marks are removed, and its replacements are kept.
//!
//! A command survives a restart: its candidates have a [`CommandRecord`], its replacements the id in their
//! [`lineage`]. [`resume`] resumes a complete command; the marks of any other are removed
//! ([`is_marked`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{Blocker, Candidate, Command, Decision, candidate, known, lineage, method};
use crate::model::{
    ClaimName, DisruptionReason, NodeClaim, Price, Snapshot, StateNode, Str, nodeclaim::ConditionType,
};

/// Maximum timeout of a command, unless the settings have a longer one.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// The timeout grows by this for each candidate of all commands.
const TIMEOUT_PER_NODE: Duration = Duration::from_millis(80);
/// Maximum age of a command without replacements that is resumed: the cluster has changed since an older one was decided.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A command that has started.
#[derive(Clone, Debug)]
pub struct StartedCommand {
    /// The decision.
    pub command: Arc<Command>,
    /// The NodeClaims of the replacements, in the order of the command.
    pub replacements: Vec<ClaimName>,
    /// When this process started or resumed it, in steady time.
    pub since: Timestamp,
    /// When it started, on the clock of the process that started it.
    pub started: Timestamp,
}

impl StartedCommand {
    /// Whether the command creates replacements.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
    }

    /// The saving of list prices per hour; `None` for a resumed command with replacements, whose record has no prices.
    #[must_use]
    pub fn savings(&self) -> Option<Price> {
        let has_prices = self.replacements.len() == self.command.replacements.len();
        has_prices.then(|| self.command.savings())
    }

    /// The names of the NodeClaims that it removes.
    pub fn candidate_claims(&self) -> impl Iterator<Item = &ClaimName> {
        self.command.candidates.iter().filter_map(|candidate| candidate.node.claim_name())
    }

    /// Pods that consolidation evicts with the command: they count as displaced
    /// ([`DisplacedPods`](super::DisplacedPods)).
    pub fn displaces(&self) -> impl Iterator<Item = &Candidate> {
        let consolidates = self.command.method.reason == DisruptionReason::Underutilized;
        self.command.candidates.iter().filter(move |_| consolidates)
    }
}

/// The next step of a started command.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// All NodeClaims of its candidates are deleted or deleting: it is done.
    Done,
    /// This replacement is not initialized yet.
    Wait(ClaimName),
    /// Roll it back.
    Abandon(Abandoned),
    /// Delete the NodeClaims of the candidates.
    Remove,
}

/// Why a started command is rolled back.
#[derive(Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// A replacement was deleted.
    Gone(ClaimName),
    /// A replacement is being deleted.
    Deleting(ClaimName),
    /// A replacement was not initialized within the timeout.
    Timeout(ClaimName),
    /// A candidate may not be removed now.
    Blocked(Str, Blocker),
    /// A candidate that was empty has pods.
    NotEmpty(Str),
}

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(name) => write!(f, "replacement {name} is gone"),
            Self::Deleting(name) => write!(f, "replacement {name} is being deleted"),
            Self::Timeout(name) => write!(f, "replacement {name} was not initialized in time"),
            Self::Blocked(node, blocker) => write!(f, "{node}: {blocker}"),
            Self::NotEmpty(node) => write!(f, "{node}: no longer empty"),
        }
    }
}

/// The timeout of a command while all commands have this number of candidates; at least `least`.
#[must_use]
pub fn timeout(candidates: usize, least: Duration) -> Duration {
    let grown = TIMEOUT_PER_NODE.saturating_mul(u32::try_from(candidates).unwrap_or(u32::MAX));
    grown.min(MAX_TIMEOUT).max(least)
}

/// The next step of a command, on `snapshot`, at `steady` time.
#[must_use]
pub fn progress(started: &StartedCommand, snapshot: &Snapshot, steady: Timestamp, timeout: Duration) -> Next {
    let wanted: BTreeSet<&ClaimName> = started.candidate_claims().chain(&started.replacements).collect();
    let nodes = snapshot.nodes.iter().enumerate();
    let found: BTreeMap<&ClaimName, (usize, &NodeClaim)> = nodes
        .filter_map(|(index, node)| Some((index, node.claim.as_deref()?)))
        .filter(|(_, claim)| wanted.contains(&claim.name))
        .map(|(index, claim)| (&claim.name, (index, claim)))
        .collect();
    let is_deleting_candidate = |candidate: &Candidate| {
        let claim = candidate.node.claim_name().and_then(|name| found.get(name));
        claim.is_none_or(|(_, claim)| claim.deleting.is_some())
    };
    if started.command.candidates.iter().all(is_deleting_candidate) {
        return Next::Done;
    }
    for name in &started.replacements {
        match found.get(name) {
            None => return Next::Abandon(Abandoned::Gone(name.clone())),
            Some((_, claim)) if claim.deleting.is_some() => {
                return Next::Abandon(Abandoned::Deleting(name.clone()));
            }
            Some((_, claim)) if claim.is(ConditionType::Initialized) => {}
            Some(_) => {
                let waited = Duration::try_from(steady.duration_since(started.since));
                return match waited {
                    Ok(waited) if waited > timeout => Next::Abandon(Abandoned::Timeout(name.clone())),
                    _ => Next::Wait(name.clone()),
                };
            }
        }
    }
    // A command without replacements can be blocked too.
    let indices = started.command.candidates.iter().filter_map(|candidate| {
        let (index, _) = found.get(candidate.node.claim_name()?)?;
        Some((candidate, *index))
    });
    match blocked(started, snapshot, &indices.collect::<Vec<_>>()) {
        Some(why) => Next::Abandon(why),
        None => Next::Remove,
    }
}

/// Whether a pod that was bound before the taint, or a changed PodDisruptionBudget, blocks the deletion of a candidate.
fn blocked(
    started: &StartedCommand,
    snapshot: &Snapshot,
    candidates: &[(&Candidate, usize)],
) -> Option<Abandoned> {
    let mut unmarked = snapshot.clone();
    for (_, index) in candidates {
        // The marks of this command do not block it.
        if let Some(node) = unmarked.nodes.get_mut(*index) {
            let node: &mut StateNode = Arc::make_mut(node);
            node.marked_for_deletion = false;
            node.nominations.clear();
        }
    }
    let is_eventual = started.command.method.is_eventual();
    candidates.iter().find_map(|(old, index)| {
        let was_empty = old.is_empty() || started.command.method.reason == DisruptionReason::Empty;
        match candidate(&unmarked, *index, snapshot.taken_at, is_eventual) {
            Err(
                blocker @ (Blocker::DoNotDisruptPod(..)
                | Blocker::DoNotDisruptNode
                | Blocker::UnreadablePod(..)
                | Blocker::Pdb(_)
                | Blocker::SeveralPdbs(_)),
            ) => Some(Abandoned::Blocked(old.name().into(), blocker)),
            Ok(fresh) if was_empty && !fresh.is_empty() => Some(Abandoned::NotEmpty(old.name().into())),
            _ => None,
        }
    })
}

/// The record of a command in the annotation of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// The id of the command.
    pub id: Str,
    /// Name of its method.
    pub method: Str,
    /// When it started; `None` if that is invalid.
    pub started: Option<Timestamp>,
    /// How many NodeClaims it creates.
    pub replacements: usize,
    /// How many nodes it removes.
    pub nodes: usize,
}

/// Resumes the command of a record, from `since` in steady time; `nodes` are the indices of the nodes with
/// the record. `None` if it has to be rolled back.
#[must_use]
pub fn resume(
    snapshot: &Snapshot,
    record: &CommandRecord,
    nodes: &[usize],
    now: Timestamp,
    since: Timestamp,
) -> Option<StartedCommand> {
    let method = method(&record.method)?;
    let started = record.started?;
    let claims = snapshot.nodes.iter().filter_map(|node| node.claim.as_ref());
    let replacement_claims = claims.filter(|claim| lineage::command(claim) == Some(&*record.id));
    let replacements: Vec<ClaimName> = replacement_claims.map(|claim| claim.name.clone()).collect();
    let candidates: Vec<Candidate> = nodes.iter().filter_map(|index| known(snapshot, *index, now)).collect();
    let is_deleting =
        |index: &usize| snapshot.nodes[*index].claim.as_ref().is_some_and(|claim| claim.deleting.is_some());
    // Replacements are created once every candidate has its record, and candidates are deleted once all replacements are
    // initialized: either shows that the candidates without a record were deleted.
    let is_recorded = record.replacements > 0 || nodes.len() >= record.nodes || nodes.iter().any(is_deleting);
    // Taint and condition are written after the records and before replacements: without them, pods may still be bound.
    let is_marked = record.replacements > 0 || nodes.iter().all(|index| has_marks(&snapshot.nodes[*index]));
    let is_complete = is_recorded && is_marked && replacements.len() == record.replacements;
    // Compares two clocks: if they differ, a command may be rolled back needlessly, or resumed and checked again before it
    // deletes a node. Its timeout uses the clock of this process only.
    let end = started.checked_add(MAX_AGE).unwrap_or(Timestamp::MAX);
    let is_stale = record.replacements == 0 && end < now;
    if !is_complete || is_stale || candidates.len() < nodes.len() {
        return None;
    }
    let command = Arc::new(Command::new(method.spec(), candidates, Vec::new()));
    Some(StartedCommand { command, replacements, since, started })
}

/// Whether a node has all marks that a command writes before it deletes it, or is being deleted.
fn has_marks(node: &StateNode) -> bool {
    let is_tainted = node.node.as_ref().is_none_or(|node| node.is_disrupted() || node.deleting.is_some());
    let has_condition =
        |claim: &Arc<NodeClaim>| claim.deleting.is_some() || claim.is(ConditionType::DisruptionReason);
    is_tainted && node.claim.as_ref().is_some_and(has_condition)
}

/// Whether a node has the marks of a command, and is not being deleted: an orphan, if this process runs no command that
/// removes it. `has_record` is whether its NodeClaim has a [`CommandRecord`].
#[must_use]
pub fn is_marked(node: &StateNode, has_record: bool) -> bool {
    let (Some(claim), false) = (&node.claim, node.is_deleting()) else { return false };
    let tainted = node.node.as_ref().is_some_and(|node| node.is_disrupted());
    let deleting = node.node.as_ref().is_some_and(|node| node.deleting.is_some());
    (tainted || claim.is(ConditionType::DisruptionReason) || has_record) && !deleting
}
