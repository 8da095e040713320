//! Kinds that the API server refuses: the controllers run without an optional one, and report the rule for a required one.

use fleetwright_core::model::TopologySpread;
use fleetwright_state::WatchedKind;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    events::{Event, regarding},
    nodepool::FeatureStatus,
    runtime::{Passive, may_act},
    settings::Settings,
    testing::{Harness, Refusals},
};

/// Enables all optional kinds.
fn everything(settings: &mut Settings) {
    settings.gates.node_overlay = true;
    settings.gates.capacity_buffer = true;
    settings.ignore_dra_requests = false;
    settings.default_spread = vec![TopologySpread {
        max_skew: 1,
        key: "topology.kubernetes.io/zone".into(),
        hard: false,
        selector: None,
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    }];
}

fn harness() -> (Harness, Arc<Refusals>) {
    let refusals = Arc::new(Refusals::default());
    let harness = Harness::faulty(refusals.clone(), everything);
    harness.pool("default", json!({}));
    (harness, refusals)
}

fn acts(harness: &Harness) -> Result<(), Passive> {
    may_act(&harness.ctx.cluster.index(), harness.ctx.clocks.steady())
}

/// Status, reason and message of the condition.
fn condition(harness: &Harness) -> Option<String> {
    let pool = harness.server.get("karpenter.sh/v1", "NodePool", "", "default").unwrap();
    let conditions = pool["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "FeaturesAvailable")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some(format!("{} {}: {}", text("status"), text("reason"), text("message")))
}

/// Lets time pass and checks that controllers are never passive.
async fn pass_acting(harness: &Harness, seconds: u64) {
    for second in 0..seconds {
        harness.pass(1).await;
        assert_eq!(acts(harness), Ok(()), "after {second} s");
    }
}

#[rstest]
#[case("capacitybuffers", "autoscaling.x-k8s.io", "capacity-buffers")]
#[case("nodeoverlays", "karpenter.sh", "node-overlays")]
#[case("deviceclasses", "resource.k8s.io", "dynamic-resources")]
#[case("resourceslices", "resource.k8s.io", "dynamic-resources")]
#[case("resourceclaimtemplates", "resource.k8s.io", "dynamic-resources")]
#[case("resourceclaims", "resource.k8s.io", "dynamic-resources")]
#[case("services", "", "default-topology-spread")]
#[case("replicationcontrollers", "", "default-topology-spread")]
#[case("replicasets", "apps", "default-topology-spread")]
#[case("statefulsets", "apps", "default-topology-spread")]
#[case("csinodes", "storage.k8s.io", "volume-limits")]
#[case("volumeattachments", "storage.k8s.io", "volume-detachment")]
#[case("storageclasses", "storage.k8s.io", "volume-provisioning")]
#[tokio::test(start_paused = true)]
async fn without_an_optional_kind_only_its_feature_is_off(
    #[case] plural: &str,
    #[case] group: &str,
    #[case] feature: &str,
    #[values((403, "Forbidden"), (404, "NotServed"))] refused: (u16, &str),
) {
    let (code, reason) = refused;
    let (harness, refusals) = harness();
    refusals.set(&[plural], code);
    let _running = harness.run(vec![Arc::new(FeatureStatus::new(&harness.ctx))]);
    harness.pass(5).await;
    assert_eq!(acts(&harness), Ok(()));
    let resource = qualified(group, plural);
    let metric = || harness.ctx.metrics.value(&FEATURE_OFF, &[feature, &resource, reason]);
    let off = format!("False {reason}: {feature} is off (");
    let check_off = |when: &str| {
        assert_eq!(metric(), 1.0, "{when}");
        let condition = condition(&harness).unwrap_or_default();
        assert!(
            condition.starts_with(&off) && condition.contains(&format!("): {resource} is ")),
            "{when}: {condition}"
        );
        if code == 403 {
            let rule = format!(
                "apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [\"get\", \"list\", \"watch\"]"
            );
            assert!(condition.contains(&rule), "{when}: {condition}");
        }
    };
    // Claims of devices are decided with all four kinds or not at all.
    let are_claims_refused =
        || harness.ctx.cluster.index().snapshot(harness.ctx.clocks.now()).devices.refused.is_some();
    check_off("from the start");
    assert_eq!(are_claims_refused(), group == "resource.k8s.io");
    // The permission is granted: on again without a restart.
    refusals.set(&[], 0);
    pass_acting(&harness, 40).await;
    assert_eq!(metric(), 0.0);
    assert!(!are_claims_refused());
    assert_eq!(condition(&harness).as_deref(), Some("True FeaturesAvailable: "));
    // A short refusal (while a role is replaced) switches nothing off; a lasting one does.
    refusals.set(&[plural], code);
    pass_acting(&harness, 59).await;
    assert_eq!(metric(), 0.0);
    pass_acting(&harness, 200).await;
    check_off("in operation");
    refusals.set(&[], 0);
    pass_acting(&harness, 40).await;
    assert_eq!(metric(), 0.0);
}

#[rstest]
#[case("namespaces", "")]
#[case("persistentvolumes", "")]
#[case("persistentvolumeclaims", "")]
#[case("poddisruptionbudgets", "policy")]
#[case("daemonsets", "apps")]
#[case("nodepools", "karpenter.sh")]
#[case("nodeclaims", "karpenter.sh")]
#[case("kwoknodeclasses", "karpenter.kwok.sh")]
#[case("nodes", "")]
#[case("pods", "")]
#[tokio::test(start_paused = true)]
async fn without_a_required_kind_the_reason_names_the_rbac_rule(#[case] plural: &str, #[case] group: &str) {
    let (harness, refusals) = harness();
    refusals.set(&[plural], 403);
    let _running = harness.run(Vec::new());
    harness.pass(5).await;
    let why = acts(&harness).unwrap_err().to_string();
    let rule = format!(
        "objects are required: {} is forbidden (403): add the rule apiGroups: [\"{group}\"], resources: [\"{plural}\"], \
         verbs: [\"get\", \"list\", \"watch\"] to the controller's ClusterRole",
        qualified(group, plural)
    );
    assert!(why.ends_with(&rule), "{why}");
    refusals.set(&[plural], 404);
    harness.pass(60).await;
    let why = acts(&harness).unwrap_err().to_string();
    assert!(why.contains("is not served (404): install its CustomResourceDefinition"), "{why}");
    assert_eq!(harness.ctx.features.condition(), None);
    refusals.set(&[], 0);
    harness.pass(40).await;
    assert_eq!(acts(&harness), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_refused_kind_are_dropped_and_restored() {
    let (harness, refusals) = harness();
    harness
        .server
        .apply(json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": "a"}, "spec": {"requirements": [], "price": "3"}}))
        .unwrap();
    let _running = harness.run(Vec::new());
    let known = || harness.ctx.cluster.index().overlay("a").is_some();
    harness.pass(5).await;
    assert!(known());
    refusals.set(&["nodeoverlays"], 403);
    harness.pass(50).await;
    assert!(known(), "a short refusal");
    harness.pass(200).await;
    assert!(!known());
    assert!(harness.ctx.cluster.index().is_off(WatchedKind::NodeOverlay));
    refusals.set(&[], 0);
    harness.pass(40).await;
    assert!(known(), "the same version of the object");
}

#[tokio::test(start_paused = true)]
async fn without_events_only_events_are_off() {
    let (harness, refusals) = harness();
    refusals.set(&["events"], 403);
    let _running = harness.run(vec![Arc::new(FeatureStatus::new(&harness.ctx))]);
    harness.pass(5).await;
    let publish = |message: &str| {
        let index = harness.ctx.cluster.index();
        let pool = index.pool("default").unwrap();
        harness.ctx.recorder.publish(Event::normal(regarding(&**pool), "Test", message));
    };
    let metric = || harness.ctx.metrics.value(&FEATURE_OFF, &["events", "events", "Forbidden"]);
    publish("one");
    harness.pass(5).await;
    assert_eq!((acts(&harness), metric()), (Ok(()), 1.0));
    let rule = "apiGroups: [\"\"], resources: [\"events\"], verbs: [\"create\", \"patch\"]";
    assert!(condition(&harness).unwrap().contains(rule));
    refusals.set(&[], 0);
    publish("two");
    harness.pass(5).await;
    assert_eq!(metric(), 0.0);
    let events = harness.events();
    assert!(events.contains(&"NodePool/default Test: two".to_owned()), "{events:?}");
}
