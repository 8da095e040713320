//! Invalid input of AWS, users and others: each degrades only what it concerns, with a condition, an event and a metric.

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::Round;
use fleetwright_core::model::Requirement;
use fleetwright_core::model::labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED};
use rstest::rstest;

use super::cluster::{TestCluster, fresh};
use super::*;
use crate::calls::{ReservationInfo, TagSet};

async fn run_until_stable(cluster: &mut TestCluster) -> Round {
    let mut last = cluster.round("nodeclass").await;
    for _ in 0..8 {
        cluster.pass(6).await;
        last = cluster.round("nodeclass").await;
    }
    last
}

fn refusal(code: &str) -> Fault {
    Fault::Refuse(AwsError::new(code, "why"))
}

/// Without the gate, an instance that EC2 placed into an open reservation is on-demand, and not drifted.
#[tokio::test]
async fn open_reservations_are_ignored_without_the_gate() {
    for (managed, expected) in [(false, "on-demand"), (true, "reserved")] {
        let settings = Settings { reserved_capacity: managed, ..settings() };
        let mut cluster = TestCluster::new(settings, fresh("default")).await;
        run_until_stable(&mut cluster).await;
        assert_eq!(cluster.condition("default", "Ready"), "True Ready");
        let provider = cluster.aws.provider();
        let id = provider.launch(&batch(1)).await.remove(0).unwrap().provider_id;
        let put = |info: &mut InstanceInfo| {
            (info.spot, info.reservation) = (false, Some("cr-open".to_owned()));
        };
        cluster.aws.cloud.change_instance(instance_id(&id).unwrap(), put);
        assert_eq!(&*provider.get(&id).await.unwrap().labels[CAPACITY_TYPE], expected);
        assert_eq!(&*provider.list().await.unwrap()[0].labels[CAPACITY_TYPE], expected);
        let own = NodeClaim { provider_id: Some(id), ..claim("claim-000", "batch") };
        let drift = managed.then(|| Drift("CapacityReservationDrift".into()));
        assert_eq!(provider.drift(&own).await, Ok(drift));
    }
}

/// EKS does not answer when the process starts: classes that do not need it are reconciled, the others keep their status.
#[tokio::test]
async fn classes_do_not_wait_for_eks() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    cluster.restart().await;
    let provider = cluster.aws.provider.lock().unwrap().clone();
    provider.set_kubernetes_version("1.35");
    provider.cluster.forget_eks();
    let silent = |cluster: &TestCluster| {
        for _ in 0..100 {
            cluster.aws.cloud.inject(Call::Cluster, refusal("ServiceUnavailable"));
        }
    };
    silent(&cluster);
    cluster.edit("default", |class| class.spec.ami_family = Some("AL2023".to_owned()));
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::SUBNETS_READY), "True SubnetsReady");
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), "Unknown LookupFailed");
    cluster.edit("default", |class| {
        class.spec.ami_family = Some("Bottlerocket".to_owned());
        class.spec.ami_selector_terms =
            serde_json::from_value(json!([{"name": "amazon-eks-node-al2023-x86_64-standard-1.35"}])).unwrap();
    });
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready", "Bottlerocket needs nothing from EKS");
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "none", "not reported yet");
    cluster.pass(300).await;
    let round = cluster.round("nodeclass").await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False LookupFailed");
    let reported =
        round.notices.iter().find(|notice| notice.reason == condition::FEATURES_AVAILABLE).unwrap();
    assert!(
        reported.message.contains("eks:DescribeCluster is not answered: ServiceUnavailable"),
        "{reported:?}"
    );
    assert_eq!(cluster.condition("default", "Ready"), "True Ready", "nothing depends on it");
}

/// An invalid message is deleted and reported; a message whose instance cannot be described does not delay the others.
#[tokio::test]
async fn one_message_delays_no_other() {
    let on = Settings { interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = TestCluster::new(on, fresh("default")).await;
    run_until_stable(&mut cluster).await;
    let provider = cluster.aws.provider();
    let answers = provider.launch(&batch(2)).await;
    let ids: Vec<ProviderId> = answers.into_iter().map(|answer| answer.unwrap().provider_id).collect();
    let warning = |id: &str| notice("EC2 Spot Instance Interruption Warning", json!({"instance-id": id}));
    cluster.aws.cloud.push_message(&warning(instance_id(&ids[0]).unwrap()));
    cluster.aws.cloud.push_message(&format!("[{:?}]", "x".repeat(100_000)));
    cluster.aws.cloud.push_message("more garbage");
    cluster.aws.cloud.push_message(&warning(instance_id(&ids[1]).unwrap()));
    cluster.aws.cloud.inject(Call::Describe, refusal("InternalError"));
    let round = cluster.round("interruption").await;
    let reported: Vec<&ProviderId> =
        round.interruptions.iter().map(|interruption| &interruption.id).collect();
    assert_eq!(reported, [&ids[1]], "the first one is retried");
    let [event] = round.notices.as_slice() else { panic!("{:?}", round.notices) };
    assert!(event.reason == "UnreadableMessages" && event.message.len() < 400, "{event:?}");
    assert_eq!(cluster.aws.cloud.messages(), 2, "invalid messages are deleted");
    cluster.pass(30).await;
    assert_eq!(cluster.round("interruption").await.interruptions.len(), 2);
    // The condition reports it for an hour, and nothing else is degraded.
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False UnreadableMessages");
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    cluster.pass(3600).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "True FeaturesAvailable");
    // If no instance can be described, the round is an error.
    cluster.pass(20).await;
    for _ in 0..2 {
        cluster.aws.cloud.inject(Call::Describe, refusal("InternalError"));
    }
    assert!(cluster.try_round("interruption").await.is_err());
}

/// A denied permission or a missing queue is reported on every class until it is resolved.
#[tokio::test]
async fn disabled_features_are_in_a_condition() {
    let on = Settings { interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = TestCluster::new(on, fresh("default")).await;
    run_until_stable(&mut cluster).await;
    cluster.aws.cloud.deny(Call::Statuses);
    cluster.round("interruption.instancestatus").await;
    let round = cluster.round("nodeclass").await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False Unauthorized");
    let reported =
        round.notices.iter().find(|notice| notice.reason == condition::FEATURES_AVAILABLE).unwrap();
    assert!(reported.message.contains("AllowRegionalReadActions"), "{reported:?}");
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    cluster.aws.cloud.allow(Call::Statuses);
    cluster.round("interruption.instancestatus").await;
    cluster.round("nodeclass").await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "True FeaturesAvailable");
    for _ in 0..2 {
        cluster.aws.cloud.inject(Call::Receive, refusal("AWS.SimpleQueueService.NonExistentQueue"));
        assert!(cluster.try_round("interruption").await.is_err());
        cluster.pass(300).await;
    }
    let before = cluster.class("default");
    cluster.round("nodeclass").await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False LookupFailed");
    let stable = cluster.class("default");
    assert_ne!(stable, before);
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.class("default"), stable, "reported once");
}

/// A class with `spec.instanceProfile` needs no IAM permission, and no access to IAM.
#[tokio::test]
async fn a_class_without_a_role_needs_no_iam() {
    for isolated in [false, true] {
        let mut class = fresh("default");
        (class.spec.role, class.spec.instance_profile) = (None, Some("own".to_owned()));
        let mut cluster = TestCluster::new(Settings { isolated_vpc: isolated, ..settings() }, class).await;
        cluster.round("nodeclass").await;
        cluster.aws.cloud.deny(Call::Profiles);
        let mut class = cluster.class("default");
        class.metadata.deletion_timestamp = Some(fleetwright_aws_api::Time(cluster.aws.now()));
        set_class(&cluster.aws.classes, class);
        let round = cluster.round("nodeclass").await;
        assert_eq!(cluster.class("default").metadata.finalizers, Some(Vec::new()), "{round:?}");
        assert_eq!(cluster.aws.cloud.count("ListInstanceProfiles"), u64::from(!isolated));
    }
}

/// An answer without an instance's zone would give it another id than its NodeClaim has: it is an error, and proves no absence.
#[tokio::test]
async fn an_instance_without_a_zone_is_an_error() {
    let aws = Aws::new(settings()).await;
    let provider = aws.provider();
    let id = provider.launch(&batch(1)).await.remove(0).unwrap().provider_id;
    let zone = instance::zone(&id).unwrap().to_owned();
    let put =
        |zone: &str| aws.cloud.change_instance(instance_id(&id).unwrap(), |info| info.zone = zone.into());
    put("");
    let listed = provider.list().await;
    assert!(matches!(listed, Err(CloudError::Unavailable(_))), "{listed:?}");
    assert!(matches!(provider.get(&id).await, Err(CloudError::Unavailable(_))));
    aws.restart().await;
    let again = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(matches!(again, Err(LaunchError::Unknown(_))), "{again:?}");
    put(&zone);
    assert_eq!(aws.provider().list().await.unwrap().len(), 1);
    assert_eq!(aws.provider().launch(&batch(1)).await.remove(0).unwrap().provider_id, id);
}

/// An account without the service-linked role for spot capacity: spot is off for a while, and the event says what to do.
#[tokio::test]
async fn a_missing_role_for_spot_is_named() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    let provider = cluster.aws.provider.lock().unwrap().clone();
    cluster.aws.cloud.forbid_spot();
    let answer = provider.launch(&batch(1)).await.remove(0);
    assert!(matches!(answer, Err(LaunchError::InsufficientCapacity(_))), "{answer:?}");
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False SpotSLRCreationFailed");
    let catalog = provider.catalog(&pool()).await.unwrap();
    let mut offerings = catalog.instance_types.iter().flat_map(|instance_type| &instance_type.offerings);
    assert!(offerings.all(|offering| !offering.available || &**offering.capacity_type().unwrap() != "spot"));
}

/// A clock that is set back an hour does not stop the deletion of unused resources.
#[tokio::test]
async fn a_clock_that_is_set_back_stops_no_collection() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    run_until_stable(&mut cluster).await;
    cluster.pass(3600).await;
    cluster.round("launchtemplate.garbagecollection").await;
    let profile = crate::calls::ProfileInfo {
        name: "stale".to_owned(),
        path: format!("/karpenter/{REGION}/{CLUSTER}/gone/"),
        tags: [("fleetwright.dev/cluster-uid".to_owned(), UID.to_owned())].into(),
        ..crate::calls::ProfileInfo::default()
    };
    cluster.aws.cloud.adopt_profile(profile);
    cluster.round("instanceprofile.garbagecollection").await;
    *cluster.aws.clock.0.lock().unwrap() -= SignedDuration::from_hours(10_000);
    for _ in 0..3 {
        cluster.pass(3600).await;
        cluster.round("launchtemplate.garbagecollection").await;
        cluster.round("instanceprofile.garbagecollection").await;
    }
    assert!(!cluster.aws.cloud.profiles_now().contains_key("stale"));
}

/// An interrupted reservation is full until EC2 reports free capacity again.
#[tokio::test]
async fn an_interrupted_reservation_counts_as_full() {
    let mut class = fresh("default");
    class.spec.capacity_reservation_selector_terms =
        serde_json::from_value(json!([{"id": "cr-0123456789abcdef0"}])).unwrap();
    let settings = Settings { interruption_queue: Some("queue".to_owned()), ..settings() };
    let mut cluster = TestCluster::new(settings, class).await;
    let reservation = ReservationInfo {
        id: "cr-0123456789abcdef0".to_owned(),
        zone: "us-west-2a".to_owned(),
        instance_type: "m5.large".to_owned(),
        match_criteria: "targeted".to_owned(),
        available: 3,
        ..ReservationInfo::default()
    };
    cluster.aws.cloud.set_reservations(vec![reservation]);
    run_until_stable(&mut cluster).await;
    let reserved = |name: &str| {
        let mut claim = claim(name, name);
        claim.requirements.add(Requirement::is_in(CAPACITY_TYPE, [RESERVED, ON_DEMAND]));
        LaunchRequest::new(claim)
    };
    let provider = cluster.aws.provider();
    let first = provider.launch(&[reserved("a")]).await.remove(0).unwrap();
    assert_eq!(&*first.labels[CAPACITY_TYPE], RESERVED);
    let announced = json!({"instance-id": instance_id(&first.provider_id).unwrap()});
    let kind = "EC2 Capacity Reservation Instance Interruption Warning";
    cluster.aws.cloud.push_message(&notice(kind, announced));
    let round = cluster.round("interruption").await;
    let expected = Interruption::new(first.provider_id.clone(), InterruptionKind::CapacityReservation);
    assert_eq!(round.interruptions, std::slice::from_ref(&expected));
    let second = provider.launch(&[reserved("b")]).await.remove(0).unwrap();
    assert_eq!(&*second.labels[CAPACITY_TYPE], ON_DEMAND, "the reservation is full");
    cluster.pass(61).await;
    run_until_stable(&mut cluster).await;
    let third = provider.launch(&[reserved("c")]).await.remove(0).unwrap();
    assert_eq!(&*third.labels[CAPACITY_TYPE], RESERVED, "EC2 reports free capacity again");
    // The message is received until its instance is terminating: it is older than EC2's later figures.
    let version = cluster.aws.provider.lock().unwrap().catalogs.with_reservations(|counts| counts.version());
    let round = cluster.round("interruption").await;
    assert_eq!(round.interruptions, [expected]);
    assert_eq!(
        cluster.aws.provider.lock().unwrap().catalogs.with_reservations(|counts| counts.version()),
        version
    );
    let fourth = provider.launch(&[reserved("d")]).await.remove(0).unwrap();
    assert_eq!(&*fourth.labels[CAPACITY_TYPE], RESERVED);
}

/// A class with reservations of several kinds for one type: each instance has the labels of its own, and none of one that its class does
/// not select.
#[tokio::test]
async fn instances_carry_the_type_of_their_reservation() {
    const KINDS: [(&str, &str, bool); 3] = [
        ("cr-0000000000000000a", "default", false),
        ("cr-0000000000000000b", "capacity-block", false),
        ("cr-0000000000000000c", "default", true),
    ];
    let mut class = fresh("default");
    let terms: Vec<_> = KINDS.iter().map(|(id, ..)| json!({"id": id})).collect();
    class.spec.capacity_reservation_selector_terms = serde_json::from_value(json!(terms)).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    let ends = cluster.aws.now() + SignedDuration::from_hours(24);
    let reservation = |(id, kind, interruptible): (&str, &str, bool)| ReservationInfo {
        id: id.to_owned(),
        zone: "us-west-2a".to_owned(),
        instance_type: "m5.large".to_owned(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        interruptible,
        ends: (kind == "capacity-block").then_some(ends),
        available: 2,
        ..ReservationInfo::default()
    };
    cluster.aws.cloud.set_reservations(KINDS.map(reservation).into());
    run_until_stable(&mut cluster).await;
    let provider = cluster.aws.provider();
    let kind = |instance: &Instance| {
        let label = |key: &str| instance.labels.get(key).map(ToString::to_string);
        (label(labels::CAPACITY_RESERVATION_TYPE), label(labels::CAPACITY_RESERVATION_INTERRUPTIBLE))
    };
    for (id, reported, interruptible) in KINDS {
        let mut claim = claim(id, id);
        claim.requirements.add(Requirement::is_in(CAPACITY_TYPE, [RESERVED]));
        claim.requirements.add(Requirement::is_in(labels::CAPACITY_RESERVATION_ID, [id]));
        let request = LaunchRequest::new(claim);
        let born = provider.launch(&[request]).await.remove(0).unwrap();
        assert_eq!(&*born.labels[labels::CAPACITY_RESERVATION_ID], id);
        assert_eq!(kind(&born), (Some(reported.to_owned()), Some(interruptible.to_string())), "{id}");
        // EC2 placed it into a reservation that no class selects: its kind is unknown.
        let other = |info: &mut InstanceInfo| info.reservation = Some("cr-open".to_owned());
        cluster.aws.cloud.change_instance(instance_id(&born.provider_id).unwrap(), other);
        let seen = provider.get(&born.provider_id).await.unwrap();
        assert_eq!(&*seen.labels[labels::CAPACITY_RESERVATION_ID], "cr-open");
        assert_eq!(kind(&seen), (None, None));
    }
}

/// While a control plane is updated, EKS and the API server report two versions: the setting chooses one, and the other is the fallback.
#[rstest]
#[case::of_the_server(false, Some("1.36"), "1.36")]
#[case::of_eks(true, Some("1.36"), "1.35")]
#[case::of_eks_alone(false, None, "1.35")]
#[tokio::test]
async fn the_version_is_the_one_that_the_settings_choose(
    #[case] eks_control_plane: bool,
    #[case] of_server: Option<&str>,
    #[case] expected: &str,
) {
    let aws = Aws::new(Settings { eks_control_plane, ..settings() }).await;
    let provider = aws.provider.lock().unwrap().clone();
    if let Some(version) = of_server {
        provider.set_kubernetes_version(version);
    }
    provider.cluster.refresh(&*provider.api, &provider.problems, provider.clock.now()).await;
    assert_eq!(provider.cluster.kubernetes_version().as_deref(), Some(expected));
}

/// EC2 returns more than was requested, and one instance twice: each is used once, and others are ignored.
#[tokio::test]
async fn unrequested_instances_are_ignored() {
    let aws = Aws::new(settings()).await;
    let first = aws.provider().launch(&batch(1)).await.remove(0).unwrap();
    let twin = aws.cloud.instance_now(instance_id(&first.provider_id).unwrap()).unwrap();
    let foreign = InstanceInfo { id: "i-0".to_owned(), tags: TagSet::new(), ..twin.clone() };
    aws.cloud.intrude(vec![foreign, twin]);
    // A new process queries EC2 for the instances of its batch.
    aws.restart().await;
    let provider = aws.provider();
    let again = provider.launch(&batch(1)).await.remove(0).unwrap();
    assert_eq!(again.provider_id, first.provider_id, "found again, once");
    let other = LaunchRequest::new(claim("b", "b"));
    let second = provider.launch(&[other]).await.remove(0).unwrap();
    assert!(second.provider_id != first.provider_id && instance_id(&second.provider_id) != Some("i-0"));
    assert_eq!(aws.cloud.count("CreateFleet"), 2);
    let listed: Vec<ProviderId> =
        provider.list().await.unwrap().into_iter().map(|instance| instance.provider_id).collect();
    assert_eq!(listed, [first.provider_id.clone(), second.provider_id]);
    assert_eq!(provider.get(&first.provider_id).await.unwrap().provider_id, first.provider_id);
}

/// A process with the wrong region finds no instances of the cluster: none counts as terminated, and no finalizer is removed.
#[rstest]
#[case::of_this_region("us-west-2a", false)]
#[case::of_a_local_zone("us-west-2-lax-1a", false)]
#[case::of_another("eu-west-1a", true)]
#[tokio::test]
async fn a_wrong_region_proves_no_absence(#[case] zone: &str, #[case] elsewhere: bool) {
    let aws = Aws::new(settings()).await;
    let id = provider_id(zone, "i-0123456789abcdef0");
    let own = NodeClaim { provider_id: Some(id.clone()), ..claim("a", "b") };
    let (read, ended) = (aws.provider().get(&id).await, aws.provider().terminate(&own, &id).await);
    if elsewhere {
        assert!(matches!(&read, Err(CloudError::Unavailable(why)) if why.contains("AWS_REGION")), "{read:?}");
        assert!(matches!(&ended, Err(CloudError::Unavailable(_))), "{ended:?}");
    } else {
        assert!(matches!(&read, Err(CloudError::NotFound(_))), "{read:?}");
        assert_eq!(ended, Ok(Termination::Gone));
    }
}
