//! Launch, registration, initialization, liveness, consistency, expiry.

use rstest::rstest;

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::{
        consistency::Consistency,
        expiration::Expiration,
        initialization::Initialization,
        launch::{Launch, after_result},
        liveness::Liveness,
        registration::Registration,
    },
    *,
};
use crate::{
    cloud::{Instance, LaunchError, RegistrationHold},
    model::{Labels, Resources, Taint, TaintEffect, labels::REGISTERED},
    testing::node,
};

fn unlaunched() -> Fixture {
    Fixture::of(node("a").unlaunched(&[])).with(|claim| {
        claim.batch = "b".into();
        claim.attempt = 0;
        claim.has_finalizer = false;
    })
}

#[test]
fn a_claim_without_an_instance_is_launched() {
    let says = |fixture: Fixture| brief(&Launch.next(&fixture.view()));
    assert_eq!(says(unlaunched()), "launch");
    assert_eq!(says(unlaunched().with(|claim| claim.deleting = Some(now()))), "");
    let launched = || Fixture::of(node("a").launched());
    assert_eq!(says(launched()), "");
    // The process was killed between the two writes that record a launch: the launch is repeated, and gets the same instance.
    assert_eq!(says(launched().with(|claim| claim.provider_id = None)), "launch");
    assert_eq!(
        says(launched().with(|claim| drop(claim.conditions.remove(&ConditionType::Launched)))),
        "launch"
    );
}

fn instance() -> Instance {
    Instance {
        provider_id: "fake:///a".into(),
        claim: Some("a".into()),
        launched_by: None,
        cluster_uid: None,
        labels: Labels::new(),
        annotations: Labels::new(),
        image_id: None,
        capacity: Resources::new(),
        allocatable: Resources::new(),
        created: None,
        terminating: false,
    }
}

#[rstest]
#[case(Ok(instance()), 0, "adopt; Launched=True/Launched")]
#[case(Err(LaunchError::InsufficientCapacity("x".into())), 0,
    "publish InsufficientCapacityError; delete insufficient_capacity")]
#[case(Err(LaunchError::NodeClassNotReady("x".into())), 0, "publish NodeClassNotReady; delete nodeclass_not_ready")]
#[case(Err(LaunchError::Failed { reason: "Denied".into(), message: "x".into() }), 0,
    "Launched=Unknown/Denied; ~1")]
#[case(Err(LaunchError::Failed { reason: "".into(), message: "x".into() }), 0,
    "Launched=Unknown/LaunchFailed; ~1")]
#[case(Err(LaunchError::QuotaExceeded { quota: "cores".into(), message: "x".into() }), 0,
    "publish QuotaExceeded; count false; delete insufficient_capacity")]
#[case(Err(LaunchError::Pending { message: "x".into(), after: Duration::from_secs(20) }), 9,
    "Launched=Unknown/LaunchPending; ~20")]
#[case(Err(LaunchError::Unknown("x".into())), 1, "Launched=Unknown/LaunchFailed; ~1")]
#[case(Err(LaunchError::Unknown("x".into())), 4, "Launched=Unknown/LaunchFailed; ~8")]
#[case(Err(LaunchError::Unknown("x".into())), 99, "Launched=Unknown/LaunchFailed; ~60")]
#[case(Err(LaunchError::RateLimited { after: Duration::from_secs(7) }), 1, "Launched=Unknown/LaunchFailed; ~7")]
fn answers_of_the_cloud(
    #[case] answer: Result<Instance, LaunchError>,
    #[case] unclear: u32,
    #[case] expected: &str,
) {
    let fixture = unlaunched().with(|claim| claim.attempt = 1);
    let mut next = after_result(&fixture.claim, &answer, unclear);
    if let Some(again) = next.again {
        // The delay, and up to as much again.
        let least =
            expected.rsplit_once('~').and_then(|(_, seconds)| seconds.parse().ok()).map(Duration::from_secs);
        let least = least.expect("a delay");
        assert!((least..=least * 2).contains(&again), "{again:?}");
        next.again = Some(least);
    }
    assert_eq!(brief(&next), expected);
}

#[test]
fn a_batch_is_launched_again_together_and_batches_apart() {
    let waits = |answer: LaunchError, claims: &[(&str, &str)]| -> BTreeSet<Duration> {
        let of = |(uid, batch): &(&str, &str)| {
            let fixture = unlaunched().with(|claim| {
                (claim.uid, claim.batch, claim.attempt) = ((*uid).into(), (*batch).into(), 1);
            });
            after_result(&fixture.claim, &Err(answer.clone()), 1).again.expect("a delay")
        };
        claims.iter().map(of).collect()
    };
    let one_batch = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")];
    let batches = [("a", "w"), ("a", "x"), ("a", "y"), ("a", "z")];
    for error in [
        LaunchError::Failed { reason: "Denied".into(), message: "x".into() },
        LaunchError::Unknown("x".into()),
        LaunchError::RateLimited { after: Duration::from_secs(7) },
    ] {
        assert_eq!(waits(error.clone(), &one_batch).len(), 1, "one call for all of them");
        assert_eq!(waits(error, &batches).len(), 4, "and not for all batches at once");
    }
}

#[test]
fn long_failures_are_cut_at_a_character() {
    let long = "ä".repeat(400);
    let answer = Err(LaunchError::Unknown(long.as_str().into()));
    let next = after_result(&unlaunched().claim, &answer, 1);
    let [ClaimStep::Condition(change)] = &next.steps[..] else { unreachable!("{next:?}") };
    assert_eq!(change.message, format!("{}...", "ä".repeat(300)));
}

/// A node that has just joined: tainted, not labelled.
fn joined() -> Fixture {
    let mut fixture = Fixture::of(node("a").uninitialized());
    fixture.claim.conditions.remove(&ConditionType::Registered);
    fixture.claim.labels = [("team".into(), "x".into())].into();
    fixture.claim.annotations =
        [("note".into(), "1".into()), ("fleetwright.dev/batch-id".into(), "b".into())].into();
    fixture.claim.taints = vec![Taint::new("dedicated", "x", TaintEffect::NoSchedule)];
    fixture.claim.startup_taints = vec![Taint::new("cni", "", TaintEffect::NoExecute)];
    fixture.with_node(|node| {
        node.has_finalizer = false;
        node.labels.remove(REGISTERED);
        node.taints = vec![Taint::new("karpenter.sh/unregistered", "", TaintEffect::NoExecute)];
    })
}

/// The provider does not hold the node.
const FREE: Registration<'_> = Registration { hold: None };

const REGISTERING: &str = "name a; Registered=True/Registered; count true";

#[test]
fn registration_syncs_once() {
    let unregistered = "-karpenter.sh/unregistered:NoExecute";
    let labels = "node own karpenter.sh/registered=true team=x @note";
    assert_eq!(
        joined().says(&FREE, now()),
        format!("{labels} +dedicated=x:NoSchedule +cni:NoExecute {unregistered}; {REGISTERING}"),
    );
    let mut bootstrapped = joined();
    bootstrapped.provider.bootstraps_startup_taints = true;
    assert_eq!(
        bootstrapped.says(&FREE, now()),
        format!("{labels} +dedicated=x:NoSchedule {unregistered}; {REGISTERING}"),
        "startup taints that the bootstrap brings are never written",
    );
    let own = joined().with_node(|node| {
        node.labels.insert("karpenter.sh/do-not-sync-taints".into(), "true".into());
    });
    assert_eq!(own.says(&FREE, now()), format!("{labels} {unregistered}; {REGISTERING}"));
    let bare = joined().with_node(|node| node.taints.clear());
    assert!(bare.says(&FREE, now()).starts_with("publish UnregisteredTaintMissing; node own"));
}

#[test]
fn a_registration_that_was_cut_off_writes_the_node_no_more() {
    let cut_off = joined().with_node(|node| {
        node.labels.insert(REGISTERED.into(), "true".into());
        node.taints.clear();
    });
    assert_eq!(cut_off.says(&FREE, now()), REGISTERING);
}

/// What the provider holds gets all but the registration: a deletion finds the finalizer, people find the labels.
#[test]
fn registration_waits_for_the_provider() {
    let hold = RegistrationHold::new("not in its load balancer", Duration::from_secs(5));
    let held = Registration { hold: Some(&hold) };
    let waits = "Registered=Unknown/RegistrationHookPending";
    let first = format!("node own team=x @note +dedicated=x:NoSchedule +cni:NoExecute; {waits}; ~5");
    assert_eq!(joined().says(&held, now()), first);
    let synced = joined().with_node(|node| {
        node.has_finalizer = true;
        node.labels.insert("team".into(), "y".into());
    });
    assert_eq!(synced.says(&held, now()), format!("{waits}; ~5"), "once");
    let set = synced.with(|claim| {
        claim.labels.insert("cloud/partition".into(), "3".into());
    });
    let labels = "cloud/partition=3 karpenter.sh/registered=true team=x";
    // The startup taint is not on the node: its owner has removed it since.
    let last =
        format!("node own {labels} @note +dedicated=x:NoSchedule -karpenter.sh/unregistered:NoExecute");
    assert_eq!(set.says(&FREE, now()), format!("{last}; {REGISTERING}"));
}

#[test]
fn a_provider_is_asked_about_one_node_that_is_not_registered() {
    let is_due = |fixture: Fixture| Registration::is_due(&fixture.view());
    assert!(is_due(joined()));
    assert!(!is_due(joined().condition(ConditionType::Registered, ConditionStatus::True, "Registered")));
    assert!(!is_due(joined().with(|claim| claim.provider_id = None)));
    assert!(!is_due(joined().with(|claim| claim.deleting = Some(now()))));
    let mut none = joined();
    none.nodes.clear();
    assert!(!is_due(none));
}

#[test]
fn registration_waits_for_exactly_one_node() {
    let mut none = joined();
    none.nodes.clear();
    assert_eq!(none.says(&FREE, now()), "Registered=Unknown/NodeNotFound");
    let mut two = joined();
    two.nodes.push(two.nodes[0].clone());
    assert_eq!(two.says(&FREE, now()), "Registered=False/MultipleNodesFound");
    let unlaunched = joined().with(|claim| claim.provider_id = None);
    assert_eq!(unlaunched.says(&FREE, now()), "");
    assert_eq!(Fixture::of(node("a")).says(&FREE, now()), "");
}

#[test]
fn initialization_waits_for_the_drivers_of_devices() {
    let initial = |drivers: Option<&[&str]>| {
        let mut fixture = Fixture::of(node("a").uninitialized()).with(|claim| {
            claim.annotations.insert("karpenter.sh/requested-dra-drivers".into(), "gpu,nic".into());
        });
        fixture.drivers = drivers.map(|drivers| drivers.iter().map(|driver| (*driver).into()).collect());
        fixture.says(&Initialization, now())
    };
    let done = "node karpenter.sh/initialized=true; Initialized=True/Initialized";
    assert_eq!(initial(Some(&["gpu"])), "Initialized=Unknown/DRADriverPoolsNotPublished");
    assert_eq!(initial(Some(&["gpu", "nic", "other"])), done);
    // While DRA requests are ignored, devices are not checked.
    assert_eq!(initial(None), done);
}

#[test]
fn initialization_in_order() {
    let initial = || Fixture::of(node("a").uninitialized());
    let taint = |key: &str| Taint::new(key, "", TaintEffect::NoSchedule);
    let ready = initial().with(|claim| claim.requests = Resources::of(1, 1).with("gpu", 1));
    assert_eq!(ready.says(&Initialization, now()), "Initialized=Unknown/ResourceNotRegistered");
    let ready = ready.with_node(|node| node.allocatable.set(&"gpu".into(), 1));
    let done = "node karpenter.sh/initialized=true; Initialized=True/Initialized";
    assert_eq!(ready.says(&Initialization, now()), done);
    let ephemeral =
        ready.with_node(|node| node.taints.push(taint("node.cloudprovider.kubernetes.io/uninitialized")));
    assert_eq!(ephemeral.says(&Initialization, now()), "Initialized=Unknown/KnownEphemeralTaintsExist");
    let startup = ephemeral
        .with(|claim| claim.startup_taints.push(taint("cni")))
        .with_node(|node| node.taints.push(taint("cni")));
    assert_eq!(startup.says(&Initialization, now()), "Initialized=Unknown/StartupTaintsExist");
    let not_ready = startup.with_node(|node| node.ready = false);
    assert_eq!(not_ready.says(&Initialization, now()), "Initialized=Unknown/NodeNotReady");
    let reported = not_ready.with(|claim| {
        let message = "Node status is NotReady".into();
        let (status, reason) = (ConditionStatus::Unknown, "NodeNotReady".into());
        let current = Condition { status, reason, message, since: now() };
        claim.conditions.insert(ConditionType::Initialized, current);
    });
    assert_eq!(reported.says(&Initialization, now()), "", "an equal condition is not written again");
    assert_eq!(joined().says(&Initialization, now()), "");
}

#[test]
fn liveness_gives_up_in_time() {
    let launching = unlaunched();
    let alive = Liveness { unasked: None };
    let joining = || Fixture::of(node("a").launched());
    assert_eq!(launching.says(&alive, after(299)), "~1");
    assert_eq!(launching.says(&alive, after(300)), "count false; delete launch_timeout");
    assert_eq!(joining().says(&alive, after(600)), "~300");
    assert_eq!(joining().says(&alive, after(900)), "count false; delete registration_timeout");
    let looked = joining().condition_since(
        ConditionType::Registered,
        ConditionStatus::False,
        "MultipleNodesFound",
        after(100),
    );
    assert_eq!(looked.says(&alive, after(900)), "~100");
    assert_eq!(Fixture::of(node("a").uninitialized()).says(&alive, after(99_999)), "");
}

/// A provider of slow instances asks for more time, never for less.
#[test]
fn liveness_has_the_patience_of_the_provider() {
    let alive = Liveness { unasked: None };
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let patient = |mut fixture: Fixture, launch: u64, registration: u64| {
        fixture.provider.patience.launch = minutes(launch);
        fixture.provider.patience.registration = minutes(registration);
        fixture
    };
    let joining = || Fixture::of(node("a").launched());
    assert_eq!(patient(unlaunched(), 60, 0).says(&alive, after(3599)), "~1");
    assert_eq!(patient(unlaunched(), 60, 0).says(&alive, after(3600)), "count false; delete launch_timeout");
    assert_eq!(patient(joining(), 0, 30).says(&alive, after(1799)), "~1");
    assert_eq!(
        patient(joining(), 0, 30).says(&alive, after(1800)),
        "count false; delete registration_timeout"
    );
    assert_eq!(patient(unlaunched(), 0, 0).says(&alive, after(299)), "~1");
}

#[test]
fn a_launch_counts_from_when_it_can_have_begun() {
    let seen = |at: i64| Liveness { unasked: Some(after(at)) };
    assert_eq!(unlaunched().says(&seen(600), after(600)), "~300", "our clock is ten minutes fast");
    assert_eq!(unlaunched().says(&seen(600), after(900)), "count false; delete launch_timeout");
    assert_eq!(unlaunched().says(&seen(-600), after(0)), "~300", "our clock was ten minutes slow");
    let joining = Fixture::of(node("a").launched());
    assert_eq!(joining.says(&seen(600), after(900)), "count false; delete registration_timeout");
}

#[test]
fn expiry_is_by_age() {
    let aging = || Fixture::of(node("a")).with(|claim| claim.expire_after = Some(Duration::from_secs(100)));
    assert_eq!(aging().says(&Expiration, after(40)), "~60");
    assert_eq!(aging().says(&Expiration, after(100)), "delete expired");
    assert_eq!(aging().says(&Expiration, after(-50)), "~150", "a clock that was wrong expires nothing");
    assert_eq!(aging().with(|claim| claim.deleting = Some(now())).says(&Expiration, after(100)), "");
    assert_eq!(aging().with(|claim| claim.expire_after = None).says(&Expiration, after(100)), "");
}

#[test]
fn consistency_of_shape() {
    let node = |found: i64| {
        Fixture::of(node("a").size("medium", 10, 10))
            .with(|claim| claim.requests = Resources::of(1000, 0))
            .with_node(|node| node.capacity = node.capacity.clone().with("cpu", found))
    };
    let holds = "ConsistentStateFound=True/ConsistentStateFound; ~600";
    let fails = "ConsistentStateFound=False/ConsistencyCheckFailed; publish FailedConsistencyCheck; ~600";
    for (found, expected) in [(10_000, holds), (9000, holds), (8999, fails), (0, fails)] {
        assert_eq!(node(found).says(&Consistency, now()), expected, "{found}");
    }
    let text = |found: i64| match Consistency.next(&node(found).view(), now()).steps.last() {
        Some(ClaimStep::Publish(notice)) => notice.message(),
        other => format!("{other:?}"),
    };
    assert_eq!(text(8999), "expected 10 of resource cpu, but found 8999m (90.0% of expected)");
    assert_eq!(text(1234), "expected 10 of resource cpu, but found 1234m (12.3% of expected)");
    assert_eq!(text(0), "expected 10 of resource cpu, but found 0 (0.0% of expected)");
    let unpromised = node(0).with(|claim| claim.capacity = Resources::new());
    assert_eq!(unpromised.says(&Consistency, now()), holds, "nothing was promised");
    let unasked = node(0).with(|claim| claim.requests = Resources::new());
    assert_eq!(unasked.says(&Consistency, now()), holds, "only what pods asked for counts");
    let deleted = node(0).with(|claim| claim.deleting = Some(now()));
    assert_eq!(deleted.says(&Consistency, now()), "", "the NodeClaim is deleted");
    let starting = Fixture::of(testing::node("a").uninitialized());
    assert_eq!(starting.says(&Consistency, now()), "", "device plugins have not reported yet");
}
