//! Fleets that EC2 does not make as they were asked for: launch templates that are gone, launches that are throttled.

use rstest::rstest;

use super::*;

fn request(name: &str) -> LaunchRequest {
    LaunchRequest::new(claim(name, name))
}

/// Batches of one shape that are launched at the same time share one launch template, which is looked up and created once.
#[tokio::test]
async fn launches_of_one_shape_create_one_template() {
    let aws = Aws::new(settings()).await;
    aws.cloud.interleave();
    let provider = aws.provider();
    let requests = ["a", "b", "c", "d"].map(|name| [request(name)]);
    let answers = futures::future::join_all(requests.iter().map(|own| provider.launch(own))).await;
    assert!(answers.iter().flatten().all(Result::is_ok), "{answers:?}");
    let counts = ["DescribeLaunchTemplates", "CreateLaunchTemplate"].map(|call| aws.cloud.count(call));
    assert_eq!(counts, [1, 1]);
}

/// Interfaces for EFA that the class lists are capacity from birth, although the claim does not ask for them.
#[tokio::test]
async fn instances_have_the_efa_interfaces_of_their_class() {
    let aws = Aws::new(settings()).await;
    aws.cloud.with(|inner| inner.instance_types.iter_mut().for_each(|it| it.network.efa_max = Some(1)));
    aws.restart().await;
    let mut class = class("default", true);
    class.spec.network_interfaces = serde_json::from_value(json!([
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]))
    .unwrap();
    set_class(&aws.classes, class);
    let born = aws.provider().launch(&[request("a")]).await.remove(0).unwrap();
    assert_eq!(born.capacity.get(&labels::RESOURCE_EFA.into()), 1);
}

async fn delete_templates(aws: &Aws) {
    for name in aws.cloud.templates_now().into_keys() {
        AwsApi::delete_launch_template(&*aws.cloud, &name).await.unwrap();
    }
}

/// Somebody deletes templates behind the provider's back: they are made again within the same call, whether EC2 refuses the fleet as a
/// whole or each of its overrides. Where it has made a fleet, the next one has a token of its own.
#[rstest]
#[tokio::test]
async fn a_template_that_is_lost_is_made_again(#[values(false, true)] whole: bool) {
    let aws = Aws::new(settings()).await;
    if whole {
        aws.cloud.refuse_whole();
    }
    assert!(aws.provider().launch(&[request("first")]).await[0].is_ok());
    let (made, used) = (aws.cloud.templates_now().len(), aws.now());
    delete_templates(&aws).await;
    let provider = aws.provider.lock().unwrap().clone();
    provider.templates.used("of-another-class".to_owned(), used);
    let answer = provider.launch(&[request("again")]).await.remove(0);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!((aws.cloud.templates_now().len(), aws.cloud.count("CreateFleet")), (made, 3));
    let fleets = aws.cloud.fleets();
    assert_eq!(fleets[1].token == fleets[2].token, whole);
    assert_eq!(provider.templates.last_use("of-another-class"), Some(used), "its last use is known");
}

/// The NodeClaims that are left to the next attempt because EC2 throttled their launch.
fn throttled(answers: &[Result<Instance, LaunchError>]) -> usize {
    let is = |answer: &&Result<Instance, LaunchError>| matches!(answer, Err(LaunchError::Failed { reason, .. }) if **reason == *"RequestLimitExceeded");
    answers.iter().filter(is).count()
}

/// The next attempt of a batch, with this number of members.
fn next(count: usize) -> Vec<LaunchRequest> {
    batch(count).into_iter().map(|request| request.of_attempt(1001)).collect()
}

/// EC2 throttles what a fleet launches, and names that among its errors. It repeats its answer for the token, also to another process.
#[tokio::test]
async fn a_throttled_fleet_goes_into_the_next_attempt() {
    let aws = Aws::new(settings()).await;
    aws.cloud.throttle_launches(Some(0));
    assert_eq!(throttled(&aws.provider().launch(&batch(500)).await), 500);
    aws.restart().await;
    aws.cloud.throttle_launches(None);
    assert_eq!(throttled(&aws.provider().launch(&batch(500)).await), 500);
    assert!(aws.provider().launch(&next(500)).await.iter().all(Result::is_ok));
    aws.advance(Duration::from_secs(60)).await;
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (3, 500));
}

/// A part of a fleet is launched, the rest throttled: the rest is one fleet again.
#[tokio::test]
async fn the_rest_of_a_throttled_fleet_goes_into_the_next_attempt() {
    let aws = Aws::new(settings()).await;
    aws.cloud.throttle_launches(Some(300));
    let first = aws.provider().launch(&batch(500)).await;
    assert!(first.iter().take(300).all(Result::is_ok) && throttled(&first) == 200, "in order of rank");
    aws.cloud.throttle_launches(None);
    assert!(aws.provider().launch(&next(200)).await.iter().all(Result::is_ok));
    aws.advance(Duration::from_secs(60)).await;
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (2, 500));
}
