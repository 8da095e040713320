//! Nodes that a repair policy of the provider calls unhealthy: when they are due for replacement.

use std::time::Duration;

use jiff::Timestamp;

use crate::{cloud::RepairPolicy, model::Str};

/// How long a blocked repair waits.
pub const BLOCKED: Duration = Duration::from_secs(5 * 60);
/// A condition of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCondition {
    /// Its type.
    pub condition: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Since when.
    pub since: Timestamp,
}

/// A condition that a policy names, and when its toleration ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The condition's type.
    pub condition: Str,
    /// Its status.
    pub status: Str,
    /// When its toleration ends.
    pub due: Timestamp,
}

/// The unhealthy condition whose toleration ends first; ties by the order of policies.
#[must_use]
pub fn earliest(policies: &[RepairPolicy], conditions: &[NodeCondition]) -> Option<Breach> {
    let breaches = policies.iter().filter_map(|policy| {
        let found = conditions
            .iter()
            .find(|known| known.condition == policy.condition && known.status == policy.status)?;
        let due = found.since.checked_add(policy.toleration).unwrap_or(Timestamp::MAX);
        Some(Breach { condition: policy.condition.clone(), status: policy.status.clone(), due })
    });
    breaches.min_by_key(|breach| breach.due)
}

#[cfg(test)]
mod tests {
    //! Which breach counts.
    use rstest::rstest;

    use super::*;
    use crate::testing::now;

    fn policy(condition: &str, status: &str, minutes: u64) -> RepairPolicy {
        RepairPolicy {
            condition: condition.into(),
            status: status.into(),
            toleration: Duration::from_secs(minutes * 60),
        }
    }

    fn condition(condition: &str, status: &str, minutes_ago: i64) -> NodeCondition {
        let since = now() - jiff::SignedDuration::from_mins(minutes_ago);
        NodeCondition { condition: condition.into(), status: status.into(), since }
    }

    #[rstest]
    #[case::healthy(&[("Ready", "True", 60)], None)]
    #[case::tolerated(&[("Ready", "False", 10)], Some(("Ready", 20)))]
    #[case::the_earlier_deadline(&[("Ready", "False", 10), ("Disk", "True", 9)], Some(("Disk", 1)))]
    #[case::another_status(&[("Ready", "Unknown", 10)], None)]
    #[case::over(&[("Ready", "False", 31)], Some(("Ready", -1)))]
    fn breaches(#[case] conditions: &[(&str, &str, i64)], #[case] expected: Option<(&str, i64)>) {
        let policies = [policy("Ready", "False", 30), policy("Disk", "True", 10)];
        let conditions: Vec<_> = conditions.iter().map(|(c, s, ago)| condition(c, s, *ago)).collect();
        let found = earliest(&policies, &conditions);
        let breach = found.map(|b| (b.condition.to_string(), b.due.duration_since(now()).as_secs() / 60));
        assert_eq!(breach, expected.map(|(condition, minutes)| (condition.to_owned(), minutes)));
    }
}
