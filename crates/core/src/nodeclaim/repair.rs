//! Nodes that a provider's policy calls broken: when they are to be replaced, and when too many of them are.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;

use super::remaining;
use crate::{cloud::RepairPolicy, model::Str};

/// How long a blocked repair waits.
pub const BLOCKED: Duration = Duration::from_secs(5 * 60);
/// So many percent of a pool may be broken; beyond that it is the pool, the image or the network, and replacing nodes
/// would only add to it.
const BROKEN_PERCENT: usize = 20;
/// At most so many percent of the cluster's nodes, and at least [`FEW`], are repaired within [`WINDOW`].
const BRAKE_PERCENT: usize = 5;
/// See [`BRAKE_PERCENT`].
const FEW: usize = 3;
/// See [`BRAKE_PERCENT`].
const WINDOW: Duration = Duration::from_secs(10 * 60);

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
    /// When it is not tolerated any more.
    pub due: Timestamp,
}

/// The breach whose toleration ends first; of equal ones the policy that comes first.
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

/// Whether so many broken nodes among `all` of a pool forbid that any is replaced.
#[must_use]
pub fn is_too_many(broken: usize, all: usize) -> bool {
    broken > all.saturating_mul(BROKEN_PERCENT).div_ceil(100)
}

/// The brake on repairs of the whole cluster: what is inferred from conditions may be wrong for all nodes at once.
#[derive(Clone, Debug, Default)]
pub struct Brake {
    released: VecDeque<Timestamp>,
    known: BTreeSet<Str>,
}

impl Brake {
    /// Whether one more node of `all` may be repaired at `now`; counts it, once per name. A node that was let through
    /// before is let through again.
    pub fn passes(&mut self, node: &str, all: usize, now: Timestamp) -> bool {
        while self.released.front().is_some_and(|then| remaining(*then, WINDOW, now).is_none()) {
            self.released.pop_front();
        }
        if self.released.is_empty() {
            self.known.clear();
        }
        if self.known.contains(node) {
            return true;
        }
        let allowed = all.saturating_mul(BRAKE_PERCENT).div_ceil(100).max(FEW);
        if self.released.len() >= allowed {
            return false;
        }
        self.released.push_back(now);
        self.known.insert(node.into());
        true
    }
}

#[cfg(test)]
mod tests {
    //! Which breach counts, and when there are too many.
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
        let told = found.map(|b| (b.condition.to_string(), b.due.duration_since(now()).as_secs() / 60));
        assert_eq!(told, expected.map(|(condition, minutes)| (condition.to_owned(), minutes)));
    }

    #[rstest]
    #[case(0, 0, false)]
    #[case(1, 1, false)]
    #[case(1, 5, false)]
    #[case(2, 5, true)]
    #[case(2, 6, false)]
    #[case(3, 10, true)]
    fn a_fifth_may_be_broken(#[case] broken: usize, #[case] all: usize, #[case] expected: bool) {
        assert_eq!(is_too_many(broken, all), expected);
    }

    #[test]
    fn the_brake_lets_a_few_through_at_a_time() {
        let mut brake = Brake::default();
        let at = |minutes| now() + jiff::SignedDuration::from_mins(minutes);
        let passes = |brake: &mut Brake, node: &str, minutes| brake.passes(node, 20, at(minutes));
        assert!(["a", "b", "c"].iter().all(|node| passes(&mut brake, node, 0)));
        assert!(!passes(&mut brake, "d", 9));
        assert!(passes(&mut brake, "a", 9), "asked again, for the same node");
        assert!(passes(&mut brake, "d", 10));
    }
}
