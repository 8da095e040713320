//! Own moves are remembered on what they made, so that none is undone by a later one: prices that go up and down, or
//! capacity that comes and goes, would else move the same pods back and forth.
//!
//! The memory is an annotation of the NodeClaim that came in place of others. What those had replaced themselves not
//! long ago is handed on, so that a circle over several nodes is seen as well. A NodeClaim that had to be created for
//! pods which a consolidation had displaced remembers that too: whatever let those pods down then would do so again.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{Candidate, Unconsolidatable};
use crate::{
    model::{
        InstanceType, NodeClaim,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, REPLACED, RETURNED},
        nodeclaim::ConditionType,
    },
    scheduling::NewClaim,
};

/// For so long a node does not become again what it replaced.
pub(super) const HORIZON: Duration = Duration::from_secs(60 * 60);
/// For so long what came in place of others stays, while its pods stay.
pub(super) const SETTLES: Duration = Duration::from_secs(10 * 60);
/// Moves that are remembered at most, the latest ones: an annotation is not a log.
const MAX_REMEMBERED: usize = 16;

/// What nodes are, for what comes in their place at `now`: `instance type/capacity type`, and with `@` and seconds of
/// the Unix epoch what they had replaced themselves within [`HORIZON`]; sorted, joined by commas.
#[must_use]
pub fn replaced(candidates: &[Candidate], now: Timestamp) -> String {
    let label = |candidate: &Candidate, key| candidate.node.label(key).unwrap_or_default().to_owned();
    let mut latest: BTreeMap<String, Timestamp> = BTreeMap::new();
    for candidate in candidates {
        let own = format!("{}/{}", label(candidate, INSTANCE_TYPE), label(candidate, CAPACITY_TYPE));
        latest.insert(own, now);
    }
    for claim in candidates.iter().filter_map(|candidate| candidate.node.claim.as_ref()) {
        for (offering, at) in recent(claim, now) {
            let known = latest.entry(offering.to_owned()).or_insert(at);
            *known = at.max(*known);
        }
    }
    let mut entries: Vec<(String, Timestamp)> = latest.into_iter().collect();
    entries.sort_by(|(a, first), (b, second)| second.cmp(first).then_with(|| a.cmp(b)));
    entries.truncate(MAX_REMEMBERED);
    let text = |(offering, at): (String, Timestamp)| {
        if at == now { offering } else { format!("{offering}@{}", at.as_second()) }
    };
    let mut texts: Vec<String> = entries.into_iter().map(text).collect();
    texts.sort();
    texts.join(",")
}

/// What a claim, or what it replaced, came in place of within [`HORIZON`], each with when.
fn recent(claim: &NodeClaim, now: Timestamp) -> impl Iterator<Item = (&str, Timestamp)> {
    let text = claim.annotations.get(REPLACED).map_or("", |text| &**text);
    let entries = text.split(',').filter(|entry| !entry.is_empty());
    let read = |entry: &'_ str| match entry.rsplit_once('@') {
        // A moment that cannot be read counts as that of the claim, which is later.
        Some((_, at)) => at.parse().ok().and_then(|at| Timestamp::from_second(at).ok()),
        None => None,
    };
    let entries = entries.map(move |entry| {
        let offering = entry.rsplit_once('@').map_or(entry, |(offering, _)| offering);
        (offering, read(entry).unwrap_or(claim.created))
    });
    entries.filter(move |(_, at)| at.checked_add(HORIZON).is_ok_and(|end| now < end))
}

/// When the last of the nodes of `candidates` came back for pods that a consolidation had displaced; `None` where
/// none did within [`HORIZON`].
#[must_use]
pub fn returned(candidates: &[Candidate], now: Timestamp) -> Option<Timestamp> {
    candidates.iter().filter_map(|candidate| came_back(candidate, now)).max()
}

/// When a node came back for pods that a consolidation had displaced, where that was within [`HORIZON`].
pub(super) fn came_back(candidate: &Candidate, now: Timestamp) -> Option<Timestamp> {
    let claim = candidate.node.claim.as_ref()?;
    // A moment that cannot be read counts as that of the claim, which is not earlier.
    let written =
        claim.annotations.get(RETURNED)?.parse().ok().and_then(|at| Timestamp::from_second(at).ok());
    let at = written.unwrap_or(claim.created);
    at.checked_add(HORIZON).is_ok_and(|end| now < end).then_some(at)
}

/// Since when a node is a node that came in place of others less than [`SETTLES`] ago, where it still has all that it
/// was made for: `None` where some of its pods left, for then it may be too large.
pub(super) fn settles(candidate: &Candidate, now: Timestamp) -> Option<Timestamp> {
    let claim = candidate.node.claim.as_ref()?;
    let since = claim.annotations.get(REPLACED).and_then(|_| claim.true_since(ConditionType::Initialized))?;
    let is_whole = claim.requests.iter().all(|(name, amount)| candidate.node.requested.get(&name) >= amount);
    (is_whole && since.checked_add(SETTLES).is_ok_and(|end| now < end)).then_some(since)
}

/// Whether one of `candidates` would become again what it replaced not long ago, or whether one that came back after a
/// consolidation would go without a node in its place.
pub(super) fn check(
    candidates: &[&Candidate],
    replacements: &[NewClaim],
    now: Timestamp,
) -> Result<(), Unconsolidatable> {
    if replacements.len() < candidates.len()
        && let Some(since) = candidates.iter().find_map(|candidate| came_back(candidate, now))
    {
        return Err(Unconsolidatable::WouldReturn { since });
    }
    for new_claim in replacements {
        let wanted = format!("{}/{}", new_claim.chosen.instance_type, new_claim.chosen.capacity_type);
        if let Some((offering, since)) = gone(candidates, now).find(|(offering, _)| *offering == wanted) {
            return Err(Unconsolidatable::WouldUndo { offering: offering.into(), since });
        }
    }
    Ok(())
}

/// What `candidates`, or what they replaced, came in place of within [`HORIZON`].
fn gone<'a>(
    candidates: &'a [&Candidate],
    now: Timestamp,
) -> impl Iterator<Item = (&'a str, Timestamp)> + use<'a> {
    let claims = candidates.iter().filter_map(|candidate| candidate.node.claim.as_deref());
    claims.flat_map(move |claim| recent(claim, now))
}

/// Leaves out of `new NodeClaim` what `candidates` came in place of not long ago: the launch chooses among all types that
/// it names, not only what is expected of it. That itself is for [`check`] to judge.
///
/// # Errors
/// Where too few types are left for minValues.
pub(super) fn leave_out(
    candidates: &[&Candidate],
    new_claim: &mut NewClaim,
    now: Timestamp,
) -> Result<(), Unconsolidatable> {
    let parts = gone(candidates, now).filter_map(|(offering, since)| {
        let (instance_type, capacity_type) = offering.rsplit_once('/')?;
        new_claim.requirements.allows(CAPACITY_TYPE, capacity_type).then_some((
            instance_type,
            offering,
            since,
        ))
    });
    let parts: Vec<_> = parts.collect();
    let chosen = new_claim.chosen.instance_type.clone();
    let undone = |known: &InstanceType| {
        parts.iter().find(|(instance_type, ..)| known.name != chosen && *known.name == **instance_type)
    };
    let Some((_, offering, since)) = new_claim.instance_types.iter().find_map(|known| undone(known)) else {
        return Ok(());
    };
    new_claim.retain(|known| undone(known).is_none());
    match new_claim.unmet_min_values(&new_claim.instance_types) {
        Some(_) => Err(Unconsolidatable::WouldUndo { offering: (*offering).into(), since: *since }),
        None => Ok(()),
    }
}
