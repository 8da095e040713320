//! Images that the account may not use: one whose owner withdrew the launch permission, and one of a Marketplace product without subscription.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_emulator::images::Withheld;
use fleetwright_core::clock::Clock as _;
use jiff::SignedDuration;
use serde_json::Value;

use super::basics::launched;
use super::consistency::many;
use super::flow::{CLAIMS, CLASSES, LIMIT, PODS, POOLS, is_true, node_class, node_pool, pod};
use super::refusals::{failed, settled};
use crate::case::Cx;
use crate::cluster::{Cluster, UID};
use crate::stage::{Server, eventually};

/// What EC2 says of a Marketplace product, with the link by which a person subscribes.
const SUBSCRIBE: &str = "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do so please visit \
                         https://aws.amazon.com/marketplace/pp?sku=8esk90vx7v713sa0muq2skw3j";
/// How long a class may take to be Ready again: a dry run that was refused is repeated after a minute.
const AGAIN_LIMIT: Duration = Duration::from_secs(150);

fn unsubscribed() -> Withheld {
    Withheld::Subscription("8esk90vx7v713sa0muq2skw3j".to_owned())
}

/// Withholds images from the account.
fn withhold<'a>(cx: &Cx<'_>, ids: impl IntoIterator<Item = &'a String>, why: &Withheld) {
    let all = ids.into_iter().map(|id| (id.clone(), why.clone())).collect();
    cx.proxy.rules(|rules| rules.images.withheld = all);
}

/// Status, reason and message of a condition of the class.
fn told(cluster: &Cluster, condition: &str) -> anyhow::Result<String> {
    let class = cluster.class()?.status.context("no status")?;
    let own = class.conditions.into_iter().find(|own| own.type_ == condition);
    Ok(own.map(|own| format!("{} {}: {}", own.status, own.reason, own.message)).unwrap_or_default())
}

/// Launches are refused in EC2's words, the class says so as soon as it is tried, and both work again once the image may be used.
async fn refused(
    cx: &mut Cx<'_>,
    cluster: &mut Cluster,
    why: Withheld,
    launch: (&str, &str),
    class: &str,
) -> anyhow::Result<()> {
    let ids: BTreeSet<String> =
        cluster.class()?.status.context("no status")?.amis.into_iter().map(|ami| ami.id).collect();
    let born = cx.born_of(UID).await?;
    withhold(cx, &ids, &why);
    let before = cx.proxy.mark();
    let (reason, says) = launch;
    let answers = cluster.launch(&format!("{reason}-refused"), 1, &many(2)).await;
    for answer in &answers {
        cx.equal(says, &failed(answer, says).as_str(), &reason)?;
    }
    cx.equal("fleets that were asked for", &cx.proxy.count("CreateFleet", before), &1)?;
    // A dry run is valid for half an hour: an edited class is tried at once.
    cluster
        .edit(|class| class.spec.detailed_monitoring = Some(class.spec.detailed_monitoring != Some(true)))?;
    for _ in 0..3 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(6));
    }
    let condition = told(cluster, "ValidationSucceeded")?;
    cx.check(format!("the class says {class}: {condition}"), condition.starts_with(class))?;
    cx.equal("the class", &cluster.condition("Ready").split(' ').next(), &Some("False"))?;
    let before = cx.proxy.mark();
    let answers = cluster.launch(&format!("{reason}-not-ready"), 1, &many(1)).await;
    cx.check(format!("nothing is launched by it: {answers:?}"), answers[0].is_err())?;
    cx.equal("fleets for a class that is not Ready", &cx.proxy.count("CreateFleet", before), &0)?;
    cx.proxy.rules(|rules| rules.images.withheld.clear());
    cluster.pass(SignedDuration::from_secs(61));
    cluster.ready().await?;
    // No type was ruled out by what is the matter with an image.
    let instances = launched(cluster.launch(&format!("{reason}-again"), 1, &many(1)).await)?;
    let name = instances[0].labels.get(fleetwright_core::model::labels::INSTANCE_TYPE);
    cx.equal("the type", &name.map(|name| &**name), &Some("m5.large"))?;
    cx.equal("instances", &cx.born_of(UID).await?, &(born + 1))
}

pub(super) async fn withheld(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.delays.images = SignedDuration::from_mins(5));
    let mut cluster = settled(cx).await?;
    let now = cx.proxy.clock.now();
    let denied = ("AMIAuthorizationFailure", "AuthFailure: Not authorized for images: [ami-");
    let class = "False AMIAuthorizationFailure: Not authorized for images: [ami-";
    refused(cx, &mut cluster, Withheld::Permission(now), denied, class).await?;
    let says = format!("OptInRequired: {SUBSCRIBE}");
    let class = format!("False MarketplaceSubscriptionRequired: {SUBSCRIBE}");
    refused(cx, &mut cluster, unsubscribed(), ("LaunchFailed", &says), &class).await?;
    // In the end `DescribeImages` shows no image without launch permission.
    let ids: Vec<String> =
        cluster.class()?.status.context("no status")?.amis.into_iter().map(|ami| ami.id).collect();
    withhold(cx, &ids, &Withheld::Permission(cx.proxy.clock.now()));
    cluster.pass(SignedDuration::from_mins(6));
    cluster.round("nodeclass").await?;
    cx.equal("images of the class", &cluster.condition("AMIsReady").as_str(), &"False AMINotFound")
}

/// What the NodeClaim and the class say where the operator is a process, and that the pod gets its node once somebody has subscribed.
pub(super) async fn unsubscribed_operator(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    server.create(CLASSES, &node_class()).await?;
    server.create(POOLS, &node_pool()).await?;
    let operator = server.operator(cx).await?;
    let class = async |limit| {
        eventually("the class is ready", limit, async || {
            let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
            ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
            Ok(class)
        })
        .await
    };
    let ready = class(LIMIT).await?;
    let amis = ready["status"]["amis"].as_array().context("no images")?;
    let ids: Vec<String> = amis.iter().filter_map(|ami| Some(ami["id"].as_str()?.to_owned())).collect();
    withhold(cx, &ids, &unsubscribed());
    server.create(PODS, &pod()).await?;
    let condition = eventually("the NodeClaim says why it is not launched", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        let found = claims.iter().find_map(|claim| said(claim, "Launched", SUBSCRIBE));
        found.with_context(|| format!("{:?}", claims.iter().map(|own| &own["status"]).collect::<Vec<_>>()))
    })
    .await?;
    cx.equal("its status and reason", &condition, &"Unknown LaunchFailed".to_owned())?;
    cx.equal("instances", &cx.account.instances().await?.len(), &0)?;
    eventually("the class is edited", LIMIT, async || {
        let mut class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        class["spec"]["detailedMonitoring"] = true.into();
        let written = server.rest.write("PUT", &format!("{CLASSES}/default"), &class).await?;
        written.map(drop).map_err(|status| anyhow::anyhow!("the class is refused: {}", status.message))
    })
    .await?;
    let condition = eventually("the class says it too", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        said(&class, "ValidationSucceeded", SUBSCRIBE).with_context(|| class["status"].to_string())
    })
    .await?;
    cx.equal("its status and reason", &condition, &"False MarketplaceSubscriptionRequired".to_owned())?;
    cx.proxy.rules(|rules| rules.images.withheld.clear());
    class(AGAIN_LIMIT).await?;
    eventually("the NodeClaim is launched", AGAIN_LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        ensure!(claims.iter().any(|claim| is_true(claim, "Launched")), "{} claims", claims.len());
        Ok(())
    })
    .await?;
    cx.equal("instances in the end", &cx.account.instances().await?.len(), &1)?;
    operator.kill().await
}

/// Status and reason of a condition whose message has `words`.
fn said(object: &Value, condition: &str, words: &str) -> Option<String> {
    let all = object["status"]["conditions"].as_array()?;
    let own = all.iter().find(|own| own["type"] == condition)?;
    let text = |key: &str| own[key].as_str().unwrap_or_default();
    text("message").contains(words).then(|| format!("{} {}", text("status"), text("reason")))
}
