//! From findings to the conditions of an EC2NodeClass.

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{Condition, ConditionSet, ConditionTypes, Ec2NodeClass, HasConditions as _};
use jiff::Timestamp;

use super::{ConditionOutcome, ConditionResult};
use crate::settings::Settings;

/// Reason of a condition whose look-up IAM refuses.
pub const UNAUTHORIZED: &str = "Unauthorized";
/// The condition that launches require.
const READY: &str = "Ready";
/// Reason of a condition whose look-up AWS does not answer.
pub const LOOKUP_FAILED: &str = "LookupFailed";

const WITHOUT_RESERVATIONS: &[&str] = &[
    condition::AMIS_READY,
    condition::SUBNETS_READY,
    condition::SECURITY_GROUPS_READY,
    condition::INSTANCE_PROFILE_READY,
    condition::VALIDATION_SUCCEEDED,
    condition::PLACEMENT_GROUP_READY,
];

/// The conditions of an EC2NodeClass, by the feature gate for reservations.
#[must_use]
pub fn types(settings: &Settings) -> ConditionTypes {
    let dependents = match settings.reserved_capacity {
        true => condition::DEPENDENTS,
        false => WITHOUT_RESERVATIONS,
    };
    ConditionTypes { root: Some(READY), dependents }
}

/// Writes findings to the conditions of an EC2NodeClass. If AWS did not answer, a condition that is True for this generation remains; any
/// other becomes Unknown.
pub fn apply(class: &mut Ec2NodeClass, findings: &[ConditionResult], settings: &Settings, now: Timestamp) {
    let generation = class.metadata.generation.unwrap_or(0);
    let types = types(settings);
    let meta = class.metadata.clone();
    let conditions = &mut class.status.get_or_insert_default().conditions;
    let mut set = ConditionSet::new(types, &meta, conditions, now);
    if !settings.reserved_capacity {
        // With the gate off it is no dependent of Ready and can be removed.
        let _ = set.clear(condition::CAPACITY_RESERVATIONS_READY);
    }
    for ConditionResult { condition, outcome } in findings {
        match outcome {
            ConditionOutcome::True => set.set_true(condition),
            ConditionOutcome::Limited { reason, message } => {
                set.set_true_with_reason(condition, reason, message)
            }
            ConditionOutcome::Waiting { reason, message } => {
                set.set_unknown_with_reason(condition, reason, message)
            }
            ConditionOutcome::False { reason, message } => set.set_false(condition, reason, message),
            ConditionOutcome::Unanswered { message, denied, .. } => {
                let holds = |known: &Condition| known.is_true() && known.observed_generation == generation;
                if set.get(condition).is_some_and(holds) {
                    continue;
                }
                let reason = if *denied { UNAUTHORIZED } else { LOOKUP_FAILED };
                set.set_unknown_with_reason(condition, reason, message)
            }
        };
    }
}

/// Whether a condition is True for the EC2NodeClass's generation.
#[must_use]
pub fn holds(class: &Ec2NodeClass, condition: &str) -> bool {
    let generation = class.metadata.generation.unwrap_or(0);
    let all = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    all.iter()
        .any(|known| known.type_ == condition && known.is_true() && known.observed_generation == generation)
}

/// Whether an EC2NodeClass has a condition, whatever its status.
#[must_use]
pub fn is_there(class: &Ec2NodeClass, condition: &str) -> bool {
    find(class, condition).is_some()
}

fn find<'a>(class: &'a Ec2NodeClass, condition: &str) -> Option<&'a Condition> {
    class.conditions().iter().find(|known| known.type_ == condition)
}

/// The conditions that differ between `before` and `after`, with their previous status; an absent one was Unknown.
#[must_use]
pub fn changed<'a>(
    before: &'a Ec2NodeClass,
    after: &'a Ec2NodeClass,
) -> Vec<(&'static str, &'a str, &'a Condition)> {
    let own = [condition::CLUSTER_IDENTITY_PROVEN, condition::FEATURES_AVAILABLE, READY];
    let all = condition::DEPENDENTS.iter().copied().chain(own);
    let change = |name: &'static str| {
        let now = find(after, name)?;
        let was = find(before, name).map_or("Unknown", |known| known.status.as_str());
        (was != now.status.as_str()).then_some((name, was, now))
    };
    all.filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    //! A partial failure degrades its own condition only.
    use super::*;
    use crate::calls::AwsError;

    fn all_true() -> Vec<ConditionResult> {
        condition::DEPENDENTS.iter().map(|condition| ConditionResult::good(condition)).collect()
    }

    fn state(class: &Ec2NodeClass, condition: &str) -> String {
        let status = class.status.as_ref().unwrap();
        let known = status.conditions.iter().find(|known| known.type_ == condition).unwrap();
        format!("{} {}", known.status, known.reason)
    }

    #[test]
    fn true_conditions_remain_while_aws_does_not_answer() {
        let now = Timestamp::UNIX_EPOCH;
        let settings = Settings::new("c", "r");
        let mut class = Ec2NodeClass::default();
        class.metadata.generation = Some(1);
        apply(&mut class, &all_true(), &settings, now);
        assert_eq!(state(&class, "Ready"), "True Ready");
        let throttled = AwsError::new("RequestLimitExceeded", "request 1 of many");
        let lost = ConditionResult::unanswered(condition::AMIS_READY, "ec2:DescribeImages", &throttled);
        let before = class.clone();
        apply(&mut class, std::slice::from_ref(&lost), &settings, now);
        assert_eq!(class, before);
        class.metadata.generation = Some(2);
        apply(&mut class, std::slice::from_ref(&lost), &settings, now);
        assert_eq!(
            state(&class, condition::AMIS_READY),
            "Unknown LookupFailed",
            "the condition was of another spec"
        );
        assert_eq!(state(&class, "Ready"), "Unknown ReconcilingDependents");
        let denied = AwsError::new("AccessDenied", "no");
        let denied = ConditionResult::unanswered(condition::AMIS_READY, "ec2:DescribeImages", &denied);
        apply(&mut class, &[denied], &settings, now);
        assert_eq!(state(&class, condition::AMIS_READY), "Unknown Unauthorized");
    }

    #[test]
    fn ready_depends_on_the_gate() {
        let now = Timestamp::UNIX_EPOCH;
        let on = Settings::new("c", "r");
        let off = Settings { reserved_capacity: false, ..on.clone() };
        let mut class = Ec2NodeClass::default();
        let findings: Vec<ConditionResult> = all_true()
            .into_iter()
            .filter(|finding| finding.condition != condition::CAPACITY_RESERVATIONS_READY)
            .collect();
        apply(&mut class, &findings, &on, now);
        assert_eq!(state(&class, "Ready"), "Unknown ReconcilingDependents");
        apply(&mut class, &[], &off, now);
        let status = class.status.as_ref().unwrap();
        assert!(status.conditions.iter().all(|c| c.type_ != condition::CAPACITY_RESERVATIONS_READY));
        apply(&mut class, &[ConditionResult::bad(condition::AMIS_READY, "AMINotFound", "none")], &off, now);
        assert_eq!(state(&class, "Ready"), "False UnhealthyDependents");
        apply(&mut class, &[ConditionResult::good(condition::AMIS_READY)], &off, now);
        assert_eq!(state(&class, "Ready"), "True Ready");
    }
}
