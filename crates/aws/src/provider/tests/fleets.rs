//! Fleets that EC2 does not make as they were asked for: launch templates that are gone, launches that are throttled.

use rstest::rstest;

use super::*;

fn request(name: &str) -> LaunchRequest {
    LaunchRequest { claim: Arc::new(claim(name, name)), batch: name.into(), attempt: 1, decided_by: None }
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

fn waits(answers: &[Result<Instance, LaunchError>]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Err(LaunchError::RateLimited { .. }))).count()
}

/// EC2 throttles what a fleet launches, and says so among its errors: the claims come back together, and each call is a new one, for
/// the old token would only tell the old answer. A new process goes through the same tokens.
#[tokio::test]
async fn a_throttled_fleet_stays_together() {
    let aws = Aws::new(settings()).await;
    aws.cloud.throttle_launches(Some(0));
    for calls in 1..=2 {
        assert_eq!(waits(&aws.provider().launch(&batch(500)).await), 500);
        assert_eq!(aws.cloud.count("CreateFleet"), calls);
    }
    aws.restart().await;
    aws.cloud.throttle_launches(None);
    for calls in 3..=4 {
        assert_eq!(waits(&aws.provider().launch(&batch(500)).await), 500, "what EC2 said of the old tokens");
        assert_eq!(aws.cloud.count("CreateFleet"), calls);
    }
    assert!(aws.provider().launch(&batch(500)).await.iter().all(Result::is_ok));
    assert_eq!(aws.cloud.count("CreateFleet"), 5);
    aws.advance(Duration::from_secs(60)).await;
    assert_eq!(aws.cloud.running().len(), 500);
}

/// A part of a fleet is launched, the rest throttled: the rest is one fleet again, a minute later.
#[tokio::test]
async fn a_fleet_that_is_throttled_in_part_stays_together() {
    let aws = Aws::new(settings()).await;
    aws.cloud.throttle_launches(Some(300));
    let first = aws.provider().launch(&batch(500)).await;
    assert_eq!((first.iter().flatten().count(), waits(&first)), (300, 200));
    aws.cloud.throttle_launches(None);
    let left: Vec<LaunchRequest> = batch(500)
        .into_iter()
        .zip(first)
        .filter(|(_, answer)| answer.is_err())
        .map(|(left, _)| left)
        .collect();
    let early = aws.provider().launch(&left).await;
    assert!(early.iter().all(|answer| matches!(answer, Err(LaunchError::Unknown(_)))));
    aws.advance(Duration::from_secs(61)).await;
    assert!(aws.provider().launch(&left).await.iter().all(Result::is_ok));
    aws.advance(Duration::from_secs(60)).await;
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (2, 500));
}
