//! The tools on a cluster that its reader may list in part and never write: `top`, `report`, `lint`, `plan` and `dump`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::credentials::write_kubeconfig;

/// The account, its role, and the binding of both.
const READER: &str = "fleetwright-reader";
/// What it may list. There is more that the tools read: DaemonSets, PodDisruptionBudgets, volumes.
const PERMITTED: [(&str, &[&str]); 4] = [
    ("", &["nodes", "pods", "namespaces"]),
    ("karpenter.sh", &["nodepools", "nodeclaims"]),
    ("karpenter.kwok.sh", &["kwoknodeclasses"]),
    ("batch", &["cronjobs"]),
];

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let kubeconfig = reader(cx).await?;
    let result = tools(cx, &kubeconfig).await;
    for object in ["clusterrolebinding", "clusterrole"] {
        cx.kubectl(&["delete", object, READER, "--ignore-not-found"]).await?;
    }
    result
}

fn rule((group, resources): (&str, &[&str])) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": ["list"]})
}

/// Creates the account, and a kubeconfig with its token.
async fn reader(cx: &mut Cx<'_>) -> anyhow::Result<PathBuf> {
    let namespace = cx.namespace();
    let role = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": READER},
            "rules": rules,
        })
    };
    cx.deploy(4, 2, "3").await?;
    cx.kubectl(&["create", "serviceaccount", READER, "-n", &namespace]).await?;
    cx.apply(&role(json!(PERMITTED.map(rule)))).await?;
    let account = format!("--serviceaccount={namespace}:{READER}");
    cx.kubectl(&["create", "clusterrolebinding", READER, &format!("--clusterrole={READER}"), &account])
        .await?;
    let token = cx.kubectl(&["create", "token", READER, "-n", &namespace]).await?;
    let admin: Value = serde_json::from_slice(&std::fs::read(&cx.world.server.kubeconfigs.admin)?)?;
    let cluster = &admin["clusters"][0]["cluster"];
    let text = |field: &str| cluster[field].as_str().with_context(|| format!("a kubeconfig without {field}"));
    let path = cx.world.folder.join("reader.kubeconfig");
    write_kubeconfig(&path, text("server")?, Path::new(text("certificate-authority")?), token.trim())?;
    Ok(path)
}

async fn tools(cx: &mut Cx<'_>, kubeconfig: &Path) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.serving(2, std::time::Duration::from_secs(90)).await?;
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": namespace},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "512m"}}}],
        }}}}},
    });
    cx.apply(&cron_job).await?;
    let overhead = "note: daemonsets may not be listed: node overhead is not counted";

    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["top", "--once", "--size", "120x40"]).await?;
    cx.check(
        format!("top shows the fleet: {status:?} {shown}"),
        status == Some(0) && shown.contains("Nodes (2)"),
    )?;
    cx.check(format!("top says what it lacks: {shown}"), shown.contains(overhead))?;

    let page = cx.world.folder.join("read-only.html");
    let page = page.to_str().context("a folder without a name")?;
    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["report", "-o", page]).await?;
    cx.check(
        format!("report is written: {status:?} {shown}"),
        status == Some(0) && shown.contains(overhead),
    )?;
    let written = std::fs::read_to_string(page)?;
    cx.check("the page of the report has the notes", written.contains("daemonsets may not be listed"))?;

    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["lint"]).await?;
    let finding = format!("L113: CronJob {namespace}/nightly: memory: 512m is 1 byte");
    cx.check(
        format!("lint finds the CronJob: {status:?} {shown}"),
        status == Some(5) && shown.contains(&finding),
    )?;

    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["plan"]).await?;
    cx.check(format!("plan plans: {status:?} {shown}"), status == Some(0) && shown.contains(overhead))?;

    let file = cx.world.folder.join("read-only.json");
    let file = file.to_str().context("a folder without a name")?;
    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["dump", "-o", file]).await?;
    cx.check(
        format!("dump says what it lacks: {status:?} {shown}"),
        status == Some(0) && shown.contains(overhead),
    )?;
    let of_file =
        cx.world.fleetwright_as(kubeconfig, &["top", "--once", "--size", "120x40", "-f", file]).await?;
    cx.check(
        format!("the dump is read: {of_file:?}"),
        of_file.0 == Some(0) && of_file.1.contains("Nodes (2)"),
    )?;

    // Without a kind that every answer needs, there is none.
    let mut rules = PERMITTED.map(rule);
    rules[0]["resources"] = json!(["nodes", "namespaces"]);
    let patch = json!({"rules": rules}).to_string();
    cx.kubectl(&["patch", "clusterrole", READER, "--type=merge", "-p", &patch]).await?;
    cx.eventually("plan refuses without pods", std::time::Duration::from_secs(30), async |world| {
        let (status, shown) = world.fleetwright_as(kubeconfig, &["plan"]).await?;
        anyhow::ensure!(status == Some(1) && shown.contains("listing pods"), "{status:?} {shown}");
        Ok(())
    })
    .await?;
    let (status, shown) = cx.world.fleetwright_as(kubeconfig, &["top", "--once", "--size", "120x40"]).await?;
    let lacks = shown.contains("note: pods may not be listed");
    cx.check(format!("top shows nodes alone: {status:?} {shown}"), status == Some(0) && lacks)
}
