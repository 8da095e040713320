//! A trial in the in-memory region: what it shows, and that it leaves nothing, however it ends.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use fleetwright_aws::calls::LaunchTemplate;
use fleetwright_aws::testing::{CLUSTER, Call, FakeAws, REGION};
use fleetwright_core::clock::Clock;

use super::*;

/// A clock that a sleep advances, and how many sleeps end.
struct TrialClock(Mutex<(Timestamp, usize)>);

impl TrialClock {
    fn allow(&self, sleeps: usize) {
        self.0.lock().unwrap().1 = sleeps;
    }
}

impl Clock for TrialClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }
    fn sleep(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (now, sleeps) = &mut *self.0.lock().unwrap();
        if *sleeps == 0 {
            return Box::pin(std::future::pending());
        }
        *sleeps -= 1;
        *now += SignedDuration::try_from(by).unwrap();
        Box::pin(std::future::ready(()))
    }
}

/// A region, and a clock whose first `sleeps` sleeps end; the next one never does.
fn region(sleeps: usize) -> (Arc<FakeAws>, Arc<TrialClock>) {
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(TrialClock(Mutex::new((now, sleeps))));
    let aws = Arc::new(FakeAws::new(clock.clone()));
    aws.delay_profiles(SignedDuration::from_secs(12));
    (aws, clock)
}

fn trial() -> Trial {
    Trial {
        begins: "2026-06-01T00:00:00Z".parse().unwrap(),
        spend: None,
        settings: Settings::new(CLUSTER, REGION),
        discovery: ("team".to_owned(), "a".to_owned()),
        role: "node".to_owned(),
        windows_role: None,
    }
}

fn template(name: &str, uid: &str) -> LaunchTemplate {
    let tags = [(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::TAG_CLUSTER_UID, uid)];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    LaunchTemplate { name: name.to_owned(), tags, created: None }
}

fn left(aws: &FakeAws) -> BTreeSet<String> {
    aws.templates_now().into_keys().chain(aws.profiles_now().into_keys()).collect()
}

#[tokio::test]
async fn a_trial_launches_nothing_and_leaves_nothing() {
    let (aws, clock) = region(usize::MAX);
    let expired = format!("{UID_PREFIX}{}", clock.now().as_second() - 1);
    let running = format!("{UID_PREFIX}{}", clock.now().as_second() + 60);
    for (name, uid) in [("cluster", "a-cluster"), ("expired", &*expired), ("running", &*running)] {
        aws.adopt_template(template(name, uid));
    }
    let results = run(aws.clone(), clock, &trial()).await.unwrap();
    let of = |name: &str| results.iter().find(|own| own.name == name).unwrap().result.clone();
    for name in ["al2023", "bottlerocket", "al2023-gpu", "encrypted-volume", "public-address", "monitoring"] {
        assert_eq!(of(name), Ok("EC2 would launch it".to_owned()), "{name}");
    }
    assert_eq!(of("efa-interface"), Err("the region offers no instance type for it: not tried".to_owned()));
    assert_eq!(of("ec2:DescribeSubnets"), Ok("3 found".to_owned()));
    assert!(aws.count("RunInstances (dry run)") >= 6 && aws.count("CreateFleet (dry run)") >= 6);
    assert_eq!((aws.count("CreateFleet"), aws.running().len()), (0, 0));
    assert!(of("cleanup").is_ok_and(|said| said != "0 removed"));
    assert_eq!(left(&aws), ["cluster", "running"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_refusal_is_reported_per_class_and_cleaned_up_after() {
    let (aws, clock) = region(usize::MAX);
    aws.deny(Call::TryInstance);
    aws.deny(Call::OnDemandPrices);
    let results = run(aws.clone(), clock, &trial()).await.unwrap();
    let refused =
        |name: &str| results.iter().find(|own| own.name == name).unwrap().result.clone().unwrap_err();
    assert!(refused("al2023").contains("RunInstancesAuthCheckFailed"), "{}", refused("al2023"));
    assert!(refused("pricing:GetProducts").contains("UnauthorizedOperation"));
    assert!(left(&aws).is_empty());
}

/// The process is killed while it waits for its instance profiles.
#[tokio::test(start_paused = true)]
async fn what_a_killed_trial_left_is_found_by_its_tags() {
    let (aws, clock) = region(0);
    aws.adopt_template(template("cluster", "a-cluster"));
    let trial = trial();
    let killed = run(aws.clone(), clock, &trial);
    assert!(tokio::time::timeout(Duration::from_secs(1), killed).await.is_err());
    assert!(left(&aws).len() > 10, "{:?}", left(&aws));
    let gone = clean(&*aws, &trial.settings, |_| true).await.unwrap();
    assert_eq!(left(&aws), ["cluster".to_owned()].into());
    assert!(gone.len() > 10);
}

/// A trial that may spend so much.
fn spending(dollars: f64) -> Trial {
    Trial { spend: Some(Price::from_dollars(dollars).unwrap()), ..trial() }
}

fn launches(results: &[TrialResult]) -> Vec<(&str, Result<&str, &str>)> {
    let texts = results.iter().filter(|own| own.name.starts_with("launch "));
    texts.map(|own| (own.name.as_str(), own.result.as_deref().map_err(String::as_str))).collect()
}

#[tokio::test]
async fn a_node_of_each_class_runs_and_ends() {
    let (aws, clock) = region(usize::MAX);
    let results = run(aws.clone(), clock, &spending(9.0)).await.unwrap();
    let all = launches(&results);
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let expected = [
        "launch al2023",
        "launch bottlerocket",
        "launch al2023-gpu",
        "launch encrypted-volume",
        "launch public-address",
        "launch monitoring",
    ];
    assert!(expected.iter().all(|name| names.contains(name)), "{all:?}");
    for (name, result) in &all {
        assert!(result.is_ok_and(|said| said.contains(" ran after ")), "{name}: {result:?}");
    }
    assert_eq!(aws.fleets().len(), all.len());
    assert!(aws.fleets().iter().all(|fleet| fleet.count == 1 && fleet.overrides.len() <= 3));
    assert!(aws.running().is_empty() && left(&aws).is_empty(), "{:?} {:?}", aws.running(), left(&aws));
}

/// An hour of m6g.large is 0.077, and a node costs a cent beside.
#[tokio::test]
async fn no_launch_exceeds_what_is_left() {
    let (aws, clock) = region(usize::MAX);
    let results = run(aws.clone(), clock, &spending(0.2)).await.unwrap();
    assert_eq!(aws.fleets().len(), 2);
    let refused: Vec<_> = launches(&results).into_iter().skip(2).collect();
    assert!(!refused.is_empty());
    for (name, result) in refused {
        let said = result.unwrap();
        assert!(
            said.starts_with("not launched: an hour of ") && said.ends_with("0.026 of 0.2 USD are left"),
            "{name}: {said}"
        );
    }
}

/// The process is killed while it waits for its first node, which EC2 shows late.
#[tokio::test(start_paused = true)]
async fn a_sweep_ends_what_a_killed_trial_launched() {
    let trial = spending(1.0);
    let mut sleeps = 0;
    let (aws, clock, ids) = loop {
        let (aws, clock) = region(sleeps);
        let killed = run(aws.clone(), clock.clone(), &trial);
        assert!(tokio::time::timeout(Duration::from_secs(1), killed).await.is_err());
        let mut left = aws.instances_now();
        left.retain(|own| own.state == "pending");
        let ids: Vec<String> = left.into_iter().map(|own| own.id).collect();
        if !ids.is_empty() {
            break (aws, clock, ids);
        }
        sleeps += 1;
    };
    assert_eq!(ids.len(), 1, "{ids:?}");
    aws.hide(&ids[0], SignedDuration::from_secs(40));
    clock.allow(usize::MAX);
    let (shared, mut gone): (SharedClock, _) = (clock.clone(), Vec::new());
    let began = clock.now();
    sweep(&*aws, &shared, &trial.settings, |own| own == trial.expires(), |name| gone.push(name.to_owned()))
        .await
        .unwrap();
    assert!(gone.contains(&ids[0]) && gone.len() > 10, "{gone:?}");
    assert!(aws.instances_now().iter().all(|own| own.state != "pending" && own.state != "running"));
    assert!(left(&aws).is_empty());
    assert!(clock.now().duration_since(began) >= SignedDuration::from_secs(100));
}

/// What is refused is asked for again, and reported at last.
#[tokio::test]
async fn a_sweep_that_is_refused_says_so() {
    let (aws, clock) = region(usize::MAX);
    aws.adopt_template(template("left", &format!("{UID_PREFIX}1")));
    aws.deny(Call::DeleteTemplate);
    let shared: SharedClock = clock;
    let refusal = sweep(&*aws, &shared, &trial().settings, |_| true, |_| ()).await.unwrap_err();
    assert_eq!(refusal.code, "UnauthorizedOperation");
    aws.allow(Call::DeleteTemplate);
    sweep(&*aws, &shared, &trial().settings, |_| true, |_| ()).await.unwrap();
    assert!(left(&aws).is_empty());
}

/// Nodes of families that run scripts end by themselves.
#[test]
fn nodes_that_may_be_launched_stop_within_the_hour() {
    let script = |trial: &Trial, name: &str| {
        let all = trial_classes(true);
        let one = all.iter().find(|own| own.0 == name).unwrap();
        class(trial, one).unwrap().spec.user_data.unwrap_or_default()
    };
    for name in ["al2023", "al2023-gpu", "enclave", "windows2022"] {
        assert!(script(&spending(1.0), name).contains("shutdown"), "{name}");
        assert_eq!(script(&trial(), name), "");
    }
    assert_eq!(script(&spending(1.0), "bottlerocket"), "");
}
