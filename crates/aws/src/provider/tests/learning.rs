//! Observed capacity: what is recorded, what survives a restart, what is dropped.

use fleetwright_aws_api::labels;
use fleetwright_core::model::ResourceName;
use fleetwright_core::model::labels::{INITIALIZED, INSTANCE_TYPE, REGISTERED};

use super::loops::{launched, ready};
use super::world::{World, node};
use super::*;

const GI: i64 = 1 << 30;

/// The reports of nodes are used for their type and image, survive the process and the nodes, and are dropped with the image.
#[tokio::test]
async fn capacity_is_observed_and_kept() {
    const STEP: &str = "providers.instancetype.capacity";
    let mut world = ready(settings()).await;
    launched(&mut world, 1).await;
    let instance_type = world.claim("claim-000").labels[INSTANCE_TYPE].clone();
    let image = world.claim("claim-000").image_id.unwrap();
    let memory = async |world: &World| {
        let catalog = world.aws.provider().catalog(&pool()).await.unwrap();
        catalog.get(&instance_type).unwrap().capacity.memory()
    };
    assert_ne!(memory(&world).await, 7 * GI);
    world.round(STEP).await;
    assert_eq!(memory(&world).await, 7 * GI);
    assert!(world.round(STEP).await.writes.is_empty(), "no change");
    world.outlook.nodes.clear();
    world.restart().await;
    world.round(STEP).await;
    assert_eq!(memory(&world).await, 7 * GI, "the class remembers");
    // A live node corrects the stored figure, upwards too.
    let own = [(REGISTERED, "true"), (INSTANCE_TYPE, &*instance_type)];
    let claim = NodeClaim { image_id: Some(image.clone()), ..claim("b", "b") };
    world.add(claim, Some(node("node-b", &own, Resources::of(2000, 9 * GI))));
    world.round(STEP).await;
    assert_eq!(memory(&world).await, 9 * GI);
    let text =
        |world: &World| world.class("default").metadata.annotations.unwrap().get(labels::OBSERVED).cloned();
    assert!(text(&world).unwrap().contains(&*image));
    let mut class = world.class("default");
    class.status.as_mut().unwrap().amis.retain(|ami| *ami.id != *image);
    world.aws.classes.set(class);
    world.round(STEP).await;
    assert_eq!(text(&world), None, "dropped with its image");
}

/// More nodes of a pair than are stored, with slightly different memory: the youngest are used whatever their names, and a round without
/// news changes nothing, so that no catalogue is rebuilt.
#[tokio::test]
async fn many_nodes_of_a_pair_reach_a_fixed_point() {
    const STEP: &str = "providers.instancetype.capacity";
    let mut world = ready(settings()).await;
    let whole = [(REGISTERED, "true"), (INITIALIZED, "true"), (INSTANCE_TYPE, "m5.large")];
    for at in 0..20_i64 {
        // Neither names nor figures are in the order of creation.
        let name = format!("node-{:02}", (at * 7) % 20);
        let created = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(at);
        let own = NodeClaim { image_id: Some("ami-1".into()), created, ..claim(&name, &name) };
        let told = Resources::of(2000, 7 * GI + (at * 3) % 20);
        world.add(own, Some(node(&name, &whole, told)));
    }
    world.outlook.nodes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let observed = |world: &World| {
        let provider = world.aws.provider.lock().unwrap();
        provider.with_observed(|observed| (observed.version(), observed.known("m5.large", "ami-1").unwrap()))
    };
    // Of the nodes created in minutes 12 to 19, the one of minute 14 has the least: 3 * 14 = 2 * 20 + 2.
    world.round(STEP).await;
    let first = observed(&world);
    assert_eq!(first.1, (2000, 7 * GI + 2));
    for _ in 0..3 {
        world.round(STEP).await;
        assert_eq!(observed(&world), first);
    }
    // A younger node replaces the oldest of the eight.
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(30);
    let own = NodeClaim { image_id: Some("ami-1".into()), created, ..claim("a", "a") };
    world.add(own, Some(node("a", &whole, Resources::of(2000, 6 * GI))));
    world.round(STEP).await;
    assert_eq!(observed(&world).1, (2000, 6 * GI));
}

/// Storage is observed on initialized nodes of the current class; unused images are dropped.
#[tokio::test]
async fn storage_is_observed_of_nodes_of_the_same_class() {
    const STEP: &str = "providers.instancetype.capacity";
    let mut world = ready(settings()).await;
    let storage = async |world: &World| {
        let catalog = world.aws.provider().catalog(&pool()).await.unwrap();
        catalog.get("m5.large").unwrap().capacity.get(&ResourceName::EphemeralStorage)
    };
    let promised = storage(&world).await;
    let hash = world.class("default").spec.drift_hash(&settings().ca_bundle);
    let claim_of = |name: &str, hash: &str| {
        let mut claim = NodeClaim { image_id: Some("ami-gone".into()), ..claim(name, name) };
        claim.annotations.insert(labels::HASH.into(), hash.into());
        claim.annotations.insert(labels::HASH_VERSION.into(), labels::CURRENT_HASH_VERSION.into());
        claim
    };
    let shaped = world.aws.provider.lock().unwrap().class_catalog(&world.aws.classes.get("default").unwrap());
    let amd = shaped.shaped["m5.large"].image.clone().unwrap();
    let told = |less: i64| Resources::of(2000, 7 * GI).with("ephemeral-storage", promised - less);
    let whole = [(REGISTERED, "true"), (INITIALIZED, "true"), (INSTANCE_TYPE, "m5.large")];
    let early = [whole[0], whole[2]];
    for (name, hash, labels, less, expected) in [
        ("early", &*hash, &early[..], 5, 0),
        ("edited", "other", &whole[..], 5, 0),
        ("whole", &*hash, &whole[..], 1, 1),
    ] {
        let claim = NodeClaim { image_id: Some(amd.as_str().into()), ..claim_of(name, hash) };
        world.add(claim, Some(node(name, labels, told(less))));
        world.round(STEP).await;
        assert_eq!(storage(&world).await, promised - expected, "{name}");
    }
    world.restart().await;
    let nodes = std::mem::take(&mut world.outlook.nodes);
    world.round(STEP).await;
    assert_eq!(storage(&world).await, promised - 1, "stored on the class");
    world.outlook.nodes = nodes;
    world.add(claim_of("last", &hash), Some(node("last", &whole, told(9))));
    let knows = |world: &World| {
        world.aws.provider.lock().unwrap().with_observed(|all| all.known("m5.large", "ami-gone"))
    };
    world.round(STEP).await;
    assert_eq!(knows(&world), Some((2000, 7 * GI)));
    world.outlook.nodes.pop();
    let class = world.class("default");
    world.edit("default", |class| class.status.as_mut().unwrap().amis.clear());
    world.round(STEP).await;
    assert!(knows(&world).is_some(), "the images in use are unknown");
    world.aws.classes.set(class);
    world.round(STEP).await;
    assert_eq!(knows(&world), None);
    assert_eq!(storage(&world).await, promised - 1, "all others remain");
}

/// Entries of a class or a template are dropped with it.
#[tokio::test]
async fn entries_of_deleted_objects_are_dropped() {
    let mut world = ready(settings()).await;
    let aws = world.aws.provider.lock().unwrap().clone();
    aws.catalog(&pool()).await.unwrap();
    aws.templates.used("gone".to_owned(), world.aws.now());
    let kept = || (aws.catalogs.cached(), aws.templates.exists("gone"));
    world.round("launchtemplate.garbagecollection").await;
    assert_eq!(kept(), (1, true), "a launch may be under way with it");
    world.pass(51 * 60).await;
    world.round("launchtemplate.garbagecollection").await;
    world.aws.classes.remove("default");
    world.round("nodeclass").await;
    assert_eq!(kept(), (0, false));
}
