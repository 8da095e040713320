//! Which instances are collected: ours, old enough, and without a NodeClaim.

use std::collections::BTreeSet;

use fleetwright_core::cloud::Instance;
use fleetwright_core::model::ProviderId;
use jiff::{SignedDuration, Timestamp};

/// How old an instance is before it is missed: its claim may not have been written yet.
pub const AGE_MIN: SignedDuration = SignedDuration::from_secs(30);

/// What to do with an instance of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It is ours and nobody's claim.
    Collect,
    /// It has our cluster's name and no UID, and no claim names it: told of, never ended.
    Report,
}

/// The verdict on an instance, by the provider ids that NodeClaims name.
#[must_use]
pub fn verdict(
    instance: &Instance,
    claimed: &BTreeSet<ProviderId>,
    cluster_uid: &str,
    now: Timestamp,
) -> Verdict {
    // An age that is not known, or a clock that was set back, is no reason to end anything.
    let old = instance.created.is_some_and(|created| now.duration_since(created) > AGE_MIN);
    if instance.terminating || !old || claimed.contains(&instance.provider_id) {
        return Verdict::Keep;
    }
    match instance.cluster_uid.as_deref() {
        Some(uid) if uid == cluster_uid && !uid.is_empty() => Verdict::Collect,
        Some(_) => Verdict::Keep,
        None => Verdict::Report,
    }
}

#[cfg(test)]
mod tests {
    //! Who is collected.
    use fleetwright_core::model::{Labels, Resources, Str};
    use rstest::rstest;

    use super::*;

    fn instance(uid: Option<&str>, age: Option<i64>, terminating: bool) -> Instance {
        Instance {
            provider_id: "aws:///a/i-1".into(),
            claim: None,
            launched_by: None,
            cluster_uid: uid.map(Str::from),
            labels: Labels::new(),
            annotations: Labels::new(),
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            created: age.map(|age| Timestamp::UNIX_EPOCH - SignedDuration::from_secs(age)),
            terminating,
        }
    }

    #[rstest]
    #[case::orphan(instance(Some("ours"), Some(31), false), false, Verdict::Collect)]
    #[case::claimed(instance(Some("ours"), Some(31), false), true, Verdict::Keep)]
    #[case::young(instance(Some("ours"), Some(30), false), false, Verdict::Keep)]
    #[case::from_the_future(instance(Some("ours"), Some(-60), false), false, Verdict::Keep)]
    #[case::of_unknown_age(instance(Some("ours"), None, false), false, Verdict::Keep)]
    #[case::ending(instance(Some("ours"), Some(31), true), false, Verdict::Keep)]
    #[case::foreign(instance(Some("theirs"), Some(31), false), false, Verdict::Keep)]
    #[case::unstamped(instance(None, Some(31), false), false, Verdict::Report)]
    #[case::unstamped_and_claimed(instance(None, Some(31), false), true, Verdict::Keep)]
    fn verdicts(#[case] instance: Instance, #[case] claimed: bool, #[case] expected: Verdict) {
        let ids: BTreeSet<ProviderId> = claimed.then(|| instance.provider_id.clone()).into_iter().collect();
        assert_eq!(verdict(&instance, &ids, "ours", Timestamp::UNIX_EPOCH), expected);
    }
}
