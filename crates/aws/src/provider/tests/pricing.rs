//! Prices over time: stored across restarts, aging while AWS does not answer, and doubtful after jumps.

use fleetwright_aws_api::{ec2nodeclass::condition, labels};
use fleetwright_core::model::Price;

use super::world::{World, fresh};
use super::*;

const STEP: &str = "providers.pricing";

fn cents(count: i64) -> Price {
    Price::from_nanos(count * 10_000_000)
}

/// A region where an hour of m5.large costs `on_demand` cents on demand, and four as spot.
async fn region(on_demand: i64) -> World {
    let world = World::new(settings(), fresh("default")).await;
    tell(&world, on_demand);
    world
}

fn tell(world: &World, on_demand: i64) {
    let place = ("m5.large".to_owned(), "us-west-2a".to_owned());
    world.aws.cloud.set_prices(vec![("m5.large".to_owned(), cents(on_demand))], vec![(place, cents(4))]);
}

fn known(world: &World) -> (Option<Price>, Option<Price>) {
    let of = |prices: &mut Prices| (prices.on_demand("m5.large"), prices.spot("m5.large", "us-west-2a"));
    world.aws.provider.lock().unwrap().with_prices(of)
}

fn kept(world: &World, class: &str) -> Option<String> {
    world.class(class).metadata.annotations.and_then(|all| all.get(labels::PRICES).cloned())
}

fn fail(world: &World, times: usize) {
    for _ in 0..times {
        world.aws.cloud.inject(Call::SpotPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
        world
            .aws
            .cloud
            .inject(Call::OnDemandPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
    }
}

#[tokio::test]
async fn prices_outlive_the_process() {
    let mut world = region(11).await;
    world.round(STEP).await;
    let told_at = world.aws.now();
    assert_eq!(known(&world), (Some(cents(11)), Some(cents(4))));
    assert!(world.round(STEP).await.writes.is_empty(), "no change");
    world.pass(3600).await;
    world.restart().await;
    assert_ne!(known(&world).0, Some(cents(11)), "a new process has the built-in prices");
    fail(&world, 1);
    assert!(world.try_round(STEP).await.is_err());
    assert_eq!(known(&world), (Some(cents(11)), Some(cents(4))), "stored on the class");
    assert_eq!(world.aws.provider().prices_as_of(), Some(told_at), "with their time");
    tell(&world, 12);
    world.round(STEP).await;
    assert_eq!(known(&world).0, Some(cents(12)));
    assert_eq!(world.aws.provider().prices_as_of(), Some(world.aws.now()));
}

#[tokio::test]
async fn one_class_keeps_the_prices() {
    let mut world = region(11).await;
    world.round(STEP).await;
    assert!(kept(&world, "default").is_some());
    world.aws.classes.set(fresh("a-new-one"));
    world.round(STEP).await;
    assert!(kept(&world, "a-new-one").is_some() && kept(&world, "default").is_none());
    world.edit("a-new-one", |class| {
        let at = fleetwright_aws_api::Time(world.aws.now());
        class.metadata.deletion_timestamp = Some(at);
    });
    world.round(STEP).await;
    assert!(kept(&world, "default").is_some(), "a deleted class does not delete the prices");
}

#[tokio::test]
async fn prices_age_while_aws_does_not_answer() {
    let mut world = region(11).await;
    assert_eq!(world.aws.provider().prices_as_of(), None, "tables do not age");
    world.round(STEP).await;
    let told_at = world.aws.now();
    world.pass(12 * 3600).await;
    world.aws.cloud.inject(Call::OnDemandPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
    assert!(world.try_round(STEP).await.is_err());
    assert_eq!(world.aws.provider().prices_as_of(), Some(told_at), "the older of both");
    world.aws.cloud.deny(Call::OnDemandPrices);
    let round = world.round(STEP).await;
    assert_eq!(round.again, Duration::from_secs(1800));
    assert_eq!(world.aws.provider().prices_as_of(), Some(told_at));
}

#[tokio::test]
async fn built_in_prices_do_not_age() {
    let mut world = region(11).await;
    world.aws.cloud.deny(Call::OnDemandPrices);
    world.aws.cloud.deny(Call::SpotPrices);
    world.round(STEP).await;
    assert_eq!((world.aws.provider().prices_as_of(), kept(&world, "default")), (None, None));
}

#[tokio::test]
async fn a_price_that_jumps_is_used_once_confirmed() {
    let mut world = region(11).await;
    world.round(STEP).await;
    tell(&world, 1100);
    let round = world.round(STEP).await;
    assert_eq!(known(&world).0, Some(cents(11)));
    let notice = round.notices.first().unwrap();
    assert_eq!(notice.reason, "PricesDoubtful");
    assert!(notice.message.contains("m5.large: $11/h, $0.11/h before"), "{}", notice.message);
    world.round("nodeclass").await;
    assert_eq!(world.condition("default", condition::FEATURES_AVAILABLE), "False PricesDoubtful");
    world.pass(12 * 3600).await;
    assert!(world.round(STEP).await.notices.is_empty());
    assert_eq!(known(&world).0, Some(cents(1100)), "confirmed");
}
