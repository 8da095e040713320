//! Launches whose answer was lost: nothing is launched twice, however EC2 shows what it did.

use rstest::rstest;

use super::super::in_flight::PendingCall;
use super::*;

const SHOWN_LATE: SignedDuration = SignedDuration::from_secs(30);

/// A region, and the ids of the instances of a fleet for so many claims whose answer was lost with the process.
async fn lost(count: usize) -> (Aws, Vec<String>) {
    let (aws, ids) = unanswered(count).await;
    aws.restart().await;
    (aws, ids)
}

/// The same, where the process lives on.
async fn unanswered(count: usize) -> (Aws, Vec<String>) {
    let aws = Aws::new(settings()).await;
    aws.cloud.inject(Call::CreateFleet, Fault::Lose);
    assert!(aws.provider().launch(&batch(count)).await.iter().all(Result::is_err));
    let born = aws.provider().list().await.unwrap();
    let ids = born.iter().map(|instance| instance_id(&instance.provider_id).unwrap().to_owned());
    let ids = ids.collect();
    (aws, ids)
}

/// The class's subnets are others, as after a refresh: the same claims make another request.
fn change_subnets(aws: &Aws) {
    let mut changed = class("default", true);
    for subnet in &mut changed.status.as_mut().unwrap().subnets {
        subnet.id.push_str("-other");
    }
    set_class(&aws.classes, changed);
}

fn is_unknown(answer: &Result<Instance, LaunchError>) -> bool {
    matches!(answer, Err(LaunchError::Unknown(_)))
}

/// EC2 refuses the token for the changed request: a fleet is there, so its instances are waited for.
#[tokio::test]
async fn a_token_that_ec2_knows_is_no_refusal() {
    let (aws, ids) = lost(2).await;
    ids.iter().for_each(|id| aws.cloud.hide(id, SHOWN_LATE));
    change_subnets(&aws);
    for _ in 0..2 {
        let answers = aws.provider().launch(&batch(2)).await;
        assert!(answers.iter().all(is_unknown), "{answers:?}");
        aws.restart().await;
    }
    aws.advance(Duration::from_secs(31)).await;
    let found = aws.provider().launch(&batch(2)).await;
    let found: Vec<String> = found
        .into_iter()
        .map(|answer| instance_id(&answer.unwrap().provider_id).unwrap().to_owned())
        .collect();
    assert_eq!(found, ids);
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (3, 2));
}

/// The fleet of the lost answer had launched nothing: after a minute without a trace of it the claim is launched again.
#[tokio::test]
async fn a_known_token_without_a_trace_ends_the_attempt() {
    let aws = Aws::new(settings()).await;
    aws.cloud.exhaust("");
    aws.cloud.inject(Call::CreateFleet, Fault::Lose);
    assert!(is_unknown(&aws.provider().launch(&batch(1)).await[0]));
    aws.restart().await;
    change_subnets(&aws);
    for seconds in [0, 30, 29] {
        aws.advance(Duration::from_secs(seconds)).await;
        let answer = aws.provider().launch(&batch(1)).await.remove(0);
        assert!(is_unknown(&answer), "{answer:?}");
    }
    aws.advance(Duration::from_secs(1)).await;
    let answer = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(
        matches!(&answer, Err(LaunchError::Failed { reason, .. }) if **reason == *"LaunchFailed"),
        "{answer:?}"
    );
}

/// Two of three are shown: the same call is made, by a process that knows of none, also for one claim.
#[tokio::test]
async fn what_is_shown_late_is_not_launched_again() {
    let (aws, ids) = lost(3).await;
    aws.cloud.hide(&ids[1], SHOWN_LATE);
    let answers = aws.provider().launch(&batch(3)).await;
    assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ids);
    aws.restart().await;
    assert_eq!(id(&aws.provider().launch(&batch(3)[1..2]).await[0]), ids[1]);
    aws.advance(Duration::from_secs(31)).await;
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (3, 3));
}

/// The call cannot be repeated, and EC2 shows two of three: after a minute there is no third, and the next attempt launches it.
#[tokio::test]
async fn what_was_not_born_goes_into_the_next_attempt_after_a_minute() {
    let (aws, ids) = lost(3).await;
    aws.cloud.hide(&ids[2], SignedDuration::from_hours(1));
    change_subnets(&aws);
    let answers = aws.provider().launch(&batch(3)).await;
    assert!(answers.iter().all(is_unknown), "{answers:?}");
    aws.advance(Duration::from_secs(61)).await;
    let answers = aws.provider().launch(&batch(3)).await;
    assert_eq!(answers.iter().take(2).map(id).collect::<Vec<_>>(), ids[..2]);
    assert!(matches!(&answers[2], Err(LaunchError::Failed { .. })), "{answers:?}");
}

fn id(answer: &Result<Instance, LaunchError>) -> String {
    instance_id(&answer.as_ref().unwrap().provider_id).unwrap().to_owned()
}

/// Within a process the very same request is sent again, whatever the class came to since, and whether EC2 shows anything or not.
#[tokio::test]
async fn a_call_without_an_answer_is_repeated_as_it_was() {
    let (aws, ids) = unanswered(3).await;
    ids.iter().for_each(|id| aws.cloud.hide(id, SHOWN_LATE));
    change_subnets(&aws);
    let answers = aws.provider().launch(&batch(3)).await;
    assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ids);
    let fleets = aws.cloud.fleets();
    assert!(fleets.len() == 2 && fleets[0] == fleets[1], "the same, to the letter");
    aws.provider().launch(&batch(3)).await;
    aws.advance(Duration::from_secs(31)).await;
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.running().len()), (2, 3), "answered from memory");
    assert!(aws.provider.lock().unwrap().launches.is_empty(), "the outcome is known");
}

/// A claim that asks alone gets its instance of the fleet that it was sent with; the others get theirs, too.
#[tokio::test]
async fn a_part_of_a_batch_repeats_the_whole_call() {
    let (aws, ids) = unanswered(3).await;
    ids.iter().for_each(|id| aws.cloud.hide(id, SHOWN_LATE));
    let mut seen = BTreeSet::new();
    for at in [1, 0, 2] {
        seen.insert(id(&aws.provider().launch(&batch(3)[at..=at]).await[0]));
    }
    aws.advance(Duration::from_secs(31)).await;
    assert_eq!((seen.len(), aws.cloud.running().len()), (3, 3));
    assert!(aws.cloud.fleets().windows(2).all(|two| two[0] == two[1]));
    assert!(aws.provider.lock().unwrap().launches.is_empty());
}

/// What a repeated call says of a fleet that launched nothing is an answer: nobody waits.
#[tokio::test]
async fn a_fleet_that_launched_nothing_says_so_when_asked_again() {
    let aws = Aws::new(settings()).await;
    aws.cloud.exhaust("");
    aws.cloud.inject(Call::CreateFleet, Fault::Lose);
    assert!(is_unknown(&aws.provider().launch(&batch(1)).await[0]));
    change_subnets(&aws);
    let answer = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(matches!(answer, Err(LaunchError::InsufficientCapacity(_))), "{answer:?}");
}

/// A refusal is an answer as well: the next call is made from what is known then.
#[tokio::test]
async fn a_call_that_was_refused_is_not_kept() {
    let aws = Aws::new(settings()).await;
    aws.cloud.inject(Call::CreateFleet, Fault::Refuse(AwsError::new("RequestLimitExceeded", "slow down")));
    assert!(matches!(aws.provider().launch(&batch(1)).await[0], Err(LaunchError::RateLimited { .. })));
    assert!(aws.provider.lock().unwrap().launches.is_empty());
    change_subnets(&aws);
    assert!(aws.provider().launch(&batch(1)).await[0].is_ok());
    let fleets = aws.cloud.fleets();
    assert!(fleets.last().unwrap().overrides.iter().all(|way| way.subnet.ends_with("-other")));
}

/// What throttles the repeated call tells nothing of the first one.
#[tokio::test]
async fn a_throttled_repeat_is_no_answer() {
    let (aws, ids) = unanswered(2).await;
    ids.iter().for_each(|id| aws.cloud.hide(id, SHOWN_LATE));
    aws.cloud.inject(Call::CreateFleet, Fault::Refuse(AwsError::new("RequestLimitExceeded", "slow down")));
    let throttled = aws.provider().launch(&batch(2)).await;
    assert!(throttled.iter().all(|answer| matches!(answer, Err(LaunchError::RateLimited { .. }))));
    change_subnets(&aws);
    let answers = aws.provider().launch(&batch(2)[..1]).await;
    assert_eq!(id(&answers[0]), ids[0]);
}

/// Waits until no call of a process before this one can have launched what is not shown yet.
async fn run_until_stable_in(aws: &Aws) {
    aws.provider().launch(&[]).await;
    aws.advance(Duration::from_secs(120)).await;
}

fn reason(answer: &Result<Instance, LaunchError>) -> &str {
    match answer {
        Err(LaunchError::Failed { reason, .. }) => reason,
        other => panic!("not refused for good: {other:?}"),
    }
}

/// A clear no to a later call, whichever it is, is no answer to the first: with another attempt there would be two instances.
#[rstest]
#[case::rights(Call::CreateFleet, "UnauthorizedOperation")]
#[case::credentials(Call::CreateFleet, "ExpiredToken")]
#[case::quota(Call::CreateFleet, "MaxFleetCountExceeded")]
#[case::looking_without_rights(Call::Describe, "UnauthorizedOperation")]
#[case::looking_with_old_credentials(Call::Describe, "ExpiredToken")]
#[case::looking_in_vain(Call::Describe, "InvalidParameterValue")]
#[tokio::test]
async fn a_refusal_is_no_answer_to_an_earlier_call(
    #[case] call: Call,
    #[case] code: &str,
    #[values(false, true)] restarted: bool,
) {
    let (aws, ids) = if restarted { lost(2).await } else { unanswered(2).await };
    ids.iter().for_each(|id| aws.cloud.hide(id, SHOWN_LATE));
    aws.cloud.inject(call, Fault::Refuse(AwsError::new(code, "no")));
    // A process repeats its own call without a look.
    let looks = restarted || call == Call::CreateFleet;
    let answers = if looks { aws.provider().launch(&batch(2)).await } else { Vec::new() };
    for answer in answers {
        let Err(LaunchError::Unknown(why)) = answer else { panic!("{answer:?}") };
        let names_cause = why.contains(code) || why.contains("IAM does not allow ec2:DescribeInstances");
        assert!(names_cause, "people must hear what is wrong: {why}");
    }
    let answers = aws.provider().launch(&batch(2)).await;
    assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ids);
    aws.advance(Duration::from_secs(31)).await;
    assert_eq!(aws.cloud.running().len(), 2);
}

/// What goes wrong before a process's first fleet of an attempt is no answer to one of the process before it.
#[tokio::test]
async fn a_failed_preparation_is_no_answer_to_an_earlier_call() {
    let (aws, ids) = lost(1).await;
    aws.cloud.hide(&ids[0], SHOWN_LATE);
    aws.cloud.deny(Call::Templates);
    let answer = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(is_unknown(&answer), "{answer:?}");
    aws.cloud.allow(Call::Templates);
    assert_eq!(id(&aws.provider().launch(&batch(1)).await[0]), ids[0]);
}

/// Where no earlier call can have launched anything a refusal is what it says, and it is told from the beginning: at a process's
/// start without a reason of its own.
#[tokio::test]
async fn a_refusal_ends_the_attempt_where_nothing_is_open() {
    let aws = Aws::new(settings()).await;
    aws.cloud.deny(Call::CreateFleet);
    let early = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(
        matches!(&early, Err(LaunchError::Unknown(why)) if why.contains("UnauthorizedOperation")),
        "{early:?}"
    );
    assert!(aws.provider.lock().unwrap().launches.is_empty(), "it is made again from what is known then");
    aws.advance(Duration::from_secs(119)).await;
    assert!(is_unknown(&aws.provider().launch(&batch(1)).await[0]));
    aws.advance(Duration::from_secs(1)).await;
    assert_eq!(reason(&aws.provider().launch(&batch(1)).await[0]), "Unauthorized");
}

/// The first call of an attempt: there is nothing to look for, and what EC2 refuses is final at once, also in a new process.
#[tokio::test]
async fn before_the_first_call_nothing_is_looked_for() {
    let first = || batch(2).into_iter().map(|request| request.first_call(true)).collect::<Vec<_>>();
    let aws = Aws::new(settings()).await;
    aws.cloud.deny(Call::CreateFleet);
    assert_eq!(reason(&aws.provider().launch(&first()).await[0]), "Unauthorized");
    aws.cloud.allow(Call::CreateFleet);
    assert!(aws.provider().launch(&first()).await.iter().all(Result::is_ok));
    assert_eq!(aws.cloud.count("DescribeInstances"), 0);
}

/// The first call never reached EC2: a minute later nothing of it can be unseen, and what refuses the next one is believed.
#[tokio::test]
async fn a_refusal_is_believed_once_the_earlier_call_left_nothing() {
    let aws = Aws::new(settings()).await;
    run_until_stable_in(&aws).await;
    let none = AwsError::new(AwsError::NO_ANSWER, "connection reset");
    aws.cloud.inject(Call::CreateFleet, Fault::Refuse(none));
    assert!(is_unknown(&aws.provider().launch(&batch(1)).await[0]));
    aws.cloud.deny(Call::CreateFleet);
    for seconds in [0, 59] {
        aws.advance(Duration::from_secs(seconds)).await;
        assert!(is_unknown(&aws.provider().launch(&batch(1)).await[0]));
    }
    aws.advance(Duration::from_secs(1)).await;
    assert_eq!(reason(&aws.provider().launch(&batch(1)).await[0]), "Unauthorized");
    assert!(aws.provider.lock().unwrap().launches.is_empty());
}

/// A quota refuses the call and no offering: a claim that went for it would be made again at once, with the same choice.
#[tokio::test]
async fn a_quota_of_the_whole_call_is_no_lack_of_capacity() {
    let aws = Aws::new(settings()).await;
    run_until_stable_in(&aws).await;
    let quota = AwsError::new("MaxFleetCountExceeded", "You've reached your quota");
    aws.cloud.inject(Call::CreateFleet, Fault::Refuse(quota));
    assert_eq!(reason(&aws.provider().launch(&batch(1)).await[0]), "FleetQuotaExceeded");
}

/// Whoever launches stops waiting for the answer of a call that hangs: that call is open as well.
#[tokio::test]
async fn a_call_that_nobody_waits_for_is_open() {
    let aws = Aws::new(settings()).await;
    let provider = aws.provider.lock().unwrap().clone();
    PendingCall::new(&provider.launches, "answered").answered();
    drop(PendingCall::new(&provider.launches, "dropped"));
    let open: Vec<String> = provider.launches.unanswered();
    assert_eq!(open, ["dropped"]);
}

/// The instance of a claim has ended before the claim heard of it: there is no other of this attempt.
#[tokio::test]
async fn an_instance_that_has_ended_ends_the_attempt() {
    let (aws, ids) = lost(1).await;
    aws.cloud.terminate(&ids).await.unwrap();
    let answer = aws.provider().launch(&batch(1)).await.remove(0);
    assert!(
        matches!(&answer, Err(LaunchError::Failed { reason, .. }) if **reason == *"LaunchFailed"),
        "{answer:?}"
    );
    assert_eq!(aws.cloud.count("CreateFleet"), 1);
}

/// A process that has launched for two minutes knows that a call of the one before it is a minute old: what is not shown by now was
/// never born.
#[tokio::test]
async fn an_old_call_without_instances_is_not_waited_for() {
    let aws = Aws::new(settings()).await;
    aws.cloud.exhaust("");
    aws.cloud.inject(Call::CreateFleet, Fault::Lose);
    assert!(is_unknown(&aws.provider().launch(&batch(2)[..1]).await[0]));
    aws.restart().await;
    aws.provider().launch(&batch(2)[1..]).await;
    change_subnets(&aws);
    aws.advance(Duration::from_secs(119)).await;
    // A process of two minutes less a second cannot know.
    let other = aws.provider.lock().unwrap().clone();
    assert_eq!(other.launches.first_launch(), Some(aws.now() - SignedDuration::from_secs(119)));
    aws.advance(Duration::from_secs(1)).await;
    let answer = aws.provider().launch(&batch(2)[..1]).await.remove(0);
    assert!(
        matches!(&answer, Err(LaunchError::Failed { reason, .. }) if **reason == *"LaunchFailed"),
        "{answer:?}"
    );
}

/// A NodeClaim is deleted seconds after its launch. EC2 does not know the instance yet, which must not be taken for its end.
#[tokio::test]
async fn an_instance_that_is_not_shown_yet_is_not_gone() {
    let aws = Aws::new(settings()).await;
    let instance = aws.provider().launch(&batch(1)).await.remove(0).unwrap();
    let ec2 = instance_id(&instance.provider_id).unwrap().to_owned();
    aws.cloud.hide(&ec2, SignedDuration::from_secs(10));
    let claim = NodeClaim { provider_id: Some(instance.provider_id.clone()), ..(*batch(1)[0].claim).clone() };
    let terminate = || async { aws.provider().terminate(&claim, &instance.provider_id).await };
    let early = terminate().await;
    assert!(matches!(&early, Err(CloudError::Unavailable(_))), "{early:?}");
    aws.advance(Duration::from_secs(11)).await;
    assert_eq!(terminate().await, Ok(Termination::Accepted));
    // Later its absence counts again.
    aws.advance(Duration::from_secs(60)).await;
    aws.cloud.hide(&ec2, SignedDuration::from_hours(1));
    assert_eq!(terminate().await, Ok(Termination::Gone));
}
