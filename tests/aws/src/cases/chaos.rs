//! The operator is killed (SIGKILL) at the calls of a node's whole life, before and after their effect, and the next process goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_api::labels;
use jiff::SignedDuration;

use super::flow::{
    CLAIMS, CLASSES, LIMIT, NODES, PODS, POOLS, is_true, node, node_class, node_pool, pod, the_claim,
};
use crate::account::REGION;
use crate::case::Cx;
use crate::cluster::NAME;
use crate::stage::{Server, eventually};

/// How long the operator may take until it makes the call at which it is killed.
const SPRUNG_LIMIT: Duration = Duration::from_secs(90);

/// What happens in the cluster, and the calls that follow from it: the operator dies before each, and after its effect.
const STAGES: [(Stage, &[&str]); 5] = [
    (Stage::Class, &["CreateInstanceProfile", "AddRoleToInstanceProfile", "CreateLaunchTemplate"]),
    (Stage::Pod, &["CreateFleet"]),
    (Stage::Node, &["CreateTags"]),
    (Stage::ClaimDeleted, &["TerminateInstances"]),
    (
        Stage::ClassDeleted,
        &["DeleteLaunchTemplate", "RemoveRoleFromInstanceProfile", "DeleteInstanceProfile"],
    ),
];

/// UID of another cluster of our name in the account.
const THEIR_UID: &str = "0b5e7d11-their-cluster";

#[derive(Clone, Copy, Debug)]
enum Stage {
    Class,
    Pod,
    Node,
    ClaimDeleted,
    ClassDeleted,
}

/// Does what people and kubelets do at the beginning of a stage.
async fn begin(stage: Stage, server: &Server) -> anyhow::Result<()> {
    match stage {
        Stage::Class => {
            server.create(CLASSES, &node_class()).await?;
            server.create(POOLS, &node_pool()).await.map(drop)
        }
        Stage::Pod => server.create(PODS, &pod()).await.map(drop),
        Stage::Node => {
            let claim = the_claim(server).await?;
            let id = claim["status"]["providerID"].as_str().context("not launched")?.to_owned();
            server.create(NODES, &node("ip-10-0-0-1", &id)).await.map(drop)
        }
        Stage::ClaimDeleted => {
            let claim = the_claim(server).await?;
            server.delete(&format!("{PODS}/web")).await?;
            server
                .delete(&format!("{CLAIMS}/{}", claim["metadata"]["name"].as_str().unwrap_or_default()))
                .await
        }
        Stage::ClassDeleted => server.delete(&format!("{CLASSES}/default")).await,
    }
}

/// Waits for the result of a stage.
async fn finish(stage: Stage, cx: &Cx<'_>, server: &Server) -> anyhow::Result<()> {
    eventually(&format!("{stage:?} is done"), LIMIT, async || {
        match stage {
            Stage::Class => {
                let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
                ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
            }
            Stage::Pod => {
                let claim = the_claim(server).await?;
                ensure!(is_true(&claim, "Launched"), "{}", claim["status"]["conditions"]);
            }
            Stage::Node => {
                let instances = cx.account.instances().await?;
                ensure!(instances.values().any(|own| own.tags.contains_key("Name")), "{instances:?}");
            }
            Stage::ClaimDeleted => {
                let (claims, nodes) = (server.rest.list(CLAIMS).await?, server.rest.list(NODES).await?);
                ensure!(
                    claims.is_empty() && nodes.is_empty(),
                    "{} claims, {} nodes",
                    claims.len(),
                    nodes.len()
                );
            }
            Stage::ClassDeleted => {
                ensure!(
                    server.rest.get(&format!("{CLASSES}/default")).await?.is_none(),
                    "the class is there"
                );
            }
        }
        Ok(())
    })
    .await
}

/// What another cluster of our name has in the account: launch templates, instance profiles and instances, by name.
type Holdings = [BTreeSet<String>; 3];

async fn holdings(cx: &Cx<'_>) -> anyhow::Result<Holdings> {
    Ok([
        cx.account.templates().await?.into_keys().collect(),
        cx.account.profiles().await?.into_keys().collect(),
        cx.account.instances().await?.into_keys().collect(),
    ])
}

/// Makes an instance profile, a launch template and an instance of another cluster of our name, whose class has the name of ours.
async fn neighbor(cx: &Cx<'_>) -> anyhow::Result<Holdings> {
    let tags = [
        ("kubernetes.io/cluster/prod", "owned"),
        (labels::TAG_CLUSTER_NAME, NAME),
        (labels::TAG_NODEPOOL, "general"),
        (labels::NODE_CLASS, "default"),
        (labels::TAG_CLUSTER_UID, THEIR_UID),
    ];
    let tagged = |prefix: &str, own: &[(&str, &str)]| {
        let mut params: Vec<(String, String)> =
            own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        for (number, (key, value)) in (1..).zip(tags) {
            params.push((format!("{prefix}{number}.Key"), key.to_owned()));
            params.push((format!("{prefix}{number}.Value"), value.to_owned()));
        }
        params
    };
    let path = format!("/karpenter/{REGION}/{NAME}/their-class/");
    let profile = tagged("Tags.member.", &[("InstanceProfileName", "prod_theirs"), ("Path", path.as_str())]);
    let template = tagged(
        "TagSpecification.1.Tag.",
        &[
            ("LaunchTemplateName", "karpenter.k8s.aws/theirs"),
            ("LaunchTemplateData.InstanceType", "m5.large"),
            ("TagSpecification.1.ResourceType", "launch-template"),
        ],
    );
    for (service, action, params) in
        [("iam", "CreateInstanceProfile", profile), ("ec2", "CreateLaunchTemplate", template)]
    {
        let params: Vec<(&str, &str)> = params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        cx.account.query(service, action, &params).await?;
    }
    cx.account.launch(&tags).await?;
    holdings(cx).await
}

/// Kills the operator before and after the effect of a call, and checks that there is nothing twice.
async fn killed(
    cx: &mut Cx<'_>,
    server: &Server,
    (stage, action): (Stage, &'static str),
    theirs: &Holdings,
) -> anyhow::Result<()> {
    for (at, after) in [("before", false), ("after", true)] {
        cx.proxy.trap(action, after);
        let operator = server.operator(cx).await?;
        let sprung = tokio::time::timeout(SPRUNG_LIMIT, cx.proxy.sprung()).await;
        sprung.with_context(|| format!("no {action} within {SPRUNG_LIMIT:?} in the stage {stage:?}"))?;
        operator.kill().await?;
        let [_, profiles, instances] = holdings(cx).await?;
        for (what, found, theirs) in [("profile", profiles, &theirs[1]), ("instance", instances, &theirs[2])]
        {
            let own = found.difference(theirs).count();
            cx.check(format!("{own} of ours, {what}, when it died {at} {action}"), own <= 1)?;
            cx.check(format!("{what} of theirs when it died {at} {action}"), found.is_superset(theirs))?;
        }
    }
    Ok(())
}

pub(super) async fn kills(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let seconds = SignedDuration::from_secs;
    cx.proxy.rules(|rules| {
        // A process that starts meanwhile does not see what its predecessor launched: only its token keeps it from a second launch.
        rules.delays.instances = seconds(30);
        // Nor does it see the profile that its predecessor created.
        rules.delays.iam = seconds(5);
    });
    let theirs = neighbor(cx).await?;
    let server = Server::start(cx).await?;
    for (stage, calls) in STAGES {
        begin(stage, &server).await.with_context(|| format!("{stage:?}"))?;
        for action in calls.iter().copied() {
            killed(cx, &server, (stage, action), &theirs).await?;
        }
        let operator = server.operator(cx).await?;
        finish(stage, cx, &server).await?;
        let born = cx.born_of(&server.uid).await?;
        let expected = usize::from(matches!(stage, Stage::Pod | Stage::Node));
        cx.equal(&format!("instances after the stage {stage:?}"), &born, &expected)?;
        operator.kill().await?;
    }
    cx.equal("what is left: what the other cluster has", &holdings(cx).await?, &theirs)?;
    let fleets =
        cx.proxy.calls().into_iter().filter(|call| call.action == "CreateFleet" && !call.is_dry_run());
    let attempts: BTreeSet<String> =
        fleets.filter_map(|call| call.tags("instance").remove(labels::TAG_ATTEMPT)).collect();
    cx.equal("attempts of the only launch", &attempts, &["1".to_owned()].into())?;
    made_once(cx)
}

/// By the log of calls each launch template and the instance profile were made once, and deleted once.
fn made_once(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let calls = cx.proxy.calls();
    let of = |action: &str| {
        let mut names = BTreeMap::<String, usize>::new();
        let done =
            calls.iter().filter(|call| call.action == action && call.status == 200 && !call.is_dry_run());
        for call in done {
            let [template, profile] =
                ["LaunchTemplateName", "InstanceProfileName"].map(|key| call.param(key));
            *names.entry(format!("{template}{profile}")).or_default() += 1;
        }
        names
    };
    let (templates, profiles) = (of("CreateLaunchTemplate"), of("CreateInstanceProfile"));
    cx.figures.push(format!("{} launch templates, {} instance profiles", templates.len(), profiles.len()));
    for (deletion, made) in [("DeleteLaunchTemplate", &templates), ("DeleteInstanceProfile", &profiles)] {
        cx.check(format!("made once each: {made:?}"), !made.is_empty() && made.values().all(|n| *n == 1))?;
        cx.equal(&format!("{deletion}: what was made, once each"), &of(deletion), made)?;
    }
    cx.equal("instance profiles of the only role", &profiles.len(), &1)
}
