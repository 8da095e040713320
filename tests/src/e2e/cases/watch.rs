//! `kubectl get --watch`: a change arrives as it happens.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::e2e::case::Cx;
use crate::e2e::manifests;

const LINE_LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let name = cx.pool();
    let mut pool = manifests::node_pool(&name, 4);
    pool["spec"]["weight"] = json!(1);
    cx.apply(&pool).await?;
    cx.kubectl(&["wait", "--for=condition=Ready", &format!("nodepool/{name}"), "--timeout=30s"]).await?;

    let columns = "custom-columns=WEIGHT:.spec.weight";
    let mut watch =
        cx.world.kubectl.spawn(&["get", "nodepool", &name, "--watch", "--no-headers", "-o", columns])?;
    let stdout = watch.stdout.take().context("kubectl has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    wait_for(&mut lines, "1").await?;
    cx.check("the watch begins with the present state", true)?;
    cx.kubectl(&["patch", "nodepool", &name, "--type=merge", "-p", r#"{"spec":{"weight":2}}"#]).await?;
    wait_for(&mut lines, "2").await?;
    cx.check("the watch shows the change", true)?;
    watch.kill().await?;
    Ok(())
}

/// Reads lines until one is `text`; status updates may repeat earlier ones.
async fn wait_for(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) -> anyhow::Result<()> {
    let found = tokio::time::timeout(LINE_LIMIT, async {
        while let Some(line) = lines.next_line().await? {
            if line.trim() == text {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    });
    found.await.with_context(|| format!("no line {text:?} within {LINE_LIMIT:?}"))?
}
