//! The history of a NodeClaim, in its annotation `fleetwright.dev/lineage`: the disruption command that it was created
//! for, what it replaced, and whether it recreated a node that consolidation had deleted.
//!
//! The text has up to three fields, as in `command=3x7k2;replaced=m5.large/spot,c5.large/spot@1767225600;recreated=1767225600`:
//! - `command`: the id of the disruption command;
//! - `replaced`: the offerings of the candidates, as `instance type/capacity type`, and with `@` and seconds of the Unix epoch
//!   those that they had replaced within [`HORIZON`], so that a cycle over several nodes is detected too;
//! - `recreated`: when a node was created for pods that a consolidation had evicted
//!   ([`DisplacedPods`](super::DisplacedPods)), in seconds of the Unix epoch.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::model::{
    NodeClaim, StateNode,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, LINEAGE},
};

/// How long history counts.
pub(super) const HORIZON: Duration = Duration::from_secs(60 * 60);
/// How long a replacement counts as recent, and a node that was recreated.
pub(super) const RECENT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of offerings in the annotation; the latest are kept.
const MAX_REMEMBERED: usize = 16;

/// The annotation of a replacement that command `id` creates at `now` for `candidates`.
#[must_use]
pub fn of_replacement<'a>(
    id: &str,
    candidates: impl IntoIterator<Item = &'a StateNode> + Clone,
    now: Timestamp,
) -> String {
    let text = format!("command={id};replaced={}", offerings(candidates.clone(), now));
    let claims = candidates.into_iter().filter_map(|node| node.claim.as_ref());
    match claims.filter_map(|claim| recreated(claim, now)).max() {
        Some(at) => format!("{text};{}", of_recreated(at)),
        None => text,
    }
}

/// The annotation of a NodeClaim that is created at `now` for displaced pods.
#[must_use]
pub fn of_recreated(now: Timestamp) -> String {
    format!("recreated={}", now.as_second())
}

/// The command that a NodeClaim was created for.
#[must_use]
pub fn command(claim: &NodeClaim) -> Option<&str> {
    field(claim, "command=")
}

/// Whether a NodeClaim was created by a disruption command.
pub(super) fn is_replacement(claim: &NodeClaim) -> bool {
    field(claim, "replaced=").is_some()
}

/// The offerings that a NodeClaim and its predecessors replaced within [`HORIZON`], each with the time.
pub(super) fn replaced(claim: &NodeClaim, now: Timestamp) -> impl Iterator<Item = (&str, Timestamp)> {
    let entries = field(claim, "replaced=").unwrap_or_default().split(',').filter(|entry| !entry.is_empty());
    let entries = entries.map(move |entry| match entry.rsplit_once('@') {
        Some((offering, at)) => (offering, time(claim, at)),
        None => (entry, claim.created),
    });
    entries.filter(move |(_, at)| counts(*at, now))
}

/// When a NodeClaim recreated a node that consolidation had deleted, if within [`HORIZON`].
pub(super) fn recreated(claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
    field(claim, "recreated=").map(|at| time(claim, at)).filter(|at| counts(*at, now))
}

fn field<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.annotations.get(LINEAGE)?.split(';').find_map(|field| field.strip_prefix(key))
}

/// Parses a time; if invalid, the creation of the NodeClaim, which is not earlier.
fn time(claim: &NodeClaim, seconds: &str) -> Timestamp {
    let read = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    read.unwrap_or(claim.created)
}

/// Whether less than [`RECENT`] has passed since `at`.
pub(super) fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    at.checked_add(RECENT).is_ok_and(|end| now < end)
}

fn counts(at: Timestamp, now: Timestamp) -> bool {
    at.checked_add(HORIZON).is_ok_and(|end| now < end)
}

/// The offerings of nodes and those that they replaced, sorted, joined by commas.
fn offerings<'a>(nodes: impl IntoIterator<Item = &'a StateNode> + Clone, now: Timestamp) -> String {
    let mut latest: BTreeMap<String, Timestamp> = BTreeMap::new();
    for node in nodes.clone() {
        let label = |key| node.label(key).unwrap_or_default();
        latest.insert(format!("{}/{}", label(INSTANCE_TYPE), label(CAPACITY_TYPE)), now);
    }
    for claim in nodes.into_iter().filter_map(|node| node.claim.as_ref()) {
        for (offering, at) in replaced(claim, now) {
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
