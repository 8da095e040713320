//! The verbs that users type, with the kubectl that users have.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::manifests;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    apply(cx).await?;
    read(cx).await?;
    scale(cx).await?;
    refuse(cx).await?;
    delete(cx).await
}

async fn apply(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    for (weight, expected) in [(None, "created"), (None, "unchanged"), (Some(5), "configured")] {
        if let Some(weight) = weight {
            pool["spec"]["weight"] = json!(weight);
        }
        let answer = cx.apply(&pool).await?;
        cx.check(format!("apply says {expected}: {answer}"), answer.contains(expected))?;
    }
    cx.equal("the weight", &spec(cx, &cx.pool()).await?["weight"], &json!(5))?;
    pool["spec"]["weight"] = json!(6);
    let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let answer = cx.world.kubectl.call(&args, Some(&pool)).await?;
    cx.check(format!("server-side apply works: {}", answer.stderr), answer.success)?;
    cx.equal("the weight", &spec(cx, &cx.pool()).await?["weight"], &json!(6))?;
    let name = cx.pool();
    cx.kubectl(&["label", "nodepool", &name, "team=e2e"]).await?;
    cx.kubectl(&["annotate", "nodepool", &name, "note=kept"]).await?;
    let patch = r#"[{"op": "replace", "path": "/spec/weight", "value": 7}]"#;
    cx.kubectl(&["patch", "nodepool", &name, "--type=json", "-p", patch]).await?;
    cx.equal("the weight", &spec(cx, &name).await?["weight"], &json!(7))
}

async fn read(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let name = cx.pool();
    let resource = format!("nodepool/{name}");
    let waited = cx.kubectl(&["wait", "--for=condition=Ready", &resource, "--timeout=30s"]).await?;
    cx.check(format!("wait ends: {waited}"), waited.contains("condition met"))?;
    let long = format!("nodepool.karpenter.sh/{name}\n");
    for args in [
        &["get", "nodepools", "-l", "team=e2e", "-o", "name"][..],
        &["get", &resource, "-o", "name"],
        &["get", "karpenter", "-l", "team=e2e", "-o", "name"],
        &["get", "nodepools", "--field-selector", &format!("metadata.name={name}"), "-o", "name"],
    ] {
        cx.equal(&args.join(" "), &cx.kubectl(args).await?, &long)?;
    }
    let described = cx.kubectl(&["describe", &resource]).await?;
    for fragment in ["ValidationSucceeded", "NodeClassReady", "KWOKNodeClass", "note: kept", "Weight:"] {
        cx.check(format!("describe shows {fragment}: {described}"), described.contains(fragment))?;
    }
    let explained = cx.kubectl(&["explain", "nodepool.spec.disruption.consolidateAfter"]).await?;
    cx.check(format!("explain knows the field: {explained}"), explained.contains("consolidateAfter"))?;
    let resources = cx.kubectl(&["api-resources", "--api-group=karpenter.sh", "-o", "name"]).await?;
    for plural in ["nodepools", "nodeclaims", "nodeoverlays"] {
        let found = resources.lines().any(|line| line == format!("{plural}.karpenter.sh"));
        cx.check(format!("api-resources lists {plural}: {resources}"), found)?;
    }
    Ok(())
}

/// The scale subresource of a static NodePool. The feature gate is off, so no instance follows.
async fn scale(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let name = format!("{}-static", cx.pool());
    let mut pool = manifests::node_pool(&name, 4);
    pool["spec"]["replicas"] = json!(0);
    cx.apply(&pool).await?;
    for replicas in [2, 0] {
        let wanted = format!("--replicas={replicas}");
        let answer = cx.kubectl(&["scale", &format!("nodepool/{name}"), &wanted]).await?;
        cx.check(format!("scale says so: {answer}"), answer.contains("scaled"))?;
        cx.equal("replicas", &spec(cx, &name).await?["replicas"], &json!(replicas))?;
    }
    let path = format!("/apis/karpenter.sh/v1/nodepools/{name}/scale");
    let scale = cx.world.get(&path).await?.context("there is no scale subresource")?;
    cx.equal("the subresource's kind", &scale["kind"], &json!("Scale"))?;
    cx.equal("the subresource's replicas", &scale["spec"]["replicas"].as_i64().unwrap_or(0), &0)?;
    cx.kubectl(&["delete", "nodepool", &name]).await.map(drop)
}

/// What the server refuses is refused by kubectl too, with the server's words.
async fn refuse(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    pool["spec"]["disruption"]["budgets"][0]["schedule"] = json!("@daily");
    let args = ["apply", "--dry-run=server", "-f", "-"];
    let answer = cx.world.kubectl.call(&args, Some(&pool)).await?;
    let (success, said) = (answer.success, answer.stderr);
    let words = "'schedule' must be set with 'duration'";
    cx.check(format!("a bad budget is refused: {said}"), !success && said.contains(words))?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    pool["spec"]["weigth"] = json!(1);
    let answer = cx.world.kubectl.call(&args, Some(&pool)).await?;
    let (success, said) = (answer.success, answer.stderr);
    cx.check(format!("a mistyped field is refused: {said}"), !success && said.contains("unknown field"))
}

async fn delete(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let name = cx.pool();
    let answer = cx.kubectl(&["delete", "nodepool", &name]).await?;
    cx.check(format!("delete says so: {answer}"), answer.contains("deleted"))?;
    let answer = cx.world.kubectl.call(&["get", "nodepool", &name], None).await?;
    let (success, said) = (answer.success, answer.stderr);
    cx.check(format!("it is gone: {said}"), !success && said.contains("NotFound"))
}

async fn spec(cx: &Cx<'_>, name: &str) -> anyhow::Result<Value> {
    let text = cx.kubectl(&["get", "nodepool", name, "-o", "json"]).await?;
    let object: Value = serde_json::from_str(&text).context("kubectl -o json printed no JSON")?;
    Ok(object["spec"].clone())
}
