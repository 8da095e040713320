//! Instances that carry our cluster's UID and that no NodeClaim accounts for: which of them are terminated.
//!
//! Two phases: an instance without a claim is marked; where lists at least [`APART`] later still show it so, and it is
//! older than [`GRACE`], it is due. An instance whose NodeClaim names another instance was launched by a call that was repeated:
//! no record of it can follow, so that it is due as soon as in Karpenter. The controller reads instance and claims again before it terminates one, and
//! [`crate::safety`] bounds what a wrong conclusion can cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::remaining;
use crate::{
    cloud::Instance,
    model::{BatchId, ClaimName, ProviderId},
    safety::{Act, Limits},
};

/// How long an instance must have been without a claim by all lists.
pub const APART: Duration = Duration::from_secs(2 * 60);
/// Instances younger than this are skipped: their NodeClaim may not have the result of the launch yet.
pub const GRACE: Duration = Duration::from_secs(5 * 60);
/// [`APART`] for instances whose NodeClaim names another instance: Karpenter's first lists are 10 s apart.
pub const SUPERSEDED_APART: Duration = Duration::from_secs(10);
/// [`GRACE`] for instances whose NodeClaim names another instance, as in Karpenter.
pub const SUPERSEDED_GRACE: Duration = Duration::from_secs(30);

/// The instances that NodeClaims name: of all NodeClaims, including invalid ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Instances that a claim names.
    pub instances: BTreeSet<ProviderId>,
    /// All claims by name, with the instance that each names.
    pub names: BTreeMap<ClaimName, Option<ProviderId>>,
    /// Batches of claims that do not name an instance yet.
    pub open: BTreeSet<BatchId>,
}

impl Claimed {
    /// Takes in a claim.
    pub fn add(&mut self, name: ClaimName, batch: BatchId, instance: Option<ProviderId>) {
        self.names.insert(name, instance.clone());
        match instance {
            Some(id) => {
                self.instances.insert(id);
            }
            None => {
                self.open.insert(batch);
            }
        }
    }

    /// Whether the NodeClaim that an instance was launched for exists and names another instance.
    #[must_use]
    pub fn supersedes(&self, instance: &Instance) -> bool {
        let named = instance.claim.as_ref().and_then(|name| self.names.get(name)).and_then(Option::as_ref);
        named.is_some_and(|other| *other != instance.provider_id)
    }

    /// Whether some claim accounts for an instance, or may once its launch is written down. A claim that names another
    /// instance does not account for one that carries its name: that is left over from a launch that was repeated.
    #[must_use]
    pub fn accounts_for(&self, instance: &Instance) -> bool {
        self.instances.contains(&instance.provider_id)
            || instance.claim.as_ref().is_some_and(|name| matches!(self.names.get(name), Some(None)))
            || instance.launched_by.as_ref().is_some_and(|(batch, _)| self.open.contains(batch))
    }
}

/// Whether an instance is an orphan of the cluster of this UID, by one list of instances.
#[must_use]
pub fn is_orphan(instance: &Instance, claimed: &Claimed, cluster_uid: &str) -> bool {
    let ours = instance.cluster_uid.as_deref() == Some(cluster_uid) && !cluster_uid.is_empty();
    ours && !instance.terminating && !claimed.accounts_for(instance)
}

/// Orphans that were seen so far.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    marked: BTreeMap<ProviderId, Timestamp>,
}

/// What one list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// To be read again and terminated, the longest marked first.
    pub due: Vec<ProviderId>,
    /// How many more there are beyond what the limits let through.
    pub held: usize,
    /// When the next marked one may be due, or the limits may let through another one.
    pub again: Option<Duration>,
}

impl Orphans {
    /// Records a complete list of the cluster's instances and the instances that NodeClaims name, as of `now`. Ages that this process
    /// measures use `steady`, a monotonic time.
    pub fn survey(
        &mut self,
        instances: &[Instance],
        claimed: &Claimed,
        cluster_uid: &str,
        limits: &mut Limits,
        now: Timestamp,
        steady: Timestamp,
    ) -> Findings {
        limits.begin(Act::TerminateOrphan, steady);
        let orphans: BTreeMap<&ProviderId, &Instance> = instances
            .iter()
            .filter(|instance| is_orphan(instance, claimed, cluster_uid))
            .map(|instance| (&instance.provider_id, instance))
            .collect();
        self.marked.retain(|id, _| orphans.contains_key(id));
        let mut findings = Findings::default();
        let mut due: Vec<(Timestamp, &ProviderId)> = Vec::new();
        for (id, instance) in orphans {
            let marked = *self.marked.entry(id.clone()).or_insert(steady);
            // Without a launch time from the cloud, it is as old as our first sight of it.
            let (apart, grace) = if claimed.supersedes(instance) {
                (SUPERSEDED_APART, SUPERSEDED_GRACE)
            } else {
                (APART, GRACE)
            };
            let young = match instance.created {
                Some(created) => remaining(created, grace, now),
                None => remaining(marked, grace, steady),
            };
            match remaining(marked, apart, steady).max(young) {
                Some(left) => findings.again = Some(findings.again.map_or(left, |again| again.min(left))),
                None => due.push((marked, id)),
            }
        }
        due.sort();
        let allowed = limits.room(Act::TerminateOrphan, instances.len(), steady);
        findings.held = due.len().saturating_sub(allowed);
        if findings.held > 0
            && let Some(left) = limits.again(Act::TerminateOrphan, steady)
        {
            findings.again = Some(findings.again.map_or(left, |again| again.min(left)));
        }
        findings.due = due.into_iter().take(allowed).map(|(_, id)| id.clone()).collect();
        findings
    }

    /// Forgets a mark: the instance is terminated, or no orphan after all. A new orphan must be seen twice again.
    pub fn forget(&mut self, id: &ProviderId) {
        self.marked.remove(id);
    }
}

#[cfg(test)]
mod tests {
    //! Whose it is, since when, how many at once.
    use rstest::rstest;

    use super::*;
    use crate::{model::Resources, safety::Facts};

    const UID: &str = "cluster";

    fn instance(name: &str) -> Instance {
        Instance {
            provider_id: format!("fake:///a/{name}").as_str().into(),
            claim: Some(name.into()),
            launched_by: Some((format!("batch-{name}").as_str().into(), 1)),
            cluster_uid: Some(UID.into()),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            created: Some(at(0)),
            terminating: false,
        }
    }

    /// Orphans under the limits of one process.
    #[derive(Default)]
    struct Watched(Orphans, Limits);

    impl Watched {
        fn survey(
            &mut self,
            all: &[Instance],
            claimed: &Claimed,
            now: Timestamp,
            steady: Timestamp,
        ) -> Findings {
            self.0.survey(all, claimed, UID, &mut self.1, now, steady)
        }

        fn terminated(&mut self, id: &ProviderId, steady: Timestamp) {
            let facts = Facts { subject: id, all: 10, ..Facts::default() };
            self.1.take(Act::TerminateOrphan, &facts, steady).expect("the survey found room");
            self.0.forget(id);
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_750_000_000 + seconds).unwrap()
    }

    fn claimed(name: &str, batch: &str, instance: Option<&str>) -> Claimed {
        let mut claimed = Claimed::default();
        claimed.add(name.into(), batch.into(), instance.map(Into::into));
        claimed
    }

    #[rstest]
    #[case::unclaimed(Claimed::default(), true)]
    #[case::by_provider_id(claimed("x", "y", Some("fake:///a/i")), false)]
    #[case::by_name(claimed("i", "y", None), false)]
    #[case::left_over(claimed("i", "y", Some("fake:///a/other")), true)]
    #[case::by_open_batch(claimed("x", "batch-i", None), false)]
    #[case::by_launched_batch(claimed("x", "batch-i", Some("fake:///a/other")), true)]
    fn claims_account_for_instances(#[case] claimed: Claimed, #[case] expected: bool) {
        assert_eq!(is_orphan(&instance("i"), &claimed, UID), expected);
    }

    #[rstest]
    #[case::ours(|_: &mut Instance| {}, UID, true)]
    #[case::another_cluster(|i: &mut Instance| i.cluster_uid = Some("other".into()), UID, false)]
    #[case::untagged(|i: &mut Instance| i.cluster_uid = None, UID, false)]
    #[case::of_no_known_launch(|i: &mut Instance| i.launched_by = None, UID, true)]
    #[case::no_uid(|i: &mut Instance| i.cluster_uid = Some("".into()), "", false)]
    #[case::terminating(|i: &mut Instance| i.terminating = true, UID, false)]
    fn ownership(#[case] change: fn(&mut Instance), #[case] uid: &str, #[case] expected: bool) {
        let mut instance = instance("i");
        change(&mut instance);
        assert_eq!(is_orphan(&instance, &Claimed::default(), uid), expected);
    }

    #[test]
    fn an_orphan_is_marked_first_and_due_later() {
        let (mut orphans, all, none) = (Watched::default(), [instance("i")], Claimed::default());
        let first = orphans.survey(&all, &none, at(600), at(600));
        assert_eq!(first, Findings { again: Some(APART), ..Findings::default() });
        // What was accounted for in between begins again.
        orphans.survey(&all, &claimed("i", "", None), at(660), at(660));
        assert!(orphans.survey(&all, &none, at(720), at(720)).due.is_empty());
        assert_eq!(orphans.survey(&all, &none, at(840), at(840)).due.len(), 1);
    }

    #[test]
    fn a_young_instance_is_left_alone() {
        let (mut orphans, all, none) = (Watched::default(), [instance("i")], Claimed::default());
        assert_eq!(orphans.survey(&all, &none, at(0), at(0)).again, Some(GRACE));
        assert!(orphans.survey(&all, &none, at(299), at(299)).due.is_empty());
        assert_eq!(orphans.survey(&all, &none, at(300), at(300)).due.len(), 1);
    }

    #[test]
    fn the_next_look_is_for_the_first_one_to_be_due() {
        let created = |name: &str, seconds| Instance { created: Some(at(seconds)), ..instance(name) };
        for (first, second) in [(0, 100), (100, 0)] {
            let all = [created("i", first), created("j", second)];
            let found = Watched::default().survey(&all, &Claimed::default(), at(150), at(150));
            assert_eq!(found.again, Some(Duration::from_secs(150)), "created at {first} s and {second} s");
        }
    }

    #[test]
    fn an_instance_whose_claim_names_another_one_is_due_soon() {
        let (mut orphans, all) = (Watched::default(), [instance("i")]);
        let other = claimed("i", "y", Some("fake:///a/other"));
        // A new process terminates nothing for some minutes.
        orphans.survey(&[], &other, at(-600), at(-600));
        assert_eq!(orphans.survey(&all, &other, at(5), at(5)).again, Some(Duration::from_secs(25)));
        assert!(orphans.survey(&all, &other, at(29), at(29)).due.is_empty());
        assert_eq!(orphans.survey(&all, &other, at(30), at(30)).due.len(), 1);
        // Seen twice all the same.
        let (mut orphans, old) = (Watched::default(), at(600));
        assert_eq!(orphans.survey(&all, &other, old, old).again, Some(SUPERSEDED_APART));
    }

    #[test]
    fn all_but_a_few_are_held() {
        let mut orphans = Watched::default();
        let all: Vec<Instance> = (0..10).map(|n| instance(&format!("i{n}"))).collect();
        orphans.survey(&all, &Claimed::default(), at(600), at(600));
        let early = orphans.survey(&all, &Claimed::default(), at(750), at(750));
        assert_eq!((early.due.len(), early.held, early.again), (0, 10, Some(Duration::from_secs(50))));
        let findings = orphans.survey(&all, &Claimed::default(), at(800), at(800));
        assert_eq!((findings.due.len(), findings.held), (1, 9));
        orphans.terminated(&findings.due[0], at(800));
        let later = orphans.survey(&all[1..], &Claimed::default(), at(900), at(900));
        assert_eq!((later.due.len(), later.again), (0, Some(Duration::from_secs(100))));
        assert_eq!(orphans.survey(&all[1..], &Claimed::default(), at(1000), at(1000)).due.len(), 1);
    }

    #[test]
    fn a_restart_does_not_reset_the_limit() {
        let mut all: Vec<Instance> = (0..10).map(|n| instance(&format!("i{n}"))).collect();
        let (mut orphans, mut ended) = (Watched::default(), Vec::new());
        for now in (600..3000).step_by(10) {
            if [840, 1130, 1500].contains(&now) {
                orphans = Watched::default();
            }
            for id in orphans.survey(&all, &Claimed::default(), at(now), at(now)).due {
                orphans.terminated(&id, at(now));
                all.retain(|instance| instance.provider_id != id);
                ended.push(now);
            }
        }
        let within = |end: &i64| ended.iter().filter(|one| (0..600).contains(&(end - **one))).count();
        assert!(ended.iter().all(|end| within(end) <= 3), "{ended:?}");
        assert!(ended.len() > 6, "{ended:?}");
    }

    #[test]
    fn a_clock_that_jumps_does_not_reset_the_limit() {
        let mut orphans = Watched::default();
        let all: Vec<Instance> = (0..10).map(|n| instance(&format!("i{n}"))).collect();
        orphans.survey(&all, &Claimed::default(), at(600), at(0));
        let mut due = |now, steady| orphans.survey(&all, &Claimed::default(), at(now), at(steady)).due;
        assert_eq!(due(6000, 100), [], "seen only once");
        let first = due(600, 200);
        assert_eq!(first.len(), 1);
        orphans.terminated(&first[0], at(200));
        let mut due = |now, steady| orphans.survey(&all[1..], &Claimed::default(), at(now), at(steady)).due;
        assert_eq!(due(6000, 300), []);
        assert_eq!(due(600, 400).len(), 1, "nor does it hold for ever");
    }
}
