//! The status of classes: what a user sees while AWS answers, refuses, or does not answer.

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{HasConditions as _, labels};
use fleetwright_core::cloud::Round;
use fleetwright_core::model::{NodePool, Requirement};
use rstest::rstest;
use serde_json::json;

use super::cluster::{TestCluster, fresh};
use super::*;
use crate::calls::{
    Image, LaunchTemplate, NeuronDevice, PlacementGroup, ProfileInfo, ReservationInfo, TagSet,
};

pub(super) const STEP: &str = "nodeclass";

/// Runs rounds until nothing changes.
pub(super) async fn run_until_stable(cluster: &mut TestCluster) -> Round {
    let mut last = cluster.round(STEP).await;
    for _ in 0..8 {
        cluster.pass(6).await;
        last = cluster.round(STEP).await;
    }
    last
}

pub(super) fn refusal(code: &str) -> Fault {
    Fault::Refuse(AwsError::new(code, "why"))
}

#[tokio::test]
async fn a_new_class_becomes_ready_and_stays_quiet() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    let last = run_until_stable(&mut cluster).await;
    let class = cluster.class("default");
    assert_eq!(cluster.condition("default", "Ready"), "True Ready", "{:#?}", class.status);
    let status = class.status.unwrap();
    assert_eq!((status.subnets.len(), status.security_groups.len(), status.amis.len()), (3, 1, 3));
    assert!(status.instance_profile.starts_with("test-cluster_"));
    assert_eq!(class.metadata.finalizers.unwrap(), [labels::TERMINATION_FINALIZER]);
    let annotations = class.metadata.annotations.unwrap();
    assert_eq!(annotations[labels::HASH_VERSION], "v6");
    assert_eq!(annotations[labels::HASH], class.spec.drift_hash(CA));
    assert!(last.writes.is_empty(), "{last:?}");
    // From here on rounds change nothing at AWS.
    let before = cluster.aws.cloud.mutations();
    for _ in 0..60 {
        cluster.pass(30).await;
        assert!(cluster.round(STEP).await.writes.is_empty());
    }
    assert_eq!(cluster.aws.cloud.mutations(), before);
    // Half an hour: subnets and images by the minute, dry runs once.
    assert!(cluster.aws.cloud.count("DescribeSubnets") <= 32);
    assert!(cluster.aws.cloud.count("RunInstances (dry run)") <= 3);
    assert!(cluster.aws.cloud.count("GetInstanceProfile") <= 5);
}

#[rstest]
#[case(Call::Subnets, condition::SUBNETS_READY)]
#[case(Call::Groups, condition::SECURITY_GROUPS_READY)]
#[case(Call::Images, condition::AMIS_READY)]
#[case(Call::Parameter, condition::AMIS_READY)]
#[case(Call::Profile, condition::INSTANCE_PROFILE_READY)]
#[case(Call::CreateProfile, condition::INSTANCE_PROFILE_READY)]
#[case(Call::AddRole, condition::INSTANCE_PROFILE_READY)]
#[tokio::test]
async fn a_missing_permission_is_reported_in_its_own_condition(#[case] call: Call, #[case] of: &str) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    cluster.aws.cloud.deny(call);
    let first = cluster.round(STEP).await;
    assert!(first.notices.iter().any(|notice| notice.reason == "Unauthorized"), "{first:?}");
    assert_eq!(cluster.condition("default", of), "Unknown Unauthorized");
    for other in condition::DEPENDENTS.iter().filter(|c| **c != of && **c != condition::VALIDATION_SUCCEEDED)
    {
        assert!(cluster.condition("default", other).starts_with("True"), "{other}");
    }
    assert!(cluster.condition("default", "Ready").starts_with("Unknown"));
    cluster.aws.cloud.allow(call);
    cluster.pass(61).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    // A ready class remains ready: a policy change does not invalidate known values.
    cluster.aws.cloud.deny(call);
    cluster.pass(1000).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}

#[tokio::test]
async fn throttling_changes_no_condition() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    let before = cluster.class("default");
    for call in [Call::Subnets, Call::Groups, Call::Images, Call::Parameter, Call::Profile, Call::TryFleet] {
        cluster.aws.cloud.inject(call, refusal("RequestLimitExceeded"));
    }
    cluster.pass(1000).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.class("default"), before);
}

/// A rejected status write is repeated, without another look-up.
#[tokio::test]
async fn a_refused_write_loses_nothing() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    cluster.deaf = true;
    run_until_stable(&mut cluster).await;
    assert!(cluster.class("default").status.is_none());
    cluster.deaf = false;
    cluster.pass(1).await;
    cluster.round(STEP).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}

#[tokio::test]
async fn missing_resources_are_not_ready() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    cluster.edit("default", |class| {
        class.spec.subnet_selector_terms = serde_json::from_value(json!([{"id": "subnet-gone"}])).unwrap();
        class.spec.security_group_selector_terms = serde_json::from_value(json!([{"name": "gone"}])).unwrap();
        class.spec.role = Some("nobody".to_owned());
    });
    run_until_stable(&mut cluster).await;
    for (of, expected) in [
        (condition::SUBNETS_READY, "False SubnetsNotFound"),
        (condition::SECURITY_GROUPS_READY, "False SecurityGroupsNotFound"),
        (condition::INSTANCE_PROFILE_READY, "False RoleNotFound"),
        (condition::VALIDATION_SUCCEEDED, "False DependenciesNotReady"),
        ("Ready", "False UnhealthyDependents"),
    ] {
        assert_eq!(cluster.condition("default", of), expected, "{of}");
    }
    let status = cluster.class("default").status.unwrap();
    assert!(status.subnets.is_empty() && status.security_groups.is_empty() && status.amis.len() == 3);
    // The now empty list was removed from the object by the patch.
    assert!(cluster.aws.cloud.profiles_now().values().all(|profile| !profile.roles.is_empty()));
}

#[tokio::test]
async fn a_selector_that_matches_thousands_is_cut() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    cluster.aws.cloud.with(|inner| {
        let mut like = inner.images[0].clone();
        for n in 0..6000 {
            like = Image { id: format!("ami-{n}"), ..like };
            inner.images.push(like.clone());
        }
        let subnet = inner.subnets[0].clone();
        for n in 0..6000 {
            inner.subnets.push(crate::calls::SubnetInfo { id: format!("subnet-{n}"), ..subnet.clone() });
        }
    });
    cluster.edit("default", |class| {
        class.spec.ami_family = Some("AL2023".to_owned());
        class.spec.ami_selector_terms =
            serde_json::from_value(json!([{"name": "amazon-eks-node-al2023-x86_64-standard-1.35"}])).unwrap();
    });
    let round = cluster.round(STEP).await;
    let status = cluster.class("default").status.unwrap();
    assert_eq!((status.subnets.len(), status.amis.len()), (crate::nodeclass::MATCHES_MAX, 1));
    assert_eq!(cluster.condition("default", condition::SUBNETS_READY), "True TooManyMatches");
    assert!(round.notices.iter().any(|notice| notice.message.contains("select fewer")), "{round:?}");
    // The selection does not change with free addresses: nodes would drift.
    let ids = |cluster: &TestCluster| -> BTreeSet<String> {
        cluster.class("default").status.unwrap().subnets.into_iter().map(|subnet| subnet.id).collect()
    };
    let before = ids(&cluster);
    cluster.aws.cloud.with(|inner| inner.subnets.last_mut().unwrap().free_addresses = 1_000_000);
    run_until_stable(&mut cluster).await;
    cluster.pass(61).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(ids(&cluster), before);
    // A refusal in all of them is found by trying a few.
    cluster.aws.cloud.deny(Call::TryInstance);
    cluster.edit("default", |class| class.spec.context = Some("new".to_owned()));
    let asked = cluster.aws.cloud.count("RunInstances (dry run)");
    cluster.round(STEP).await;
    assert_eq!(
        cluster.condition("default", condition::VALIDATION_SUCCEEDED),
        "False RunInstancesAuthCheckFailed"
    );
    assert_eq!(cluster.aws.cloud.count("RunInstances (dry run)") - asked, 10);
}

#[tokio::test]
async fn reservations_change_and_are_optional() {
    let mut class = fresh("default");
    class.spec.capacity_reservation_selector_terms =
        serde_json::from_value(json!([{"id": "cr-1"}, {"instanceMatchCriteria": "targeted"}])).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    let reservation = |id: &str, kind: &str, minutes: Option<i64>| ReservationInfo {
        id: id.to_owned(),
        zone: "us-west-2a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner: "123456789012".to_owned(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        ends: minutes.map(|minutes| cluster.aws.clock.now() + SignedDuration::from_mins(minutes)),
        available: 3,
        ..ReservationInfo::default()
    };
    let all = vec![reservation("cr-1", "default", None), reservation("cr-2", "capacity-block", Some(60))];
    cluster.aws.cloud.with(|inner| inner.reservations = all);
    run_until_stable(&mut cluster).await;
    let states = |cluster: &TestCluster| -> Vec<String> {
        let status = cluster.class("default").status.unwrap();
        status.capacity_reservations.iter().map(|r| format!("{} {}", r.id, r.state)).collect()
    };
    assert_eq!(states(&cluster), ["cr-1 active", "cr-2 active"]);
    let catalog = cluster.aws.provider().catalog(&pool()).await.unwrap();
    let reserved_capacity = |catalog: &Catalog| -> u32 {
        let offerings = catalog.get("m5.large").unwrap().offerings.clone();
        offerings.iter().filter_map(|offering| offering.reservation_capacity).sum()
    };
    assert_eq!(reserved_capacity(&catalog), 6);
    cluster.pass(20 * 60).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(states(&cluster), ["cr-1 active", "cr-2 expiring"]);
    cluster.aws.cloud.deny(Call::Reservations);
    cluster.edit("default", |class| class.spec.context = Some("x".to_owned()));
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::CAPACITY_RESERVATIONS_READY), "True Unauthorized");
    assert_eq!((states(&cluster).len(), cluster.condition("default", "Ready").as_str()), (2, "True Ready"));
    cluster.aws.cloud.allow(Call::Reservations);
    cluster.pass(41 * 60).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(states(&cluster), ["cr-1 active"]);
}

#[tokio::test]
async fn placement_groups_are_demanded_at_launch() {
    let mut class = fresh("default");
    class.spec.placement_group_selector = serde_json::from_value(json!({"name": "rack"})).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(
        cluster.condition("default", condition::PLACEMENT_GROUP_READY),
        "False PlacementGroupNotFound"
    );
    assert!(cluster.aws.provider().launch(&batch(1)).await[0].is_err());
    cluster.aws.cloud.with(|inner| {
        inner.placement_groups = vec![PlacementGroup {
            id: "pg-1".to_owned(),
            name: "rack".to_owned(),
            strategy: "partition".to_owned(),
            partitions: 3,
        }];
        for instance_type in &mut inner.instance_types {
            instance_type.placement_strategies = vec!["partition".to_owned()];
        }
    });
    let provider = cluster.aws.provider.lock().unwrap().clone();
    provider.refresh_instance_types().await.unwrap();
    cluster.pass(61).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    // EC2 chooses, and shows it at once.
    let provider = cluster.aws.provider();
    let chosen = provider.launch(&batch(1)).await.remove(0).unwrap();
    assert_eq!(&*chosen.labels[labels::PLACEMENT_GROUP_ID], "pg-1");
    assert!(["1", "2", "3"].contains(&&*chosen.labels[labels::PLACEMENT_GROUP_PARTITION]));
    // The NodeClaim chooses: the lowest number that it allows.
    let mut picky = claim("picky", "other");
    picky.requirements.add(Requirement::not_in(labels::PLACEMENT_GROUP_PARTITION, ["1"]));
    let request = LaunchRequest::new(picky);
    let chosen = provider.launch(&[request]).await.remove(0).unwrap();
    assert_eq!(&*chosen.labels[labels::PLACEMENT_GROUP_PARTITION], "2");
    let owned = NodeClaim { provider_id: Some(chosen.provider_id.clone()), ..claim("picky", "other") };
    assert_eq!(provider.drift(&owned).await, Ok(None));
    cluster
        .aws
        .cloud
        .change_instance(instance_id(&chosen.provider_id).unwrap(), |info| info.placement = None);
    assert_eq!(provider.drift(&owned).await, Ok(Some(Drift("PlacementGroupDrift".into()))));
}

/// A shortage within a placement group does not affect a class outside of it.
#[tokio::test]
async fn a_shortage_in_a_group_affects_only_the_group() {
    let mut grouped = fresh("default");
    grouped.spec.placement_group_selector = serde_json::from_value(json!({"name": "rack"})).unwrap();
    let mut cluster = TestCluster::new(settings(), grouped).await;
    set_class(&cluster.aws.classes, fresh("open"));
    cluster.aws.cloud.set_placement_groups(vec![PlacementGroup {
        id: "pg-1".to_owned(),
        name: "rack".to_owned(),
        strategy: "cluster".to_owned(),
        partitions: 0,
    }]);
    cluster.aws.cloud.with(|inner| {
        for instance_type in &mut inner.instance_types {
            instance_type.placement_strategies = vec!["cluster".to_owned()];
        }
    });
    let provider = cluster.aws.provider.lock().unwrap().clone();
    provider.refresh_instance_types().await.unwrap();
    run_until_stable(&mut cluster).await;
    let left = async |class: &str| {
        let class = NodeClassRef { name: class.into(), ..class_ref() };
        let catalog = provider.catalog(&NodePool::new("pool", class, Timestamp::UNIX_EPOCH)).await.unwrap();
        let offerings = catalog.instance_types.iter().flat_map(|instance_type| &instance_type.offerings);
        offerings.filter(|offering| offering.available).count()
    };
    let before = (left("default").await, left("open").await);
    assert!(before.0 > 0 && before.0 == before.1, "{before:?}");
    cluster.aws.cloud.exhaust("");
    let refused = provider.launch(&batch(1)).await.remove(0);
    assert!(matches!(refused, Err(LaunchError::InsufficientCapacity(_))), "{refused:?}");
    assert!(left("default").await < before.0);
    assert_eq!(left("open").await, before.1);
}

#[tokio::test]
async fn a_class_is_finalized_after_its_claims_with_its_profiles_and_templates() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    cluster.aws.provider().launch(&batch(1)).await.remove(0).unwrap();
    let foreign: TagSet = [
        (labels::TAG_CLUSTER_NAME, CLUSTER),
        (labels::NODE_CLASS, "default"),
        (labels::TAG_CLUSTER_UID, "another"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let template =
        LaunchTemplate { name: "karpenter.k8s.aws/theirs".to_owned(), tags: foreign.clone(), created: None };
    cluster.aws.cloud.adopt_template(template);
    let profile = ProfileInfo {
        name: "theirs".to_owned(),
        path: format!("/karpenter/{REGION}/{CLUSTER}/default-uid/"),
        tags: foreign,
        ..ProfileInfo::default()
    };
    cluster.aws.cloud.adopt_profile(profile);
    cluster.add(claim("claim-000", "batch"), None);
    let mut class = cluster.class("default");
    class.metadata.deletion_timestamp = Some(fleetwright_aws_api::Time(cluster.aws.now()));
    set_class(&cluster.aws.classes, class);
    let round = cluster.round(STEP).await;
    assert_eq!(round.notices[0].reason, "WaitingOnNodeClaimTermination");
    assert_eq!(&*round.notices[0].message, "Waiting on NodeClaim termination for claim-000");
    cluster.pass(60).await;
    assert!(cluster.round(STEP).await.notices.is_empty(), "published every ten minutes");
    cluster.outlook.nodes.clear();
    cluster.aws.cloud.inject(Call::DeleteProfile, refusal("ServiceUnavailable"));
    let round = cluster.round(STEP).await;
    assert_eq!((round.notices[0].reason, round.writes.len()), ("FailedCleanup", 0));
    cluster.round(STEP).await;
    assert_eq!(cluster.class("default").metadata.finalizers, Some(Vec::new()));
    let names: Vec<String> = cluster.aws.cloud.profiles_now().into_keys().collect();
    assert_eq!(names, ["theirs"], "another cluster's is never changed");
    let names: Vec<String> = cluster.aws.cloud.templates_now().into_keys().collect();
    assert_eq!(names, ["karpenter.k8s.aws/theirs"]);
}

/// Nothing is reconciled or created under another cluster's name.
#[tokio::test]
async fn a_mismatch_stops_the_step() {
    let other = Settings { ca_bundle: OTHER_CA.to_owned(), ..settings() };
    let mut cluster = TestCluster::new(other, fresh("default")).await;
    cluster.round(STEP).await;
    for (name, expected) in [
        (condition::CLUSTER_IDENTITY_PROVEN, "False ClusterMismatch"),
        (condition::VALIDATION_SUCCEEDED, "False ClusterMismatch"),
        (condition::SUBNETS_READY, "Unknown AwaitingReconciliation"),
    ] {
        assert_eq!(cluster.condition("default", name), expected);
    }
    assert_eq!((cluster.aws.cloud.mutations(), cluster.aws.cloud.count("DescribeSubnets")), (0, 0));
    assert!(cluster.class("default").metadata.finalizers.is_none(), "nothing was created for it");
    assert!(cluster.round(STEP).await.writes.is_empty(), "published once");
}

/// Expressions are evaluated for every type before any node is launched with them.
#[tokio::test]
async fn an_expression_that_fails_on_one_type_fails_here() {
    let on = Settings { node_class_cel: true, ..settings() };
    let mut cluster = TestCluster::new(on, fresh("default")).await;
    cluster.edit("default", |class| {
        class.spec.kubelet = serde_json::from_value(json!({"maxPods": "vcpus - 4"})).unwrap();
    });
    run_until_stable(&mut cluster).await;
    let expected = "False KubeletExpressionEvaluationFailed";
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), expected);
    cluster.edit("default", |class| {
        class.spec.kubelet = serde_json::from_value(json!({"maxPods": "vcpus * 10"})).unwrap();
    });
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}

/// User data near the limit are reported before a NodePool's labels exceed it.
#[rstest]
#[case::with_dry_runs(true)]
#[case::without(false)]
#[tokio::test]
async fn user_data_near_the_limit_are_reported(#[case] dry_runs: bool) {
    let mut class = fresh("default");
    class.spec.user_data = Some(format!("#!/bin/bash\n# {}\n", "x".repeat(1000)));
    let mut cluster = TestCluster::new(Settings { dry_runs, ..settings() }, class).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "ValidationSucceeded"), "True ValidationSucceeded");
    cluster.edit("default", |class| {
        class.spec.user_data = Some(format!("#!/bin/bash\n# {}\n", "x".repeat(14_000)));
    });
    for _ in 0..2 {
        run_until_stable(&mut cluster).await;
        assert_eq!(cluster.condition("default", "ValidationSucceeded"), "True UserDataNearLimit");
        assert_eq!(cluster.condition("default", "Ready"), "True Ready");
        cluster.pass(60).await;
    }
    cluster.edit("default", |class| {
        class.spec.user_data = Some(format!("#!/bin/bash\n# {}\n", "x".repeat(16_000)));
    });
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "ValidationSucceeded"), "False UserDataSizeLimitExceeded");
}

/// A type that cannot be described, and one that two images match equally, are reported; all others are launched.
#[tokio::test]
async fn unclear_types_are_reported() {
    let mut class = fresh("default");
    class.spec.ami_selector_terms = serde_json::from_value(json!([
        {"id": "ami-amd64"}, {"id": "ami-nvidia"}, {"id": "ami-neuron"},
    ]))
    .unwrap();
    class.spec.ami_family = Some("AL2023".to_owned());
    let mut cluster = TestCluster::new(settings(), class).await;
    cluster.aws.cloud.with(|inner| {
        let mut neuron = inner.images.iter().find(|image| image.id == "ami-nvidia").unwrap().clone();
        neuron.id = "ami-neuron".to_owned();
        neuron.name = neuron.name.replace("nvidia", "neuron");
        inner.images.push(neuron);
    });
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "ValidationSucceeded"), "True ValidationSucceeded");
    cluster.aws.cloud.with(|inner| {
        for instance_type in &mut inner.instance_types {
            match instance_type.name.as_str() {
                "c5.large" => instance_type.vcpus = 0,
                "p3.2xlarge" => {
                    let device = NeuronDevice { name: "Inferentia".to_owned(), count: 1, cores: 2 };
                    instance_type.neuron = Some(vec![device]);
                }
                _ => {}
            }
        }
    });
    let provider = cluster.aws.provider.lock().unwrap().clone();
    provider.refresh_instance_types().await.unwrap();
    cluster.pass(601).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "ValidationSucceeded"), "True InstanceTypesUnclear");
    let class = cluster.class("default");
    let reported = class.conditions().iter().find(|known| known.type_ == "ValidationSucceeded").unwrap();
    for word in ["c5.large", "ami-neuron and ami-nvidia are equally specific"] {
        assert!(reported.message.contains(word), "{}", reported.message);
    }
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    let launched = provider.launch(&batch(1)).await.remove(0);
    assert!(launched.is_ok(), "{launched:?}");
}

/// An identity that IAM kept from being proven is checked again without a restart, with either result.
#[rstest]
#[case::ours(CA, "True ClusterIdentityProven", "True Ready", 1)]
#[case::anothers(OTHER_CA, "False ClusterMismatch", "False UnhealthyDependents", 0)]
#[tokio::test]
async fn identity_is_checked_again(
    #[case] authority: &str,
    #[case] identity: &str,
    #[case] ready: &str,
    #[case] launched: u64,
) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    cluster.aws.settings.ca_bundle = authority.to_owned();
    cluster.aws.cloud.deny(Call::Cluster);
    cluster.restart().await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::CLUSTER_IDENTITY_PROVEN), "Unknown ClusterUnproven");
    cluster.aws.cloud.allow(Call::Cluster);
    cluster.pass(300).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::CLUSTER_IDENTITY_PROVEN), identity);
    assert_eq!(cluster.condition("default", "Ready"), ready);
    let answer = cluster.aws.provider().launch(&batch(1)).await.remove(0);
    assert_eq!((u64::from(answer.is_ok()), cluster.aws.cloud.count("CreateFleet")), (launched, launched));
    // EKS returns our cluster after all, for example because another one of our name was deleted.
    cluster.aws.cloud.with(|inner| inner.cluster.as_mut().unwrap().ca_bundle = authority.to_owned());
    cluster.pass(300).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}
