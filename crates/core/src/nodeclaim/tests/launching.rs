//! Attempts: who is a member, when the cloud is called, and that nothing is launched without a claim or twice, however creations,
//! deletions, crashes and lost answers interleave.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use rstest::rstest;

use super::super::launch::{Attempt, LaunchStep, is_named, own_batch, step};
use crate::{
    model::{NodeClaim, Positions, Requirements, StateNode, Taint, TaintEffect},
    testing::{node, now},
};

/// `2`: created with position 2. `2@1[0-2]`: carries attempt 1 of 0 to 2. `!` is deleted, `+` has an instance, `-` failed, `~`
/// has another taint, `^` lacks the finalizer.
fn claim(written: &str) -> Arc<NodeClaim> {
    let plain = written.trim_end_matches(['!', '+', '-', '~', '^']);
    let (position, attempt) = plain.split_once('@').unwrap_or((plain, "0[]"));
    let (number, members) = attempt.split_once('[').expect("members");
    let marks = &written[plain.len()..];
    let StateNode { claim, .. } =
        Arc::unwrap_or_clone(node(&format!("{position}{marks}")).unlaunched(&[]).build());
    let mut claim = Arc::unwrap_or_clone(claim.expect("a claim"));
    claim.uid = format!("uid-{position}{marks}").into();
    claim.batch = "b".into();
    claim.position = position.parse().expect("a position");
    claim.attempt = number.parse().expect("a number");
    claim.attempt_members = members.trim_end_matches(']').parse().unwrap_or_default();
    claim.has_finalizer = !marks.contains('^');
    claim.deleting = marks.contains('!').then(now);
    claim.provider_id = marks.contains('+').then(|| "fake:///x".into());
    claim.labels.clear();
    claim.taints =
        marks.contains('~').then(|| Taint::new("t", "", TaintEffect::NoSchedule)).into_iter().collect();
    Arc::new(claim)
}

fn is_failed(claim: &NodeClaim) -> bool {
    claim.uid.ends_with('-')
}

/// The next step for the first of these claims.
fn says(batch: &[&str]) -> String {
    let claims: Vec<Arc<NodeClaim>> = batch.iter().map(|written| claim(written)).collect();
    match step(&claims[0], &claims, is_failed) {
        LaunchStep::Write(Attempt { batch, number, members }, written) => {
            let to: Vec<String> = written.iter().map(|(_, position)| position.to_string()).collect();
            format!("write {batch}/{number} of {members} to {}", to.join(","))
        }
        LaunchStep::Call(Attempt { number, members, .. }, called) => {
            let of: Vec<String> = called.iter().map(|claim| claim.position.to_string()).collect();
            format!("call {number} with {} for {}", members.count(), of.join(","))
        }
    }
}

#[rstest]
#[case::all_that_exist(&["0", "1", "2"], "write b/1 of 0-2 to 0,1,2")]
#[case::not_those_that_are_deleted(&["0", "1!", "2"], "write b/1 of 0,2 to 0,2")]
#[case::in_order(&["2", "1"], "write b/2 of 1-2 to 1,2")]
#[case::nor_others(&["0", "1~", "2"], "write b/1 of 0,2 to 0,2")]
#[case::all_carry_it(&["0@1[0-2]", "1@1[0-2]", "2@1[0-2]"], "call 1 with 3 for 0,1,2")]
#[case::without_a_finalizer(&["0@1[0]^"], "write b/1001 of 0 to 0")]
#[case::one_does_not_carry_it(&["0@1[0-2]", "1", "2@1[0-2]"], "write b/1001 of 0-2 to 0,1,2")]
#[case::one_was_left_behind(&["0@1001[0-2]", "1@1[0-2]", "2@1001[0-2]"], "write b/2001 of 0-2 to 0,1,2")]
#[case::it_was_left_behind(&["1@1[0-2]", "0@1001[0-2]", "2@1001[0-2]"], "write b/2001 of 0-2 to 0,1,2")]
#[case::one_that_carries_it_has_changed(&["2", "0@1[0,2]~"], "write b/1001 of 0,2 to 0,2")]
#[case::one_that_is_deleted_does_not(&["0@1[0-2]", "1!", "2@1[0-2]"], "write b/1001 of 0,2 to 0,2")]
#[case::one_is_gone(&["0@1[0-2]", "2@1[0-2]"], "call 1 with 3 for 0,2")]
#[case::one_is_deleted_since(&["0@1[0-2]", "1@1[0-2]!", "2@1[0-2]"], "call 1 with 3 for 0,1,2")]
#[case::one_has_its_instance(&["0@1[0-2]", "1@1[0-2]+", "2@1[0-2]"], "call 1 with 3 for 0,2")]
#[case::one_went_on(&["0@1[0-2]", "1@1002[1]", "2@1[0-2]"], "call 1 with 3 for 0,2")]
#[case::those_that_failed(&["0@1[0-2]-", "1@1[0-2]+", "2@1[0-2]-"], "write b/1001 of 0,2 to 0,2")]
#[case::one_that_is_late(&["3", "0@1[0-2]", "1@1[0-2]+", "2@1[0-2]"], "write b/1004 of 3 to 3")]
#[case::a_member_of_another_attempt(&["0@1[0-2]", "3"], "call 1 with 3 for 0")]
#[case::no_member_of_its_attempt(&["0@1[1-2]"], "write b/1001 of 0 to 0")]
fn steps(#[case] batch: &[&str], #[case] expected: &str) {
    assert_eq!(says(batch), expected);
}

#[test]
fn an_attempt_has_equal_launch_requirements() {
    let changes: [fn(&mut NodeClaim); 6] = [
        |_| {},
        |claim| claim.class.name = "other".into(),
        |claim| claim.pool = Some("other".into()),
        |claim| drop(claim.labels.insert("a".into(), "b".into())),
        |claim| claim.startup_taints.push(Taint::new("t", "", TaintEffect::NoSchedule)),
        |claim| claim.requirements = Requirements::from_labels(&[("a".into(), "b".into())].into()),
    ];
    let members = changes.map(|change| {
        let mut other = (*claim("1")).clone();
        change(&mut other);
        let batch = [claim("0"), Arc::new(other)];
        let LaunchStep::Write(attempt, _) = step(&batch[0], &batch, is_failed) else { panic!("a call") };
        attempt.members.count()
    });
    assert_eq!(members, [2, 1, 1, 1, 1, 1]);
}

#[test]
fn a_position_has_one_instance() {
    let first = claim("0");
    let mut copy = (*first).clone();
    copy.uid = "uid-copy".into();
    copy.name = "copy".into();
    copy.created = now() + jiff::SignedDuration::from_secs(1);
    let batch = [first.clone(), Arc::new(copy)];
    let LaunchStep::Write(attempt, written) = step(&batch[1], &batch, is_failed) else { panic!("a call") };
    assert_eq!((attempt.batch, written.len()), (own_batch(&batch[1]), 1));
    let LaunchStep::Write(attempt, written) = step(&first, &batch, is_failed) else { panic!("a call") };
    assert_eq!((attempt.members.to_string().as_str(), written.len()), ("0", 1));
}

#[rstest]
#[case(&["0!", "1@1[0-1]"], true)]
#[case::names_one_that_carries_an_earlier_attempt(&["0@1001[0-1]!", "1@1[0-1]"], true)]
#[case::carries_it(&["0@1[0-1]!", "1@1[0-1]"], false)]
#[case::is_over(&["0!", "1@1[0-1]+"], false)]
#[case::goes_too(&["0!", "1@1[0-1]!"], false)]
#[case::another(&["0!", "1@1[1]"], false)]
fn a_claim_that_is_named_stays(#[case] batch: &[&str], #[case] expected: bool) {
    let claims: Vec<Arc<NodeClaim>> = batch.iter().map(|written| claim(written)).collect();
    assert_eq!(is_named(&claims[0], &claims), expected);
}

/// What happens in a cluster with one batch of at most five claims.
#[derive(Clone, Copy, Debug)]
enum Event {
    Create(u32),
    Delete(u32),
    /// A NodeClaim takes the next step; the process is killed after this number of its effects, or after the call.
    Launch(u32, usize),
    /// The same, with as many instances fewer.
    Partial(u32, usize),
    /// The attempt is written on some of its members alone, a bit for each: the other writes failed, or came too late.
    Torn(u32, u32),
    /// A claim gets other launch requirements.
    Change(u32),
    /// A deleted claim is finalized.
    Finalize(u32),
    /// Another process.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let position = || 0_u32..5;
    prop_oneof![
        3 => position().prop_map(Event::Create),
        1 => position().prop_map(Event::Delete),
        6 => (position(), 0_usize..8).prop_map(|(position, effects)| Event::Launch(position, effects)),
        1 => (position(), 1_usize..4).prop_map(|(position, fewer)| Event::Partial(position, fewer)),
        3 => (position(), 0_u32..32).prop_map(|(position, written)| Event::Torn(position, written)),
        1 => position().prop_map(Event::Change),
        2 => position().prop_map(Event::Finalize),
        1 => Just(Event::Restart),
    ]
}

/// An instance of a call by rank, and whether it lives.
type Fleet = Vec<bool>;

#[derive(Default)]
struct Cluster {
    claims: BTreeMap<u32, NodeClaim>,
    created: BTreeSet<u32>,
    /// By number of the attempt: positions and instances of each call.
    fleets: BTreeMap<u32, (Positions, Fleet)>,
    failed: BTreeSet<u32>,
}

impl Cluster {
    fn batch(&self) -> Vec<Arc<NodeClaim>> {
        self.claims.values().cloned().map(Arc::new).collect()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Create(position) => {
                if self.created.insert(position) {
                    let mut new = (*claim(&position.to_string())).clone();
                    new.uid = format!("u{position}").into();
                    self.claims.insert(position, new);
                }
            }
            Event::Delete(position) => {
                if let Some(claim) = self.claims.get_mut(&position) {
                    claim.deleting.get_or_insert_with(now);
                }
            }
            Event::Launch(position, effects) => self.launch(position, effects, 0, u32::MAX),
            Event::Partial(position, fewer) => self.launch(position, 8, fewer, u32::MAX),
            Event::Torn(position, written) => self.launch(position, 8, 0, written),
            Event::Change(position) => {
                if let Some(claim) = self.claims.get_mut(&position) {
                    claim.taints = vec![Taint::new("t", "", TaintEffect::NoSchedule)];
                }
            }
            Event::Finalize(position) => self.finalize(position),
            Event::Restart => self.failed.clear(),
        }
    }

    fn launch(&mut self, position: u32, mut effects: usize, fewer: usize, written: u32) {
        for _ in 0..2 {
            let batch = self.batch();
            let Some(asks) = batch.iter().find(|claim| claim.position == position) else { return };
            if asks.deleting.is_some() || asks.provider_id.is_some() {
                return;
            }
            match step(asks, &batch, |claim| self.failed.contains(&claim.position)) {
                LaunchStep::Write(attempt, members) => {
                    for (member, position) in members {
                        if effects == 0 {
                            return;
                        }
                        effects -= 1;
                        if written & (1 << position) == 0 {
                            continue;
                        }
                        let claim = self.claims.get_mut(&member.position).expect("a member");
                        (claim.attempt, claim.position) = (attempt.number, position);
                        claim.attempt_members = attempt.members.clone();
                        self.failed.remove(&position);
                    }
                    if written != u32::MAX {
                        return;
                    }
                }
                LaunchStep::Call(attempt, members) => return self.call(&attempt, &members, effects, fewer),
            }
        }
    }

    fn call(&mut self, attempt: &Attempt, members: &[Arc<NodeClaim>], mut effects: usize, fewer: usize) {
        if effects == 0 {
            return;
        }
        let size = attempt.members.count();
        let is_new = !self.fleets.contains_key(&attempt.number);
        let launched = vec![true; size.saturating_sub(fewer)];
        let call = (attempt.members.clone(), launched);
        let (asked, fleet) = self.fleets.entry(attempt.number).or_insert(call).clone();
        assert_eq!(asked, attempt.members, "a repeated call is the same call");
        if is_new {
            for position in attempt.members.iter() {
                let claim = self.claims.get(&position).expect("an instance without a claim");
                assert_eq!(claim.attempt, attempt.number, "intent before effect");
                assert_eq!(claim.provider_id, None, "a second instance");
            }
        }
        for member in members {
            effects -= 1;
            if effects == 0 {
                return;
            }
            let rank = attempt.members.rank(member.position).expect("a member");
            let claim = self.claims.get_mut(&member.position).expect("a member");
            if fleet.get(rank).is_none() {
                self.failed.insert(member.position);
            } else if claim.deleting.is_none() {
                claim.provider_id = Some(format!("{}/{rank}", attempt.number).as_str().into());
            }
        }
    }

    /// Releases a deleted claim once its instance is gone, and no other may ask for it.
    fn finalize(&mut self, position: u32) {
        let batch = self.batch();
        let Some(claim) = batch.iter().find(|claim| claim.position == position && claim.deleting.is_some())
        else {
            return;
        };
        let others = |other: &Arc<NodeClaim>| {
            other.attempt == claim.attempt && other.deleting.is_none() && other.provider_id.is_none()
        };
        let is_open = claim.attempt > 0 && claim.provider_id.is_none() && !self.failed.contains(&position);
        if is_named(claim, &batch) || (is_open && batch.iter().any(others)) {
            return;
        }
        let rank = claim.attempt_members.rank(position);
        if let Some((_, fleet)) = self.fleets.get_mut(&claim.attempt)
            && let Some(instance) = rank.and_then(|rank| fleet.get_mut(rank))
        {
            *instance = false;
        }
        self.claims.remove(&position);
    }

    /// Every instance that lives belongs to a claim of its attempt, and every claim has one at most.
    fn check(&self) {
        let mut of_claim: BTreeMap<u32, u32> = BTreeMap::new();
        for (number, (members, fleet)) in &self.fleets {
            for (position, lives) in members.iter().zip(fleet) {
                let held = self.claims.get(&position).is_some_and(|claim| claim.attempt >= *number);
                assert!(!lives || held, "instance {number}/{position} lives without a claim");
                if *lives {
                    *of_claim.entry(position).or_default() += 1;
                }
            }
        }
        assert!(of_claim.values().all(|count| *count == 1), "{of_claim:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_interleaving_launches_twice_or_without_a_claim(events in proptest::collection::vec(event(), 1..60)) {
        let mut cluster = Cluster::default();
        for event in events {
            cluster.handle(event);
            cluster.check();
        }
        // In the end every claim that is left gets its instance.
        for _ in 0..8 {
            (0..5).for_each(|position| cluster.handle(Event::Launch(position, 8)));
            (0..5).for_each(|position| cluster.handle(Event::Finalize(position)));
            cluster.check();
        }
        for claim in cluster.claims.values() {
            prop_assert!(claim.provider_id.is_some(), "claim {} has none", claim.position);
        }
    }
}
