//! The incidents that the provider was written for: one alias of several images, and two clusters of one name.

use fleetwright_aws_api::labels;
use fleetwright_core::model::Requirement;
use fleetwright_core::model::labels::{INSTANCE_TYPE, REGISTERED};
use serde_json::json;

use super::cluster::{TestCluster, fresh, node};
use super::*;
use crate::calls::Image;

/// One Bottlerocket alias resolves to four images. Pods without GPU get an instance with the plain one on the first launch; its node's
/// capacity is observed for that type and image, and for no other.
#[tokio::test]
async fn one_alias_four_images() {
    let mut class = fresh("default");
    class.spec.ami_selector_terms =
        serde_json::from_value(json!([{"alias": "bottlerocket@latest"}])).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    for _ in 0..4 {
        cluster.round("nodeclass").await;
        cluster.pass(6).await;
    }
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    let provider = cluster.aws.provider();
    let launch = async |name: &str, instance_type: &str| {
        let mut claim = claim(name, name);
        claim.requirements.add(Requirement::is_in(INSTANCE_TYPE, [instance_type]));
        let request = LaunchRequest::new(claim);
        provider.launch(&[request]).await.remove(0).unwrap().image_id.unwrap()
    };
    assert_eq!(&*launch("plain", "m5.large").await, "ami-br-amd64");
    assert_eq!(&*launch("arm", "m6g.large").await, "ami-br-arm64");
    assert_eq!(&*launch("gpu", "p3.2xlarge").await, "ami-br-nvidia-amd64");

    let memory = async |instance_type: &str| {
        let catalog = provider.catalog(&pool()).await.unwrap();
        catalog.get(instance_type).unwrap().capacity.memory()
    };
    let before = [memory("m5.large").await, memory("m6g.large").await, memory("p3.2xlarge").await];
    let real = before[0] - (200 << 20);
    let registered = NodeClaim { image_id: Some("ami-br-amd64".into()), ..claim("plain", "plain") };
    let own = [(REGISTERED, "true"), (INSTANCE_TYPE, "m5.large")];
    cluster.add(registered, Some(node("node", &own, Resources::of(2000, real))));
    cluster.observe_capacity().await;
    let after = [memory("m5.large").await, memory("m6g.large").await, memory("p3.2xlarge").await];
    assert_eq!(after, [real, before[1], before[2]], "after one node, and for its pair only");
    // A new image of one variant drops that variant's observations only.
    let own = [(REGISTERED, "true"), (INSTANCE_TYPE, "m6g.large")];
    let arm = NodeClaim { image_id: Some("ami-br-arm64".into()), ..claim("arm", "arm") };
    cluster.add(arm, Some(node("node-arm", &own, Resources::of(2000, real))));
    cluster.aws.cloud.with(|inner| {
        let path = "/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id".to_owned();
        inner.parameters.insert(path, "ami-br-new".to_owned());
        let new = Image { id: "ami-br-new".to_owned(), ..inner.images[3].clone() };
        inner.images.push(new);
    });
    // Parameters of aliases are read once a day.
    cluster.pass(24 * 3600).await;
    for _ in 0..3 {
        cluster.round("nodeclass").await;
        cluster.observe_capacity().await;
        cluster.pass(6).await;
    }
    assert_eq!([memory("m5.large").await, memory("m6g.large").await], [before[0], real]);
}

/// A second cluster in the region of the first, with its name.
async fn second_cluster(ours: &TestCluster) -> TestCluster {
    let cloud = ours.aws.cloud.clone();
    let classes = node_classes();
    let mut class = fresh("default");
    class.metadata.uid = Some("their-class-uid".to_owned());
    set_class(&classes, class);
    let clock: SharedClock = ours.aws.clock.clone();
    let provider = AwsProvider::new(cloud.clone(), classes.clone(), settings(), clock).await.unwrap();
    provider.identify("their-cluster-uid").await.unwrap();
    let steps = provider.steps();
    TestCluster {
        aws: Aws {
            cloud: cloud.clone(),
            clock: ours.aws.clock.clone(),
            classes,
            settings: settings(),
            provider: Mutex::new(Arc::new(provider)),
        },
        outlook: ours.outlook.clone(),
        steps,
        learner: Default::default(),
        deaf: false,
    }
}

/// Two clusters of one name in one account and region, each with its steps and its garbage collection: after hours of both, each has its
/// own resources and has deleted none of the other's.
#[tokio::test]
async fn two_clusters_of_one_name_leave_each_other_alone() {
    let mut ours = TestCluster::new(settings(), fresh("default")).await;
    let cloud = ours.aws.cloud.clone();
    let mut theirs = second_cluster(&ours).await;
    for _ in 0..4 {
        for cluster in [&mut ours, &mut theirs] {
            cluster.round("nodeclass").await;
            cluster.pass(6).await;
        }
    }
    theirs.outlook.now = ours.aws.now();
    let profile = |cluster: &TestCluster| cluster.class("default").status.unwrap().instance_profile;
    assert_ne!(profile(&ours), profile(&theirs));
    for cluster in [&ours, &theirs] {
        assert_eq!(cluster.condition("default", "Ready"), "True Ready");
        assert!(cluster.aws.provider().launch(&batch(3)).await.iter().all(Result::is_ok));
    }
    let uids = |cluster: &TestCluster| cluster.aws.provider();
    let before = (uids(&ours).list().await.unwrap(), uids(&theirs).list().await.unwrap());
    assert_eq!((before.0.len(), before.1.len()), (3, 3));
    for minutes in 0..180 {
        for cluster in [&mut ours, &mut theirs] {
            if minutes % 2 == 0 {
                cluster.pass(60).await;
            }
            cluster.outlook.now = cluster.aws.now();
            for step in [
                "nodeclass",
                "launchtemplate.garbagecollection",
                "instanceprofile.garbagecollection",
                "ownership",
            ] {
                cluster.round(step).await;
            }
        }
    }
    for instance in &before.1 {
        let refused = ours.aws.provider().terminate_orphan(&instance.provider_id).await;
        assert!(matches!(refused, Err(CloudError::NotOwned { .. })));
    }
    assert_eq!(uids(&ours).list().await.unwrap(), before.0);
    assert_eq!(uids(&theirs).list().await.unwrap(), before.1);
    let profiles = cloud.profiles_now();
    assert!(profiles.contains_key(&profile(&ours)) && profiles.contains_key(&profile(&theirs)));
    let owner = |uid: &str| {
        let all = cloud.templates_now();
        all.values().filter(|(template, _)| template.tags[labels::TAG_CLUSTER_UID] == uid).count()
    };
    // Dry runs create one now and then; the templates of launches were deleted by their owner.
    assert!(owner(UID) <= 1 && owner("their-cluster-uid") <= 1);
    assert!(cloud.count("DeleteLaunchTemplate") >= 2);
    assert!(ours.aws.provider.lock().unwrap().foreign().count(ResourceType::Instance) == 3);
}
