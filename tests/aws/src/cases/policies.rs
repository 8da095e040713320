//! IAM: what the policies of `deploy/iam` do not allow is refused with the words of AWS, and told where people look.

use fleetwright_aws_api::HasConditions as _;
use fleetwright_aws_emulator::iam::Policies;
use fleetwright_core::cloud::{CloudProvider as _, LaunchError, Termination};
use fleetwright_core::model::NodeClaim;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::basics::{claims, launched};
use super::consistency::many;
use crate::case::Cx;
use crate::cluster::{Cluster, UID};

const ALL: &str = r#"{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#;

/// The scoped policy without a statement.
fn without(cx: &Cx<'_>, sid: &str) -> anyhow::Result<Policies> {
    let mut document: Value = serde_json::from_str(&cx.policy("controller-policy.json", UID)?)?;
    if let Some(all) = document["Statement"].as_array_mut() {
        all.retain(|statement| statement["Sid"] != sid);
    }
    Policies::of(&[&document.to_string()])
}

fn scoped(cx: &Cx<'_>) -> anyhow::Result<Policies> {
    Policies::of(&[&cx.policy("controller-policy.json", UID)?])
}

fn denying(action: &str, condition: Value) -> String {
    json!({"Statement": [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": action, "Resource": "*", "Condition": condition},
    ]})
    .to_string()
}

/// The message of the class's dry run, once it is not ready for it.
async fn validation(cluster: &mut Cluster) -> anyhow::Result<(String, String)> {
    for _ in 0..8 {
        cluster.round("nodeclass").await?;
        if cluster.condition("ValidationSucceeded").starts_with("False") {
            break;
        }
        cluster.pass(SignedDuration::from_secs(6));
    }
    let class = cluster.class()?;
    let known = class.conditions().iter().find(|known| known.type_ == "ValidationSucceeded");
    Ok((
        cluster.condition("ValidationSucceeded"),
        known.map(|known| known.message.clone()).unwrap_or_default(),
    ))
}

/// A class under these policies is not ready, for `reason`, and its message has all of `words`.
async fn refused(cx: &mut Cx<'_>, policies: &Policies, reason: &str, words: &[&str]) -> anyhow::Result<()> {
    cx.govern(policies);
    let mut cluster = cx.fresh().await?;
    let (condition, message) = validation(&mut cluster).await?;
    cx.equal("the condition", &condition, &format!("False {reason}"))?;
    for word in words {
        cx.check(format!("{word:?} is in the message: {message}"), message.contains(word))?;
    }
    cx.check(format!("the encoded part is not: {message}"), !message.contains("Encoded"))?;
    // Nothing in it differs from look to look.
    cluster.pass(SignedDuration::from_mins(11));
    cx.equal("the message later", &validation(&mut cluster).await?.1, &message)?;
    cx.equal("instances", &cx.born_of(UID).await?, &0)?;
    cx.govern(&scoped(cx)?);
    cluster.pass(SignedDuration::from_mins(11));
    cluster.ready().await
}

pub(super) async fn fleet(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let policies = without(cx, "AllowScopedEC2InstanceAccessActions")?;
    refused(cx, &policies, "CreateFleetAuthCheckFailed", &["ec2:CreateFleet", "no identity-based policy"])
        .await
}

pub(super) async fn organization(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let denial = denying("ec2:RunInstances", json!({"StringEquals": {"aws:RequestedRegion": "us-west-2"}}));
    let policies = scoped(cx)?.controlled_by(&denial)?;
    refused(cx, &policies, "RunInstancesAuthCheckFailed", &["ec2:RunInstances", "service control policy"])
        .await
}

pub(super) async fn boundary(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let bounded = r#"{"Statement": {"Effect": "Allow", "NotAction": "ec2:RunInstances", "Resource": "*"}}"#;
    let policies = scoped(cx)?.bounded_by(bounded)?;
    refused(cx, &policies, "RunInstancesAuthCheckFailed", &["ec2:RunInstances", "permissions boundary"]).await
}

pub(super) async fn role(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // The class names a profile, so that only launches pass its role.
    let denial = denying("iam:PassRole", json!({"StringLike": {"iam:PassedToService": "ec2*"}}));
    let mut cluster = cx.ours().await?;
    cx.govern(&scoped(cx)?.controlled_by(&denial)?);
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    let (condition, message) = validation(&mut cluster).await?;
    cx.equal("the condition", &condition, &"False RunInstancesAuthCheckFailed".to_owned())?;
    cx.check(format!("the role is named: {message}"), message.contains("iam:PassRole"))
}

pub(super) async fn metadata(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let denial = json!({"Statement": [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:instance/*",
         "Condition": {"StringNotEquals": {"ec2:MetadataHttpTokens": "required"}}},
    ]});
    cx.govern(&scoped(cx)?.controlled_by(&denial.to_string())?);
    let cluster = cx.ours().await?;
    launched(cluster.launch("one", 1, &many(2)).await)?;
    cx.equal("instances where IMDSv2 is demanded", &cx.born_of(UID).await?, &2)
}

pub(super) async fn strict(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.govern(&Policies::of(&[&cx.policy("controller-policy-strict.json", UID)?])?);
    let mut cluster = cx.ours().await?;
    let claims = many(3);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    for (claim, instance) in claims.iter().zip(&instances) {
        cluster.adopt(claim, instance);
    }
    cluster.round("nodeclaim.tagging").await?;
    let named =
        cx.account.instances().await?.into_values().filter(|own| own.tags.contains_key("Name")).count();
    cx.equal("instances that are named after their nodes", &named, &3)?;
    for (claim, instance) in claims.iter().zip(&instances) {
        let own = NodeClaim { provider_id: Some(instance.provider_id.clone()), ..claim.clone() };
        let ended = cluster.provider.terminate(&own, &instance.provider_id).await?;
        cx.equal("the end", &ended, &Termination::Accepted)?;
    }
    let denied = cx.proxy.calls().into_iter().filter(|call| call.status == 403).count();
    cx.equal("calls that the strict policy refuses", &denied, &0)
}

pub(super) async fn other_cluster(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let other =
        cx.policy("controller-policy.json", UID)?.replace("/prod", "/test").replace("\"prod\"", "\"test\"");
    cx.govern(&Policies::of(&[&other])?);
    let mut cluster = cx.fresh().await?;
    for _ in 0..4 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(6));
    }
    cx.check("the class is not ready", !cluster.condition("Ready").starts_with("True"))?;
    let answers = cluster.launch("one", 1, &many(1)).await;
    cx.check(format!("nothing is launched: {answers:?}"), answers[0].is_err())?;
    let made: Vec<String> = cx
        .proxy
        .calls()
        .into_iter()
        .filter(|call| call.mutates() && call.status == 200)
        .map(|call| call.action)
        .collect();
    cx.equal("what was made by another cluster's permissions", &made, &Vec::new())
}

pub(super) async fn fleet_errors(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    // The class is ready when the organization changes its mind: the fleet is created and every launch of it is denied.
    cx.govern(&scoped(cx)?.controlled_by(&denying("ec2:RunInstances", json!({})))?);
    cluster.pass(SignedDuration::from_mins(3));
    let answers = cluster.launch("one", 1, &many(2)).await;
    let told = answers.iter().all(|one| {
        matches!(one, Err(LaunchError::Failed { reason, message })
        if &**reason == "Unauthorized" && message.contains("service control policy"))
    });
    cx.check(format!("the launch says so: {answers:?}"), told)?;
    cx.govern(&scoped(cx)?);
    launched(cluster.launch("one", 2, &many(2)).await)?;
    cx.equal("instances", &cx.born_of(UID).await?, &2)
}

pub(super) async fn untagged(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let claims = claims(&["a", "b", "c", "d"]);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    let broken = instances[1].provider_id.rsplit('/').next().unwrap_or_default().to_owned();
    let tag = [("ResourceId.1", &*broken), ("Tag.1.Key", "kubernetes.io/cluster/prod")];
    cx.account.ec2("DeleteTags", &tag).await?;
    // A tag that was taken away is no longer what IAM knows.
    cx.proxy.rules(|rules| rules.tags.clear());
    let own: Vec<NodeClaim> = claims
        .iter()
        .zip(&instances)
        .map(|(claim, instance)| NodeClaim {
            provider_id: Some(instance.provider_id.clone()),
            ..claim.clone()
        })
        .collect();
    let ends = own.iter().zip(&instances).map(|(claim, i)| cluster.provider.terminate(claim, &i.provider_id));
    let ends = futures::future::join_all(ends).await;
    let good = ends.iter().filter(|end| **end == Ok(Termination::Accepted)).count();
    cx.check(format!("the others end: {ends:?}"), good == 3)?;
    cx.equal("instances in the end", &cx.account.instances().await?.len(), &1)
}

pub(super) async fn all_allowed(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.govern(&Policies::of(&[ALL])?.bounded_by(&cx.policy("controller-policy.json", UID)?)?);
    let cluster = cx.ours().await?;
    launched(cluster.launch("one", 1, &many(1)).await)?;
    cx.equal("instances within a boundary that is our policy", &cx.born_of(UID).await?, &1)
}
