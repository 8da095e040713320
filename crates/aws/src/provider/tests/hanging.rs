//! Calls that hang: they hold up what needs their answer, and nothing else.

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_core::cloud::Round;
use rstest::rstest;
use serde_json::json;

use super::cluster::{TestCluster, fresh};
use super::status::STEP;
use super::*;

/// As many EC2NodeClasses as are begun in one round, thrice.
const CLASSES: usize = 30;

fn name(at: usize) -> String {
    format!("class-{at:02}")
}

/// EC2NodeClasses, the first `apart` of which select a subnet that no other does.
async fn classes(apart: usize) -> TestCluster {
    let cluster = TestCluster::new(settings(), fresh(&name(0))).await;
    for at in 0..CLASSES {
        let mut class = fresh(&name(at));
        if at < apart {
            class.spec.subnet_selector_terms = serde_json::from_value(json!([{"id": "subnet-a"}])).unwrap();
        }
        set_class(&cluster.aws.classes, class);
    }
    cluster
}

async fn round(cluster: &mut TestCluster) -> Round {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, cluster.round(STEP)).await.expect("a round ends whatever hangs")
}

/// A round for each step of a new EC2NodeClass, six seconds apart.
async fn rounds(cluster: &mut TestCluster) {
    for _ in 0..8 {
        round(cluster).await;
        cluster.pass(6).await;
    }
}

/// The EC2NodeClasses that are Ready.
fn ready(cluster: &TestCluster) -> Vec<usize> {
    (0..CLASSES).filter(|at| cluster.condition(&name(*at), "Ready") == "True Ready").collect()
}

/// Even if more of them hang than are begun at once.
#[rstest]
#[case::one(1)]
#[case::more_than_are_begun_at_once(12)]
#[tokio::test(start_paused = true)]
async fn a_class_whose_call_hangs_holds_up_no_other(#[case] hanging: usize) {
    let mut cluster = classes(hanging).await;
    cluster.aws.cloud.hold(&["subnet-a"]);
    rounds(&mut cluster).await;
    assert_eq!(ready(&cluster), (hanging..CLASSES).collect::<Vec<_>>());
    assert_eq!(cluster.condition(&name(0), condition::SUBNETS_READY), "none");
    // What becomes of another class meanwhile is written, too.
    cluster.edit(&name(CLASSES - 1), |class| {
        class.spec.subnet_selector_terms = serde_json::from_value(json!([{"id": "subnet-none"}])).unwrap();
    });
    round(&mut cluster).await;
    let changed = cluster.condition(&name(CLASSES - 1), condition::SUBNETS_READY);
    assert_eq!(changed, "False SubnetsNotFound");
    // Each call that hangs was made once.
    let asked = cluster.aws.cloud.count("DescribeSubnets");
    cluster.aws.cloud.hold(&[]);
    let round = round(&mut cluster).await;
    assert!(round.again >= Duration::from_secs(1), "nothing is left to wait for");
    assert_eq!(cluster.aws.cloud.count("DescribeSubnets"), asked);
    rounds(&mut cluster).await;
    assert_eq!(ready(&cluster), (0..CLASSES - 1).collect::<Vec<_>>());
}

/// A round lasts a second at most, and the next one follows at once: a reconcile makes progress during rounds only.
#[tokio::test(start_paused = true)]
async fn a_round_does_not_wait_for_a_call_that_hangs() {
    let mut cluster = classes(1).await;
    cluster.aws.cloud.hold(&["subnet-a"]);
    let began = tokio::time::Instant::now();
    let round = round(&mut cluster).await;
    assert_eq!((began.elapsed().as_secs(), round.again), (1, Duration::ZERO));
}

/// The description of the cluster comes first, but a class that is there goes on without an answer.
#[tokio::test(start_paused = true)]
async fn a_call_to_eks_that_hangs_holds_up_no_class() {
    let mut cluster = classes(0).await;
    rounds(&mut cluster).await;
    cluster.aws.cloud.hold(&[CLUSTER]);
    cluster.pass(301).await;
    let before = cluster.aws.cloud.count("DescribeCluster");
    for at in 0..3 {
        cluster.edit(&name(at), |class| {
            class.spec.subnet_selector_terms =
                serde_json::from_value(json!([{"id": "subnet-none"}])).unwrap();
        });
        round(&mut cluster).await;
        assert_eq!(cluster.condition(&name(at), condition::SUBNETS_READY), "False SubnetsNotFound");
    }
    cluster.aws.cloud.hold(&[]);
    round(&mut cluster).await;
    round(&mut cluster).await;
    assert_eq!(cluster.aws.cloud.count("DescribeCluster"), before + 1, "one call, and its answer was used");
}
