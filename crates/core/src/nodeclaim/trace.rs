//! What a complete list of instances shows of a launch whose outcome was not written down.
//!
//! Instances of a launch for several claims may name none of them: an instance is tagged with its claim after the call. Where
//! that was cut off, a claim that is not deleted repeats the call and gets its own; once there is none, all instances that
//! are left of the launch are terminated, by any of its deleted claims.

use jiff::Timestamp;

use crate::{
    cloud::Instance,
    model::{NodeClaim, ProviderId},
};

/// What is known of a launch whose outcome was not written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// It was not asked for, or there was no answer, or others may still take what there is.
    #[default]
    Unknown,
    /// The cloud refused the last call for good: there is none.
    Refused,
    /// This instance was launched for the claim.
    Found(ProviderId),
    /// This one was launched for the claim or for one that is deleted as well.
    OneOf(ProviderId),
    /// There is none, as was first seen then.
    AbsentSince(Timestamp),
}

/// What one list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// No instance of the launch is left.
    Nothing,
    /// A claim of the same launch that is not deleted has no instance yet: it repeats the call, and gets one of what there is.
    Awaited,
    /// The instance that names the claim.
    Own(ProviderId),
    /// One instance without a claim tag, while all claims of its launch are deleted.
    OneOf(ProviderId),
}

/// The instances of the launch of `claim`, which is deleted, in a complete list. `claims` are all claims, and `is_taken` returns whether
/// a claim has an instance.
pub fn sight<'a>(
    claim: &NodeClaim,
    instances: &[Instance],
    claims: impl Iterator<Item = &'a NodeClaim>,
    is_taken: impl Fn(&ProviderId) -> bool,
) -> Sighting {
    let named = |name| instances.iter().filter(move |instance| instance.claim.as_ref() == Some(name));
    let live_first =
        |a: &&Instance, b: &&Instance| (a.terminating, &a.provider_id).cmp(&(b.terminating, &b.provider_id));
    if let Some(own) = named(&claim.name).min_by(live_first) {
        return Sighting::Own(own.provider_id.clone());
    }
    let is_of_launch = |(batch, attempt): &(_, u32)| *batch == claim.batch && *attempt == claim.attempt;
    let mut left: Vec<&Instance> = instances
        .iter()
        .filter(|instance| {
            instance.claim.is_none() && instance.launched_by.as_ref().is_some_and(is_of_launch)
        })
        .filter(|instance| !is_taken(&instance.provider_id))
        .collect();
    left.sort_by(live_first);
    // Claims that end together begin with different ones.
    let mut before = 0_usize;
    for other in claims.filter(|other| other.batch == claim.batch && other.name != claim.name) {
        if other.provider_id.is_some() || named(&other.name).next().is_some() {
            continue;
        }
        if other.attempt == claim.attempt && other.deleting.is_none() && !left.is_empty() {
            return Sighting::Awaited;
        }
        before += usize::from(other.attempt == claim.attempt && other.name < claim.name);
    }
    let at = before.checked_rem(left.len()).unwrap_or_default();
    left.get(at).map_or(Sighting::Nothing, |instance| Sighting::OneOf(instance.provider_id.clone()))
}

#[cfg(test)]
mod tests {
    //! Which instance of a launch a claim ends, and when it waits.
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;
    use crate::{
        model::{Labels, Resources, StateNode},
        testing::{node, now},
    };

    fn claim(name: &str, attempt: u32, deleted: bool) -> NodeClaim {
        let built = node(name).unlaunched(&[]).with_claim(|claim| {
            claim.batch = "batch".into();
            claim.attempt = attempt;
            claim.deleting = deleted.then(now);
        });
        let StateNode { claim, .. } = Arc::unwrap_or_clone(built.build());
        Arc::unwrap_or_clone(claim.expect("a claim"))
    }

    /// `i1` of attempt 1; `i1:a` names a claim, `i1!` is being ended, and `i1@2` is of another attempt.
    fn instance(written: &str) -> Instance {
        let terminating = written.ends_with('!');
        let written = written.trim_end_matches('!');
        let (written, attempt) = written.split_once('@').unwrap_or((written, "1"));
        let (id, claim) = written.split_once(':').map_or((written, None), |(id, claim)| (id, Some(claim)));
        Instance {
            provider_id: id.into(),
            claim: claim.map(Into::into),
            launched_by: Some(("batch".into(), attempt.parse().expect("a number"))),
            cluster_uid: Some("cluster".into()),
            labels: Labels::new(),
            annotations: Labels::new(),
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            created: None,
            terminating,
        }
    }

    /// What claim `name` sees, where `a`, `b` and `c` are deleted but for those that live.
    fn seen(name: &str, list: &[&str], living: &[(&str, u32)], taken: &str) -> String {
        let instances: Vec<Instance> = list.iter().map(|written| instance(written)).collect();
        let of = |name: &str| {
            let living = living.iter().find(|(known, _)| *known == name);
            claim(name, living.map_or(1, |(_, attempt)| *attempt), living.is_none())
        };
        let claims = ["a", "b", "c"].map(of);
        match sight(&of(name), &instances, claims.iter(), |id| id.as_str() == taken) {
            Sighting::Nothing => "nothing".to_owned(),
            Sighting::Awaited => "awaited".to_owned(),
            Sighting::Own(id) => format!("own {id}"),
            Sighting::OneOf(id) => format!("one of {id}"),
        }
    }

    #[rstest]
    #[case::none("a", &[], "nothing")]
    #[case::of_another_call("a", &["i1@2"], "nothing")]
    #[case::of_another_claim("a", &["i1:b"], "nothing")]
    #[case::its_own("a", &["i0", "i1:a"], "own i1")]
    #[case::its_own_that_lives("a", &["i0:a!", "i1:a"], "own i1")]
    #[case::first("a", &["i2", "i1", "i3"], "one of i1")]
    #[case::second("b", &["i2", "i1", "i3"], "one of i2")]
    #[case::too_few("b", &["i1"], "one of i1")]
    #[case::those_that_live_first("a", &["i1!", "i2"], "one of i2")]
    #[case::what_ends_is_asked_for_again("a", &["i1!"], "one of i1")]
    #[case::who_has_one_does_not_count("b", &["i1:a", "i2", "i3"], "one of i2")]
    fn what_is_left_is_shared_out(#[case] name: &str, #[case] list: &[&str], #[case] expected: &str) {
        assert_eq!(seen(name, list, &[], ""), expected);
    }

    #[rstest]
    #[case::repeats_the_call(&["i1", "i2"], ("b", 1), "awaited")]
    #[case::is_no_member(&["i1"], ("b", 0), "one of i1")]
    #[case::went_on_alone(&["i1"], ("b", 2), "one of i1")]
    #[case::has_its_own(&["i1:b", "i2"], ("b", 1), "one of i2")]
    #[case::nothing_to_get(&[], ("b", 1), "nothing")]
    fn what_another_may_take_is_left_to_it(
        #[case] list: &[&str],
        #[case] living: (&str, u32),
        #[case] expected: &str,
    ) {
        assert_eq!(seen("a", list, &[living], ""), expected);
    }

    #[test]
    fn what_a_claim_has_is_not_of_the_rest() {
        assert_eq!(seen("a", &["i1"], &[], "i1"), "nothing");
        assert_eq!(seen("a", &["i1", "i2"], &[], "i1"), "one of i2");
    }
}
