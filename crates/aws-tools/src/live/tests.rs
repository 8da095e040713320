//! A trial in the in-memory region: what it shows, and that it leaves nothing, however it ends.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use fleetwright_aws::calls::LaunchTemplate;
use fleetwright_aws::testing::{CLUSTER, Call, FakeAws, REGION};
use fleetwright_core::clock::Clock;

use super::*;

/// A clock that a sleep advances, or one on which a sleep never ends.
struct TrialClock(Mutex<Timestamp>, bool);

impl Clock for TrialClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if self.1 {
            return Box::pin(std::future::pending());
        }
        *self.0.lock().unwrap() += SignedDuration::try_from(by).unwrap();
        Box::pin(std::future::ready(()))
    }
}

fn region(stuck: bool) -> (Arc<FakeAws>, SharedClock) {
    let now = "2026-06-01T00:00:00Z".parse().unwrap();
    let clock: SharedClock = Arc::new(TrialClock(Mutex::new(now), stuck));
    let aws = Arc::new(FakeAws::new(clock.clone()));
    aws.delay_profiles(SignedDuration::from_secs(12));
    (aws, clock)
}

fn trial() -> Trial {
    Trial {
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
    let (aws, clock) = region(false);
    let expired = format!("{UID_PREFIX}{}", clock.now().as_second() - 1);
    let running = format!("{UID_PREFIX}{}", clock.now().as_second() + 60);
    for (name, uid) in [("cluster", "a-cluster"), ("expired", &*expired), ("running", &*running)] {
        aws.adopt_template(template(name, uid));
    }
    let results = dry_run(aws.clone(), clock, &trial()).await.unwrap();
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
    let (aws, clock) = region(false);
    aws.deny(Call::TryInstance);
    aws.deny(Call::OnDemandPrices);
    let results = dry_run(aws.clone(), clock, &trial()).await.unwrap();
    let refused =
        |name: &str| results.iter().find(|own| own.name == name).unwrap().result.clone().unwrap_err();
    assert!(refused("al2023").contains("RunInstancesAuthCheckFailed"), "{}", refused("al2023"));
    assert!(refused("pricing:GetProducts").contains("UnauthorizedOperation"));
    assert!(left(&aws).is_empty());
}

/// The process is killed while it waits for its instance profiles.
#[tokio::test(start_paused = true)]
async fn what_a_killed_trial_left_is_found_by_its_tags() {
    let (aws, clock) = region(true);
    aws.adopt_template(template("cluster", "a-cluster"));
    let trial = trial();
    let killed = dry_run(aws.clone(), clock, &trial);
    assert!(tokio::time::timeout(Duration::from_secs(1), killed).await.is_err());
    assert!(left(&aws).len() > 10, "{:?}", left(&aws));
    let gone = clean(&*aws, &trial.settings, |_| true).await.unwrap();
    assert_eq!(left(&aws), ["cluster".to_owned()].into());
    assert!(gone.len() > 10);
}
