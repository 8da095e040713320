//! What is admitted, and what counts.

use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::testing::now;

fn held(act: Act, facts: &Facts<'_>) -> Option<Limit> {
    admit(act, facts, &Limits::default(), now()).err().map(|held| held.limit())
}

#[rstest]
#[case(0, 0, false)]
#[case(1, 1, false)]
#[case(1, 5, false)]
#[case(2, 5, true)]
#[case(2, 6, false)]
#[case(3, 10, true)]
#[case(21, 101, false)]
fn a_fifth_may_be_unhealthy(#[case] unhealthy: usize, #[case] nodes: usize, #[case] expected: bool) {
    assert_eq!(is_too_many(unhealthy, nodes), expected);
}

#[test]
fn the_first_limit_of_an_act_holds_it() {
    let second = Duration::from_secs(1);
    let facts = Facts { clock_pause: Some(second), outage: Some((5, 8)), all: 10, ..Facts::default() };
    assert_eq!(held(Act::DeleteClaim(Cause::Expired), &facts), Some(Limit::ClockJump));
    let facts = Facts { clock_pause: None, ..facts };
    assert_eq!(held(Act::DeleteClaim(Cause::Expired), &facts), Some(Limit::Outage));
    assert_eq!(held(Act::DeleteClaim(Cause::LaunchTimeout), &facts), None, "an outage holds expiration only");
    assert_eq!(
        held(Act::Evict, &Facts { turn: Some(second), ..Facts::default() }),
        Some(Limit::EvictionRate)
    );
    assert_eq!(held(Act::CreateClaim, &Facts { count: 1000, ..Facts::default() }), None);
}

#[test]
fn the_delay_after_the_start_holds_disruption_and_expiration_from_the_first_attempt_on() {
    let hour = Duration::from_secs(3600);
    let mut limits = Limits::default().with_startup_delay(hour);
    let facts = Facts { subject: "a", all: 10, ..Facts::default() };
    let after = |minutes| now() + SignedDuration::from_mins(minutes);
    // What was done before neither begins the delay nor waits for it.
    for act in [Act::DeleteClaim(Cause::LaunchTimeout), Act::CreateClaim] {
        assert_eq!(limits.take(act, &facts, after(-50)), Ok(()));
    }
    for (minutes, left) in [(0, Some(60)), (20, Some(40)), (59, Some(1)), (60, None), (300, None)] {
        let held = left.map(|left| Held::StartupDelay { left: Duration::from_secs(left * 60) });
        for act in [Act::Taint, Act::DeleteClaim(Cause::Expired)] {
            assert_eq!(
                limits.take(act, &facts, after(minutes)).err(),
                held,
                "{act:?} after {minutes} minutes"
            );
        }
        assert_eq!(limits.take(Act::CreateClaim, &facts, after(minutes)), Ok(()));
    }
    assert_eq!(Limits::default().take(Act::Taint, &facts, now()), Ok(()), "there is none by default");
}

#[test]
fn what_is_taken_counts_and_what_is_held_does_not() {
    let mut limits = Limits::with_rates((3, 1), (1, 1));
    let two = Facts { count: 2, ..Facts::default() };
    assert_eq!(limits.take(Act::CreateClaim, &two, now()), Ok(()));
    for _ in 0..3 {
        let left = Duration::from_secs(1);
        assert_eq!(limits.take(Act::CreateClaim, &two, now()), Err(Held::CreationRate { left }));
    }
    assert_eq!(limits.take(Act::CreateClaim, &two, now() + SignedDuration::from_secs(1)), Ok(()));
    let act = Act::DeleteClaim(Cause::RegistrationTimeout);
    let names: Vec<String> = (0..14).map(|n| format!("claim-{n}")).collect();
    let mut deleted = |minutes: i64| {
        let at = now() + SignedDuration::from_mins(minutes);
        let fact = |name| Facts { subject: name, all: 14, ..Facts::default() };
        names.iter().filter(|name| limits.take(act, &fact(name.as_str()), at).is_ok()).count()
    };
    assert_eq!((deleted(0), deleted(9), deleted(10)), (10, 10, 10), "ten at once; the same ten; ten more");
}

#[test]
fn evictions_that_a_budget_blocked_have_turns_of_their_own() {
    let mut limits = Limits::with_rates((1, 1), (2, 100));
    let turns = |limits: &mut Limits, retried, count| {
        (0..count).map(|_| limits.eviction_turn(retried, now()).as_millis()).max()
    };
    assert_eq!(turns(&mut limits, true, 500), Some(0));
    assert_eq!(turns(&mut limits, true, 1), Some(10), "the 501st retry waits");
    assert_eq!(turns(&mut limits, false, 1), Some(0), "and delays no other pod");
    limits.retry_succeeded(now());
    assert_eq!(turns(&mut limits, false, 1), Some(10), "a retry that succeeds counts as an eviction");
}

#[test]
fn a_share_says_whether_it_passes_in_parts() {
    let text = |limit: Limit| {
        limit
            .share()
            .map(|share| Held::Share { limit, share, left: None }.to_string().contains("a third of them"))
    };
    assert_eq!(text(Limit::RepairShare), Some(true));
    assert_eq!(text(Limit::ExpirationShare), Some(false));
}
