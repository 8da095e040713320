//! Commands that have started, and what happens to them next.
//!
//! 1. The nodes are marked, then the replacements are created.
//! 2. [`progress`] waits until all replacements are initialized.
//! 3. The NodeClaims of the candidates are deleted, unless something blocks that by then: then the command is abandoned,
//!    its marks are removed and its replacements stay.
//!
//! A command outlives the process: its candidates carry a [`CommandRecord`], its replacements the id in their
//! [`lineage`]. [`resume`] takes over a command of which everything is there; the marks of any other are removed
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
    ClaimName, DisruptionReason, NodeClaim, Snapshot, StateNode, Str, nodeclaim::ConditionType,
};

/// The longest timeout of a command, unless the settings grant more.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// The timeout grows by this for each candidate of all commands.
const TIMEOUT_PER_NODE: Duration = Duration::from_millis(80);
/// A command without replacements that is older was decided on a cluster that has changed since.
const STALE: Duration = Duration::from_secs(60);

/// A command that has started.
#[derive(Clone, Debug)]
pub struct StartedCommand {
    /// What was decided.
    pub command: Arc<Command>,
    /// The NodeClaims of the replacements, in the order of the command.
    pub replacements: Vec<ClaimName>,
    /// When this process started it or took it over, in steady time.
    pub since: Timestamp,
    /// When it started, on the clock of the process that started it.
    pub started: Timestamp,
}

impl StartedCommand {
    /// Whether the command creates anything.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
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

/// What happens next to a started command.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// All of its NodeClaims are deleted or deleting: it is done.
    Done,
    /// This replacement is not initialized yet.
    Wait(ClaimName),
    /// It is rolled back.
    Abandon(Abandoned),
    /// The NodeClaims of the candidates are deleted.
    Remove,
}

/// Why a started command is rolled back.
#[derive(Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// A replacement is gone.
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

/// How long a command may take while all commands have this many candidates; not less than `least`.
#[must_use]
pub fn timeout(candidates: usize, least: Duration) -> Duration {
    let grown = TIMEOUT_PER_NODE.saturating_mul(u32::try_from(candidates).unwrap_or(u32::MAX));
    grown.min(TIMEOUT_MAX).max(least)
}

/// What happens next to a command, on `snapshot`, at `steady` time.
#[must_use]
pub fn progress(started: &StartedCommand, snapshot: &Snapshot, steady: Timestamp, timeout: Duration) -> Next {
    let wanted: BTreeSet<&ClaimName> = started.candidate_claims().chain(&started.replacements).collect();
    let nodes = snapshot.nodes.iter().enumerate();
    let found: BTreeMap<&ClaimName, (usize, &NodeClaim)> = nodes
        .filter_map(|(index, node)| Some((index, node.claim.as_deref()?)))
        .filter(|(_, claim)| wanted.contains(&claim.name))
        .map(|(index, claim)| (&claim.name, (index, claim)))
        .collect();
    let is_going = |candidate: &Candidate| {
        let claim = candidate.node.claim_name().and_then(|name| found.get(name));
        claim.is_none_or(|(_, claim)| claim.deleting.is_some())
    };
    if started.command.candidates.iter().all(is_going) {
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
    // A command without replacements can be blocked, too.
    let indices = started.command.candidates.iter().filter_map(|candidate| {
        let (index, _) = found.get(candidate.node.claim_name()?)?;
        Some((candidate, *index))
    });
    match blocked(started, snapshot, &indices.collect::<Vec<_>>()) {
        Some(why) => Next::Abandon(why),
        None => Next::Remove,
    }
}

/// Whether a pod that arrived before the taint, or a budget that shrank since, blocks the removal of a candidate.
fn blocked(
    started: &StartedCommand,
    snapshot: &Snapshot,
    candidates: &[(&Candidate, usize)],
) -> Option<Abandoned> {
    let mut unmarked = snapshot.clone();
    for (_, index) in candidates {
        // The marks of this very command do not block it.
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

/// What the annotation of a candidate says about its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// The id of the command.
    pub id: Str,
    /// Name of its method.
    pub method: Str,
    /// When it started; `None` where that cannot be read.
    pub started: Option<Timestamp>,
    /// How many NodeClaims it creates.
    pub replacements: usize,
    /// How many nodes it removes.
    pub nodes: usize,
}

/// The command of a record as it continues, from `since` in steady time; `nodes` are the indices of the nodes that carry
/// the record. `None` where it has to be rolled back.
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
    let ours = claims.filter(|claim| lineage::command(claim) == Some(&*record.id));
    let replacements: Vec<ClaimName> = ours.map(|claim| claim.name.clone()).collect();
    let candidates: Vec<Candidate> = nodes.iter().filter_map(|index| known(snapshot, *index, now)).collect();
    let is_deleting =
        |index: &usize| snapshot.nodes[*index].claim.as_ref().is_some_and(|claim| claim.deleting.is_some());
    // Replacements are created once every candidate has its record, and candidates are deleted once all replacements are
    // initialized: either shows that the candidates without a record are gone.
    let is_recorded = record.replacements > 0 || nodes.len() >= record.nodes || nodes.iter().any(is_deleting);
    // Taint and condition are written after the records and before replacements: without either, pods may still come.
    let is_marked = record.replacements > 0 || nodes.iter().all(|index| has_marks(&snapshot.nodes[*index]));
    let is_complete = is_recorded && is_marked && replacements.len() == record.replacements;
    // Two clocks: where they differ, a command may be rolled back needlessly, or continue and be checked again before it
    // removes anything. Its timeout uses the clock of this process only.
    let end = started.checked_add(STALE).unwrap_or(Timestamp::MAX);
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
    let is_announced =
        |claim: &Arc<NodeClaim>| claim.deleting.is_some() || claim.is(ConditionType::DisruptionReason);
    is_tainted && node.claim.as_ref().is_some_and(is_announced)
}

/// Whether a node has the marks of a command, and is not being deleted: an orphan, where this process runs no command that
/// removes it. `has_record` is whether its NodeClaim has a [`CommandRecord`].
#[must_use]
pub fn is_marked(node: &StateNode, has_record: bool) -> bool {
    let (Some(claim), false) = (&node.claim, node.is_deleting()) else { return false };
    let tainted = node.node.as_ref().is_some_and(|node| node.is_disrupted());
    let deleting = node.node.as_ref().is_some_and(|node| node.deleting.is_some());
    (tainted || claim.is(ConditionType::DisruptionReason) || has_record) && !deleting
}
