//! Lifecycle, capacity, random draws and faults of instances.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use fleetwright_core::clock::Clock;
use jiff::SignedDuration;

use super::*;
use crate::{
    Latency,
    api::{Bootstrap, LaunchItem, LaunchOutcome, WireTaint},
    catalogue::{OfferingKey, kwok},
};

/// A clock that tests set.
struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

struct TestCloud {
    clock: Arc<ManualClock>,
    cloud: Cloud,
}

impl TestCloud {
    fn new(config: CloudConfig) -> Self {
        let clock = Arc::new(ManualClock(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap())));
        Self { cloud: Cloud::new(kwok(), config, clock.clone()), clock }
    }
    fn pass(&self, seconds: i64) {
        let mut now = self.clock.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
    async fn launch(&self, claim: &str, kind: &str) -> LaunchOutcome {
        self.cloud.launch(&call(claim, kind)).await.unwrap().outcomes.pop().unwrap()
    }
    async fn launched(&self, claim: &str, kind: &str) -> CloudInstance {
        let LaunchOutcome::Launched(instance) = self.launch(claim, kind).await else {
            panic!("nothing launched")
        };
        *instance
    }
    fn state(&self, id: &str) -> Option<Lifecycle> {
        self.cloud.instances().iter().find(|instance| instance.id == id).map(|instance| instance.state)
    }
}

fn call(claim: &str, kind: &str) -> Launch {
    let choice = OfferingKey {
        instance_type: "s-4x-arm64-linux".into(),
        zone: "test-zone-b".into(),
        capacity_type: kind.into(),
    };
    let item = LaunchItem {
        claim: claim.to_owned(),
        position: 0,
        node_pool: Some("default".to_owned()),
        offerings: vec![choice],
        requirements: Vec::new(),
        bootstrap: Bootstrap::default(),
        registration_delay_ms: 0,
    };
    Launch {
        cluster_uid: "us".to_owned(),
        batch: format!("b-{claim}"),
        attempt: 1,
        items: vec![item],
        size: 1,
    }
}

fn slow() -> CloudConfig {
    CloudConfig {
        launch_latency: Latency::between(5_000, 5_000),
        boot_latency: Latency::between(20_000, 20_000),
        terminate_latency: Latency::between(30_000, 30_000),
        ..CloudConfig::instant(3)
    }
}

#[tokio::test]
async fn the_lifecycle_follows_the_clock() {
    let test = TestCloud::new(slow());
    let instance = test.launched("a", "on-demand").await;
    assert_eq!((instance.state, instance.tags.claim.as_deref()), (Lifecycle::Pending, Some("a")));
    assert_eq!(
        instance.joins_at.unwrap().duration_since(instance.launched_at),
        SignedDuration::from_secs(25)
    );
    assert!(instance.id.starts_with("kwok://kwok-a-"), "{}", instance.id);
    assert_eq!(instance.bootstrap.labels["kubernetes.io/hostname"], "a");
    assert_eq!(instance.bootstrap.labels["eks-node-viewer/instance-price"], "0.117180");
    assert_eq!(instance.labels["topology.kubernetes.io/zone"], "test-zone-b");
    test.pass(4);
    assert_eq!(test.state(&instance.id), Some(Lifecycle::Pending));
    test.pass(1);
    assert_eq!(test.state(&instance.id), Some(Lifecycle::Running));
    let end = Terminate { cluster_uid: "us".to_owned(), id: instance.id.clone(), has_node_claim: true };
    assert_eq!(test.cloud.terminate(&end).await, Ok(Lifecycle::Terminating));
    test.pass(29);
    assert_eq!(test.cloud.terminate(&end).await, Ok(Lifecycle::Terminating));
    test.pass(1);
    assert_eq!(test.cloud.terminate(&end).await, Ok(Lifecycle::Terminated));
    test.pass(3600);
    assert_eq!((test.state(&instance.id), test.cloud.next_due()), (None, None));
}

#[tokio::test]
async fn a_new_instance_is_invisible_for_a_moment() {
    let test =
        TestCloud::new(CloudConfig { consistency: Latency::between(3000, 3000), ..CloudConfig::instant(1) });
    let instance = test.launched("a", "spot").await;
    assert!(
        test.cloud.get(&instance.id).await.is_err()
            && test.cloud.list("us", None).await.unwrap().instances.is_empty()
    );
    test.pass(3);
    assert_eq!(test.cloud.list("us", None).await.unwrap().instances.len(), 1);
    assert!(test.cloud.list("them", None).await.unwrap().instances.is_empty());
}

#[tokio::test]
async fn pools_are_exhausted_and_refilled() {
    let test = TestCloud::new(CloudConfig { spot_pool: Some((2, 2)), ..CloudConfig::instant(1) });
    let first = test.launched("a", "spot").await;
    test.launched("b", "spot").await;
    let reply = test.cloud.launch(&call("c", "spot")).await.unwrap();
    assert!(matches!(reply.outcomes[0], LaunchOutcome::InsufficientCapacity(_)));
    assert_eq!(reply.unavailable, call("c", "spot").items[0].offerings);
    assert!(matches!(test.launch("d", "on-demand").await, LaunchOutcome::Launched(_)));
    assert!(test.cloud.lose(&first.id));
    test.launched("c", "spot").await;
}

#[tokio::test]
async fn spot_instances_are_interrupted_after_a_notice() {
    let config = CloudConfig { interruptions_per_1000_hours: 1000, ..CloudConfig::instant(1) };
    let test = TestCloud::new(config);
    let (spot, own) = (test.launched("a", "spot").await, test.launched("b", "on-demand").await);
    test.pass(3600);
    let seen = test.cloud.instances().into_iter().find(|instance| instance.id == spot.id).unwrap();
    assert!(seen.interrupted_at.is_some(), "{seen:?}");
    test.pass(120);
    assert_eq!(test.state(&spot.id), Some(Lifecycle::Terminated));
    assert_eq!(test.state(&own.id), Some(Lifecycle::Running));
}

#[tokio::test]
async fn instances_do_not_depend_on_the_order_of_calls() {
    let (one, other) = (TestCloud::new(CloudConfig::default()), TestCloud::new(CloudConfig::default()));
    let first = [one.launched("a", "spot").await, one.launched("b", "spot").await];
    let b = other.launched("b", "spot").await;
    let second = [other.launched("a", "spot").await, b];
    assert_eq!(first, second);
    let elsewhere = TestCloud::new(CloudConfig { seed: 2, ..CloudConfig::default() });
    assert_ne!(elsewhere.launched("a", "spot").await.joins_at, first[0].joins_at);
}

#[tokio::test]
async fn scripted_faults_occur_as_often_as_configured() {
    let test = TestCloud::new(CloudConfig::instant(1));
    let script = serde_json::json!([
        {"kind": "failCall", "op": "launch", "skip": 1, "times": 1, "error": {"code": "throttled", "afterMs": 9}},
        {"kind": "smallerMemory", "times": 1, "percent": 50},
        {"kind": "neverJoins", "skip": 1},
        {"kind": "lateTaint", "times": 1, "afterMs": 10, "taint": {"key": "late", "effect": "NoSchedule"}},
        {"kind": "insufficientCapacity", "capacityType": "spot", "forSeconds": 60},
    ]);
    for fault in serde_json::from_value::<Vec<Fault>>(script).unwrap() {
        test.cloud.inject(fault);
    }
    let first = test.launched("a", "on-demand").await;
    assert_eq!(first.defects.memory_percent, Some(50));
    let taint = WireTaint { key: "late".to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
    assert_eq!(first.defects.late_taint, Some((taint, 10)));
    assert!(first.joins_at.is_some());
    let refused = test.cloud.launch(&call("b", "on-demand")).await;
    assert_eq!(refused, Err(ApiError::Throttled { after_ms: 9 }));
    let second = test.launched("b", "on-demand").await;
    assert_eq!((second.joins_at, second.defects.memory_percent), (None, None));
    assert!(matches!(test.launch("c", "spot").await, LaunchOutcome::InsufficientCapacity(_)));
    test.pass(60);
    assert!(matches!(test.launch("c", "spot").await, LaunchOutcome::Launched(_)));
}

#[tokio::test]
async fn faults_of_nodes_affect_adopted_instances_that_are_still_to_join() {
    let test = TestCloud::new(CloudConfig::instant(1));
    test.cloud.inject(Fault::NeverJoins { occasion: Occasion::next(1) });
    test.cloud.inject(Fault::SmallerMemory { occasion: Occasion::next(1), percent: 70 });
    let adopt = |id: &str, joined| {
        assert!(test.cloud.adopt(Adopted { provider_id: id.to_owned(), joined, ..Adopted::default() }));
        let found = test.cloud.instances().into_iter().find(|instance| instance.id == id).unwrap();
        (found.joins_at.is_some(), found.defects.memory_percent)
    };
    assert_eq!(adopt("kwok://joined", true), (true, None));
    assert_eq!(adopt("kwok://first", false), (false, Some(70)));
    assert_eq!(adopt("kwok://second", false), (true, None));
}

#[tokio::test]
async fn too_many_calls_are_throttled() {
    let rate = Some(Rate { burst: 1, per_second: 1 });
    let test = TestCloud::new(CloudConfig { mutating_rate_limit: rate, ..CloudConfig::instant(1) });
    test.launched("a", "spot").await;
    assert_eq!(test.cloud.launch(&call("b", "spot")).await, Err(ApiError::Throttled { after_ms: 1000 }));
    assert!(test.cloud.list("us", None).await.is_ok());
    test.pass(1);
    test.launched("b", "spot").await;
}

#[tokio::test]
async fn adopted_instances_keep_their_token_and_owner() {
    let test = TestCloud::new(CloudConfig::instant(1));
    let labels = [
        ("node.kubernetes.io/instance-type", "s-4x-arm64-linux"),
        ("topology.kubernetes.io/zone", "test-zone-b"),
        ("karpenter.sh/capacity-type", "spot"),
    ];
    let adopted = Adopted {
        provider_id: "kwok://node-1".to_owned(),
        tags: crate::api::Tags {
            cluster_uid: Some("us".to_owned()),
            claim: Some("a".to_owned()),
            batch: Some("b-a".to_owned()),
            attempt: 1,
            ..Default::default()
        },
        labels: labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        ..Adopted::default()
    };
    assert!(test.cloud.adopt(adopted.clone()) && !test.cloud.adopt(adopted.clone()));
    // An instance of another cluster with the same names is not returned.
    let theirs = Adopted {
        provider_id: "kwok://elsewhere".to_owned(),
        tags: crate::api::Tags { cluster_uid: Some("them".to_owned()), ..adopted.tags.clone() },
        ..adopted
    };
    assert!(test.cloud.adopt(theirs));
    let again = test.launched("a", "spot").await;
    assert_eq!((again.id.as_str(), again.node_name.as_str()), ("kwok://node-1", "node-1"));
    assert!(again.price_nanos > 0);
    let theirs = Terminate { cluster_uid: "them".to_owned(), id: again.id.clone(), has_node_claim: true };
    assert!(matches!(test.cloud.terminate(&theirs).await, Err(ApiError::NotOwned { .. })));
}

#[tokio::test]
async fn an_instance_without_owner_is_terminated_only_for_its_claim() {
    let test = TestCloud::new(CloudConfig::instant(1));
    test.cloud.adopt(Adopted { provider_id: "kwok://stray".to_owned(), ..Adopted::default() });
    let end = |has_node_claim| Terminate {
        cluster_uid: "us".to_owned(),
        id: "kwok://stray".to_owned(),
        has_node_claim,
    };
    assert!(matches!(test.cloud.terminate(&end(false)).await, Err(ApiError::NotOwned { .. })));
    assert!(test.cloud.terminate(&end(true)).await.is_ok());
}

#[tokio::test]
async fn invalid_calls_are_rejected_with_field_and_fix() {
    let test = TestCloud::new(CloudConfig { max_instances: 1, ..CloudConfig::instant(1) });
    let without_owner = Launch { cluster_uid: String::new(), ..call("a", "spot") };
    assert!(
        matches!(test.cloud.launch(&without_owner).await, Err(ApiError::Invalid { field, .. }) if field == "clusterUid")
    );
    assert!(matches!(test.cloud.list("", None).await, Err(ApiError::Invalid { .. })));
    assert!(
        matches!(test.launch("a", "cheap").await, LaunchOutcome::Rejected(reason, _) if reason == "InvalidOffering")
    );
    test.launched("a", "spot").await;
    let full = test.launch("b", "spot").await;
    assert!(matches!(full, LaunchOutcome::Rejected(reason, _) if reason == "InstanceLimitExceeded"));
}

#[tokio::test]
async fn changes_are_reported_once() {
    let test = TestCloud::new(slow());
    let (none, start) = test.cloud.changes_since(0);
    assert!(none.is_empty());
    let mut changes = test.cloud.subscribe();
    let instance = test.launched("a", "spot").await;
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    let (one, next) = test.cloud.changes_since(start);
    assert_eq!((one.len(), one[0].state), (1, Lifecycle::Pending));
    test.pass(5);
    let (one, last) = test.cloud.changes_since(next);
    assert_eq!((one.len(), one[0].state), (1, Lifecycle::Running));
    test.cloud.mark_joined(&instance.id);
    test.cloud.mark_joined(&instance.id);
    let (one, end) = test.cloud.changes_since(last);
    assert!(one.len() == 1 && one[0].joined && end == last + 1);
    assert!(test.cloud.changes_since(end).0.is_empty());
}
