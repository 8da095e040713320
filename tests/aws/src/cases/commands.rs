//! The commands of the binary that look into the account.

use std::collections::BTreeMap;

use anyhow::Context as _;
use fleetwright_aws_api::labels;
use serde_json::{Value, json};

use super::flow::{node_class, node_pool};
use crate::case::Cx;
use crate::cluster::NAME;
use crate::stage::Server;

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// A claim that names an instance.
async fn claim(server: &Server, name: &str, provider_id: &str) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
    });
    let mut made = server.create(CLAIMS, &object).await?;
    made["status"] = json!({"providerID": provider_id});
    let written = server.rest.write("PUT", &format!("{CLAIMS}/{name}/status"), &made).await?;
    written.map(drop).map_err(|status| anyhow::anyhow!("{}", status.message))
}

pub(super) async fn audit(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    server.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", &node_class()).await?;
    let cluster = (labels::TAG_CLUSTER_NAME, NAME);
    let uid = server.uid.clone();
    let mut expected = BTreeMap::new();
    expected.insert(cx.account.launch(&[cluster, (labels::TAG_CLUSTER_UID, &uid)]).await?, "ours");
    expected.insert(cx.account.launch(&[cluster, (labels::TAG_CLUSTER_UID, "another")]).await?, "foreign");
    expected.insert(cx.account.launch(&[cluster, ("a", "b"), ("c", "d")]).await?, "unowned");
    let named = cx.account.launch(&[cluster, ("a", "b"), ("c", "d"), ("e", "f")]).await?;
    let zone = cx.account.instances().await?.remove(&named).context("it is not there")?.zone;
    claim(&server, "named", &format!("aws:///{zone}/{named}")).await?;
    expected.insert(named.clone(), "named");
    // Of another cluster's name: none of our concern.
    cx.account
        .launch(&[(labels::TAG_CLUSTER_NAME, "test"), ("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")])
        .await?;

    let before = cx.proxy.mark();
    let printed = server.command(cx, &["audit", "-o", "json"]).await?;
    cx.check(format!("audit succeeds: {}", printed.err), printed.ok)?;
    let report: Value = serde_json::from_str(&printed.out)?;
    let items = report["items"].as_array().context("no items")?;
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let found: BTreeMap<String, String> =
        items.iter().map(|item| (text(item, "id"), text(item, "owner"))).collect();
    let expected = expected.into_iter().map(|(id, owner)| (id, owner.to_owned())).collect();
    cx.equal("who owns what", &found, &expected)?;
    let foreign = items.iter().find(|item| item["owner"] == "foreign").context("nothing foreign")?;
    cx.equal("whose it is", &foreign["clusterUid"], &json!("another"))?;
    let table = server.command(cx, &["audit"]).await?.out;
    let sum = "1 ours, 1 named by a NodeClaim or EC2NodeClass, 1 unowned, 1 of other clusters";
    cx.check(format!("the table counts: {table}"), table.contains(sum))?;
    server.create("/apis/karpenter.sh/v1/nodepools", &node_pool()).await?;
    let linted = server.command(cx, &["lint", "--catalog=ec2-live", "-o", "json"]).await?;
    let others: Vec<&String> = expected.keys().filter(|id| **id != named).collect();
    let says = |id: &&String| linted.out.contains("L107") && linted.out.contains(id.as_str());
    cx.check(format!("lint finds them: {} {}", linted.out, linted.err), others.iter().all(says))?;
    cx.check("and not the claimed one", !linted.out.contains(&named))?;
    cx.equal("changes", &cx.proxy.mutations(before), &Vec::new())?;
    let unnamed = server.command(cx, &["audit", "--cluster-name="]).await?;
    cx.check(
        format!("without a name it says so: {}", unnamed.err),
        !unnamed.ok && unnamed.err.contains("cluster-name"),
    )
}

pub(super) async fn iam(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    let file = cx.root.join("deploy/iam/controller-policy.json").display().to_string();
    let all = ["--interruption-queue=q", "--enable-zonal-shift"];
    let printed = server.command(cx, &[&["iam", "check", "-f", &file], &all[..]].concat()).await?;
    cx.check(
        format!("our own policy: {printed:?}"),
        printed.ok && printed.out.contains("the policies grant every required action"),
    )?;

    // Whoever checks a role has permissions of their own.
    cx.proxy.rules(|rules| rules.policies.clear());
    cx.account.create_role("controller").await?;
    let reading = json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": ["ec2:Describe*", "ec2:CreateTags"], "Resource": "*"},
    ]});
    let params =
        [("RoleName", "controller"), ("PolicyName", "own"), ("PolicyDocument", &*reading.to_string())];
    cx.account.query("iam", "PutRolePolicy", &params).await?;
    let check = ["iam", "check", "--role", "controller", "-o", "json"];
    let printed = server.command(cx, &check).await?;
    cx.check(format!("a role that only reads is not enough: {}", printed.err), !printed.ok)?;
    let report: Value = serde_json::from_str(&printed.out)?;
    let missing: Vec<&str> =
        report["missing"].as_array().into_iter().flatten().filter_map(|m| m["action"].as_str()).collect();
    cx.check(format!("what is missing is named: {missing:?}"), missing.contains(&"ec2:CreateFleet"))?;
    cx.check("what is given is not", !missing.contains(&"ec2:DescribeImages"))?;

    // The rest is granted by an attached policy.
    let rest = json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": ["ec2:*", "iam:*", "ssm:*", "eks:*", "pricing:*"], "Resource": "*"},
    ]});
    let params = [("PolicyName", "rest"), ("PolicyDocument", &*rest.to_string())];
    let made = cx.account.query("iam", "CreatePolicy", &params).await?;
    let arn = made.all("Arn").first().map(|arn| arn.text.clone()).context("a policy without a name")?;
    let params = [("RoleName", "controller"), ("PolicyArn", &*arn)];
    cx.account.query("iam", "AttachRolePolicy", &params).await?;
    let printed = server.command(cx, &check).await?;
    cx.check(format!("inline and attached policies count: {printed:?}"), printed.ok)?;
    let printed = server.command(cx, &["iam", "check", "--role", "nobody"]).await?;
    cx.check(format!("a role that is not there: {}", printed.err), printed.err.contains("NoSuchEntity"))
}

pub(super) async fn prices(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    cx.proxy.rules(|rules| rules.prices = vec![("m5.large".to_owned(), "0.5".to_owned())]);
    let file = cx.folder.join("prices.txt").display().to_string();
    let export = ["prices", "export", "-f", &file];
    let printed = server.command(cx, &export).await?;
    cx.check(format!("export succeeds: {}", printed.err), printed.ok && printed.err.is_empty())?;
    let text = std::fs::read_to_string(&file)?;
    cx.check("it is the region's", text.starts_with("[us-west-2]\n"))?;
    cx.check("a price on demand", text.contains("\nm5.large 0.5\n"))?;
    cx.check("prices of the spot market", text.contains("\nm5.large us-west-2a 0.00001\n"))?;
    let printed = server.command(cx, &["prices", "export"]).await?;
    cx.check("the same on standard output", printed.out == text)?;

    cx.proxy.rules(|rules| rules.denied = ["GetProducts"].into());
    let printed = server.command(cx, &export).await?;
    let told = printed.ok && printed.err.contains("on-demand prices");
    cx.check(format!("what is missing is told: {}", printed.err), told)?;
    cx.proxy.rules(|rules| rules.denied = ["GetProducts", "DescribeSpotPriceHistory"].into());
    let printed = server.command(cx, &export).await?;
    cx.check(format!("without any price it fails: {}", printed.err), !printed.ok)?;

    cx.proxy.rules(|rules| rules.denied.clear());
    let printed = server.command_without(cx, &export, "AWS_ACCESS").await?;
    let told = !printed.ok && printed.err.contains("AuthFailure") && printed.err.contains("credentials");
    cx.check(format!("without credentials it says so: {}", printed.err), told)?;
    let printed = server.command_without(cx, &export, "AWS_REGION").await?;
    cx.check(
        format!("without a region too: {}", printed.err),
        !printed.ok && printed.err.contains("AWS_REGION"),
    )
}
