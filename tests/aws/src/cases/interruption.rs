//! The interruption queue: announcements of our instances, of others', of none, and garbage.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleetwright_core::cloud::{CloudProvider as _, Interruption, InterruptionKind, Termination};
use fleetwright_core::model::NodeClaim;
use fleetwright_core::model::labels::{INSTANCE_TYPE, SPOT};
use serde_json::{Value, json};

use super::basics::launched;
use crate::case::Cx;
use crate::cluster::{Cluster, NAME, Seat, claim};

/// EventBridge's announcement that a spot instance is taken back.
fn spot(id: &str) -> String {
    json!({
        "version": "0",
        "id": "1",
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "us-west-2",
        "resources": [],
        "detail": {"instance-id": id, "instance-action": "terminate"},
    })
    .to_string()
}

async fn send(cx: &Cx<'_>, queue: &str, body: &str) -> anyhow::Result<()> {
    cx.account.sqs("SendMessage", &json!({"QueueUrl": queue, "MessageBody": body})).await.map(drop)
}

/// How many messages are not cleared away, visible or not.
async fn left(cx: &Cx<'_>, queue: &str) -> anyhow::Result<u64> {
    let names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
    let asked = json!({"QueueUrl": queue, "AttributeNames": names});
    let told = cx.account.sqs("GetQueueAttributes", &asked).await?;
    let count = |name: &str| told["Attributes"][name].as_str().and_then(|text| text.parse::<u64>().ok());
    Ok(names.iter().filter_map(|name| count(name)).sum())
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let made = cx.account.sqs("CreateQueue", &json!({"QueueName": NAME})).await?;
    let queue = made["QueueUrl"].as_str().context("a queue without an address")?.to_owned();
    let mut seat = Seat::ours(&cx.authority);
    seat.settings.interruption_queue = Some(NAME.to_owned());
    let mut cluster = Cluster::start(&cx.proxy.url, seat).await?;
    cluster.ready().await?;
    let spot_claim = claim("a", &[(INSTANCE_TYPE, &["m5.large"]), ("karpenter.sh/capacity-type", &[SPOT])]);
    let instance = launched(cluster.launch("batch", 1, std::slice::from_ref(&spot_claim)).await)?.remove(0);
    cx.equal(
        "what it costs by",
        &instance.labels.get("karpenter.sh/capacity-type").map(|it| &**it),
        &Some(SPOT),
    )?;
    cluster.adopt(&spot_claim, &instance);
    let id = instance.provider_id.rsplit('/').next().unwrap_or_default().to_owned();

    send(cx, &queue, &spot(&id)).await?;
    let round = cluster.round("interruption").await?;
    let expected = Interruption::new(instance.provider_id.clone(), InterruptionKind::Spot);
    cx.equal("what is reported", &round.interruptions, &vec![expected])?;
    cx.equal("messages: it comes again until its instance is ending", &left(cx, &queue).await?, &1)?;
    let catalog = cluster.catalog().await?;
    let large = catalog.get("m5.large").context("no m5.large")?;
    let zone = instance.labels.get("topology.kubernetes.io/zone").context("no zone")?;
    let taken = large
        .offerings
        .iter()
        .find(|o| o.zone() == Some(zone) && o.capacity_type().is_some_and(|t| &**t == SPOT));
    cx.check("what is taken back is not to be had", !taken.context("no such offering")?.available)?;

    let owned = cluster.outlook.nodes[0].0.clone();
    let ended = cluster.provider.terminate(&owned, &instance.provider_id).await?;
    cx.equal("the end of the instance", &ended, &Termination::Accepted)?;
    // Messages about the instance of a NodeClaim that nobody deletes are reported, whatever EC2 shows of the instance.
    let ending = NodeClaim { deleting: Some(cluster.outlook.now), ..(*cluster.outlook.nodes[0].0).clone() };
    cluster.outlook.nodes[0].0 = Arc::new(ending);
    cx.account.sqs("PurgeQueue", &json!({"QueueUrl": queue})).await?;
    for body in [spot(&id), "no JSON".to_owned(), Value::Null.to_string(), spot("i-0123456789abcdef0")] {
        send(cx, &queue, &body).await?;
    }
    while left(cx, &queue).await? > 0 {
        let before = left(cx, &queue).await?;
        let round = cluster.round("interruption").await?;
        cx.equal("what is reported of instances that are gone", &round.interruptions, &Vec::new())?;
        let now = left(cx, &queue).await?;
        cx.check(format!("messages are cleared away: {before}, then {now}"), now < before)?;
    }

    // A full window brings others with it, and ten messages are deleted by a call.
    for _ in 0..25 {
        send(cx, &queue, "no JSON").await?;
    }
    cluster.round("interruption").await?;
    cx.equal("messages of a flood that are left", &left(cx, &queue).await?, &0)?;

    foreign(cx, &mut cluster, &queue).await
}

/// Messages of others, and queues of others.
async fn foreign(cx: &mut Cx<'_>, cluster: &mut Cluster, queue: &str) -> anyhow::Result<()> {
    // Another cluster of our name shares the queue, and needs its own.
    let theirs = [("eks:eks-cluster-name", NAME), ("fleetwright.dev/cluster-uid", "another")];
    let foreign = cx.account.launch(&theirs).await?;
    send(cx, queue, &spot(&foreign)).await?;
    let round = cluster.round("interruption").await?;
    cx.equal("what is reported of another's", &round.interruptions, &Vec::new())?;
    cx.equal("messages that are left to others", &left(cx, queue).await?, &1)?;
    // IAM is asked first: the policy is for the cluster's queue alone.
    let refused = cluster.api.receive("no-such-queue", Duration::ZERO).await.err().map(|error| error.code);
    cx.equal("a queue of another name", &refused.as_deref(), &Some("AccessDeniedException"))?;
    cx.proxy.rules(|rules| rules.policies.clear());
    let missing = cluster
        .api
        .receive("no-such-queue", Duration::ZERO)
        .await
        .err()
        .context("a queue that is not there")?;
    cx.check(format!("a missing queue is known as such: {missing}"), missing.is_not_found())
}
