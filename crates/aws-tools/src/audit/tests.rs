//! Every owner is reported, in the table and in JSON, for an in-memory region.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fleetwright_aws::testing::{CLUSTER, Call, FakeAws, REGION, class};
use fleetwright_aws::{node_classes, set_class};
use fleetwright_core::clock::Clock;
use fleetwright_core::cloud::CloudProvider as _;
use jiff::Timestamp;

use super::*;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn tags(uid: Option<&str>) -> TagSet {
    let mut tags = TagSet::from([(labels::TAG_CLUSTER_NAME.to_owned(), CLUSTER.to_owned())]);
    tags.extend(uid.map(|uid| (labels::TAG_CLUSTER_UID.to_owned(), uid.to_owned())));
    tags
}

fn instance(id: &str, uid: Option<&str>) -> InstanceInfo {
    InstanceInfo { id: id.to_owned(), zone: "a".to_owned(), tags: tags(uid), ..InstanceInfo::default() }
}

#[test]
fn each_owner_is_reported_and_counted() {
    let mut audit = Audit::default();
    let all = [
        instance("i-1", Some("us")),
        instance("i-2", Some("them")),
        instance("i-3", None),
        instance("i-4", None),
    ];
    let claimed = BTreeSet::from(["aws:///a/i-4".into()]);
    audit.add_instances(&all, &Settings::new(CLUSTER, REGION), "us", &claimed);
    let report = AuditReport::from(audit);
    let owners: Vec<&str> = report.items.iter().map(|item| item.owner).collect();
    assert_eq!(owners, ["ours", "foreign", "unowned", "named"]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["items"][1]["clusterUid"], "them");
    assert_eq!(json["counts"]["instance"]["unowned"], 1);
    let text = report.to_string();
    let summary = "1 ours, 1 named by a NodeClaim or EC2NodeClass, 1 unowned, 1 of other clusters";
    assert!(text.contains(summary), "{text}");
    assert!(text.contains("i-2") && text.contains("them"), "{text}");
    assert!(
        text.contains("another cluster has the same name") && text.contains("the unowned instances"),
        "{text}"
    );
    let mut ours = Audit::default();
    ours.add_instances(&all[..1], &Settings::new(CLUSTER, REGION), "us", &BTreeSet::new());
    let text = AuditReport::from(ours).to_string();
    assert!(!text.contains("warning"), "{text}");
}

#[tokio::test]
async fn the_account_is_read_even_if_iam_denies_profiles() {
    let cloud = Arc::new(FakeAws::new(Arc::new(FixedClock)));
    let classes = node_classes();
    set_class(&classes, class("default", true));
    let settings = Settings::new(CLUSTER, REGION);
    let provider = AwsProvider::new(cloud.clone(), classes, settings, Arc::new(FixedClock)).await.unwrap();
    provider.identify("us").await.unwrap();
    let (zone, id) = cloud.adopt(tags(None));
    for uid in [Some("us"), Some("us"), Some("them"), None] {
        cloud.adopt(tags(uid));
    }
    let claimed = BTreeSet::from([provider_id(&zone, &id)]);
    let found = audit(&provider, &claimed).await.unwrap();
    let expected = [("foreign", 1), ("named", 1), ("ours", 2), ("unowned", 1)];
    assert_eq!(found.counts(), expected.map(|(owner, count)| (("instance", owner), count)).into());
    cloud.deny(Call::Profiles);
    assert_eq!(audit(&provider, &claimed).await.unwrap().unread.len(), 1);
}

#[test]
fn instances_are_claimed_by_provider_id_or_name() {
    let claims = [
        serde_json::json!({"metadata": {"name": "a"}, "status": {"providerID": "aws:///a/i-1"}}),
        serde_json::json!({"metadata": {"name": "b"}}),
    ];
    let mut launching = instance("i-2", None);
    launching.tags.insert(labels::TAG_NODECLAIM.to_owned(), "b".to_owned());
    let all = [instance("i-1", None), launching, instance("i-3", Some("them"))];
    assert_eq!(unclaimed(&all, &claims.iter().collect::<Vec<_>>()), ["i-3"]);
}
