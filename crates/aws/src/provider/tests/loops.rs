//! The other steps: names, observations, health, shifts, garbage collection, and the number of calls of all of them.

use fleetwright_aws_api::labels;
use fleetwright_core::cloud::Object;
use fleetwright_core::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, REGISTERED, RESERVED};
use rstest::rstest;
use serde_json::json;

use super::cluster::{TestCluster, fresh, node};
use super::*;
use crate::calls::{InstanceStatus, LaunchTemplate, ProfileInfo, ReservationInfo, TagSet, ZonalShift};

const GI: i64 = 1 << 30;

fn tags(all: &[(&str, &str)]) -> TagSet {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) async fn ready(settings: Settings) -> TestCluster {
    let mut cluster = TestCluster::new(settings, fresh("default")).await;
    for _ in 0..4 {
        cluster.round("nodeclass").await;
        cluster.pass(6).await;
    }
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    cluster
}

/// Instances that are launched, registered and named, as the controllers leave them.
pub(super) async fn launched(cluster: &mut TestCluster, count: usize) -> Vec<ProviderId> {
    let answers = cluster.aws.provider().launch(&batch(count)).await;
    let mut ids = Vec::new();
    for (request, answer) in batch(count).into_iter().zip(answers) {
        let instance = answer.unwrap();
        let name = request.claim.name.to_string();
        let instance_type = instance.labels[INSTANCE_TYPE].to_string();
        let own = [(REGISTERED, "true"), (INSTANCE_TYPE, instance_type.as_str())];
        ids.push(instance.provider_id.clone());
        let mut node = node(&format!("node-{name}"), &own, Resources::of(2000, 7 * GI));
        node.provider_id = Some(instance.provider_id.clone());
        let claim = NodeClaim {
            provider_id: Some(instance.provider_id),
            node_name: Some(node.name.clone()),
            image_id: instance.image_id,
            labels: instance.labels,
            annotations: instance.annotations,
            ..(*request.claim).clone()
        };
        cluster.add(claim, Some(node));
    }
    ids
}

#[tokio::test]
async fn a_launch_notes_hash_and_profile() {
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 1).await;
    let claim = cluster.claim("claim-000");
    let class = cluster.class("default");
    assert_eq!(&*claim.annotations[labels::HASH], class.spec.drift_hash(CA));
    assert_eq!(&*claim.annotations[labels::INSTANCE_PROFILE_NAME], class.status.unwrap().instance_profile);
    assert_eq!(cluster.aws.provider().drift(&claim).await, Ok(None));
    cluster.edit("default", |class| class.spec.context = Some("new".to_owned()));
    assert_eq!(cluster.aws.provider().drift(&claim).await, Ok(Some(Drift("NodeClassDrift".into()))));
}

#[tokio::test]
async fn instances_are_tagged_with_their_nodes_a_few_at_a_time() {
    let mut cluster = ready(settings()).await;
    let ids = launched(&mut cluster, 25).await;
    let before = cluster.aws.cloud.count("CreateTags");
    for expected in [10, 20, 25, 25] {
        cluster.round("nodeclaim.tagging").await;
        assert_eq!(cluster.aws.cloud.count("CreateTags") - before, expected);
    }
    let info = cluster.aws.cloud.instance_now(instance_id(&ids[0]).unwrap()).unwrap();
    assert_eq!(info.tags[labels::TAG_NAME], "node-claim-000");
    assert_eq!(&*cluster.claim("claim-000").annotations[labels::TAGGED], "true");
    let asked = cluster.aws.cloud.count("DescribeInstances");
    cluster.round("nodeclaim.tagging").await;
    assert_eq!(cluster.aws.cloud.count("DescribeInstances"), asked, "all of them are tagged");
}

#[tokio::test]
async fn foreign_or_forbidden_instances_are_not_tagged() {
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 1).await;
    let foreign = cluster.aws.foreign().await;
    let forged = NodeClaim {
        provider_id: Some(foreign.clone()),
        node_name: Some("node-x".into()),
        ..claim("forged", "b")
    };
    cluster.add(forged, None);
    cluster.aws.cloud.deny(Call::CreateTags);
    let round = cluster.round("nodeclaim.tagging").await;
    assert!(round.notices.iter().any(|notice| notice.message.contains("AllowScopedResourceTagging")));
    assert!(cluster.aws.provider.lock().unwrap().features_off().contains_key("ec2:CreateTags"));
    cluster.aws.cloud.allow(Call::CreateTags);
    cluster.round("nodeclaim.tagging").await;
    assert!(cluster.aws.provider.lock().unwrap().features_off().is_empty());
    let info = cluster.aws.cloud.instance_now(instance_id(&foreign).unwrap()).unwrap();
    assert!(!info.tags.contains_key(labels::TAG_NAME));
    assert!(!cluster.claim("forged").annotations.contains_key(labels::TAGGED));
}

/// However many instances EC2 reports as impaired, only a few at a time are drained without a grace period.
#[tokio::test]
async fn few_impaired_instances_are_drained_without_grace_at_a_time() {
    const STEP: &str = "interruption.instancestatus";
    let mut cluster = ready(settings()).await;
    let ids = launched(&mut cluster, 8).await;
    let since = cluster.aws.now() - SignedDuration::from_secs(300);
    let impaired = |id: &ProviderId| InstanceStatus {
        id: instance_id(id).unwrap().to_owned(),
        instance_impaired_since: Some(since),
        ..InstanceStatus::default()
    };
    cluster.aws.cloud.set_statuses(ids.iter().map(impaired).collect());
    let round = cluster.round(STEP).await;
    assert_eq!((round.interruptions.len(), round.writes.len()), (3, 3));
    let notice = round.notices.first().unwrap();
    assert_eq!(notice.reason, "ImpairedHeldBack");
    assert!(notice.message.contains("replacement of 5 impaired instances is held"), "{}", notice.message);
    cluster.pass(60).await;
    assert_eq!(cluster.round(STEP).await.interruptions.len(), 3, "the same ones, until they are deleted");
    cluster.pass(600).await;
    assert_eq!(cluster.round(STEP).await.interruptions.len(), 3, "the next ones");
}

#[tokio::test]
async fn impaired_instances_are_interrupted_with_no_time_left() {
    const STEP: &str = "interruption.instancestatus";
    let mut cluster = ready(settings()).await;
    let ids = launched(&mut cluster, 4).await;
    let id = |at: usize| instance_id(&ids[at]).unwrap().to_owned();
    let since = |seconds: i64| Some(cluster.aws.now() - SignedDuration::from_secs(seconds));
    let statuses = vec![
        InstanceStatus { id: id(0), instance_impaired_since: since(120), ..InstanceStatus::default() },
        InstanceStatus { id: id(1), system_impaired_since: since(119), ..InstanceStatus::default() },
        InstanceStatus {
            id: id(2),
            events: vec!["instance-retirement".to_owned()],
            ..InstanceStatus::default()
        },
        InstanceStatus { id: id(3), events: vec!["ebs-party".to_owned()], ..InstanceStatus::default() },
        InstanceStatus {
            id: "i-stranger".to_owned(),
            instance_impaired_since: since(999),
            ..InstanceStatus::default()
        },
    ];
    cluster.aws.cloud.set_statuses(statuses);
    let round = cluster.round(STEP).await;
    let reported: Vec<(ProviderId, InterruptionKind)> =
        round.interruptions.into_iter().map(|interruption| (interruption.id, interruption.kind)).collect();
    let expected =
        [(ids[0].clone(), InterruptionKind::InstanceStatus), (ids[2].clone(), InterruptionKind::EventStatus)];
    assert_eq!(reported, expected);
    let deadline = |name: &str| {
        let claim = cluster.claim(name);
        claim.annotations.get("karpenter.sh/nodeclaim-termination-timestamp").map(ToString::to_string)
    };
    assert_eq!(deadline("claim-000"), Some(cluster.aws.now().to_string()));
    assert_eq!(deadline("claim-002"), None);
    cluster.aws.cloud.deny(Call::Statuses);
    let round = cluster.round(STEP).await;
    assert!(
        round.interruptions.is_empty() && round.notices[0].message.contains("ec2:DescribeInstanceStatus")
    );
    cluster.aws.cloud.allow(Call::Statuses);
    assert_eq!(cluster.round(STEP).await.interruptions.len(), 2, "no restart is needed");
}

#[tokio::test]
async fn a_zone_that_traffic_is_shifted_away_from_is_left_alone() {
    let on = Settings { zonal_shift: true, ..settings() };
    let mut cluster = ready(on).await;
    let ids = launched(&mut cluster, 1).await;
    let zone = cluster.aws.cloud.instance_now(instance_id(&ids[0]).unwrap()).unwrap();
    let expires = Some(cluster.aws.now() + SignedDuration::from_hours(1));
    let shift = ZonalShift { zone_id: zone.zone_id.clone(), status: "APPLIED".to_owned(), expires };
    cluster.aws.cloud.set_shifts(vec![shift]);
    let round = cluster.round("zonalshift").await;
    let place = format!("{} ({})", zone.zone, zone.zone_id);
    let told = |round: &fleetwright_core::cloud::Round| {
        (round.notices[0].reason, round.notices[0].message.to_string())
    };
    let begun = format!("Zonal shift detected: offerings in zone {place} are unavailable for this NodePool");
    assert_eq!(told(&round), ("ZonalShiftActive", begun));
    let available = async |cluster: &TestCluster| {
        let catalog = cluster.aws.provider().catalog(&pool()).await.unwrap();
        let offerings = catalog.instance_types.iter().flat_map(|instance_type| &instance_type.offerings);
        offerings
            .filter(|offering| offering.available && offering.zone().is_some_and(|own| **own == *zone.zone))
            .count()
    };
    assert_eq!(available(&cluster).await, 0);
    let refused = cluster.aws.provider().terminate(&cluster.claim("claim-000"), &ids[0]).await;
    assert!(matches!(refused, Err(CloudError::Unavailable(_))), "{refused:?}");
    // The absence of an instance there proves nothing; elsewhere it does.
    let missing = provider_id(&zone.zone, "i-0f");
    let absent = cluster.aws.provider().get(&missing).await;
    assert!(matches!(absent, Err(CloudError::Unavailable(_))), "{absent:?}");
    let elsewhere = cluster.aws.provider().get(&provider_id("us-west-2z", "i-0f")).await;
    assert!(matches!(elsewhere, Err(CloudError::NotFound(_))), "{elsewhere:?}");
    cluster.aws.cloud.set_shifts(Vec::new());
    let cleared = format!("Zonal shift cleared: offerings in zone {place} are restored for this NodePool");
    assert_eq!(told(&cluster.round("zonalshift").await), ("ZonalShiftCleared", cleared));
    assert!(available(&cluster).await > 0);
    assert!(cluster.aws.provider().terminate(&cluster.claim("claim-000"), &ids[0]).await.is_ok());
    cluster.aws.cloud.deny(Call::Shifts);
    let round = cluster.round("zonalshift").await;
    assert!(round.notices[0].message.contains("AllowZonalShiftReadActions"), "{round:?}");
}

#[tokio::test]
async fn only_our_unused_templates_are_deleted() {
    const STEP: &str = "launchtemplate.garbagecollection";
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 1).await;
    let names =
        |cluster: &TestCluster| -> Vec<String> { cluster.aws.cloud.templates_now().into_keys().collect() };
    let ours = names(&cluster);
    for (name, uid) in [("theirs", Some("another")), ("karpenters", None)] {
        let mut all = tags(&[(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::NODE_CLASS, "default")]);
        all.extend(uid.map(|uid| (labels::TAG_CLUSTER_UID.to_owned(), uid.to_owned())));
        cluster.aws.cloud.adopt_template(LaunchTemplate { name: name.to_owned(), tags: all, created: None });
    }
    cluster.round(STEP).await;
    assert_eq!(names(&cluster).len(), ours.len() + 2);
    cluster.pass(49 * 60).await;
    cluster.round(STEP).await;
    assert_eq!(names(&cluster).len(), ours.len() + 2, "a launch may be under way");
    cluster.pass(120).await;
    cluster.round(STEP).await;
    assert_eq!(names(&cluster), ["karpenters", "theirs"]);
    // The next launch creates the templates that it needs.
    let again = LaunchRequest::new(claim("again", "again"));
    assert!(cluster.aws.provider().launch(&[again]).await[0].is_ok());
}

#[tokio::test]
async fn reserved_instances_become_on_demand_and_leave_blocks_in_time() {
    let mut class = fresh("default");
    class.spec.capacity_reservation_selector_terms = serde_json::from_value(json!([{"id": "cr-1"}])).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    let ends = cluster.aws.now() + SignedDuration::from_mins(60);
    cluster.aws.cloud.with(|inner| {
        inner.reservations = vec![ReservationInfo {
            id: "cr-1".to_owned(),
            zone: "us-west-2a".to_owned(),
            instance_type: "m5.large".to_owned(),
            owner: "123456789012".to_owned(),
            match_criteria: "targeted".to_owned(),
            kind: "capacity-block".to_owned(),
            ends: Some(ends),
            available: 1,
            ..ReservationInfo::default()
        }];
    });
    for _ in 0..4 {
        cluster.round("nodeclass").await;
        cluster.pass(6).await;
    }
    let ids = launched(&mut cluster, 1).await;
    assert_eq!(&*cluster.claim("claim-000").labels[CAPACITY_TYPE], RESERVED);
    let catalog = cluster.aws.provider().catalog(&pool()).await.unwrap();
    let left: Option<u32> =
        catalog.get("m5.large").unwrap().offerings.iter().find_map(|o| o.reservation_capacity);
    assert_eq!(left, Some(0), "its capacity is used at once");
    assert!(cluster.round("capacityreservation.expiration").await.interruptions.is_empty());
    cluster.pass(25 * 60).await;
    let round = cluster.round("capacityreservation.expiration").await;
    assert_eq!(
        round.interruptions,
        [Interruption::new(ids[0].clone(), InterruptionKind::ReservationExpiring)]
    );
    let mut unselected = cluster.class("default");
    unselected.status.as_mut().unwrap().capacity_reservations.clear();
    set_class(&cluster.aws.classes, unselected);
    let still = cluster.round("capacityreservation.expiration").await.interruptions;
    assert_eq!(
        still, round.interruptions,
        "the class does not select the block any more, and its node runs in it"
    );
    assert!(cluster.round("capacityreservation.capacitytype").await.writes.is_empty());
    cluster.aws.cloud.change_instance(instance_id(&ids[0]).unwrap(), |info| info.reservation = None);
    cluster.round("capacityreservation.capacitytype").await;
    let claim = cluster.claim("claim-000");
    assert_eq!(&*claim.labels[CAPACITY_TYPE], "on-demand");
    assert!(claim.labels.keys().all(|key| !key.contains("capacity-reservation")), "{:?}", claim.labels);
}

#[tokio::test]
async fn unused_profiles_are_deleted_after_an_hour() {
    const STEP: &str = "instanceprofile.garbagecollection";
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 1).await;
    let first = cluster.class("default").status.unwrap().instance_profile;
    let path = |uid: &str| format!("/karpenter/{REGION}/{CLUSTER}/{uid}/");
    let profile = |name: &str, uid: &str, own: &[(&str, &str)]| ProfileInfo {
        name: name.to_owned(),
        path: path(uid),
        tags: tags(own),
        ..ProfileInfo::default()
    };
    for profile in [
        profile("stale", "gone-uid", &[(labels::TAG_CLUSTER_UID, UID)]),
        profile("karpenters", "default-uid", &[]),
        profile("unknown", "gone-uid", &[]),
        profile("theirs", "default-uid", &[(labels::TAG_CLUSTER_UID, "another")]),
    ] {
        cluster.aws.cloud.adopt_profile(profile);
    }
    cluster.aws.cloud.with(|inner| inner.roles.insert("new".to_owned()));
    cluster.edit("default", |class| class.spec.role = Some("/team/new".to_owned()));
    for _ in 0..4 {
        cluster.round("nodeclass").await;
        cluster.pass(6).await;
    }
    let second = cluster.class("default").status.unwrap().instance_profile;
    assert_ne!(first, second);
    let names =
        |cluster: &TestCluster| -> Vec<String> { cluster.aws.cloud.profiles_now().into_keys().collect() };
    cluster.round(STEP).await;
    cluster.pass(3599).await;
    cluster.round(STEP).await;
    assert_eq!(names(&cluster).len(), 6);
    cluster.pass(1).await;
    let round = cluster.round(STEP).await;
    assert!(
        round.notices[0].reason == "UnownedInstanceProfiles" && round.notices[0].message.contains("unknown")
    );
    let round = cluster.round("ownership").await;
    assert!(
        round.notices[0].reason == "ForeignInstanceProfiles"
            && round.notices[0].message.contains("another: theirs")
    );
    let mut expected = vec![first.as_str(), second.as_str(), "theirs", "unknown"];
    expected.sort_unstable();
    assert_eq!(names(&cluster), expected, "the first one serves a claim");
    cluster.outlook.nodes.clear();
    cluster.round(STEP).await;
    cluster.pass(3600).await;
    cluster.round(STEP).await;
    assert!(!names(&cluster).contains(&first));
}

/// Each action that IAM refuses during the collection of profiles is reported with its statement, until it is allowed or no longer
/// needed.
#[rstest]
#[case(Call::Profile, "iam:GetInstanceProfile")]
#[case(Call::RemoveRole, "iam:RemoveRoleFromInstanceProfile")]
#[case(Call::DeleteProfile, "iam:DeleteInstanceProfile")]
#[tokio::test]
async fn refusals_of_profile_collection_are_reported(#[case] call: Call, #[case] action: &'static str) {
    const STEP: &str = "instanceprofile.garbagecollection";
    let mut cluster = ready(settings()).await;
    let stale = |name: &str| ProfileInfo {
        name: name.to_owned(),
        path: format!("/karpenter/{REGION}/{CLUSTER}/gone-uid/"),
        roles: vec!["node".to_owned()],
        tags: tags(&[(labels::TAG_CLUSTER_UID, UID)]),
        ..ProfileInfo::default()
    };
    for name in ["stale-a", "stale-b"] {
        cluster.aws.cloud.adopt_profile(stale(name));
    }
    cluster.round(STEP).await;
    cluster.pass(3600).await;
    cluster.aws.cloud.deny(call);
    let before = cluster.aws.cloud.count(call.name());
    let round = cluster.round(STEP).await;
    assert_eq!(cluster.aws.cloud.count(call.name()) - before, 1, "it would be refused for the others too");
    assert!(
        round.notices[0].reason == "Unauthorized" && round.notices[0].message.contains(action),
        "{round:?}"
    );
    let provider = cluster.aws.provider.lock().unwrap().clone();
    assert!(provider.features_off().contains_key(action));
    cluster.aws.cloud.allow(call);
    cluster.pass(1800).await;
    assert!(cluster.round(STEP).await.notices.is_empty());
    assert!(!provider.features_off().contains_key(action));
    assert!(!cluster.aws.cloud.profiles_now().keys().any(|name| name.starts_with("stale")));
}

/// A thousand nodes for an hour, all steps: one full list every two minutes by the controllers' garbage collection, none by the provider,
/// and no mutation.
#[tokio::test]
async fn a_steady_cluster_is_looked_at_seldom_and_never_changed() {
    let quiet = Settings { zonal_shift: true, interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = ready(quiet).await;
    launched(&mut cluster, 1000).await;
    for _ in 0..110 {
        cluster.round("nodeclaim.tagging").await;
        cluster.pass(1).await;
    }
    let cloud = cluster.aws.cloud.clone();
    assert_eq!(cloud.count("CreateFleet"), 1);
    for step in cluster.steps.clone() {
        cluster.round(step.name()).await;
    }
    let before = (cloud.mutations(), cloud.count("full list"), cloud.count("DescribeInstances"));
    let mut due: BTreeMap<&'static str, Timestamp> = BTreeMap::new();
    for second in 0..3600 {
        for step in cluster.steps.clone() {
            let name = step.name();
            // Templates that no launch uses are deleted after a while; the rest of the work does not change.
            if name.starts_with("launchtemplate") || due.get(name).is_some_and(|due| *due > cluster.aws.now())
            {
                continue;
            }
            let round = cluster.round(name).await;
            due.insert(name, cluster.aws.now() + SignedDuration::try_from(round.again).unwrap());
        }
        if second % 120 == 0 {
            cluster.aws.provider().list().await.unwrap();
        }
        cluster.pass(1).await;
    }
    assert_eq!(cloud.mutations() - before.0, 0);
    assert_eq!(cloud.count("full list") - before.1, 30);
    assert_eq!(cloud.count("DescribeInstances") - before.2, 30, "nothing else asks for instances");
}

/// Two clusters of one name in one account: the other's resources are counted, reported, and never changed.
#[tokio::test]
async fn another_cluster_of_our_name_is_reported() {
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 2).await;
    let foreign = cluster.aws.foreign().await;
    let unstamped = tags(&[
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.sh/nodepool", "general"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ]);
    let named = cluster.aws.cloud.adopt(unstamped.clone());
    let unnamed = cluster.aws.cloud.adopt(unstamped);
    assert_eq!(cluster.aws.provider().list().await.unwrap().len(), 4);
    let provider = cluster.aws.provider.lock().unwrap().clone();
    assert_eq!(provider.foreign().count(ResourceType::Instance), 1);
    let mut kept = cluster.claim("claim-000");
    (kept.name, kept.provider_id) = ("kept".into(), Some(provider_id(&named.0, &named.1)));
    cluster.add(kept, None);
    let own = tags(&[(labels::TAG_CLUSTER_NAME, CLUSTER), (labels::TAG_CLUSTER_UID, "another")]);
    cluster.aws.cloud.adopt_template(LaunchTemplate { name: "theirs".to_owned(), tags: own, created: None });
    cluster.round("launchtemplate.garbagecollection").await;
    cluster.pass(60).await;
    let round = cluster.round("ownership").await;
    let notice_of =
        |reason: &str| round.notices.iter().find(|notice| notice.reason == reason).unwrap().clone();
    assert!(notice_of("ForeignInstances").message.contains(instance_id(&foreign).unwrap()), "{round:?}");
    assert!(notice_of("ForeignLaunchTemplates").message.contains("(another: theirs)"), "{round:?}");
    let unowned = notice_of("UnownedInstances");
    assert!(matches!(unowned.object, Object::NodeClass { .. }), "{unowned:?}");
    assert!(unowned.message.contains(&unnamed.1) && !unowned.message.contains(&named.1), "{unowned:?}");
    let shown: Vec<(&str, String, Option<f64>)> = round
        .figures
        .iter()
        .map(|figure| (figure.family.name, figure.labels.join(","), figure.value))
        .collect();
    let expected = [
        ("fleetwright_aws_foreign_resources", "instance", 1.0),
        ("fleetwright_aws_foreign_resources", "launch-template", 1.0),
        ("fleetwright_aws_foreign_resources", "instance-profile", 0.0),
        ("fleetwright_aws_unowned_instances", "", 1.0),
    ];
    assert_eq!(shown, expected.map(|(name, label, value)| (name, label.to_owned(), Some(value))));
    let refused = provider
        .terminate(&NodeClaim { provider_id: Some(foreign.clone()), ..claim("a", "b") }, &foreign)
        .await;
    assert!(matches!(refused, Err(CloudError::NotOwned { .. })));
}

/// A recommendation is published on the NodeClaim and its node, once; without permissions the queue is off, and reported.
#[tokio::test]
async fn recommendations_and_a_denied_queue_are_reported() {
    let on = Settings { interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = ready(on).await;
    let ids = launched(&mut cluster, 1).await;
    let detail = json!({"instance-id": instance_id(&ids[0]).unwrap()});
    cluster.aws.cloud.push_message(&notice("EC2 Instance Rebalance Recommendation", detail));
    let round = cluster.round("interruption").await;
    let reasons: Vec<&str> = round.notices.iter().map(|notice| notice.reason).collect();
    assert_eq!(reasons, ["SpotRebalanceRecommendation"; 2]);
    assert!(round.interruptions.is_empty() && cluster.aws.cloud.messages() == 0);
    cluster.aws.cloud.deny(Call::Receive);
    let round = cluster.round("interruption").await;
    assert!(round.notices[0].message.contains("AllowInterruptionQueueActions"), "{round:?}");
}

/// The metrics after a launch, an unreadable message, and an action that IAM refuses; each figure is exposed once.
#[tokio::test]
async fn figures_are_exposed_once() {
    let queue = Settings { interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = TestCluster::new(queue, class("default", true)).await;
    cluster.aws.cloud.exhaust("us-west-2a");
    assert!(cluster.aws.provider().launch(&batch(3)).await.iter().all(Result::is_ok));
    cluster.aws.cloud.push_message("garbage");
    cluster.aws.cloud.deny(Call::Statuses);
    cluster.round("interruption").await;
    cluster.round("interruption.instancestatus").await;
    let shown = |round: fleetwright_core::cloud::Round| -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for figure in round.figures {
            let key = format!("{} {}", figure.family.name, figure.labels.join(","));
            *sums.entry(key).or_default() += figure.value.unwrap_or(-1.0);
        }
        sums
    };
    let first = shown(cluster.round("cloudprovider.metrics").await);
    let failures = |shown: &BTreeMap<String, f64>| {
        let prefix = "karpenter_cloudprovider_instance_launch_failures_total us-west-2a,usw2-az1,";
        let of = |key: &&String| key.starts_with(prefix) && key.ends_with(",LaunchFailed");
        shown.keys().filter(of).count()
    };
    assert_eq!(failures(&first), 1, "{first:?}");
    assert_eq!(first["karpenter_cloudprovider_batcher_batch_size create_fleet"], 3.0);
    assert_eq!(first["fleetwright_aws_unreadable_messages_total "], 1.0);
    assert_eq!(first["karpenter_interruption_deleted_messages_total "], 1.0);
    assert_eq!(first["fleetwright_aws_feature_off ec2:DescribeInstanceStatus"], 1.0);
    assert_eq!(first["fleetwright_aws_cluster_identity_proven "], 1.0);
    assert!((1.0..16384.0).contains(&first["karpenter_ec2nodeclasses_userdata_bytes default"]));
    cluster.aws.cloud.allow(Call::Statuses);
    cluster.round("interruption.instancestatus").await;
    let second = shown(cluster.round("cloudprovider.metrics").await);
    assert_eq!(second["fleetwright_aws_feature_off ec2:DescribeInstanceStatus"], -1.0, "removed");
    assert_eq!(failures(&second), 0);
}
