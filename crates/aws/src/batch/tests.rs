//! Batching, halving and isolation of calls.

use std::future::Future;
use std::pin::Pin;

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;
use crate::testing::{Call, FakeAws, Fault};

/// Time that passes with tokio's.
struct Paused(tokio::time::Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn region(instances: usize) -> (Arc<FakeAws>, Arc<Batched>, Vec<String>) {
    let clock: SharedClock = Arc::new(Paused(tokio::time::Instant::now()));
    let cloud = Arc::new(FakeAws::new(clock.clone()));
    let ids = (0..instances).map(|_| cloud.adopt(TagSet::new()).1).collect();
    (cloud.clone(), Arc::new(Batched::new(cloud, clock)), ids)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_looks_and_ends_are_two_calls_each() {
    let (cloud, batched, ids) = region(1000);
    let look = |id: &String| {
        let (batched, id) = (batched.clone(), id.clone());
        async move { batched.instances(&[id], &[]).await.map(|found| found.len()) }
    };
    let found = futures::future::join_all(ids.iter().map(look)).await;
    assert!(found.iter().all(|found| *found == Ok(1)));
    assert!(end(&batched, &ids).await.iter().all(Result::is_ok));
    assert_eq!((cloud.count("DescribeInstances"), cloud.count("TerminateInstances")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_gone_fails_alone() {
    let (cloud, batched, ids) = region(64);
    let all: Vec<String> = ids.into_iter().chain(["i-gone".to_owned()]).collect();
    let look = |id: &String| {
        let (batched, id) = (batched.clone(), id.clone());
        async move { batched.instances(&[id], &[]).await }
    };
    let found = futures::future::join_all(all.iter().map(look)).await;
    let missing: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_err()).collect();
    assert_eq!(missing, [64]);
    assert!(found[64].as_ref().is_err_and(AwsError::is_not_found));
    assert!(cloud.count("DescribeInstances") <= 2 * 7, "halving asks few times");
}

/// Terminates each instance by a call of its own, concurrently.
async fn end(batched: &Arc<Batched>, ids: &[String]) -> Vec<Result<(), AwsError>> {
    let each = ids.iter().map(|id| {
        let (batched, id) = (batched.clone(), id.clone());
        async move { batched.terminate(&[id]).await }
    });
    futures::future::join_all(each).await
}

/// EC2 refuses a whole call for one instance that is protected or not covered by the policy. All others are terminated at once, and the
/// refused one does not delay later batches.
#[rstest]
#[case::protected(FakeAws::protect, ErrorClass::Refused)]
#[case::out_of_the_policys_reach(FakeAws::forbid_end, ErrorClass::Unauthorized)]
#[tokio::test(start_paused = true)]
async fn one_refused_instance_fails_alone(#[case] spoil: fn(&FakeAws, &str), #[case] expected: ErrorClass) {
    let (cloud, batched, ids) = region(84);
    let one = &ids[41];
    spoil(&cloud, one);
    let ended = end(&batched, &ids[..64]).await;
    let refused: Vec<usize> = (0..ended.len()).filter(|at| ended[*at].is_err()).collect();
    assert_eq!(refused, [41]);
    assert_eq!(ended[41].as_ref().unwrap_err().class(), expected);
    let before = cloud.count("TerminateInstances");
    assert!(before <= 1 + 2 * 6, "halving asks few times: {before}");
    let again: Vec<String> = ids[64..].iter().chain([one]).cloned().collect();
    let ended = end(&batched, &again).await;
    assert_eq!(ended.iter().filter(|answer| answer.is_err()).count(), 1);
    assert_eq!(cloud.count("TerminateInstances") - before, 2, "a refused instance gets calls of its own");
    cloud.free(one);
    assert!(end(&batched, std::slice::from_ref(one)).await.iter().all(Result::is_ok));
    assert!(batched.refused.is_empty(), "terminated instances are forgotten");
    assert_eq!(cloud.running().len(), 0);
}

/// A policy without the action, or expired credentials, refuse every instance: few calls are made.
#[rstest]
#[case::without_the_right("UnauthorizedOperation", 40)]
#[case::without_credentials("ExpiredToken", 1)]
#[tokio::test(start_paused = true)]
async fn few_calls_are_made_if_all_terminations_are_refused(#[case] code: &str, #[case] most: u64) {
    let (cloud, batched, ids) = region(500);
    for _ in 0..1000 {
        cloud.inject(Call::Terminate, Fault::Refuse(AwsError::new(code, "no")));
    }
    let ended = end(&batched, &ids).await;
    let unauthorized = |answer: &Result<(), AwsError>| {
        answer.as_ref().is_err_and(|error| error.class() == ErrorClass::Unauthorized)
    };
    assert!(ended.iter().all(unauthorized));
    let calls = cloud.count("TerminateInstances");
    assert!(calls <= most, "{calls}");
}

/// Many refused instances before the others: each round isolates some, and the others are terminated in the end.
#[tokio::test(start_paused = true)]
async fn many_refused_instances_delay_no_other_forever() {
    let (cloud, batched, mut ids) = region(60);
    ids.sort();
    ids[..40].iter().for_each(|id| cloud.forbid_end(id));
    for round in 1..=6 {
        let before = cloud.count("TerminateInstances");
        let ended = end(&batched, &ids).await;
        let calls = cloud.count("TerminateInstances") - before;
        assert!(calls <= 60, "round {round}: {calls}");
        if ended[40..].iter().all(Result::is_ok) {
            assert!(ended[..40].iter().all(Result::is_err));
            return;
        }
    }
    panic!("the last twenty were not terminated");
}

#[rstest]
#[case(2, true)]
#[case(64, false)]
#[tokio::test(start_paused = true)]
async fn throttled_calls_are_retried_in_parts(#[case] refusals: usize, #[case] good: bool) {
    let (cloud, batched, ids) = region(16);
    for _ in 0..refusals {
        let refusal = AwsError::new("RequestLimitExceeded", "slow down");
        cloud.inject(Call::Describe, Fault::Refuse(refusal));
    }
    let answer = batched.instances(&ids, &[]).await;
    assert_eq!(answer.is_ok(), good, "{answer:?}");
    assert!(cloud.count("DescribeInstances") <= 1 + 2 + 4 + 8);
}

/// A caller gets only the instance that it requested.
#[tokio::test(start_paused = true)]
async fn callers_get_only_their_instance() {
    let (cloud, batched, ids) = region(2);
    let intruder = InstanceInfo { id: "i-0".to_owned(), ..InstanceInfo::default() };
    cloud.intrude(vec![intruder]);
    let found = batched.instances(&ids[..1], &[]).await.unwrap();
    assert_eq!(found.iter().map(|info| &info.id).collect::<Vec<_>>(), [&ids[0]]);
}

/// Every call is counted by its result, and each batch by its size; a figure is returned once.
#[tokio::test(start_paused = true)]
async fn calls_are_counted() {
    let (cloud, batched, ids) = region(16);
    cloud.inject(Call::Describe, Fault::Refuse(AwsError::new("RequestLimitExceeded", "slow down")));
    batched.instances(&ids, &[]).await.unwrap();
    assert!(batched.profile("none").await.is_err());
    let figures: Vec<(&str, String, f64)> = batched
        .figures()
        .into_iter()
        .filter(|figure| figure.family.name != BATCH_TIME.name)
        .map(|figure| (figure.family.name, figure.labels.join(" "), figure.value.unwrap()))
        .collect();
    let calls = "fleetwright_aws_calls_total";
    let expected = [
        (calls, "DescribeInstances ok", 2.0),
        (calls, "DescribeInstances throttled", 1.0),
        (calls, "GetInstanceProfile not_found", 1.0),
        (BATCH_SIZE.name, "describe_instances", 16.0),
    ];
    assert_eq!(figures, expected.map(|(name, labels, value)| (name, labels.to_owned(), value)));
    assert!(batched.figures().is_empty());
}

/// The caller that was to make the call is dropped: the others make their own calls.
#[tokio::test(start_paused = true)]
async fn a_dropped_leader_delays_no_caller() {
    let (_, batched, ids) = region(2);
    let mut leader = Box::pin(batched.instances(&ids[..1], &[]));
    assert!(futures::poll!(&mut leader).is_pending());
    let (other, id) = (batched.clone(), ids[1].clone());
    let mut follower = Box::pin(async move { other.instances(&[id], &[]).await });
    assert!(futures::poll!(&mut follower).is_pending());
    drop(leader);
    assert_eq!(follower.await.unwrap().len(), 1);
}

#[test]
fn waits_differ_by_key() {
    let wait = Duration::from_secs(10);
    let all: BTreeSet<Duration> = (0..100).map(|n| spread(wait, &format!("claim-{n}"))).collect();
    assert!(all.len() > 90);
    assert!(all.iter().all(|one| *one >= wait && *one <= wait * 3 / 2));
    assert_eq!(spread(wait, "a"), spread(wait, "a"));
}

fn fleet(token: usize) -> FleetRequest {
    FleetRequest {
        token: token.to_string(),
        count: 1,
        kind: crate::calls::FleetKind::OnDemand,
        strategy: crate::calls::Strategy::LowestPrice,
        overrides: Vec::new(),
        tags: TagSet::new(),
        context: None,
    }
}

fn held(answer: Result<(), AwsError>) -> Option<Duration> {
    answer.err().filter(|error| error.class() == ErrorClass::Throttled).map(|error| error.wait())
}

/// 50 fleets at once and 5 per second; a caller that would wait longer than 10 s is rate-limited, and EC2 is not called.
#[tokio::test(start_paused = true)]
async fn fleets_pass_a_token_bucket() {
    let (cloud, batched, _) = region(0);
    let start = tokio::time::Instant::now();
    let all = futures::future::join_all((0..200).map(|token| {
        let batched = batched.clone();
        async move { held(batched.create_fleet(&fleet(token)).await.map(drop)) }
    }));
    let waits: Vec<Duration> = all.await.into_iter().flatten().collect();
    assert_eq!((cloud.count("CreateFleet"), waits.len()), (100, 100));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert!(waits.iter().all(|wait| *wait > Duration::from_secs(10)), "{waits:?}");
}

/// A tag is written at once or rejected: a launch does not wait for it.
#[tokio::test(start_paused = true)]
async fn tags_pass_a_token_bucket() {
    let (cloud, batched, ids) = region(1);
    let start = tokio::time::Instant::now();
    let mut refused = 0;
    for _ in 0..150 {
        refused += usize::from(held(batched.create_tags(&ids[0], &TagSet::new()).await).is_some());
    }
    assert_eq!((cloud.count("CreateTags"), refused, start.elapsed()), (100, 50, Duration::ZERO));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(held(batched.create_tags(&ids[0], &TagSet::new()).await), None);
}

/// 1,000 terminations at once and 20 per second; instances without a token wait, in few calls.
#[tokio::test(start_paused = true)]
async fn terminations_pass_a_token_bucket_in_parts() {
    let (cloud, batched, ids) = region(1600);
    let end = async |some: &[String]| end(&batched, some).await;
    let start = tokio::time::Instant::now();
    assert!(end(&ids[..1000]).await.iter().all(Result::is_ok));
    assert!(end(&ids[1000..1100]).await.iter().all(Result::is_ok));
    assert_eq!(cloud.count("TerminateInstances"), 3);
    assert!((4..6).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert!(end(&ids[1100..]).await.iter().all(Result::is_ok));
    assert!((29..32).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert!(cloud.count("TerminateInstances") < 3 + 8, "{}", cloud.count("TerminateInstances"));
}

/// If others hold the tokens of the next 10 s, EC2 is not called, and the callers retry at different times.
#[tokio::test(start_paused = true)]
async fn terminations_without_a_token_are_retried_at_different_times() {
    let (cloud, batched, ids) = region(50);
    let others = async {
        tokio::time::sleep(Duration::from_millis(190)).await;
        batched.pace.pass(Paced::Terminate(1200)).await
    };
    let (others, ended) = futures::join!(others, end(&batched, &ids));
    assert_eq!((others, cloud.count("TerminateInstances")), (Ok(()), 0));
    let waits: BTreeSet<Duration> = ended.into_iter().filter_map(held).collect();
    assert!(waits.len() > 40, "{waits:?}");
}
