//! Consolidatable, Drifted, drain.

use super::{
    super::{
        conditions::{Consolidatable, Drifted},
        drain::Drain,
    },
    *,
};
use crate::{
    cloud,
    model::{
        Catalog, Operator, Requirement, Str, Toleration,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE},
        pod::DoNotDisrupt,
    },
    testing::{instance_type, node, pod},
};

#[test]
fn consolidatable_after_a_quiet_time() {
    let initialized =
        || Fixture::of(node("a")).with_pool(|pool| pool.consolidate_after = Some(Duration::from_secs(60)));
    let holds = "Consolidatable=True/Consolidatable";
    assert_eq!(initialized().says(&Consolidatable, after(59)), "~1");
    assert_eq!(initialized().says(&Consolidatable, after(60)), holds);
    let busy = || initialized().with(|claim| claim.last_pod_event = Some(after(30)));
    assert_eq!(busy().says(&Consolidatable, after(60)), "~30");
    let marked = || busy().condition(ConditionType::Consolidatable, ConditionStatus::True, "Consolidatable");
    assert_eq!(marked().says(&Consolidatable, after(60)), "clear Consolidatable; ~30");
    assert_eq!(marked().says(&Consolidatable, after(90)), "");
    let never = marked().with_pool(|pool| pool.consolidate_after = None);
    assert_eq!(never.says(&Consolidatable, after(90)), "clear Consolidatable");
    let fixed = initialized().with_pool(|pool| pool.replicas = Some(1));
    assert_eq!(fixed.says(&Consolidatable, after(60)), "");
    let starting = Fixture::of(node("a").uninitialized());
    assert_eq!(starting.says(&Consolidatable, after(60)), "");
}

fn hashed(pool: (&str, &str), claim: (&str, &str)) -> Fixture {
    let pair = |(hash, version): (&str, &str)| Some((Str::from(hash), Str::from(version)));
    Fixture::of(node("a")).with(|c| c.pool_hash = pair(claim)).with_pool(|p| p.hash = pair(pool))
}

#[test]
fn drifted_by_the_first_reason() {
    let stage = Drifted::default();
    let drifted = |reason: &str| format!("Drifted=True/{reason}; ~300");
    for (pool, claim, expected) in [
        (("1", "v3"), ("1", "v3"), "~300".to_owned()),
        (("1", "v3"), ("2", "v3"), drifted("NodePoolDrifted")),
        (("1", "v3"), ("2", "v2"), "~300".to_owned()),
    ] {
        assert_eq!(hashed(pool, claim).says(&stage, now()), expected, "{pool:?} {claim:?}");
    }
    let require = |key: &str, values: &[&str]| {
        let requirement = Requirement::new(key, Operator::In, values.iter().copied()).expect("sound");
        Fixture::of(node("a")).with_pool(|pool| pool.template.requirements.add(requirement))
    };
    assert_eq!(require("topology.kubernetes.io/zone", &["a"]).says(&stage, now()), "~300");
    let elsewhere = require("topology.kubernetes.io/zone", &["b"]);
    assert_eq!(elsewhere.says(&stage, now()), drifted("RequirementsDrifted"));
    assert_eq!(require("team", &["x"]).says(&stage, now()), drifted("RequirementsDrifted"));
    let image = cloud::Drift("AMIDrift".into());
    let by_class = Drifted { provider: Some(&image), ..stage };
    assert_eq!(Fixture::of(node("a")).says(&by_class, now()), drifted("AMIDrift"));
    assert_eq!(
        elsewhere.says(&by_class, now()),
        drifted("RequirementsDrifted"),
        "the pool's reason is first"
    );
    let over = Fixture::of(node("a")).condition(ConditionType::Drifted, ConditionStatus::True, "AMIDrift");
    assert_eq!(over.says(&stage, now()), "clear Drifted; ~300");
    let mut orphan = hashed(("1", "v3"), ("2", "v3"));
    orphan.pool = None;
    assert_eq!(orphan.says(&stage, now()), "");
}

#[test]
fn drifted_when_the_type_is_gone() {
    let catalog = Catalog::new(vec![instance_type("medium", 4, 8).offer("a", "on-demand", 100).build()]);
    let stage = Drifted { catalog: Some(&catalog), provider: None };
    let node = |pairs: &[(&str, &str)]| {
        let builder = pairs.iter().fold(node("a"), |builder, (key, value)| builder.label(key, value));
        Fixture::of(builder)
    };
    let gone = "Drifted=True/InstanceTypeNotFound; ~300";
    for (labels, at, expected) in [
        (&[][..], 3600, "~300"),
        (&[(INSTANCE_TYPE, "old")][..], 3600, gone),
        (&[(INSTANCE_TYPE, "old")][..], 3599, "~300"),
        (&[("topology.kubernetes.io/zone", "b")][..], 3600, gone),
        (&[(CAPACITY_TYPE, "spot")][..], 3600, gone),
        (&[(CAPACITY_TYPE, "reserved")][..], 3600, "~300"),
    ] {
        assert_eq!(node(labels).says(&stage, after(at)), expected, "{labels:?} +{at}");
    }
    let mut unlabeled = node(&[]);
    unlabeled.claim.labels.remove(INSTANCE_TYPE);
    assert_eq!(unlabeled.says(&stage, after(3600)), gone, "no instance type is known");
}

/// A node that is deleted, with pods; `last` is the deadline in seconds.
fn draining(pods: Vec<Arc<Pod>>, deadline: Option<i64>) -> Fixture {
    let names: Vec<String> = pods.iter().map(|pod| pod.id.to_string()).collect();
    let builder = pods.into_iter().fold(node("a"), NodeBuilder::pod);
    let mut fixture = Fixture::of(builder)
        .with(|claim| {
            claim.deleting = Some(now());
            claim.termination_deadline = deadline.map(after);
        })
        .condition(ConditionType::Drained, ConditionStatus::Unknown, "Draining");
    let end = deadline.map(|end| format!("; all are deleted by {}", after(end))).unwrap_or_default();
    says_of(&mut fixture, &format!("n pods are waiting to be evicted: {}{end}", names.join(", ")));
    fixture
}

/// Sets the message of the condition Drained.
fn says_of(fixture: &mut Fixture, message: &str) {
    let drained = fixture.claim.conditions.get_mut(&ConditionType::Drained).expect("a condition");
    drained.message = message.into();
}

/// What the drain would write now; `None` if the current message is good enough.
fn written(fixture: &Fixture) -> Option<String> {
    let steps = Drain.next(&fixture.view(), now()).steps;
    steps.into_iter().find_map(|step| match step {
        ClaimStep::Condition(change) => Some(change.message),
        _ => None,
    })
}

#[test]
fn the_condition_says_what_is_waited_for() {
    let held = |name: &str, until| pod(name).with(|pod| pod.do_not_disrupt = until).bound("a");
    let mut pods: Vec<Arc<Pod>> = ["c", "d", "e", "f"].map(|name| pod(name).bound("a")).to_vec();
    pods.push(held("b", DoNotDisrupt::Always));
    pods.push(pod("a").daemon().bound("a"));
    let mut fixture = draining(pods.clone(), None);
    assert_eq!(written(&fixture), None, "it names pods that are waited for");
    let protected = "default/b (karpenter.sh/do-not-disrupt)";
    let text = format!(
        "6 pods are waiting to be evicted: {protected}, default/c, default/d, default/e, default/f, and 1 more"
    );
    for current in ["the node is being drained", "1 pods are waiting to be evicted: default/gone, default/bb"]
    {
        says_of(&mut fixture, current);
        assert_eq!(written(&fixture).as_deref(), Some(&*text), "{current}");
    }
    says_of(&mut fixture, &text);
    assert_eq!(written(&fixture), None);
    // Each named pod leaves: one pod fewer causes no write, the next few do.
    let mut left = draining(pods[4..].to_vec(), None);
    says_of(&mut left, &text);
    assert_eq!(written(&left), None, "b is waited for");
    let mut last = draining(pods[5..].to_vec(), None);
    says_of(&mut last, &text);
    assert_eq!(written(&last).as_deref(), Some("1 pods are waiting to be evicted: default/a"));
    // A new or changed deadline causes a write.
    let mut ends = draining(pods, Some(600));
    says_of(&mut ends, &text);
    assert_eq!(written(&ends), Some(format!("{text}; all are deleted by {}", after(600))));
}

#[test]
fn pods_leave_in_tiers() {
    let critical = |builder: testing::PodBuilder| {
        builder.with_spec(|spec| spec.priority_class = Some("system-node-critical".into()))
    };
    let mut pods = vec![
        critical(pod("d").daemon()).bound("a"),
        critical(pod("c")).bound("a"),
        pod("b").daemon().bound("a"),
        pod("a").bound("a"),
    ];
    for expected in ["a", "b", "c", "d"] {
        let says = draining(pods.clone(), None).says(&Drain, now());
        assert_eq!(says, format!("evict {expected}; publish FailedDraining; ~1"));
        let mut leaving = pods.clone();
        Arc::make_mut(leaving.last_mut().expect("a pod")).deleting = Some(after(30));
        let says = draining(leaving, None).says(&Drain, now());
        assert_eq!(says, "publish FailedDraining; ~1", "a tier ends when its last pod is gone");
        pods.pop();
    }
    assert_eq!(draining(pods, None).says(&Drain, after(5)), "Drained=True/Drained");
}

#[test]
fn a_drain_waits_for_those_who_leave() {
    let stays = |change: fn(&mut Pod)| pod("p").with(change).bound("a");
    let tolerant = pod("p").with_spec(|spec| spec.tolerations.push(Toleration::everything())).bound("a");
    for (name, pod, awaited) in [
        ("plain", stays(|_| {}), true),
        ("tolerant", tolerant, false),
        ("static", pod("p").owner("Node", "a").bound("a"), false),
        ("ending", stays(|pod| pod.deleting = Some(after(-59))), true),
        ("stuck", stays(|pod| pod.deleting = Some(after(-60))), false),
    ] {
        let says = draining(vec![pod], None).says(&Drain, after(0));
        assert_eq!(says.contains("FailedDraining"), awaited, "{name}: {says}");
    }
}

#[test]
fn a_drain_lasts_a_little() {
    let mut fixture = draining(Vec::new(), None);
    assert_eq!(fixture.says(&Drain, after(3)), "~2");
    fixture.claim.conditions.remove(&ConditionType::Drained);
    assert_eq!(fixture.says(&Drain, after(3)), "Drained=Unknown/Draining; ~5");
    let done = fixture.condition(ConditionType::Drained, ConditionStatus::True, "Drained");
    assert_eq!(done.says(&Drain, after(3)), "");
}

#[test]
fn do_not_disrupt_holds_until_the_deadline() {
    let held = |annotation: DoNotDisrupt| {
        pod("p")
            .with(|pod| {
                pod.do_not_disrupt = annotation;
                pod.started = Some(now());
            })
            .with_spec(|spec| spec.termination_grace_period = Duration::from_secs(30))
            .bound("a")
    };
    let minute = || DoNotDisrupt::For(Duration::from_secs(60));
    let waits = "publish FailedDraining; ~1";
    let forced = "publish Disrupted; force p 29; publish FailedDraining; ~1";
    for (annotation, deadline, at, expected) in [
        (DoNotDisrupt::Always, None, 9999, waits.to_owned()),
        (DoNotDisrupt::Always, Some(100), 70, waits.to_owned()),
        (DoNotDisrupt::Always, Some(100), 71, forced.to_owned()),
        (
            DoNotDisrupt::Invalid("yes".into()),
            None,
            9999,
            format!("publish InvalidDoNotDisruptAnnotation; {waits}"),
        ),
        (DoNotDisrupt::Invalid("yes".into()), Some(100), 71, forced.to_owned()),
        (minute(), None, 59, format!("publish DoNotDisruptUntil; {waits}")),
        (minute(), None, 60, format!("publish DoNotDisruptGracePeriodElapsed; evict p; {waits}")),
    ] {
        let says = draining(vec![held(annotation.clone())], deadline).says(&Drain, after(at));
        assert_eq!(says, expected, "{annotation:?} {deadline:?} +{at}");
    }
}

#[test]
fn force_only_where_it_hastens() {
    let ending = |end: i64| vec![pod("p").with(|pod| pod.deleting = Some(after(end))).bound("a")];
    for (end, at, forced) in [(100, 50, None), (101, 50, Some(50)), (200, 100, Some(1)), (101, 100, None)] {
        let says = draining(ending(end), Some(100)).says(&Drain, after(at));
        let expected = forced.map(|grace| format!("force p {grace}"));
        assert_eq!(
            says.split("; ").find(|part| part.starts_with("force")),
            expected.as_deref(),
            "{end} +{at}"
        );
    }
}

#[test]
fn pods_past_their_own_deadline_go_whatever_their_tier() {
    let slow = pod("slow")
        .daemon()
        .with_spec(|spec| spec.termination_grace_period = Duration::from_secs(90))
        .bound("a");
    let fixture = draining(vec![slow, pod("quick").bound("a")], Some(100));
    let says = fixture.says(&Drain, after(50));
    assert_eq!(says, "publish Disrupted; force slow 50; evict quick; publish FailedDraining; ~1");
    let Some(ClaimStep::Publish(notice)) = Drain.next(&fixture.view(), after(50)).steps.into_iter().next()
    else {
        panic!("no event");
    };
    let text = notice.message();
    assert!(
        text.contains("was granted 50 seconds of grace-period of its 90 terminationGracePeriodSeconds"),
        "{text}"
    );
}

#[test]
fn a_drain_names_the_budget_that_holds_it() {
    use crate::model::{LabelSelector, PodDisruptionBudget};
    let budget = |allowed| {
        Arc::new(PodDisruptionBudget {
            id: crate::model::NamespacedName::new("default", "web"),
            selector: Some(LabelSelector::default()),
            disruptions_allowed: allowed,
            blocks_always: false,
            always_allow_unhealthy: false,
        })
    };
    let held = "2 pods are waiting to be evicted: default/a (poddisruptionbudget default/web allows no disruption), \
                default/b (poddisruptionbudget default/web allows no disruption)";
    let pods = || vec![pod("a").bound("a"), pod("b").bound("a")];
    let mut fixture = draining(pods(), None);
    fixture.budgets = vec![budget(1)];
    says_of(&mut fixture, "the node is being drained");
    let free = written(&fixture).expect("it says what it waits for");
    assert_eq!(free, "2 pods are waiting to be evicted: default/a, default/b");
    // Used up by a terminating pod: no event.
    says_of(&mut fixture, &free);
    fixture.budgets = vec![budget(0)];
    Arc::make_mut(&mut fixture.pods[0]).deleting = Some(after(30));
    assert_eq!(written(&fixture), None);
    // No pod is terminating, and none can be evicted.
    Arc::make_mut(&mut fixture.pods[0]).deleting = None;
    assert_eq!(written(&fixture).as_deref(), Some(held));
    says_of(&mut fixture, held);
    assert_eq!(written(&fixture), None, "written once");
}
