//! The interruption queue: which messages remain, and the number of calls to process them.

use fleetwright_aws_api::labels;
use fleetwright_core::cloud::Round;
use fleetwright_core::model::Requirement;
use fleetwright_core::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, SPOT as SPOT_CAPACITY, ZONE};
use rstest::rstest;

use std::collections::BTreeMap;

use super::*;
use crate::batch::Batched;
use crate::calls::TagSet;

const SPOT: &str = "EC2 Spot Instance Interruption Warning";

/// A clock that stands still, with sleeps that end once all other tasks have run.
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::task::yield_now())
    }
}

fn with_queue() -> Settings {
    Settings { interruption_queue: Some("queue".to_owned()), ..settings() }
}

async fn round(provider: &dyn CloudProvider, now: Timestamp) -> Round {
    let steps = provider.steps();
    let step = steps.iter().find(|step| step.name() == "interruption").unwrap();
    step.run(&Outlook::at(now)).await.unwrap()
}

/// People select events by reason and alert on messages: both are Karpenter's.
#[rstest]
#[case(InterruptionKind::Spot, "SpotInterrupted", "Spot interruption warning was triggered")]
#[case(InterruptionKind::Stopped, "InstanceStopping", "Instance is stopping")]
#[case(InterruptionKind::Terminated, "InstanceTerminating", "Instance is terminating")]
#[case(
    InterruptionKind::ScheduledChange,
    "InstanceUnhealthy",
    "An unhealthy warning was triggered for the instance"
)]
#[case(
    InterruptionKind::CapacityReservation,
    "CapacityReservationInstanceInterrupted",
    "Capacity Reservation interruption warning was triggered"
)]
fn events_of_messages(#[case] kind: InterruptionKind, #[case] reason: &str, #[case] message: &str) {
    assert_eq!(kind.event(), (reason, message));
}

/// EventBridge rules match the whole account: only messages for another cluster of our name remain.
#[rstest]
#[case::of_nobody(&[], false)]
#[case::of_another_name(&[(labels::TAG_CLUSTER_NAME, "other"), (labels::TAG_CLUSTER_UID, "other-uid")], false)]
#[case::of_another_name_by_karpenter(&[(labels::TAG_CLUSTER_NAME, "other")], false)]
#[case::of_a_uid_without_a_name(&[(labels::TAG_CLUSTER_UID, "other-uid")], false)]
#[case::of_our_name_and_another_uid(&[(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::TAG_CLUSTER_UID, "other-uid")], true)]
#[tokio::test]
async fn messages_without_an_owner_are_deleted(#[case] tags: &[(&str, &str)], #[case] stays: bool) {
    let aws = Aws::new(with_queue()).await;
    let tags: TagSet = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (_, id) = aws.cloud.adopt(tags);
    aws.cloud.push_message(&notice(SPOT, json!({"instance-id": id})));
    for _ in 0..2 {
        let round = round(&*aws.provider(), aws.now()).await;
        assert!(round.interruptions.is_empty() && round.notices.is_empty(), "{round:?}");
        assert_eq!(aws.cloud.messages(), usize::from(stays));
        aws.advance(Duration::from_secs(20)).await;
    }
}

/// The metrics recorded since the last call.
async fn figures(provider: &dyn CloudProvider, now: Timestamp) -> BTreeMap<String, f64> {
    let steps = provider.steps();
    let step = steps.iter().find(|step| step.name() == "cloudprovider.metrics").unwrap();
    let mut sums = BTreeMap::new();
    for figure in step.run(&Outlook::at(now)).await.unwrap().figures {
        let key = format!("{} {}", figure.family.name, figure.labels.join(","));
        *sums.entry(key).or_default() += figure.value.unwrap_or(-1.0);
    }
    sums
}

const RECEIVED: &str = "karpenter_interruption_received_messages_total";
const DELETED: &str = "karpenter_interruption_deleted_messages_total ";
const LATENCY: &str = "karpenter_interruption_message_queue_duration_seconds ";

/// A provider with a stopped clock and `count` instances.
async fn still(count: usize) -> (Arc<FakeAws>, AwsProvider, Timestamp, Vec<ProviderId>) {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let clock: SharedClock = Arc::new(FixedClock(now));
    let cloud = Arc::new(FakeAws::new(clock.clone()));
    let classes = node_classes();
    set_class(&classes, class("default", true));
    let api = Arc::new(Batched::new(cloud.clone(), clock.clone()));
    let provider = AwsProvider::new(api, classes, with_queue(), clock).await.unwrap();
    provider.identify(UID).await.unwrap();
    let launched = provider.launch(&batch(count)).await;
    let ids = launched.into_iter().map(|answer| answer.unwrap().provider_id).collect();
    (cloud, provider, now, ids)
}

/// A hundred messages take one describe call and one waiting receive call, and none remains.
#[tokio::test]
async fn a_hundred_messages_are_one_describe_call() {
    let (cloud, provider, now, mut ours) = still(50).await;
    ours.sort();
    for id in &ours {
        let unowned = cloud.adopt(TagSet::new()).1;
        cloud.push_message(&notice(SPOT, json!({"instance-id": instance_id(id).unwrap()})));
        cloud.push_message(&notice(SPOT, json!({"instance-id": unowned})));
    }
    let before = cloud.count("DescribeInstances");
    let result = round(&provider, now).await;
    assert_eq!(result.again, Duration::ZERO, "more may be waiting");
    let reported: Vec<ProviderId> =
        result.interruptions.into_iter().map(|interruption| interruption.id).collect();
    assert_eq!(reported, ours, "in the order in which they came");
    assert_eq!((cloud.count("DescribeInstances") - before, cloud.count("ReceiveMessage")), (1, 10));
    assert_eq!((cloud.messages(), cloud.count("DeleteMessageBatch")), (50, 5));
    assert_eq!(round(&provider, now).await.again, Duration::from_secs(1), "the queue is empty");
    assert_eq!(cloud.count("ReceiveMessage"), 11, "one call waits on an empty queue");
}

/// Thousands of messages of every kind, some twice: one round per hundred, each message counted once by its kind, and none deleted before
/// its action.
#[tokio::test]
async fn a_burst_takes_one_round_per_hundred_messages() {
    let (cloud, provider, now, ours) = still(200).await;
    let unowned: Vec<String> = (0..1600).map(|_| cloud.adopt(TagSet::new()).1).collect();
    for (at, id) in unowned.iter().enumerate() {
        if let Some(own) = ours.get(at).and_then(|id| instance_id(id)) {
            for _ in 0..2 {
                cloud.push_message(&notice(SPOT, json!({"instance-id": own})));
            }
            cloud.push_message(&notice("EC2 Instance Rebalance Recommendation", json!({"instance-id": own})));
            cloud.push_message("{");
            let state = json!({"instance-id": own, "state": "running"});
            cloud.push_message(&notice("EC2 Instance State-change Notification", state));
        }
        let state = json!({"instance-id": id, "state": "shutting-down"});
        cloud.push_message(&notice("EC2 Instance State-change Notification", state));
    }
    assert_eq!(cloud.messages(), 2600);
    let before = cloud.count("DescribeInstances");
    let (mut rounds, mut reported) = (0, 0);
    while cloud.messages() > 400 {
        let result = round(&provider, now).await;
        assert_eq!(result.again, Duration::ZERO);
        (rounds, reported) = (rounds + 1, reported + result.interruptions.len());
    }
    assert_eq!((rounds, cloud.count("ReceiveMessage")), (26, 260), "2.6 s at ten rounds a second");
    // A round whose messages concern one instance describes it alone.
    assert!(cloud.count("DescribeInstances") - before <= 26);
    assert!(
        (220..=220 + 26).contains(&cloud.count("DeleteMessageBatch")),
        "{}",
        cloud.count("DeleteMessageBatch")
    );
    // The two messages of one instance arrive together or in two rounds; either way each of ours is reported, and remains.
    assert!((200..=400).contains(&reported), "{reported}");
    assert_eq!(cloud.messages(), 400);
    let shown = figures(&provider, now).await;
    let count = |kind: &str| shown[&format!("{RECEIVED} {kind}")];
    assert_eq!((count("spot_interrupted"), count("rebalance_recommendation")), (400.0, 200.0));
    assert_eq!((count("instance_terminated"), count("no_op")), (1600.0, 200.0));
    assert_eq!((shown[DELETED], shown["fleetwright_aws_unreadable_messages_total "]), (2200.0, 200.0));
}

/// A message that a batch could not delete is received again; it is counted once.
#[tokio::test]
async fn an_undeleted_message_is_received_again() {
    let aws = Aws::new(with_queue()).await;
    let sent = format!("\"time\":\"{}\"", aws.now());
    for _ in 0..25 {
        let (_, id) = aws.cloud.adopt(TagSet::new());
        let body = notice(SPOT, json!({"instance-id": id}));
        aws.cloud.push_message(&body.replace("\"time\":\"\"", &sent));
    }
    aws.cloud.keep_messages(3);
    let result = round(&*aws.provider(), aws.now()).await;
    assert!(result.notices.is_empty() && result.interruptions.is_empty(), "{result:?}");
    assert_eq!((aws.cloud.messages(), aws.cloud.count("DeleteMessageBatch")), (3, 3));
    let shown = figures(&*aws.provider(), aws.now()).await;
    assert_eq!((shown[DELETED], shown[&format!("{RECEIVED} spot_interrupted")]), (22.0, 25.0));
    assert!(shown.contains_key(LATENCY));
    round(&*aws.provider(), aws.now()).await;
    assert_eq!(aws.cloud.messages(), 3, "it is invisible at first");
    // A whole batch that is refused leaves all its messages.
    aws.advance(Duration::from_secs(20)).await;
    aws.cloud.inject(Call::DeleteMessages, Fault::Refuse(AwsError::new("InternalError", "why")));
    round(&*aws.provider(), aws.now()).await;
    assert_eq!(aws.cloud.messages(), 3);
    aws.advance(Duration::from_secs(20)).await;
    round(&*aws.provider(), aws.now()).await;
    assert_eq!(aws.cloud.messages(), 0);
    let shown = figures(&*aws.provider(), aws.now()).await;
    assert_eq!((shown[DELETED], shown.get(&format!("{RECEIVED} spot_interrupted"))), (3.0, None));
    assert!(!shown.contains_key(LATENCY), "a repeated message is not observed");
}

/// An action that IAM refuses is reported once, however many calls are refused at once.
#[tokio::test]
async fn a_denied_deletion_is_reported_once() {
    let (cloud, provider, now, _) = still(1).await;
    for _ in 0..100 {
        cloud.push_message("{}");
    }
    cloud.deny(Call::DeleteMessages);
    let result = round(&provider, now).await;
    let [notice] = result.notices.as_slice() else { panic!("{result:?}") };
    assert!(notice.message.contains("sqs:DeleteMessage"), "{notice:?}");
    assert_eq!(cloud.messages(), 100);
    assert!(provider.features_off().contains_key("sqs:DeleteMessage"));
}

/// Reclaimed spot capacity is unavailable for three minutes from the first message, however often the message is received. A message
/// whose instance could not be described, or that an earlier process received, counts from then.
#[rstest]
#[case::at_once(false, false)]
#[case::looked_at_later(true, false)]
#[case::by_another_process(false, true)]
#[tokio::test]
async fn reclaimed_capacity_counts_once(#[case] unseen: bool, #[case] restarts: bool) {
    let aws = Aws::new(with_queue()).await;
    let mut spot = claim("a", "a");
    spot.requirements.add(Requirement::is_in(CAPACITY_TYPE, [SPOT_CAPACITY]));
    let request = LaunchRequest::new(spot);
    let own = aws.provider().launch(&[request]).await.remove(0).unwrap();
    let is_there = async || {
        let catalog = aws.provider().catalog(&pool()).await.unwrap();
        let instance_type = catalog.get(&own.labels[INSTANCE_TYPE]).unwrap();
        let mut offerings = instance_type.offerings.iter();
        let of_own = offerings.find(|offering| {
            [CAPACITY_TYPE, ZONE].iter().all(|key| offering.requirements.allows(key, &own.labels[*key]))
        });
        of_own.unwrap().available
    };
    assert!(is_there().await);
    aws.cloud.push_message(&notice(SPOT, json!({"instance-id": instance_id(&own.provider_id).unwrap()})));
    if unseen {
        aws.cloud.inject(Call::Describe, Fault::Refuse(AwsError::new("InternalError", "why")));
        let steps = aws.provider().steps();
        let step = steps.iter().find(|step| step.name() == "interruption").unwrap();
        assert!(step.run(&Outlook::at(aws.now())).await.is_err());
    } else {
        round(&*aws.provider(), aws.now()).await;
    }
    if restarts {
        aws.restart().await;
    }
    if unseen || restarts {
        assert!(is_there().await);
        aws.advance(Duration::from_secs(20)).await;
        round(&*aws.provider(), aws.now()).await;
    }
    for _ in 0..8 {
        assert!(!is_there().await);
        aws.advance(Duration::from_secs(22)).await;
        assert_eq!(round(&*aws.provider(), aws.now()).await.interruptions.len(), 1);
    }
    aws.advance(Duration::from_secs(5)).await;
    assert!(is_there().await, "after three minutes");
}

/// An instance that was terminated from outside: its NodeClaim is deleted by the message, not minutes later by garbage collection. The
/// message is deleted once the NodeClaim is being deleted. Other messages find the instance gone, too.
#[rstest]
#[case("EC2 Instance State-change Notification", InterruptionKind::Terminated)]
#[case(SPOT, InterruptionKind::Spot)]
#[tokio::test]
async fn claims_of_terminated_instances_are_interrupted(
    #[case] of: &str,
    #[case] expected: InterruptionKind,
    #[values("shutting-down", "terminated")] state: &str,
) {
    let aws = Aws::new(with_queue()).await;
    let own = aws.provider().launch(&batch(1)).await.remove(0).unwrap().provider_id;
    let id = instance_id(&own).unwrap();
    aws.cloud.change_instance(id, |info| info.state = state.to_owned());
    aws.cloud.push_message(&notice(of, json!({"instance-id": id, "state": state})));
    let claim = NodeClaim { provider_id: Some(own.clone()), ..claim("claim-000", "batch") };
    let run = async |claim: NodeClaim| {
        let steps = aws.provider().steps();
        let step = steps.iter().find(|step| step.name() == "interruption").unwrap();
        let outlook = Outlook::at(aws.now()).with_nodes(vec![(Arc::new(claim), None)]);
        step.run(&outlook).await.unwrap().interruptions
    };
    assert_eq!(run(claim.clone()).await, [Interruption::new(own, expected)]);
    assert_eq!(aws.cloud.messages(), 1, "until the NodeClaim is being deleted");
    aws.advance(Duration::from_secs(20)).await;
    assert_eq!(run(NodeClaim { deleting: Some(aws.now()), ..claim }).await, []);
    assert_eq!(aws.cloud.messages(), 0);
}

/// A refused window, or messages that are left to another cluster of our name, delay nothing.
#[tokio::test]
async fn remaining_messages_delay_no_others() {
    let aws = Aws::new(with_queue()).await;
    let theirs = [(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::TAG_CLUSTER_UID, "other-uid")];
    let theirs: TagSet = theirs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let (_, foreign) = aws.cloud.adopt(theirs);
    let own = aws.provider().launch(&batch(1)).await.remove(0).unwrap().provider_id;
    for _ in 0..30 {
        aws.cloud.push_message(&notice(SPOT, json!({"instance-id": foreign})));
    }
    aws.cloud.push_message(&notice(SPOT, json!({"instance-id": instance_id(&own).unwrap()})));
    // The first window arrives, the second is refused.
    aws.cloud.inject(Call::Receive, Fault::Lose);
    aws.cloud.inject(Call::Receive, Fault::Refuse(AwsError::new("InternalError", "why")));
    let result = round(&*aws.provider(), aws.now()).await;
    let expected = Interruption::new(own.clone(), InterruptionKind::Spot);
    assert_eq!(result.interruptions, [expected]);
    assert_eq!(aws.cloud.messages(), 31);
    // Once the instance is terminating its message is deleted, and those of others remain.
    let claim = NodeClaim { provider_id: Some(own.clone()), ..claim("claim-000", "batch") };
    aws.provider().terminate(&claim, &own).await.unwrap();
    aws.advance(Duration::from_secs(20)).await;
    assert!(round(&*aws.provider(), aws.now()).await.interruptions.is_empty());
    assert_eq!(aws.cloud.messages(), 30);
}

/// One message that cannot be deleted is reported, however many others of its batch can.
#[tokio::test]
async fn repeated_deletion_failures_are_reported() {
    let aws = Aws::new(with_queue()).await;
    for _ in 0..20 {
        aws.cloud.push_message("{}");
    }
    let provider = aws.provider.lock().unwrap().clone();
    for wait in [300, 0] {
        aws.cloud.keep_messages(1);
        round(&*provider, aws.now()).await;
        assert_eq!(aws.cloud.messages(), 1);
        aws.advance(Duration::from_secs(wait)).await;
    }
    let result = format!("{:?}", provider.problems.finding(aws.now(), true));
    assert!(result.contains("LookupFailed") && result.contains("sqs:DeleteMessage"), "{result}");
}
