//! Prices over time: stored across restarts, aging while AWS does not answer, and doubtful after jumps.

use fleetwright_aws_api::{ec2nodeclass::condition, labels};
use fleetwright_core::model::{Currency, Price};

use super::cluster::{TestCluster, fresh};
use super::*;

const STEP: &str = "providers.pricing";

fn cents(count: i64) -> Price {
    Price::from_nanos(count * 10_000_000)
}

/// A region where an hour of m5.large costs `on_demand` cents on demand, and four as spot.
async fn region(on_demand: i64) -> TestCluster {
    let cluster = TestCluster::new(settings(), fresh("default")).await;
    set_prices(&cluster, on_demand);
    cluster
}

fn set_prices(cluster: &TestCluster, on_demand: i64) {
    let place = ("m5.large".to_owned(), "us-west-2a".to_owned());
    cluster.aws.cloud.set_prices(vec![("m5.large".to_owned(), cents(on_demand))], vec![(place, cents(4))]);
}

fn known(cluster: &TestCluster) -> (Option<Price>, Option<Price>) {
    let of = |prices: &mut Prices| (prices.on_demand("m5.large"), prices.spot("m5.large", "us-west-2a"));
    cluster.aws.provider.lock().unwrap().with_prices(of)
}

fn kept(cluster: &TestCluster, class: &str) -> Option<String> {
    cluster.class(class).metadata.annotations.and_then(|all| all.get(labels::PRICES).cloned())
}

fn fail(cluster: &TestCluster, times: usize) {
    for _ in 0..times {
        cluster
            .aws
            .cloud
            .inject(Call::SpotPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
        cluster
            .aws
            .cloud
            .inject(Call::OnDemandPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
    }
}

#[tokio::test]
async fn prices_are_in_the_currency_of_the_region() {
    for (region, currency) in [("us-west-2", Currency::USD), ("cn-north-1", Currency::CNY)] {
        let settings = Settings { region: region.into(), ..settings() };
        let cluster = TestCluster::new(settings, fresh("default")).await;
        assert_eq!(cluster.aws.provider.lock().unwrap().info().currency, Some(currency), "{region}");
    }
}

#[tokio::test]
async fn prices_outlive_the_process() {
    let mut cluster = region(11).await;
    cluster.round(STEP).await;
    let answered_at = cluster.aws.now();
    assert_eq!(known(&cluster), (Some(cents(11)), Some(cents(4))));
    assert!(cluster.round(STEP).await.writes.is_empty(), "no change");
    cluster.pass(3600).await;
    cluster.restart().await;
    assert_ne!(known(&cluster).0, Some(cents(11)), "a new process has the built-in prices");
    fail(&cluster, 1);
    assert!(cluster.try_round(STEP).await.is_err());
    assert_eq!(known(&cluster), (Some(cents(11)), Some(cents(4))), "stored on the class");
    assert_eq!(cluster.aws.provider().prices_as_of(), Some(answered_at), "with their time");
    set_prices(&cluster, 12);
    cluster.round(STEP).await;
    assert_eq!(known(&cluster).0, Some(cents(12)));
    assert_eq!(cluster.aws.provider().prices_as_of(), Some(cluster.aws.now()));
}

#[tokio::test]
async fn one_class_keeps_the_prices() {
    let mut cluster = region(11).await;
    cluster.round(STEP).await;
    assert!(kept(&cluster, "default").is_some());
    set_class(&cluster.aws.classes, fresh("a-new-one"));
    cluster.round(STEP).await;
    assert!(kept(&cluster, "a-new-one").is_some() && kept(&cluster, "default").is_none());
    cluster.edit("a-new-one", |class| {
        let at = fleetwright_aws_api::Time(cluster.aws.now());
        class.metadata.deletion_timestamp = Some(at);
    });
    cluster.round(STEP).await;
    assert!(kept(&cluster, "default").is_some(), "a deleted class does not delete the prices");
}

#[tokio::test]
async fn prices_age_while_aws_does_not_answer() {
    let mut cluster = region(11).await;
    assert_eq!(cluster.aws.provider().prices_as_of(), None, "tables do not age");
    cluster.round(STEP).await;
    let answered_at = cluster.aws.now();
    cluster.pass(12 * 3600).await;
    cluster
        .aws
        .cloud
        .inject(Call::OnDemandPrices, Fault::Refuse(AwsError::new("InternalError", "try again")));
    assert!(cluster.try_round(STEP).await.is_err());
    assert_eq!(cluster.aws.provider().prices_as_of(), Some(answered_at), "the older of both");
    cluster.aws.cloud.deny(Call::OnDemandPrices);
    let round = cluster.round(STEP).await;
    assert_eq!(round.again, Duration::from_secs(1800));
    assert_eq!(cluster.aws.provider().prices_as_of(), Some(answered_at));
}

#[tokio::test]
async fn built_in_prices_do_not_age() {
    let mut cluster = region(11).await;
    cluster.aws.cloud.deny(Call::OnDemandPrices);
    cluster.aws.cloud.deny(Call::SpotPrices);
    cluster.round(STEP).await;
    assert_eq!((cluster.aws.provider().prices_as_of(), kept(&cluster, "default")), (None, None));
}

#[tokio::test]
async fn a_price_that_jumps_is_used_once_confirmed() {
    let mut cluster = region(11).await;
    cluster.round(STEP).await;
    set_prices(&cluster, 1100);
    let round = cluster.round(STEP).await;
    assert_eq!(known(&cluster).0, Some(cents(11)));
    let notice = round.notices.first().unwrap();
    assert_eq!(notice.reason, "PricesDoubtful");
    assert!(notice.message.contains("m5.large: $11/h, $0.11/h before"), "{}", notice.message);
    cluster.round("nodeclass").await;
    assert_eq!(cluster.condition("default", condition::FEATURES_AVAILABLE), "False PricesDoubtful");
    cluster.pass(12 * 3600).await;
    assert!(cluster.round(STEP).await.notices.is_empty());
    assert_eq!(known(&cluster).0, Some(cents(1100)), "confirmed");
}
