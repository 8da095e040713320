//! A replacement is not reverted within ten minutes, and within an hour while it has its pods: prices that go up and down would move
//! the same pods back and forth. Once it has lost pods, and not only for a moment, what it replaced is the answer to another load.

use jiff::Timestamp;

use super::Gate;
use crate::{
    disruption::{Candidate, Command, Context, Unconsolidatable, lineage},
    model::{InstanceType, labels::CAPACITY_TYPE},
    scheduling::NewClaim,
};

/// Removes the offerings that `candidates` replaced from their replacements, and rejects commands that are expected to launch one.
pub(super) struct WouldUndo;

impl Gate for WouldUndo {
    /// The launch chooses among all instance types of the NodeClaim, not only the expected one, which
    /// [`Gate::admit_command`] checks.
    fn narrow(
        &self,
        context: &Context<'_>,
        candidates: &[&Candidate],
        new_claim: &mut NewClaim,
    ) -> Result<(), Unconsolidatable> {
        let replaced = replaced(candidates.iter().copied(), context.now).filter_map(|(offering, since)| {
            let (instance_type, capacity_type) = offering.rsplit_once('/')?;
            let allowed = new_claim.requirements.allows(CAPACITY_TYPE, capacity_type);
            allowed.then_some((instance_type, offering, since))
        });
        let replaced: Vec<_> = replaced.collect();
        let chosen = new_claim.chosen.instance_type.clone();
        let undone = |known: &InstanceType| {
            replaced.iter().find(|(instance_type, ..)| known.name != chosen && *known.name == **instance_type)
        };
        let Some((_, offering, since)) = new_claim.instance_types.iter().find_map(|known| undone(known))
        else {
            return Ok(());
        };
        new_claim.retain(|known| undone(known).is_none());
        match new_claim.unmet_min_values(&new_claim.instance_types) {
            Some(_) => Err(Unconsolidatable::WouldUndo { offering: (*offering).into(), since: *since }),
            None => Ok(()),
        }
    }

    fn admit_command(&self, context: &Context<'_>, command: &mut Command) -> Result<(), Unconsolidatable> {
        for new_claim in &command.replacements {
            let expected = format!("{}/{}", new_claim.chosen.instance_type, new_claim.chosen.capacity_type);
            let mut replaced = replaced(&command.candidates, context.now);
            if let Some((offering, since)) = replaced.find(|(offering, _)| *offering == expected) {
                return Err(Unconsolidatable::WouldUndo { offering: offering.into(), since });
            }
        }
        Ok(())
    }
}

/// The offerings that `candidates` and their predecessors replaced a short time ago, or within the hour for the pods that they still have.
fn replaced<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
    now: Timestamp,
) -> impl Iterator<Item = (&'a str, Timestamp)> {
    candidates.into_iter().flat_map(move |candidate| {
        let same_load = candidate.has_all_pods();
        let claim = candidate.node.claim.iter();
        let replaced = claim.flat_map(move |claim| lineage::replaced(claim, now));
        replaced.filter(move |(_, since)| same_load || lineage::is_recent(*since, now))
    })
}
