//! Registration health, pod events, the migration of hashes, notices.

use super::{
    super::{health::RegistrationHealth, pod_events, pool_hash},
    *,
};
use crate::testing::{node, pod, pool};

#[test]
fn health_of_registrations() {
    use ConditionStatus::{False, True, Unknown};
    for (outcomes, expected) in [
        ("", Unknown),
        ("+", True),
        ("-", True),
        ("--", False),
        ("+-", True),
        ("-+-", False),
        ("--++++", True),
        ("--+++", True),
        ("--++", False),
    ] {
        let mut health = RegistrationHealth::default();
        outcomes.chars().for_each(|outcome| health.note(outcome == '+'));
        assert_eq!(health.status(), expected, "{outcomes:?}");
    }
    for status in [True, False, Unknown] {
        assert_eq!(RegistrationHealth::restored(status).status(), status);
    }
}

#[test]
fn which_pods_reset_consolidate_after() {
    let pending = pod("p").build();
    let with_start = |started| Arc::new(Pod { started, ..(*pod("p").bound("a")).clone() });
    let bound = with_start(None);
    let ending = pod("p").with(|pod| pod.deleting = Some(now())).bound("a");
    let ended = Arc::new(Pod { phase: crate::model::PodPhase::Succeeded, ..(*bound).clone() });
    let daemon = pod("p").daemon().bound("a");
    for (name, before, after, expected) in [
        ("created", None, Some(&pending), false),
        ("bound", Some(&pending), Some(&bound), true),
        ("born bound", None, Some(&bound), true),
        ("born bound, ending", None, Some(&ending), false),
        ("same", Some(&bound), Some(&bound), false),
        ("ends", Some(&bound), Some(&ending), true),
        ("ended", Some(&bound), Some(&ended), true),
        ("ending goes on", Some(&ending), Some(&ended), false),
        ("vanished", Some(&bound), None, true),
        ("went", Some(&ending), None, false),
        ("daemon", None, Some(&daemon), false),
        ("never bound", Some(&pending), None, false),
    ] {
        let matters = pod_events::matters(before.map(|p| &**p), after.map(|p| &**p), Some(now()));
        assert_eq!(matters, expected, "{name}");
    }
    // A restart is no pod event.
    for (at, last, expected) in
        [(-60, Some(now()), false), (9, Some(now()), false), (10, Some(now()), true), (-60, None, true)]
    {
        assert_eq!(pod_events::matters(None, Some(&with_start(Some(after(at)))), last), expected, "{at}");
    }
    assert!(pod_events::is_due(None, now()));
    assert!(!pod_events::is_due(Some(now()), after(9)));
    assert!(pod_events::is_due(Some(now()), after(10)));
}

#[test]
fn hashes_migrate_and_known_drift_stays() {
    let stored = |pair: Option<(&str, &str)>| pair.map(|(hash, version)| (hash.into(), version.into()));
    for (of_pool, of_claim, drifted, claims, writes_pool) in [
        (Some(("9", "v3")), Some(("9", "v3")), false, None, false),
        (Some(("8", "v3")), Some(("8", "v3")), false, None, true),
        (Some(("8", "v2")), Some(("8", "v2")), false, Some(Some("9")), true),
        (Some(("8", "v2")), Some(("7", "v2")), true, Some(None), true),
        (Some(("8", "v2")), Some(("8", "v2")), true, Some(None), true),
        // Not marked yet, but known.
        (Some(("8", "v2")), Some(("7", "v2")), false, Some(None), true),
        // Versions that cannot be compared.
        (Some(("8", "v2")), Some(("7", "v1")), false, Some(Some("9")), true),
        (Some(("9", "v3")), Some(("7", "v2")), false, Some(Some("9")), false),
        (Some(("9", "v3")), None, false, None, false),
        (None, None, false, Some(Some("9")), true),
    ] {
        let mut pool = Arc::unwrap_or_clone(pool("default").build());
        pool.hash = stored(of_pool);
        let mut fixture = Fixture::of(node("a")).with(|claim| claim.pool_hash = stored(of_claim));
        if drifted {
            fixture = fixture.condition(ConditionType::Drifted, ConditionStatus::True, "NodePoolDrifted");
        }
        let update = pool_hash::update(&pool, &[&fixture.claim], "9", "v3");
        let found = update.claims.first().map(|(_, hash)| hash.as_deref());
        assert_eq!((found, update.pool), (claims, writes_pool), "{of_pool:?} {of_claim:?}");
    }
}

#[test]
fn a_condition_is_written_when_any_part_of_it_changes() {
    let known =
        Fixture::of(node("a")).condition(ConditionType::Drained, ConditionStatus::Unknown, "Draining");
    let unknown = |reason, message| ConditionChange::unknown(ConditionType::Drained, reason, message);
    for (name, change, expected) in [
        ("the same", unknown("Draining", ""), false),
        ("another reason", unknown("Waiting", ""), true),
        ("another message", unknown("Draining", "3 pods"), true),
        ("another status", ConditionChange::fails(ConditionType::Drained, "Draining", ""), true),
        ("another condition", ConditionChange::unknown(ConditionType::Drifted, "Draining", ""), true),
    ] {
        assert_eq!(change.step(&known.claim).is_some(), expected, "{name}");
    }
}

#[test]
fn events_that_ask_for_an_action_are_warnings() {
    let pod = || pod("p").build().id.clone();
    let second = Duration::from_secs(1);
    for (notice, expected) in [
        (Notice::InsufficientCapacity("".into()), true),
        (Notice::QuotaExceeded { quota: "".into(), message: "".into() }, true),
        (Notice::NodeClassNotReady("".into()), true),
        (Notice::UnregisteredTaintMissing, true),
        (Notice::FailedConsistencyCheck(String::new()), true),
        (Notice::TerminationGracePeriodExpiring(now()), true),
        (Notice::FailedDraining { waiting: 1, held: Vec::new() }, true),
        (Notice::NotOwned("".into()), true),
        (Notice::InvalidDoNotDisruptAnnotation { pod: pod(), value: "".into() }, true),
        (Notice::AwaitingVolumeDetachment(Vec::new()), false),
        (Notice::DoNotDisruptUntil { pod: pod(), until: now() }, false),
        (Notice::DoNotDisruptGracePeriodElapsed(pod()), false),
        (Notice::Disrupted { pod: pod(), deadline: now(), granted: second, grace: second }, false),
    ] {
        assert_eq!(notice.is_warning(), expected, "{}", notice.reason());
    }
}

#[test]
fn notices_name_what_holds() {
    let pods = vec![pod("p").build().id.clone()];
    let message = Notice::FailedDraining { waiting: 3, held: pods }.message();
    assert!(message.starts_with("Failed to drain node, 3 pods are waiting to be evicted"), "{message}");
    assert!(message.contains("default/p"), "{message}");
}
