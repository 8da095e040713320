//! Own moves are remembered on what they made, so that none is undone by the next one: prices that go up and down, or
//! capacity that comes and goes, would else move the same pods back and forth.

use std::time::Duration;

use jiff::Timestamp;

use super::{Candidate, Unconsolidatable};
use crate::{
    model::{
        Str,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, REPLACED},
    },
    scheduling::Opening,
};

/// For so long a machine does not become again what it replaced.
pub(super) const HORIZON: Duration = Duration::from_secs(60 * 60);

/// What machines are, for what comes in their stead: `instance type/capacity type`, sorted, joined by commas.
#[must_use]
pub fn replaced(candidates: &[Candidate]) -> String {
    let label = |candidate: &Candidate, key| candidate.node.label(key).unwrap_or_default().to_owned();
    let mut offerings: Vec<String> = candidates
        .iter()
        .map(|candidate| format!("{}/{}", label(candidate, INSTANCE_TYPE), label(candidate, CAPACITY_TYPE)))
        .collect();
    offerings.sort();
    offerings.dedup();
    offerings.join(",")
}

/// Whether one of `candidates` would become again what it replaced not long ago.
pub(super) fn check(
    candidates: &[&Candidate],
    replacements: &[Opening],
    now: Timestamp,
) -> Result<(), Unconsolidatable> {
    for opening in replacements {
        let wanted = format!("{}/{}", opening.chosen.instance_type, opening.chosen.capacity_type);
        for claim in candidates.iter().filter_map(|candidate| candidate.node.claim.as_ref()) {
            let Some(text) = claim.annotations.get(REPLACED) else { continue };
            let recent = claim.created.checked_add(HORIZON).is_ok_and(|end| now < end);
            if recent && text.split(',').any(|offering| offering == wanted) {
                let offering: Str = wanted.as_str().into();
                return Err(Unconsolidatable::WouldUndo { offering, since: claim.created });
            }
        }
    }
    Ok(())
}
