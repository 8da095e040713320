//! What keeps a node from being disrupted, as a condition of its NodeClaim: everything in one place, for
//! `kubectl describe`.
//!
//! Blocks that end within minutes by themselves are not written: they would cost a write to come and one to go. A
//! condition is written again when what blocks changes, its owner or its end, not when a figure in its message does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fleetwright_api::labels::condition::DISRUPTION_BLOCKED;
use fleetwright_core::{
    disruption::{Blocker, Proposal, Standing, Unconsolidatable},
    model::{ClaimName, StateNode, Str, nodeclaim::ConditionType},
};
use jiff::Timestamp;

use crate::{
    patch,
    runtime::{Ctx, ReconcileError, gone_is_ok, later},
};

/// How often conditions are brought up to date.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// Blocks that end sooner are not written, nor is what has not lasted so long where its end is not known.
const SHORT: Duration = Duration::from_secs(120);
/// Conditions that are written at once; the next round goes on.
const AT_ONCE: usize = 50;
/// Blockers that a message names.
const NAMED: usize = 5;

/// What a condition says of one blocker, without the figures that change all the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    kind: &'static str,
    owner: Option<String>,
    until: Option<Timestamp>,
    /// Whether each event of a pod puts the end off: the end that was told is the earliest, and said to be.
    moves: bool,
    /// Whether consolidation found it: only passes that ask every method know it of every node.
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

    /// Whether what was told still says this much.
    fn is_told_by(&self, told: &Self, now: Timestamp) -> bool {
        let same_end =
            told.until == self.until || (self.moves && told.until.is_some_and(|until| until > now));
        (told.kind, &told.owner, same_end) == (self.kind, &self.owner, true)
    }
}

/// Whether a block is worth a write.
fn lasts(blocker: &Blocker, node: &StateNode, now: Timestamp) -> bool {
    match blocker {
        Blocker::Queued
        | Blocker::NotManaged
        | Blocker::NoNode
        | Blocker::Deleting
        | Blocker::NotConsolidatable
        // Minutes after each replacement, which would cost two writes.
        | Blocker::Unconsolidatable(Unconsolidatable::Settles { .. }) => false,
        Blocker::NotInitialized => {
            let claim = node.claim.as_ref();
            let joined = claim.and_then(|claim| claim.true_since(ConditionType::Registered));
            joined.is_some_and(|since| later(since, SHORT) <= now)
        }
        Blocker::Budget { allowed, .. } => *allowed == 0,
        other => other.until().is_none_or(|until| until > later(now, SHORT)),
    }
}

/// What a condition should say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    marks: Vec<Mark>,
    /// Reason and message; `None` where nothing lasting blocks.
    text: Option<(String, String)>,
}

impl Wanted {
    fn of(standing: &Standing, now: Timestamp) -> Self {
        let lasting: Vec<&Blocker> =
            standing.blockers.iter().filter(|blocker| lasts(blocker, &standing.node, now)).collect();
        let Some(first) = lasting.first() else { return Self::default() };
        let mut texts: Vec<String> = lasting.iter().take(NAMED).map(|blocker| text_of(blocker)).collect();
        if lasting.len() > NAMED {
            texts.push(format!("and {} more", lasting.len() - NAMED));
        }
        let marks = lasting.iter().map(|blocker| Mark::of(blocker)).collect();
        Self { marks, text: Some((first.kind().to_owned(), texts.join("; "))) }
    }

    /// Whether it is another thing than what was told. Where not every method was asked, what consolidation found stays.
    fn is_news(&self, told: &[Mark], whole: bool, now: Timestamp) -> bool {
        let said = |mark: &Mark| told.iter().any(|told| mark.is_told_by(told, now));
        let holds = |told: &Mark| self.marks.iter().any(|mark| mark.is_told_by(told, now));
        !self.marks.iter().all(said) || !told.iter().all(|mark| holds(mark) || (mark.found && !whole))
    }
}

fn text_of(blocker: &Blocker) -> String {
    let mut text = match blocker {
        // Without the time left and the last pod, which change with every look.
        Blocker::ConsolidateAfter { after, until, .. } => {
            return format!("consolidateAfter of {}s is not over, and not before {until}", after.as_secs());
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

/// Of which nodes a pass knows all that keeps them.
#[derive(Debug)]
pub(super) struct Scope {
    /// Whether every method was asked.
    complete: bool,
    /// NodeClaims that were not looked at.
    unreached: BTreeSet<Str>,
}

impl Scope {
    /// That of a pass which came to `proposal`: methods after the one that acts are not asked.
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

/// What the conditions say, as far as this process has seen to them; another one compares the whole text once.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<ClaimName, Vec<Mark>>>);

impl Told {
    fn get(&self, claim: &ClaimName) -> Option<Vec<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(claim).cloned()
    }

    fn set(&self, claim: &ClaimName, marks: Vec<Mark>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.clone(), marks);
    }

    /// Forgets nodes that are gone.
    fn keep(&self, standings: &[Standing]) {
        let there: BTreeSet<&ClaimName> = standings.iter().filter_map(|one| one.node.claim_name()).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| there.contains(name));
    }

    /// Brings the conditions up to date with how nodes stand.
    ///
    /// # Errors
    /// The first that could not be written; the others were tried too.
    pub(super) async fn write(
        &self,
        ctx: &Ctx,
        standings: &[Standing],
        scope: &Scope,
    ) -> Result<(), ReconcileError> {
        self.keep(standings);
        let now = ctx.now();
        let mut result = Ok(());
        let mut written = 0;
        for standing in standings {
            let Some(name) = standing.node.claim_name() else { continue };
            let wanted = Wanted::of(standing, now);
            let stands = stands(ctx, name);
            let same = match self.get(name) {
                Some(told) => {
                    stands.is_some() != told.is_empty() && !wanted.is_news(&told, scope.is_whole(name), now)
                }
                None => stands == wanted.text,
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
            match set(ctx, name, wanted.text.as_ref()).await {
                Ok(()) => self.set(name, wanted.marks),
                Err(error) if result.is_ok() => result = Err(error),
                Err(_) => {}
            }
        }
        result
    }
}

/// Reason and message of the condition as it stands.
fn stands(ctx: &Ctx, claim: &str) -> Option<(String, String)> {
    let index = ctx.index();
    let status = index.claim(claim)?.status.as_ref()?;
    let found = fleetwright_api::condition::find(&status.conditions, DISRUPTION_BLOCKED)?;
    Some((found.reason.clone(), found.message.clone()))
}

async fn set(ctx: &Ctx, claim: &str, text: Option<&(String, String)>) -> Result<(), ReconcileError> {
    let done = patch::claim_conditions(ctx, claim, |conditions| match text {
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
