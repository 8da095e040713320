//! The AWS provider passes the conformance tests of cloud providers, on the in-memory region, and AWS-specific tests.
use std::{future::Future, pin::Pin};

use fleetwright_core::{
    clock::Clock,
    cloud::{
        Interruption, InterruptionKind, Outlook,
        conformance::{self, ConformanceReport, Harness},
    },
    model::{NodeClassRef, Resources},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use std::collections::BTreeSet;

use super::*;
use fleetwright_aws_api::Ec2NodeClass;

use crate::calls::AwsError;
use crate::images::{self, ImageError};
use crate::testing::{CA, CLUSTER, Call, FakeAws, Fault, OTHER_CA, REGION, class};

mod bad_input;
mod cluster;
mod dry_runs;
mod fleets;
mod hanging;
mod hashes;
mod learning;
mod loops;
mod open;
mod overlays;
mod pricing;
mod queue;
mod seeds;
mod status;
mod user_data;

const UID: &str = "7f1c0a52-cluster-uid";

/// A clock that tests advance. Waits are those of the runtime, which a paused one skips.
pub(crate) struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

mod harness;

pub(crate) use harness::{Aws, settings};

#[tokio::test]
async fn the_contract() {
    let report = conformance::run_all(Aws::under_contract).await;
    // CreateFleet answers with instances, and quotas of AWS are failures with Karpenter's reasons.
    let not_applicable = vec![
        "what instance types share is counted once",
        "a launch that is under way is asked for again",
        "a launch that is not answered holds up no other",
        "a launch above a quota names it and launches nothing",
    ];
    assert_eq!(report, ConformanceReport { failures: Vec::new(), not_applicable });
}

/// The certificate authority that EKS reports identifies the cluster.
#[tokio::test]
async fn identity_is_the_certificate_authority() {
    let aws = Aws::new(settings()).await;
    assert_eq!(aws.provider().identify(UID).await.unwrap(), Identity::Proven);
    let other = Aws::new(Settings { ca_bundle: OTHER_CA.to_owned(), ..settings() }).await;
    assert!(matches!(other.provider().identify(UID).await.unwrap(), Identity::Mismatch(_)));
    let unknown = Settings { ca_bundle: CA.to_owned(), ..Settings::new("self-made", REGION) };
    assert!(matches!(Aws::new(unknown).await.provider().identify(UID).await.unwrap(), Identity::Unproven(_)));
}

fn claim(name: &str, batch: &str) -> NodeClaim {
    NodeClaim {
        uid: format!("{name}-uid").into(),
        pool: Some("general".into()),
        requests: Resources::of(1000, 0),
        batch: batch.into(),
        attempt: 1,
        ..NodeClaim::new(name, class_ref(), Timestamp::UNIX_EPOCH)
    }
}

fn batch(count: usize) -> Vec<LaunchRequest> {
    let request = |n: usize| LaunchRequest::new(claim(&format!("claim-{n:03}"), "batch")).at(n, count);
    (0..count).map(request).collect()
}

/// A burst of equal NodeClaims is one fleet, and further rounds change nothing.
#[tokio::test]
async fn calls_are_few() {
    let aws = Aws::new(settings()).await;
    let answers = aws.provider().launch(&batch(500)).await;
    let mut names: Vec<String> =
        answers.iter().map(|answer| answer.as_ref().unwrap().claim.clone().unwrap().to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), aws.cloud.count("CreateFleet")), (500, 1));
    let mutating = || ["CreateFleet", "CreateTags", "CreateLaunchTemplate"].map(|call| aws.cloud.count(call));
    let before = (mutating(), aws.cloud.count("DescribeInstances"));
    assert_eq!(aws.provider().list().await.unwrap().len(), 500);
    assert_eq!((mutating(), aws.cloud.count("DescribeInstances")), (before.0, before.1 + 1));
}

/// A throttled burst is one refused call, and its NodeClaims are retried at different times.
#[tokio::test]
async fn a_throttled_burst_is_retried_at_different_times() {
    let aws = Aws::new(settings()).await;
    let refusal = AwsError {
        retry_after: Some(Duration::from_secs(10)),
        ..AwsError::new("RequestLimitExceeded", "Request limit exceeded.")
    };
    aws.cloud.inject(Call::CreateFleet, Fault::Refuse(refusal));
    let answers = aws.provider().launch(&batch(200)).await;
    let waits: BTreeSet<Duration> = answers
        .iter()
        .map(|answer| match answer {
            Err(LaunchError::RateLimited { after }) => *after,
            other => panic!("not throttled: {other:?}"),
        })
        .collect();
    assert_eq!(aws.cloud.count("CreateFleet"), 1);
    assert!(waits.len() > 150, "only {} different delays", waits.len());
    let (first, last) = (waits.first().unwrap(), waits.last().unwrap());
    assert!(*first >= Duration::from_secs(10) && *last <= Duration::from_secs(15), "{first:?} {last:?}");
}

/// The process exits between a fleet and its answer: the instances are found by their batch and assigned, one to each NodeClaim.
#[tokio::test]
async fn an_interrupted_batch_is_assigned_once() {
    let aws = Aws::new(settings()).await;
    aws.cloud.inject(Call::CreateFleet, Fault::Lose);
    assert!(aws.provider().launch(&batch(5)).await.iter().all(Result::is_err));
    aws.restart().await;
    let first = aws.provider().launch(&batch(5)[..2]).await;
    let all = aws.provider().launch(&batch(5)).await;
    let id = |answer: &Result<Instance, LaunchError>| answer.as_ref().unwrap().provider_id.clone();
    assert_eq!(first.iter().map(id).collect::<Vec<_>>(), all[..2].iter().map(id).collect::<Vec<_>>());
    assert_eq!(all.iter().map(id).collect::<BTreeSet<_>>().len(), 5);
    assert_eq!((aws.cloud.count("CreateFleet"), aws.provider().list().await.unwrap().len()), (1, 5));
}

/// Names could not be written, one NodeClaim has its instance and the other's answer was lost with the process: the remaining instance
/// belongs to the other, even if its id is second.
#[tokio::test]
async fn no_instance_is_assigned_twice_without_name_tags() {
    let aws = Aws::new(settings()).await;
    for _ in 0..2 {
        let refusal = AwsError::new("RequestLimitExceeded", "slow down");
        aws.cloud.inject(Call::CreateTags, Fault::Refuse(refusal));
    }
    let dealt: Vec<Instance> =
        aws.provider().launch(&batch(2)).await.into_iter().map(Result::unwrap).collect();
    assert!(dealt.iter().all(|instance| instance.claim.is_none()));
    aws.restart().await;
    let steps = aws.provider().steps();
    let names = steps.iter().find(|step| step.name() == "nodeclaim.tagging").unwrap();
    let first = NodeClaim { provider_id: Some(dealt[0].provider_id.clone()), ..claim("claim-000", "batch") };
    let outlook = Outlook::at(aws.now()).with_nodes(vec![(Arc::new(first), None)]);
    names.run(&outlook).await.unwrap();
    let again = aws.provider().launch(&batch(2)[1..]).await.remove(0).unwrap();
    assert_eq!(again.provider_id, dealt[1].provider_id);
    assert_eq!(aws.cloud.count("CreateFleet"), 1);
}

/// An instance that Karpenter launched has no UID: it is terminated for the NodeClaim that names it only.
#[tokio::test]
async fn unstamped_instances_are_the_claims_that_name_them() {
    let aws = Aws::new(settings()).await;
    let tags = [
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.sh/nodepool", "general"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let (zone, id) = aws.cloud.adopt(tags);
    let id = provider_id(&zone, &id);
    let listed = aws.provider().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].cluster_uid.clone()), (1, None));
    let foreign_claim = claim("a", "b");
    let refused = aws.provider().terminate(&foreign_claim, &id).await;
    assert!(matches!(refused, Err(CloudError::NotOwned { .. })), "{refused:?}");
    let named = NodeClaim { provider_id: Some(id.clone()), ..foreign_claim };
    assert_eq!(aws.provider().terminate(&named, &id).await, Ok(Termination::Accepted));
}

/// If EKS knows another cluster of this name, nothing is launched or terminated.
#[tokio::test]
async fn nothing_is_mutated_under_another_clusters_name() {
    let aws = Aws::new(Settings { ca_bundle: OTHER_CA.to_owned(), ..settings() }).await;
    let answers = aws.provider().launch(&batch(1)).await;
    let reported =
        matches!(answers.as_slice(), [Err(LaunchError::Unknown(why))] if why.contains("nothing is mutated"));
    assert!(reported, "the outcome of earlier calls is unknown: {answers:?}");
    assert!(aws.provider().terminate(&claim("a", "b"), &provider_id("a", "i-1")).await.is_err());
    assert_eq!((aws.cloud.count("CreateFleet"), aws.cloud.count("CreateLaunchTemplate")), (0, 0));
}

/// What drifts: a new image for the alias, in the status that follows it.
#[tokio::test]
async fn a_new_image_is_drift_and_an_empty_status_is_not() {
    let aws = Aws::new(settings()).await;
    let launched = aws.provider().launch(&batch(1)).await.remove(0).unwrap();
    let owned = NodeClaim { provider_id: Some(launched.provider_id.clone()), ..claim("claim-000", "batch") };
    assert_eq!(aws.provider().drift(&owned).await, Ok(None));
    let mut changed = class("default", true);
    changed.status.as_mut().unwrap().amis[0].id = "ami-new".to_owned();
    changed.status.as_mut().unwrap().amis[1].id = "ami-new-arm".to_owned();
    set_class(&aws.classes, changed.clone());
    assert_eq!(aws.provider().drift(&owned).await, Ok(Some(Drift("AMIDrift".into()))));
    let keep = |changed: &mut Ec2NodeClass, id: &str| {
        changed.status.as_mut().unwrap().amis.retain(|ami| ami.id == id);
    };
    keep(&mut changed, "ami-new-arm");
    set_class(&aws.classes, changed.clone());
    let left = aws.provider().drift(&owned).await;
    assert_eq!(left, Ok(Some(Drift("AMIDrift".into()))), "the class has no image for the instance any more");
    changed.status.as_mut().unwrap().amis.clear();
    set_class(&aws.classes, changed);
    assert!(aws.provider().drift(&owned).await.is_err(), "a problem of the class is not drift");
    aws.classes.remove("default");
    assert_eq!(aws.provider().drift(&owned).await, Ok(None));
}

/// A controller that has just started has not listed the classes: that is no reason to delete NodeClaims.
#[tokio::test]
async fn a_launch_before_the_classes_are_listed_is_repeated() {
    let mut aws = Aws::new(settings()).await;
    let listed = std::mem::replace(&mut aws.classes, node_classes());
    let early = Aws::provider(&aws.cloud, &aws.classes, &aws.settings, aws.clock.clone()).await;
    let answer = early.launch(&batch(1)).await.remove(0);
    assert!(matches!(answer, Err(LaunchError::RateLimited { .. })), "{answer:?}");
    for step in early.steps().iter().filter(|step| step.name() == "nodeclass") {
        let round = step.run(&Outlook::at(aws.clock.now())).await.unwrap();
        assert!(round.writes.is_empty() && round.again <= Duration::from_secs(1), "{round:?}");
    }
    for known in listed.all().unwrap().values() {
        set_class(&aws.classes, known.class.clone());
    }
    assert!(early.launch(&batch(1)).await.remove(0).is_ok());
}

/// An alias resolves to its variants; a missing parameter is reported, and a throttled one is not absent.
#[tokio::test]
async fn aliases_are_resolved() {
    let aws = Aws::new(settings()).await;
    let spec = class("default", true).spec;
    let now = aws.clock.now();
    let parameters = [Parameters::default(), Parameters::default()];
    let lookup = |at: usize| images::Lookup { api: &*aws.cloud, parameters: &parameters[at], now };
    let found = images::resolve(lookup(0), &spec, "1.35").await.unwrap();
    let ids: Vec<&str> = found.amis.iter().map(|ami| ami.id.as_str()).collect();
    assert_eq!(ids, ["ami-amd64", "ami-arm64", "ami-nvidia"]);
    assert_eq!(found.missing.len(), 2, "no neuron image, and none for GPUs on arm64");
    let asked = aws.cloud.count("GetParameter");
    let throttled = AwsError::new("ThrottlingException", "slow down");
    aws.cloud.inject(Call::Parameter, Fault::Refuse(throttled.clone()));
    assert_eq!(images::resolve(lookup(0), &spec, "1.35").await.unwrap(), found, "another class of the alias");
    assert_eq!(aws.cloud.count("GetParameter"), asked);
    let failed = images::resolve(lookup(1), &spec, "1.35").await;
    assert_eq!(failed, Err(ImageError::Parameter(throttled)));
    let none = images::resolve(lookup(1), &spec, "1.36").await;
    assert!(matches!(&none, Err(ImageError::NoneFound(missing)) if missing.len() == 5), "{none:?}");
    let by_id =
        serde_json::from_value(json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-nvidia"}]}));
    let found = images::resolve(lookup(1), &by_id.unwrap(), "1.35").await.unwrap();
    assert_eq!(found.amis[0].requirements.len(), 2, "its name shows that it is for GPUs");
}

fn notice(detail_type: &str, detail: serde_json::Value) -> String {
    json!({"version": "0", "source": "aws.ec2", "detail-type": detail_type, "time": "", "detail": detail})
        .to_string()
}

/// A warning is reported until its instance is terminating, then its message is deleted; invalid messages are deleted at once; those of
/// another cluster remain.
#[tokio::test]
async fn interruptions_are_reported_until_their_instance_terminates() {
    const SPOT: &str = "EC2 Spot Instance Interruption Warning";
    let aws = Aws::new(Settings { interruption_queue: Some("queue".to_owned()), ..settings() }).await;
    let provider = aws.provider();
    let steps = provider.steps();
    let step = steps.iter().find(|step| step.name() == "interruption").unwrap();
    let launched = provider.launch(&batch(1)).await.remove(0).unwrap();
    let id = launched.provider_id.clone();
    let [foreign, ours] = [aws.foreign().await, id.clone()].map(|id| instance_id(&id).unwrap().to_owned());
    for body in [
        notice(SPOT, json!({"instance-id": ours})),
        notice(SPOT, json!({"instance-id": foreign})),
        notice(SPOT, json!({"instance-id": "i-never-was"})),
        notice("EC2 Instance Rebalance Recommendation", json!({"instance-id": ours})),
        "garbage".to_owned(),
    ] {
        aws.cloud.push_message(&body);
    }
    let before = provider.catalog(&pool()).await.unwrap();
    for _ in 0..2 {
        let round = step.run(&Outlook::at(aws.now())).await.unwrap();
        let expected = Interruption::new(id.clone(), InterruptionKind::Spot);
        assert_eq!(round.interruptions, [expected], "a report may be lost");
        assert_eq!(aws.cloud.messages(), 2, "ours and the other cluster's");
        aws.advance(Duration::from_secs(20)).await;
    }
    let after = provider.catalog(&pool()).await.unwrap();
    assert!(!Arc::ptr_eq(&before, &after), "spot capacity of its type and zone is unavailable");
    assert_eq!(provider.terminate_orphan(&id).await, Ok(Termination::Accepted));
    assert!(step.run(&Outlook::at(aws.now())).await.unwrap().interruptions.is_empty());
    assert_eq!(aws.cloud.messages(), 1);
}

fn class_ref() -> NodeClassRef {
    NodeClassRef { group: "karpenter.k8s.aws".into(), kind: "EC2NodeClass".into(), name: "default".into() }
}

fn pool() -> NodePool {
    NodePool::new("general", class_ref(), Timestamp::UNIX_EPOCH)
}
