//! Launches that EC2 refuses by type or by quota: settings that a type does not support, launch templates and fleets of the account.

use std::collections::BTreeSet;

use fleetwright_aws_api::labels;
use fleetwright_aws_emulator::capacity::PlacementGroup;
use fleetwright_core::cloud::LaunchError;
use fleetwright_core::model::NodeClaim;
use fleetwright_core::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::basics::launched;
use super::consistency::many;
use super::reserved::respec;
use crate::case::Cx;
use crate::cluster::{Cluster, UID, claim};

/// Our cluster once its process has run for so long that a refusal is its own: a young one does not know the calls of its predecessor.
pub(super) async fn settled(cx: &Cx<'_>) -> anyhow::Result<Cluster> {
    let cluster = cx.ours().await?;
    launched(cluster.launch("first", 1, &many(1)).await)?;
    cluster.pass(SignedDuration::from_mins(3));
    Ok(cluster)
}

/// A claim for one of these types, on demand.
pub(super) fn one_of(name: &str, types: &[&str]) -> NodeClaim {
    claim(name, &[(INSTANCE_TYPE, types), (CAPACITY_TYPE, &[ON_DEMAND])])
}

/// The types that fleets named since a mark.
fn asked(cx: &Cx<'_>, since: usize) -> BTreeSet<String> {
    let fleets = cx
        .proxy
        .calls()
        .into_iter()
        .skip(since)
        .filter(|call| call.action == "CreateFleet" && !call.is_dry_run());
    fleets.flat_map(|call| fleetwright_aws_emulator::settings::types_of(&call.params)).collect()
}

fn types(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// A field of a class, its value, a type that does not support it, and one that does.
fn settings() -> [(&'static str, Value, &'static str, &'static str); 4] {
    let efa = json!([
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]);
    [
        ("enclaveOptions", json!({"enabled": true}), "m5.large", "m5.xlarge"),
        ("cpuOptions", json!({"nestedVirtualization": "enabled"}), "m5.large", "c7i.large"),
        ("networkInterfaces", efa, "m5.large", "c5n.18xlarge"),
        ("placementGroupSelector", json!({"name": "g"}), "t3.large", "m5.large"),
    ]
}

pub(super) async fn settings_of_types(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let group = PlacementGroup {
        id: "pg-0123456789abcdef0".to_owned(),
        name: "g".to_owned(),
        strategy: "cluster",
        partitions: 0,
    };
    let mut cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.supply.groups = vec![group]);
    for (field, value, lacks, supports) in settings() {
        respec(&mut cluster, field, value).await?;
        cx.equal(
            "the dry run",
            &cluster.condition("ValidationSucceeded").as_str(),
            &"True ValidationSucceeded",
        )?;
        let before = cx.proxy.mark();
        let both = one_of("both", &[lacks, supports]);
        let instance = launched(cluster.launch(field, 1, &[both]).await)?.remove(0);
        let launched = instance.labels.get(INSTANCE_TYPE).map(|name| &**name);
        cx.equal(field, &launched, &Some(supports))?;
        cx.equal("the types that the fleet named", &asked(cx, before), &types(&[supports]))?;
        let before = cx.proxy.mark();
        let answers = cluster.launch(&format!("{field}-alone"), 1, &[one_of("alone", &[lacks])]).await;
        cx.check(format!("{lacks} alone is not launched: {answers:?}"), answers[0].is_err())?;
        cx.equal("fleets for it", &cx.proxy.count("CreateFleet", before), &0)?;
        respec(&mut cluster, field, Value::Null).await?;
    }
    cx.equal("instances", &cx.born_of(UID).await?, &4)
}

/// EC2 refuses what its description promises.
pub(super) async fn surprise(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let group = PlacementGroup {
        id: "pg-0123456789abcdef0".to_owned(),
        name: "g".to_owned(),
        strategy: "cluster",
        partitions: 0,
    };
    let mut cluster = settled(cx).await?;
    cx.proxy.rules(|rules| {
        rules.supply.groups = vec![group];
        // The dry run tries one of the two.
        for name in ["m5.large", "m6g.large"] {
            rules.types.entry(name.to_owned()).or_default().strategies.remove("cluster");
        }
    });
    respec(&mut cluster, "placementGroupSelector", json!({"name": "g"})).await?;
    cx.equal("the class", &cluster.condition("ValidationSucceeded").as_str(), &"True LaunchRefused")?;
    let both = one_of("both", &["m5.large", "m5.xlarge"]);
    let instance = launched(cluster.launch("both", 1, &[both]).await)?.remove(0);
    cx.equal("the type", &instance.labels.get(INSTANCE_TYPE).map(|name| &**name), &Some("m5.xlarge"))?;
    let alone = || one_of("alone", &["m5.large"]);
    let answers = cluster.launch("alone", 1, &[alone()]).await;
    let told = "Cluster placement groups are not supported by the 'm5.large' instance type.";
    let says = matches!(&answers[0], Err(LaunchError::Failed { reason, message })
        if &**reason == "LaunchFailed" && message.contains("InvalidParameterCombination") && message.contains(told));
    cx.check(format!("EC2's words are told: {answers:?}"), says)?;
    // Without its group it is launched as before: nothing was remembered against the type.
    respec(&mut cluster, "placementGroupSelector", Value::Null).await?;
    launched(cluster.launch("again", 1, &[alone()]).await)?;
    // `Unsupported` rules the offering out for a while, as in Karpenter.
    cx.proxy.rules(|rules| rules.types.entry("m5.xlarge".to_owned()).or_default().enclaves = false);
    respec(&mut cluster, "enclaveOptions", json!({"enabled": true})).await?;
    let xlarge = || one_of("xlarge", &["m5.xlarge"]);
    let answers = cluster.launch("enclave", 1, &[xlarge()]).await;
    let says =
        matches!(&answers[0], Err(LaunchError::InsufficientCapacity(why)) if why.contains("Unsupported: "));
    cx.check(format!("the offering has nothing: {answers:?}"), says)?;
    let before = cx.proxy.mark();
    let answers = cluster.launch("enclave-2", 1, &[xlarge()]).await;
    cx.check(format!("and is known to have nothing: {answers:?}"), answers[0].is_err())?;
    cx.equal("fleets for what is known", &cx.proxy.count("CreateFleet", before), &0)?;
    // Which types run on dedicated hardware EC2 does not describe: t2 would be cheaper.
    respec(&mut cluster, "enclaveOptions", Value::Null).await?;
    let types: &[&str] = &["t2.medium", "m5.large"];
    let wanted = [
        (INSTANCE_TYPE, types),
        (CAPACITY_TYPE, &[ON_DEMAND][..]),
        (labels::INSTANCE_TENANCY, &["dedicated"][..]),
    ];
    let instance = launched(cluster.launch("dedicated", 1, &[claim("dedicated", &wanted)]).await)?.remove(0);
    let launched = instance.labels.get(INSTANCE_TYPE).map(|name| &**name);
    cx.equal("the type on dedicated hardware", &launched, &Some("m5.large"))?;
    cx.equal("instances", &cx.born_of(UID).await?, &4)
}

/// How a launch failed: its reason, and whether EC2's code is in the message.
pub(super) fn failed(answer: &Result<fleetwright_core::cloud::Instance, LaunchError>, code: &str) -> String {
    match answer {
        Err(LaunchError::Failed { reason, message }) if message.contains(code) => reason.to_string(),
        other => format!("{other:?}"),
    }
}

pub(super) async fn fleet_quota(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = settled(cx).await?;
    cx.proxy.rules(|rules| rules.fleets_left = Some(1));
    launched(cluster.launch("one", 1, &many(2)).await)?;
    let before = cx.proxy.mark();
    let answers = cluster.launch("two", 1, &many(2)).await;
    cx.equal(
        "the quota is named",
        &failed(&answers[0], "MaxFleetCountExceeded").as_str(),
        &"FleetQuotaExceeded",
    )?;
    cx.equal("fleets that were asked for", &cx.proxy.count("CreateFleet", before), &1)?;
    // It says nothing of any type: once there is room the same types are launched.
    cx.proxy.rules(|rules| rules.fleets_left = None);
    let instances = launched(cluster.launch("two", 2, &many(2)).await)?;
    let types: BTreeSet<Option<&str>> =
        instances.iter().map(|own| own.labels.get(INSTANCE_TYPE).map(|name| &**name)).collect();
    cx.equal("types", &types, &[Some("m5.large")].into())?;
    cx.equal("instances", &cx.born_of(UID).await?, &5)
}

pub(super) async fn template_quota(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = settled(cx).await?;
    let count = cx.account.templates().await?.len();
    cx.proxy.rules(|rules| rules.templates_max = Some(count));
    launched(cluster.launch("two", 1, &many(1)).await)?;
    cx.equal("launches by known templates", &cx.born_of(UID).await?, &2)?;
    let before = cx.proxy.mark();
    let arm = || one_of("arm", &["m6g.large"]);
    let answers = cluster.launch("arm", 1, &[arm()]).await;
    cx.equal(
        "the quota is named",
        &failed(&answers[0], "MaxTemplateLimitExceeded").as_str(),
        &"LaunchTemplateQuotaExceeded",
    )?;
    cx.equal("attempts at another template", &cx.proxy.count("CreateLaunchTemplate", before), &1)?;
    // An edited class needs templates of its own, and says why it has none.
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    for _ in 0..3 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(6));
    }
    cx.equal("the class", &cluster.condition("ValidationSucceeded").as_str(), &"True LaunchRefused")?;
    let class = cluster.class()?.status.unwrap_or_default().conditions;
    let told = class.iter().find(|own| own.type_ == "ValidationSucceeded").map(|own| own.message.clone());
    let said = "MaxTemplateLimitExceeded: Account has already reached max permitted templates";
    cx.check(format!("with EC2's words: {told:?}"), told.is_some_and(|told| told.contains(said)))?;
    cx.proxy.rules(|rules| rules.templates_max = None);
    launched(cluster.launch("arm", 2, &[arm()]).await)?;
    cx.equal("instances", &cx.born_of(UID).await?, &3)
}
