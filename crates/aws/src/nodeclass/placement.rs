//! The placement group of an EC2NodeClass, and the partition of a NodeClaim.

use std::time::Duration;

use fleetwright_aws_api::ec2nodeclass::{PlacementGroupSelector, condition};
use fleetwright_aws_api::labels;
use fleetwright_core::model::NodeClaim;
use jiff::{SignedDuration, Timestamp};

use super::{ConditionOutcome, ConditionResult};
use crate::calls::{AwsError, PlacementGroup};
use crate::launch::Filtered;
use crate::recent::is_recent;

/// How long a known group is used while AWS does not answer.
pub const KNOWN_FOR: SignedDuration = SignedDuration::from_hours(24);
/// Strategies that launches support.
const STRATEGIES: [&str; 3] = ["cluster", "partition", "spread"];

/// A placement group, and when AWS returned it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The group.
    pub group: PlacementGroup,
    /// When AWS returned it.
    pub at: Timestamp,
}

/// Resolves the group of an EC2NodeClass: `None` removes the known one.
#[must_use]
pub fn resolve(
    selector: Option<&PlacementGroupSelector>,
    found: Result<Option<PlacementGroup>, AwsError>,
    known: Option<Resolved>,
    now: Timestamp,
) -> (Option<Resolved>, ConditionResult) {
    const CONDITION: &str = condition::PLACEMENT_GROUP_READY;
    let Some(selector) = selector else { return (None, ConditionResult::good(CONDITION)) };
    let asked = selector.name.as_deref().or(selector.id.as_deref()).unwrap_or_default();
    match found {
        Ok(Some(group)) if !STRATEGIES.contains(&group.strategy.as_str()) => {
            let message = format!("placement group {asked} has the unknown strategy {:?}", group.strategy);
            (None, ConditionResult::bad(CONDITION, "PlacementGroupResolutionFailed", message))
        }
        Ok(Some(group)) => (Some(Resolved { group, at: now }), ConditionResult::good(CONDITION)),
        Ok(None) => {
            let message = format!("there is no placement group {asked}");
            (None, ConditionResult::bad(CONDITION, "PlacementGroupNotFound", message))
        }
        Err(error) => {
            let known = known.filter(|known| is_recent(known.at, now, KNOWN_FOR));
            let unanswered = ConditionResult::unanswered(CONDITION, "ec2:DescribePlacementGroups", &error);
            match (known, unanswered.outcome) {
                (Some(known), outcome) => (Some(known), ConditionResult { condition: CONDITION, outcome }),
                // An instance outside of the requested group would be worse than none.
                (None, ConditionOutcome::Unanswered { message, .. }) => {
                    (None, ConditionResult::bad(CONDITION, "PlacementGroupResolutionFailed", message))
                }
                (None, outcome) => (None, ConditionResult { condition: CONDITION, outcome }),
            }
        }
    }
}

/// The delay until a group is looked up again.
#[must_use]
pub fn again(finding: &ConditionResult, every: Duration) -> Duration {
    match &finding.outcome {
        ConditionOutcome::Unanswered { after, .. } => *after,
        _ => every,
    }
}

/// The partition for a NodeClaim: the lowest number that its requirements allow and that has an offering left. `None` leaves the choice
/// to EC2, if the NodeClaim does not restrict partitions or the group has none.
#[must_use]
pub fn partition(claim: &NodeClaim, group: &PlacementGroup, filtered: &Filtered) -> Option<u32> {
    let asked = claim.requirements.get(labels::PLACEMENT_GROUP_PARTITION)?;
    let offerings = || filtered.candidates.iter().flat_map(|candidate| &candidate.offerings);
    let offered = |part: &str| {
        offerings().any(|offering| offering.requirements.allows(labels::PLACEMENT_GROUP_PARTITION, part))
    };
    let all = 1..=group.partitions;
    all.into_iter().find(|part| {
        let text = part.to_string();
        asked.has(&text) && offered(&text)
    })
}

#[cfg(test)]
mod tests {
    //! How a selector is resolved.
    use super::*;

    fn group(strategy: &str) -> PlacementGroup {
        PlacementGroup {
            id: "pg-1".to_owned(),
            name: "rack".to_owned(),
            strategy: strategy.to_owned(),
            partitions: 3,
        }
    }

    fn reason(finding: &ConditionResult) -> &'static str {
        match &finding.outcome {
            ConditionOutcome::True => "True",
            ConditionOutcome::False { reason, .. } => reason,
            ConditionOutcome::Unanswered { .. } => "Unanswered",
            _ => "other",
        }
    }

    #[test]
    fn the_last_known_group_is_used_for_a_day() {
        let now = Timestamp::UNIX_EPOCH;
        let by_name = PlacementGroupSelector { name: Some("rack".to_owned()), id: None };
        let throttled = || Err(AwsError::new("RequestLimitExceeded", "slow down"));
        let (none, finding) = resolve(None, throttled(), None, now);
        assert_eq!((none, reason(&finding)), (None, "True"), "no group is selected");
        let (known, finding) = resolve(Some(&by_name), Ok(Some(group("partition"))), None, now);
        assert_eq!((known.is_some(), reason(&finding)), (true, "True"));
        let later = now + SignedDuration::from_hours(23);
        let (kept, finding) = resolve(Some(&by_name), throttled(), known.clone(), later);
        assert_eq!((&kept, reason(&finding)), (&known, "Unanswered"));
        let (gone, finding) = resolve(Some(&by_name), throttled(), known.clone(), now + KNOWN_FOR);
        assert_eq!((gone, reason(&finding)), (None, "PlacementGroupResolutionFailed"));
        let (gone, finding) = resolve(Some(&by_name), Ok(None), known, later);
        assert_eq!((gone, reason(&finding)), (None, "PlacementGroupNotFound"));
        let (strange, finding) = resolve(Some(&by_name), Ok(Some(group("orbit"))), None, now);
        assert_eq!((strange, reason(&finding)), (None, "PlacementGroupResolutionFailed"));
    }
}
