//! What a class says of launches that are tried without being made.

use fleetwright_aws_api::HasConditions as _;
use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_core::model::{NodePool, Requirement, labels::ARCH};
use rstest::rstest;

use super::cluster::{TestCluster, fresh};
use super::status::{STEP, refusal, run_until_stable};
use super::*;

/// EC2 refuses a profile that is too new for a while, and some launches always: the class remains ready and reports it.
#[rstest]
#[case(Call::TryFleet, "ec2:CreateFleet")]
#[case(Call::TryInstance, "ec2:RunInstances")]
#[tokio::test]
async fn a_launch_that_would_be_refused_is_reported(#[case] call: Call, #[case] action: &str) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    (0..20).for_each(|_| cluster.aws.cloud.inject(call, refusal("InvalidParameterValue")));
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), "True LaunchRefused");
    let class = cluster.class("default");
    let reported = class.conditions().iter().find(|it| it.type_ == condition::VALIDATION_SUCCEEDED).unwrap();
    let expected = format!("{action} would be refused at the moment: InvalidParameterValue: why");
    assert_eq!(reported.message, expected);
    // The refusal is not remembered for long.
    cluster.pass(61).await;
    cluster.aws.cloud.clear(call);
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), "True ValidationSucceeded");
}

/// EC2 knows a new profile only after seconds: until then the class is not ready, then it is, without a detour over a warning.
#[tokio::test]
async fn a_class_waits_until_ec2_knows_its_new_profile() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    cluster.aws.cloud.delay_profiles(SignedDuration::from_secs(20));
    let mut notices = Vec::new();
    for _ in 0..3 {
        notices.extend(cluster.round(STEP).await.notices);
        cluster.pass(5).await;
    }
    assert_eq!(
        cluster.condition("default", condition::VALIDATION_SUCCEEDED),
        "Unknown InstanceProfileSettling"
    );
    assert!(!cluster.condition("default", "Ready").starts_with("True"));
    cluster.pass(10).await;
    for _ in 0..3 {
        notices.extend(cluster.round(STEP).await.notices);
        cluster.pass(5).await;
    }
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    assert!(notices.iter().all(|notice| !notice.warning), "{notices:?}");
}

/// What the owner of an image or the Marketplace refuses is no matter of credentials.
#[rstest]
#[case("AuthFailure", "Not authorized for images: [ami-1]", "False AMIAuthorizationFailure")]
#[case(
    "OptInRequired",
    "In order to use this AWS Marketplace product you need to accept terms and subscribe.",
    "False MarketplaceSubscriptionRequired"
)]
#[case("AuthFailure", "AWS was not able to validate the provided access credentials", "Unknown Unauthorized")]
#[tokio::test]
async fn images_that_the_account_may_not_use(#[case] code: &str, #[case] said: &str, #[case] expected: &str) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    for _ in 0..50 {
        cluster.aws.cloud.inject(Call::TryInstance, Fault::Refuse(AwsError::new(code, said)));
    }
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), expected);
}

/// A class is tried with an ordinary type that its NodePools allow, not with the cheapest.
#[tokio::test]
async fn dry_runs_try_what_the_class_can_launch() {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    let mut pool = NodePool::clone(&cluster.outlook.pools[0]);
    pool.template.requirements.add(Requirement::is_in(ARCH, ["amd64"]));
    cluster.outlook.pools = vec![Arc::new(pool)];
    run_until_stable(&mut cluster).await;
    let tried = cluster.aws.cloud.tried_types();
    assert!(!tried.is_empty() && tried.iter().all(|name| name == "m5.large"), "{tried:?}");
}

/// A policy may deny dedicated instances alone: they are tried if a NodePool names them.
#[rstest]
#[case(None, "default")]
#[case(Some(&["default"][..]), "default")]
#[case(Some(&["default", "dedicated"][..]), "dedicated")]
#[case(Some(&["dedicated"][..]), "dedicated")]
#[tokio::test]
async fn dry_runs_try_the_tenancy_of_the_pools(#[case] asked: Option<&[&str]>, #[case] expected: &str) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    let mut pool = NodePool::clone(&cluster.outlook.pools[0]);
    if let Some(values) = asked {
        pool.template.requirements.add(Requirement::is_in(labels::INSTANCE_TENANCY, values.iter().copied()));
    }
    cluster.outlook.pools = vec![Arc::new(pool)];
    run_until_stable(&mut cluster).await;
    let templates = cluster.aws.cloud.templates_now();
    let tenancies: Vec<Option<String>> =
        templates.into_values().filter_map(|(_, data)| Some(data?.tenancy)).collect();
    assert_eq!(tenancies, [Some(expected.to_owned())]);
}

/// Ten tags are the controller's.
#[tokio::test]
async fn a_class_has_at_most_forty_tags() {
    for (count, expected) in [(40, "True ValidationSucceeded"), (41, "False TagValidationFailed")] {
        let mut class = fresh("default");
        class.spec.tags = Some((0..count).map(|n| (format!("team-{n}"), "a".to_owned())).collect());
        let mut cluster = TestCluster::new(settings(), class).await;
        run_until_stable(&mut cluster).await;
        assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), expected);
    }
}

#[rstest]
#[case(Call::TryFleet, "CreateFleetAuthCheckFailed")]
#[case(Call::TryInstance, "RunInstancesAuthCheckFailed")]
#[case(Call::CreateTemplate, "CreateLaunchTemplateAuthCheckFailed")]
#[tokio::test]
async fn dry_runs_report_refusals(#[case] call: Call, #[case] reason: &str) {
    let mut cluster = TestCluster::new(settings(), fresh("default")).await;
    cluster.aws.cloud.deny(call);
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", condition::VALIDATION_SUCCEEDED), format!("False {reason}"));
    cluster.aws.cloud.allow(call);
    cluster.pass(61).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    let off = Settings { dry_runs: false, ..settings() };
    let mut cluster = TestCluster::new(off, fresh("default")).await;
    cluster.aws.cloud.deny(call);
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}
