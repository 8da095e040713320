//! Eventual consistency: what was made is seen late, and lists lack something now and then.

use std::collections::BTreeSet;

use fleetwright_aws_emulator::consistency::Delays;
use fleetwright_core::cloud::{CloudError, CloudProvider as _, LaunchError, Termination};
use fleetwright_core::model::NodeClaim;
use jiff::SignedDuration;

use super::basics::{claims, launched};
use crate::case::Cx;
use crate::cluster::UID;

/// Names of claims.
pub(super) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("claim-{number:03}")).collect()
}

/// As many claims on demand for m5.large, or else m5.xlarge.
pub(super) fn many(count: usize) -> Vec<NodeClaim> {
    claims(&names(count).iter().map(String::as_str).collect::<Vec<_>>())
}

pub(super) async fn profile(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.profiles = SignedDuration::from_secs(10));
    let mut cluster = cx.fresh().await?;
    let mut seen = BTreeSet::new();
    for _ in 0..12 {
        cluster.round("nodeclass").await?;
        seen.insert(cluster.condition("ValidationSucceeded"));
        if cluster.condition("Ready") == "True Ready" {
            break;
        }
        let early = cluster.launch("early", 1, &claims(&["early"])).await;
        cx.check(format!("nothing is launched before: {early:?}"), early.iter().all(Result::is_err))?;
        cluster.pass(SignedDuration::from_secs(3));
    }
    cx.equal("the class", &cluster.condition("Ready"), &"True Ready".to_owned())?;
    cx.check(
        format!("the profile is waited for: {seen:?}"),
        seen.contains("Unknown InstanceProfileSettling"),
    )?;
    cx.check("and it is no refusal", !seen.iter().any(|one| one.contains("LaunchRefused")))?;
    let before = cx.proxy.mark();
    launched(cluster.launch("burst", 1, &many(20)).await)?;
    cx.equal(
        "fleets of a scale-up on a class that is seconds old",
        &cx.proxy.count("CreateFleet", before),
        &1,
    )?;
    cx.equal("instances", &cx.born_of(UID).await?, &20)
}

pub(super) async fn instances(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::from_secs(10));
    let cluster = cx.ours().await?;
    let claims = many(3);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    cx.equal("instances that are listed at once", &cluster.provider.list().await?.len(), &0)?;
    let own = NodeClaim { provider_id: Some(instances[0].provider_id.clone()), ..claims[0].clone() };
    let ended = cluster.provider.terminate(&own, &instances[0].provider_id).await;
    cx.check(
        format!("an instance that is not shown yet is not gone: {ended:?}"),
        matches!(ended, Err(CloudError::Unavailable(_))),
    )?;
    cluster.pass(SignedDuration::from_secs(11));
    cx.equal("instances that are listed later", &cluster.provider.list().await?.len(), &3)?;
    let ended = cluster.provider.terminate(&own, &instances[0].provider_id).await?;
    cx.equal("its end", &ended, &Termination::Accepted)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &2)
}

pub(super) async fn lost_and_late(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::from_secs(10));
    let cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.lost = [("CreateFleet", 1000)].into());
    let answers = cluster.launch("one", 1, &many(3)).await;
    let unknown = answers.iter().all(|answer| matches!(answer, Err(LaunchError::Unknown(_))));
    cx.check(format!("the outcome is unknown: {answers:?}"), unknown)?;
    cx.proxy.rules(|rules| rules.lost.clear());
    // A new process sees no instance of the attempt, and may not launch it a second time.
    let cluster = cluster.restarted().await?;
    let found = launched(cluster.launch("one", 1, &many(3)).await)?;
    let distinct: BTreeSet<_> = found.iter().map(|instance| instance.provider_id.clone()).collect();
    cx.equal("instances of the claims", &distinct.len(), &3)?;
    cx.equal("instances in the account", &cx.born_of(UID).await?, &3)
}

pub(super) async fn templates(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.delays.templates = SignedDuration::from_secs(2));
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    cluster.ready().await?;
    // A shape that no template serves yet: it is made, and launches do not know it at once.
    let shape = crate::cluster::claim(
        "arm",
        &[
            ("node.kubernetes.io/instance-type", &["m6g.large"]),
            ("karpenter.sh/capacity-type", &["on-demand"]),
        ],
    );
    let (mut attempt, mut tries) = (1, 0);
    let instance = loop {
        tries += 1;
        anyhow::ensure!(tries <= 5, "not launched after five tries");
        match cluster.launch("arm", attempt, std::slice::from_ref(&shape)).await.remove(0) {
            Ok(instance) => break instance,
            Err(LaunchError::Failed { reason, .. }) if &*reason == "LaunchTemplateNotFound" => attempt += 1,
            // The process is young: a call of its predecessor may have launched something.
            Err(LaunchError::Unknown(why)) if why.contains("launch templates") => {}
            Err(other) => anyhow::bail!("{other:?}"),
        }
        cluster.pass(SignedDuration::from_secs(3));
    };
    cx.check(
        format!("not at the first try: {tries}"),
        tries > 1 && instance.claim.as_deref() == Some("arm"),
    )?;
    cx.equal("instances", &cx.born_of(UID).await?, &1)
}

pub(super) async fn omitted(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.omits = 2);
    let mut cluster = cx.ours().await?;
    let claims = many(5);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    for (claim, instance) in claims.iter().zip(&instances) {
        cluster.adopt(claim, instance);
    }
    let mut sizes = BTreeSet::new();
    let before = cx.proxy.mark();
    for _ in 0..6 {
        sizes.insert(cluster.provider.list().await?.len());
        for step in ["nodeclass", "launchtemplate.garbagecollection", "ownership", "nodeclaim.tagging"] {
            cluster.round(step).await?;
        }
        cluster.pass(SignedDuration::from_mins(6));
    }
    cx.equal("sizes of the list", &sizes, &[4, 5].into())?;
    for instance in &instances {
        cx.check("each is found by its id", cluster.provider.get(&instance.provider_id).await.is_ok())?;
    }
    let ended = cx.proxy.mutations(before).iter().filter(|action| *action == "TerminateInstances").count();
    cx.equal("terminations", &ended, &0)
}

pub(super) async fn strange(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays = Delays::strange());
    let mut cluster = cx.fresh().await?;
    for _ in 0..12 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(3));
    }
    let claims = many(30);
    let (mut attempt, mut tries) = (1, 0);
    let instances = loop {
        let answers = cluster.launch("burst", attempt, &claims).await;
        if answers.iter().all(Result::is_ok) {
            break launched(answers)?;
        }
        tries += 1;
        anyhow::ensure!(tries < 5, "{answers:?}");
        // What is unknown stays the same attempt, as for the lifecycle.
        attempt += u32::from(answers.iter().all(|one| matches!(one, Err(LaunchError::Failed { .. }))));
        cluster.pass(SignedDuration::from_secs(3));
    };
    cluster.pass(SignedDuration::from_secs(11));
    for (claim, instance) in claims.iter().zip(&instances) {
        let own = NodeClaim { provider_id: Some(instance.provider_id.clone()), ..claim.clone() };
        let ended = cluster.provider.terminate(&own, &instance.provider_id).await?;
        cx.check(format!("{} ends: {ended:?}", claim.name), ended == Termination::Accepted)?;
    }
    // They have shut down, which EC2 does at the next call.
    cluster.pass(SignedDuration::from_secs(21));
    cx.equal("instances that are listed in the end", &cluster.provider.list().await?.len(), &0)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &0)
}

/// Instances take a minute to start and as long to stop.
pub(super) async fn slow(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let minute = SignedDuration::from_mins(1);
    cx.proxy.rules(|rules| (rules.delays.starting, rules.delays.stopping) = (minute, minute));
    let claims = many(3);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    let states = |shown: &[fleetwright_aws::calls::InstanceInfo]| -> BTreeSet<String> {
        shown.iter().map(|own| own.state.clone()).collect()
    };
    cx.equal(
        "their state",
        &states(&cluster.api.instances(&[], &[]).await?),
        &["pending".to_owned()].into(),
    )?;
    cx.equal("instances that are listed meanwhile", &cluster.provider.list().await?.len(), &3)?;
    for (claim, instance) in claims.iter().zip(&instances) {
        cluster.adopt(claim, instance);
    }
    // What starts is found by a new process, named, and neither impaired nor an orphan.
    let mut cluster = cluster.restarted().await?;
    let again = launched(cluster.launch("one", 1, &claims).await)?;
    let ids = |all: &[fleetwright_core::cloud::Instance]| -> BTreeSet<_> {
        all.iter().map(|own| own.provider_id.clone()).collect()
    };
    cx.equal("what a new process finds", &ids(&again), &ids(&instances))?;
    let quiet = cluster.round("interruption.instancestatus").await?;
    cx.equal("interruptions", &quiet.interruptions.len(), &0)?;
    let claim = NodeClaim { provider_id: Some(instances[0].provider_id.clone()), ..claims[0].clone() };
    // One is ended while it starts, and is there until it has stopped.
    let before = cx.proxy.mark();
    for _ in 0..3 {
        let ended = cluster.provider.terminate(&claim, &instances[0].provider_id).await?;
        cx.equal("its end", &ended, &Termination::Accepted)?;
        cx.check("it is shown", cluster.provider.get(&instances[0].provider_id).await.is_ok())?;
        cluster.pass(SignedDuration::from_secs(15));
    }
    cx.equal("calls that end it", &cx.proxy.count("TerminateInstances", before), &1)?;
    cluster.pass(minute);
    cx.equal(
        "the end of one that has stopped",
        &cluster.provider.terminate(&claim, &instances[0].provider_id).await?,
        &Termination::Gone,
    )?;
    cx.equal(
        "states then",
        &states(&cluster.api.instances(&[], &[]).await?),
        &["running".to_owned()].into(),
    )?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &2)
}

/// IAM does not show a new instance profile at once, to itself either: `AddRoleToInstanceProfile` finds none.
pub(super) async fn profile_unseen(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.iam = SignedDuration::from_secs(10));
    let mut cluster = cx.fresh().await?;
    let mut seen = BTreeSet::new();
    for _ in 0..12 {
        cluster.round("nodeclass").await?;
        seen.insert(cluster.condition("InstanceProfileReady"));
        if cluster.condition("Ready") == "True Ready" {
            break;
        }
        cluster.pass(SignedDuration::from_secs(3));
    }
    cx.equal("the class", &cluster.condition("Ready"), &"True Ready".to_owned())?;
    let calls: Vec<_> = cx.proxy.calls().into_iter().filter(|call| call.service == "iam").collect();
    let count = |action: &str, status: u16| {
        calls.iter().filter(|call| call.action == action && call.status == status).count()
    };
    let unseen = count("AddRoleToInstanceProfile", 404);
    cx.check(format!("the profile is tried before IAM shows it: {unseen} times"), unseen > 0)?;
    cx.equal("roles that were added", &count("AddRoleToInstanceProfile", 200), &1)?;
    cx.check(
        format!("the role is not said to be missing: {seen:?}"),
        !seen.iter().any(|one| one.contains("RoleNotFound")),
    )?;
    let deleted = calls.iter().filter(|call| call.action == "DeleteInstanceProfile").count();
    cx.equal("deletions of the profile", &deleted, &0)?;
    cx.equal("profiles that were created", &count("CreateInstanceProfile", 200), &1)?;
    let roles: Vec<Vec<String>> = cx.account.profiles().await?.into_values().collect();
    cx.equal("profiles and their roles", &roles, &vec![vec!["nodes".to_owned()]])?;
    launched(cluster.launch("one", 1, &many(2)).await)?;
    // A role that is missing is another matter: it is named, and the profile for it is deleted. The policy lets no other role be passed.
    cx.proxy.rules(|rules| rules.policies.clear());
    cluster.edit(|class| class.spec.role = Some("absent".to_owned()))?;
    for _ in 0..6 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(3));
    }
    cx.equal("the class", &cluster.condition("InstanceProfileReady").as_str(), &"False RoleNotFound")?;
    cx.equal("profiles", &cx.account.profiles().await?.len(), &1)
}
