//! Drift hashes of another version than ours: which NodeClaims keep theirs.

use fleetwright_aws_api::labels;
use fleetwright_core::model::{Condition as ClaimCondition, ConditionStatus, nodeclaim::ConditionType};
use rstest::rstest;

use super::cluster::{TestCluster, fresh};
use super::status::STEP;
use super::*;

#[tokio::test]
async fn older_hashes_of_an_unknown_class_hash_never_drift() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    let launched = |name: &str, annotations: &[(&str, &str)]| NodeClaim {
        provider_id: Some(format!("aws:///us-west-2a/i-{name}").into()),
        annotations: annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..claim(name, "b")
    };
    let old = [(labels::HASH, "1"), (labels::HASH_VERSION, "v5")];
    let current = [(labels::HASH, "1"), (labels::HASH_VERSION, "v6")];
    let mut drifted = launched("drifted", &old);
    let found = ClaimCondition {
        status: ConditionStatus::True,
        reason: "AMIDrift".into(),
        message: "".into(),
        since: Timestamp::UNIX_EPOCH,
    };
    drifted.conditions.insert(ConditionType::Drifted, found);
    let unlaunched = NodeClaim { provider_id: None, ..launched("unlaunched", &[]) };
    for claim in [launched("old", &old), launched("current", &current), drifted, unlaunched] {
        cluster.add(claim, None);
    }
    cluster.round(STEP).await;
    let hash = cluster.class("default").spec.drift_hash(CA);
    let stamp = |name: &str| {
        let claim = cluster.claim(name);
        let of = |key: &str| claim.annotations.get(key).map(ToString::to_string).unwrap_or_default();
        (of(labels::HASH), of(labels::HASH_VERSION))
    };
    assert_eq!(stamp("old"), (hash, "v6".to_owned()));
    assert_eq!(stamp("current"), ("1".to_owned(), "v6".to_owned()), "drifted");
    assert_eq!(stamp("drifted"), ("1".to_owned(), "v6".to_owned()));
    assert_eq!(stamp("unlaunched"), (String::new(), String::new()));
}

/// The class keeps its older hash until each NodeClaim was compared with it, however many there are.
#[tokio::test]
async fn drift_that_is_not_marked_yet_survives_another_hash_version() {
    let class = with_v5(fresh("default"));
    let of_class = class.metadata.annotations.clone().unwrap()[labels::HASH].clone();
    let mut cluster = TestCluster::new(settings(), class).await;
    let names: Vec<String> = (0..600).map(|number| format!("n{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let hash = if number % 2 == 0 { "0" } else { &of_class };
        cluster.add(
            NodeClaim {
                provider_id: Some(format!("aws:///us-west-2a/i-{name}").into()),
                annotations: [(labels::HASH.into(), hash.into()), (labels::HASH_VERSION.into(), "v5".into())]
                    .into(),
                ..claim(name, "b")
            },
            None,
        );
    }
    let version = |cluster: &TestCluster| {
        cluster.class("default").metadata.annotations.unwrap_or_default().remove(labels::HASH_VERSION)
    };
    for (migrated, of_class) in [(500, "v5"), (600, "v5"), (600, "v6")] {
        cluster.round(STEP).await;
        let claims = names.iter().map(|name| cluster.claim(name).annotations);
        let current = claims.filter(|all| &*all[labels::HASH_VERSION] == "v6").count();
        assert_eq!((current, version(&cluster).as_deref()), (migrated, Some(of_class)));
    }
    let hash = cluster.class("default").spec.drift_hash(CA);
    for (number, name) in names.iter().enumerate() {
        let expected = if number % 2 == 0 { "0" } else { &*hash };
        assert_eq!(&*cluster.claim(name).annotations[labels::HASH], expected, "{name}");
    }
}

/// An EC2NodeClass with its hash of Karpenter 1.14.
fn with_v5(mut class: Ec2NodeClass) -> Ec2NodeClass {
    let hash = class.drift_hash_of("v5", CA).unwrap();
    let stored = [(labels::HASH, &*hash), (labels::HASH_VERSION, "v5")];
    class.metadata.annotations = Some(stored.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    class
}

/// A class that was edited after Karpenter stopped: its annotation is of the spec before, as are those of its NodeClaims.
#[rstest]
#[case::edited(true)]
#[case::untouched(false)]
#[tokio::test]
async fn a_change_between_two_controllers_is_drift(#[case] edited: bool) {
    let mut class = with_v5(fresh("default"));
    let before = class.metadata.annotations.clone().unwrap()[labels::HASH].clone();
    if edited {
        class.spec.user_data = Some("echo edited".to_owned());
    }
    let mut cluster = TestCluster::new(settings(), class).await;
    let stored = [(labels::HASH, &*before), (labels::HASH_VERSION, "v5")];
    cluster.add(
        NodeClaim {
            provider_id: Some("aws:///us-west-2a/i-a".into()),
            annotations: stored.map(|(key, value)| (key.into(), value.into())).into(),
            ..claim("a", "b")
        },
        None,
    );
    cluster.round(STEP).await;
    let hash = cluster.class("default").spec.drift_hash(CA);
    let expected = if edited { before } else { hash };
    let annotations = cluster.claim("a").annotations;
    assert_eq!((&*annotations[labels::HASH], &*annotations[labels::HASH_VERSION]), (&*expected, "v6"));
}
