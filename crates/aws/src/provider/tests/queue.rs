//! The interruption queue: what stays in it, and how few calls it takes to work it off.

use fleetwright_aws_api::labels;
use fleetwright_core::cloud::Round;
use rstest::rstest;

use super::*;
use crate::batch::Batched;
use crate::calls::TagSet;

const SPOT: &str = "EC2 Spot Instance Interruption Warning";

/// Time that stands still, and pauses that are over when everybody else has come.
struct Still(Timestamp);

impl Clock for Still {
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

/// The rules of EventBridge are the account's: only what another cluster of our name waits for stays in the queue.
#[rstest]
#[case::of_nobody(&[], false)]
#[case::of_another_name(&[(labels::TAG_CLUSTER_NAME, "other"), (labels::TAG_CLUSTER_UID, "other-uid")], false)]
#[case::of_another_name_by_karpenter(&[(labels::TAG_CLUSTER_NAME, "other")], false)]
#[case::of_a_uid_without_a_name(&[(labels::TAG_CLUSTER_UID, "other-uid")], false)]
#[case::of_our_name_and_another_uid(&[(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::TAG_CLUSTER_UID, "other-uid")], true)]
#[tokio::test]
async fn what_is_nobodys_does_not_come_again(#[case] tags: &[(&str, &str)], #[case] stays: bool) {
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

/// A storm of announcements: a call to look and none to wait for each ten of them, and nothing is left over.
#[tokio::test]
async fn a_hundred_messages_are_ten_looks_without_a_pause() {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let clock: SharedClock = Arc::new(Still(now));
    let cloud = Arc::new(FakeAws::new(clock.clone()));
    let classes = Classes::default();
    classes.set(class("default", true));
    let api = Arc::new(Batched::new(cloud.clone(), clock.clone()));
    let provider = AwsProvider::new(api, classes, with_queue(), clock).await.unwrap();
    provider.identify(UID).await.unwrap();
    let launched = provider.launch(&batch(50)).await;
    let ours: BTreeSet<ProviderId> = launched.into_iter().map(|answer| answer.unwrap().provider_id).collect();
    for id in &ours {
        let nobodys = cloud.adopt(TagSet::new()).1;
        cloud.push_message(&notice(SPOT, json!({"instance-id": instance_id(id).unwrap()})));
        cloud.push_message(&notice(SPOT, json!({"instance-id": nobodys})));
    }
    let before = cloud.count("DescribeInstances");
    let mut reported = Vec::new();
    for _ in 0..10 {
        let round = round(&provider, now).await;
        assert_eq!(round.again, Duration::ZERO, "more may be waiting");
        reported.extend(round.interruptions.into_iter().map(|told| told.id));
    }
    assert_eq!(cloud.count("DescribeInstances") - before, 10);
    assert_eq!((cloud.messages(), cloud.count("DeleteMessage")), (50, 50));
    assert_eq!(reported, ours.into_iter().collect::<Vec<_>>(), "in the order in which they came");
    assert_eq!(round(&provider, now).await.again, Duration::from_secs(1), "an empty queue");
}
