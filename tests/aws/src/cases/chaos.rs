//! The operator is killed (SIGKILL) at the calls of a node's whole life, before and after their effect, and the next process goes on.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_api::labels;
use jiff::SignedDuration;

use super::flow::{
    CLAIMS, CLASSES, LIMIT, NODES, PODS, POOLS, is_true, node, node_class, node_pool, pod, the_claim,
};
use crate::case::Cx;
use crate::stage::{Server, eventually};

/// How long the operator may take until it makes the call at which it is killed.
const SPRUNG_LIMIT: Duration = Duration::from_secs(90);

/// What happens in the cluster, and the calls that follow from it: each with whether the operator dies after its effect.
const STAGES: [(Stage, &[(&str, bool)]); 5] = [
    (
        Stage::Class,
        &[
            ("CreateInstanceProfile", true),
            ("AddRoleToInstanceProfile", false),
            ("AddRoleToInstanceProfile", true),
            ("CreateLaunchTemplate", true),
        ],
    ),
    (Stage::Pod, &[("CreateFleet", false), ("CreateFleet", true)]),
    (Stage::Node, &[("CreateTags", false), ("CreateTags", true)]),
    (Stage::ClaimDeleted, &[("TerminateInstances", false), ("TerminateInstances", true)]),
    (Stage::ClassDeleted, &[("DeleteLaunchTemplate", true), ("DeleteInstanceProfile", true)]),
];

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

pub(super) async fn kills(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // A process that starts meanwhile does not see what its predecessor launched: only its token keeps it from a second launch.
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::from_secs(30));
    let server = Server::start(cx).await?;
    for (stage, calls) in STAGES {
        begin(stage, &server).await.with_context(|| format!("{stage:?}"))?;
        for (action, after) in calls {
            cx.proxy.trap(action, *after);
            let operator = server.operator(cx).await?;
            let sprung = tokio::time::timeout(SPRUNG_LIMIT, cx.proxy.sprung()).await;
            sprung.with_context(|| format!("no {action} within {SPRUNG_LIMIT:?} in the stage {stage:?}"))?;
            operator.kill().await?;
            let at = if *after { "after" } else { "before" };
            let instances = cx.account.instances().await?.len();
            cx.check(format!("{instances} instances when it died {at} {action}"), instances <= 1)?;
        }
        let operator = server.operator(cx).await?;
        finish(stage, cx, &server).await?;
        let born = cx.born_of(&server.uid).await?;
        let expected = usize::from(matches!(stage, Stage::Pod | Stage::Node));
        cx.equal(&format!("instances after the stage {stage:?}"), &born, &expected)?;
        operator.kill().await?;
    }
    cx.equal("instance profiles that are left", &cx.account.profiles().await?.len(), &0)?;
    cx.equal("launch templates that are left", &cx.account.templates().await?.len(), &0)?;
    let fleets =
        cx.proxy.calls().into_iter().filter(|call| call.action == "CreateFleet" && !call.is_dry_run());
    let attempts: std::collections::BTreeSet<String> =
        fleets.filter_map(|call| call.tags("instance").remove(labels::TAG_ATTEMPT)).collect();
    cx.equal("attempts of the only launch", &attempts, &["1".to_owned()].into())
}
