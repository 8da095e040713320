//! The fake cloud passes the conformance tests of a cloud provider, in process and over HTTP; broken providers do not.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod bugs;
mod classes;
mod harness;
mod hosts;
mod mutants;
#[path = "../support/mod.rs"]
mod support;
mod wire;

use std::{sync::Arc, time::Duration};

use fleetwright_core::{
    cloud::{
        Interruption, InterruptionKind, Outlook,
        conformance::{self, ConformanceReport, Harness},
    },
    model::{Catalog, Offering},
};
use fleetwright_fake::{
    Catalogue,
    catalogue::{kwok, realistic},
};
use harness::{Fake, Options};

/// Cases about shared and reserved capacity, slow launches, launches one by one and quotas, and about drift and restrictions of classes: the
/// fake cloud has none of them.
const NOT_APPLICABLE: [&str; 9] = [
    "what instance types share is counted once",
    "a launch that is under way is asked for again",
    "a launch that is not answered holds up no other",
    "a launch above a quota names it and launches nothing",
    "a class restricts the catalogue of its pools",
    "a class restricts the instances of its claims",
    "a changed class drifts its own instances",
    "a reserved offering tells its reservation and what is left",
    "reserved capacity is launched as reserved, as far as it goes",
];

async fn conforms(catalogue: Catalogue, over_http: bool, tags_node_claims: bool) {
    let options = Options { over_http, tags_node_claims, ..Options::of(catalogue) };
    let report = conformance::run_all(async || Fake::new(options.clone()).await).await;
    assert_eq!(report, ConformanceReport { failures: Vec::new(), not_applicable: NOT_APPLICABLE.to_vec() });
}

/// With classes that restrict zones and drift, a quota, and slow launches one by one, every case applies.
#[tokio::test]
async fn every_case_applies_to_a_cloud_with_classes() {
    let options = Options { class_rules: true, ..Options::of(kwok()) };
    let report = conformance::run_all(async || Fake::new(options.clone()).await).await;
    assert_eq!(report, ConformanceReport::default());
}

#[tokio::test]
async fn in_process_with_the_generic_types() {
    conforms(kwok(), false, true).await;
}

#[tokio::test]
async fn in_process_with_the_realistic_catalogue() {
    conforms(realistic(11), false, true).await;
}

#[tokio::test]
async fn over_http() {
    conforms(kwok(), true, true).await;
}

/// In a cloud whose instances carry batch and attempt from launch, and no claim.
#[tokio::test]
async fn fleets_in_process() {
    conforms(kwok(), false, false).await;
}

#[tokio::test]
async fn fleets_over_http() {
    conforms(realistic(11), true, false).await;
}

/// The provider's steps keep its catalogue current and report interruption notices until the interruption.
async fn check_steps(over_http: bool) {
    let fake = Fake::new(Options { over_http, ..Options::of(realistic(1)) }).await;
    let provider = fake.provider();
    let pool = conformance::any_pool(&fake);
    let shown = provider.catalog(&pool).await.unwrap();
    let [pricing, notices] = <[_; 2]>::try_from(provider.steps()).ok().unwrap();
    let round = pricing.run(&Outlook::at(fake.now())).await.unwrap();
    assert!(round.again <= Duration::from_secs(300) && round.interruptions.is_empty());
    let moved = provider.catalog(&pool).await.unwrap();
    assert!(Arc::ptr_eq(&moved, &provider.catalog(&pool).await.unwrap()), "shared while nothing changes");
    assert_ne!(*shown, *moved);
    // An instance has the price of its launch.
    let request = conformance::launch_request(&fake, "a", "spot");
    let instance = provider.launch(&[request]).await.pop().unwrap().unwrap();
    let label = |key: &str| instance.labels.get(key).unwrap().to_string();
    let (kind, zone) = (label("node.kubernetes.io/instance-type"), label("topology.kubernetes.io/zone"));
    let real = fake.cloud.instances().pop().unwrap();
    assert_eq!(moved.price(&kind, &zone, "spot").unwrap().nanos(), real.price_nanos);
    assert!(notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions.is_empty());
    assert!(fake.cloud.interrupt(&real.id));
    for _ in 0..2 {
        let reported = notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions;
        assert_eq!(reported, [Interruption::new(instance.provider_id.clone(), InterruptionKind::Spot)]);
    }
    let dry = provider.catalog(&pool).await.unwrap();
    let offering = |catalog: &Catalog| {
        let offerings = catalog.get(&kind).unwrap().offerings.clone();
        let spot = |offering: &&Offering| {
            offering.zone().is_some_and(|of| **of == *zone)
                && offering.capacity_type().is_some_and(|of| &**of == "spot")
        };
        offerings.iter().find(spot).unwrap().available
    };
    assert_eq!((offering(&moved), offering(&dry)), (true, false));
    fake.clock.advance(Duration::from_secs(300));
    assert!(
        notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions.is_empty(),
        "it is terminated"
    );
    assert!(offering(&provider.catalog(&pool).await.unwrap()), "available again after three minutes");
}

#[tokio::test]
async fn steps_in_process() {
    check_steps(false).await;
}

#[tokio::test]
async fn steps_over_http() {
    check_steps(true).await;
}
