//! Observed capacity: what is recorded, what survives a restart, what is dropped.

use fleetwright_aws_api::labels;
use fleetwright_core::model::ResourceName;
use fleetwright_core::model::labels::{INITIALIZED, INSTANCE_TYPE, REGISTERED};

use super::cluster::{TestCluster, node};
use super::loops::{launched, ready};
use super::*;

const GI: i64 = 1 << 30;

/// The reports of nodes are used for their type and image, survive the process and the nodes, and are dropped with the image.
#[tokio::test]
async fn capacity_is_observed_and_kept() {
    let mut cluster = ready(settings()).await;
    launched(&mut cluster, 1).await;
    let instance_type = cluster.claim("claim-000").labels[INSTANCE_TYPE].clone();
    let image = cluster.claim("claim-000").image_id.unwrap();
    let memory = async |cluster: &TestCluster| {
        let catalog = cluster.aws.provider().catalog(&pool()).await.unwrap();
        catalog.get(&instance_type).unwrap().capacity.memory()
    };
    assert_ne!(memory(&cluster).await, 7 * GI);
    cluster.observe_capacity().await;
    assert_eq!(memory(&cluster).await, 7 * GI);
    assert_eq!(cluster.observe_capacity().await, 0, "no change");
    cluster.outlook.nodes.clear();
    cluster.restart().await;
    cluster.observe_capacity().await;
    assert_eq!(memory(&cluster).await, 7 * GI, "the NodePool keeps it");
    // A live node corrects the stored figure, upwards too.
    let own = [(REGISTERED, "true"), (INSTANCE_TYPE, &*instance_type)];
    let claim = NodeClaim { image_id: Some(image.clone()), ..claim("b", "b") };
    cluster.add(claim, Some(node("node-b", &own, Resources::of(2000, 9 * GI))));
    cluster.observe_capacity().await;
    assert_eq!(memory(&cluster).await, 9 * GI);
    let text = |cluster: &TestCluster| cluster.outlook.pools[0].observed.capacity.clone();
    assert!(text(&cluster).contains(&*image));
    let mut class = cluster.class("default");
    class.status.as_mut().unwrap().amis.retain(|ami| *ami.id != *image);
    set_class(&cluster.aws.classes, class);
    cluster.observe_capacity().await;
    assert_eq!(&*text(&cluster), "", "dropped with its image");
}

/// More nodes of a pair than are stored, with slightly different memory: the youngest are used whatever their names, and a round without
/// news changes nothing, so that no catalogue is rebuilt.
#[tokio::test]
async fn many_nodes_of_a_pair_reach_a_fixed_point() {
    let mut cluster = ready(settings()).await;
    let whole = [(REGISTERED, "true"), (INITIALIZED, "true"), (INSTANCE_TYPE, "m5.large")];
    for at in 0..20_i64 {
        // Neither names nor figures are in the order of creation.
        let name = format!("node-{:02}", (at * 7) % 20);
        let created = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(at);
        let own = NodeClaim { image_id: Some("ami-1".into()), created, ..claim(&name, &name) };
        let reported = Resources::of(2000, 7 * GI + (at * 3) % 20);
        cluster.add(own, Some(node(&name, &whole, reported)));
    }
    cluster.outlook.nodes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let observed = |cluster: &TestCluster| {
        let observed = cluster.learner.observed();
        (observed.version(), observed.known("m5.large", "ami-1").unwrap())
    };
    // Of the nodes created in minutes 12 to 19, the one of minute 14 has the least: 3 * 14 = 2 * 20 + 2.
    cluster.observe_capacity().await;
    let first = observed(&cluster);
    assert_eq!(first.1, (2000, 7 * GI + 2));
    for _ in 0..3 {
        cluster.observe_capacity().await;
        assert_eq!(observed(&cluster), first);
    }
    // A younger node replaces the oldest of the eight.
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(30);
    let own = NodeClaim { image_id: Some("ami-1".into()), created, ..claim("a", "a") };
    cluster.add(own, Some(node("a", &whole, Resources::of(2000, 6 * GI))));
    cluster.observe_capacity().await;
    assert_eq!(observed(&cluster).1, (2000, 6 * GI));
}

/// Storage is observed on initialized nodes of the current class; unused images are dropped.
#[tokio::test]
async fn storage_is_observed_of_nodes_of_the_same_class() {
    let mut cluster = ready(settings()).await;
    let storage = async |cluster: &TestCluster| {
        let catalog = cluster.aws.provider().catalog(&pool()).await.unwrap();
        catalog.get("m5.large").unwrap().capacity.get(&ResourceName::EphemeralStorage)
    };
    let promised = storage(&cluster).await;
    let hash = cluster.class("default").spec.drift_hash(&settings().ca_bundle);
    let claim_of = |name: &str, hash: &str| {
        let mut claim = NodeClaim { image_id: Some("ami-gone".into()), ..claim(name, name) };
        claim.annotations.insert(labels::HASH.into(), hash.into());
        claim.annotations.insert(labels::HASH_VERSION.into(), labels::CURRENT_HASH_VERSION.into());
        claim
    };
    let resolved =
        cluster.aws.provider.lock().unwrap().class_catalog(&cluster.aws.classes.get("default").unwrap());
    let amd = resolved.resolved["m5.large"].image.clone().unwrap();
    let reported = |less: i64| Resources::of(2000, 7 * GI).with("ephemeral-storage", promised - less);
    let whole = [(REGISTERED, "true"), (INITIALIZED, "true"), (INSTANCE_TYPE, "m5.large")];
    let early = [whole[0], whole[2]];
    for (name, hash, labels, less, expected) in [
        ("early", &*hash, &early[..], 5, 0),
        ("edited", "other", &whole[..], 5, 0),
        ("whole", &*hash, &whole[..], 1, 1),
    ] {
        let claim = NodeClaim { image_id: Some(amd.as_str().into()), ..claim_of(name, hash) };
        cluster.add(claim, Some(node(name, labels, reported(less))));
        cluster.observe_capacity().await;
        assert_eq!(storage(&cluster).await, promised - expected, "{name}");
    }
    cluster.restart().await;
    let nodes = std::mem::take(&mut cluster.outlook.nodes);
    cluster.observe_capacity().await;
    assert_eq!(storage(&cluster).await, promised - 1, "kept on the NodePool");
    cluster.outlook.nodes = nodes;
    cluster.add(claim_of("last", &hash), Some(node("last", &whole, reported(9))));
    let knows = |cluster: &TestCluster| cluster.learner.observed().known("m5.large", "ami-gone");
    cluster.observe_capacity().await;
    assert_eq!(knows(&cluster), Some((2000, 7 * GI)));
    cluster.outlook.nodes.pop();
    let class = cluster.class("default");
    cluster.edit("default", |class| class.status.as_mut().unwrap().amis.clear());
    cluster.observe_capacity().await;
    assert!(knows(&cluster).is_some(), "the images in use are unknown");
    set_class(&cluster.aws.classes, class);
    cluster.observe_capacity().await;
    assert_eq!(knows(&cluster), None);
    assert_eq!(storage(&cluster).await, promised - 1, "all others remain");
}

/// Entries of a class or a template are dropped with it.
#[tokio::test]
async fn entries_of_deleted_objects_are_dropped() {
    let mut cluster = ready(settings()).await;
    let aws = cluster.aws.provider.lock().unwrap().clone();
    aws.catalog(&pool()).await.unwrap();
    aws.templates.used("gone".to_owned(), cluster.aws.now());
    let kept = || (aws.catalogs.cached(), aws.templates.exists("gone"));
    cluster.round("launchtemplate.garbagecollection").await;
    assert_eq!(kept(), (1, true), "a launch may be under way with it");
    cluster.pass(51 * 60).await;
    cluster.round("launchtemplate.garbagecollection").await;
    cluster.aws.classes.remove("default");
    cluster.round("nodeclass").await;
    assert_eq!(kept(), (0, false));
}
