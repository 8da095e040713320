//! Printer columns: `kubectl get -o wide` shows the values of the objects, and the operator sets all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::columns;
use crate::e2e::fleet;
use crate::e2e::manifests;
use crate::e2e::schema::{self, Column};

/// Columns that may be empty on a healthy, initialized NodeClaim of a drift-free pool.
const MAY_BE_EMPTY: [&str; 2] = ["Drifted", "ImageID"];

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.deploy(4, 1, "1").await?;
    let namespace = cx.namespace();
    cx.apply(&overlay()).await?;
    cx.apply(&buffer(&namespace)).await?;
    let pool = cx.pool();
    let weight = r#"{"spec":{"weight":7}}"#;
    cx.kubectl(&["patch", "nodepool", &pool, "--type=merge", "-p", weight]).await?;
    cx.serving(1, Duration::from_secs(90)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    let claim = fleet.claims.first().map(fleet::name).context("there is no NodeClaim")?;

    let shown = rows(cx, "NodeClaim", &claim).await?;
    for (column, cell) in &shown {
        let filled = !cell.is_empty() && cell != "<none>" && cell != "<unknown>";
        let may = MAY_BE_EMPTY.contains(&column.as_str());
        cx.check(format!("the NodeClaim's column {column} is filled"), filled || may)?;
    }
    let shown = rows(cx, "NodePool", &pool).await?;
    for (column, expected) in [("NODECLASS", "default"), ("READY", "True"), ("WEIGHT", "7")] {
        let cell = shown.iter().find(|(name, _)| name.eq_ignore_ascii_case(column));
        cx.equal(column, &cell.map(|(_, cell)| cell.as_str()), &Some(expected))?;
    }
    rows(cx, "NodeOverlay", "e2e-columns").await?;
    rows(cx, "KWOKNodeClass", "default").await?;
    rows(cx, "CapacityBuffer", "e2e-columns").await.map(drop)
}

/// Compares every cell of `kubectl get -o wide` with the object itself; returns the columns and cells.
async fn rows(cx: &mut Cx<'_>, kind: &str, name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let crd = schema::of_kind(&cx.world.installation.crds, kind).cloned();
    let crd = crd.with_context(|| format!("there is no CRD of {kind}"))?;
    let plural = crd["spec"]["names"]["plural"].as_str().context("a CRD without plural")?.to_owned();
    let namespace = cx.namespace();
    let args = ["get", &plural, name, "-n", &namespace, "-o"];
    // Between the two looks the operator may have written: what is shown has to agree with the object before or after.
    let before = object(cx, &args).await?;
    let table = cx.kubectl(&[&args[..], &["wide"]].concat()).await?;
    let narrow = cx.kubectl(&args[..args.len() - 1]).await?;
    let after = object(cx, &args).await?;
    let cells = columns::cells(&table, name).with_context(|| format!("{kind} {name} is not in:\n{table}"))?;
    let narrow =
        columns::cells(&narrow, name).with_context(|| format!("{kind} {name} is not in:\n{narrow}"))?;

    let columns = schema::columns(&crd);
    let headers = |columns: &[&Column]| -> Vec<String> {
        std::iter::once("NAME".to_owned()).chain(columns.iter().map(|c| c.name.to_uppercase())).collect()
    };
    let shown = |cells: &[(String, String)]| -> Vec<String> { cells.iter().map(|c| c.0.clone()).collect() };
    let wide: Vec<&Column> = columns.iter().collect();
    let usual: Vec<&Column> = columns.iter().filter(|column| !column.wide).collect();
    cx.equal(&format!("{kind}'s wide columns"), &shown(&cells), &headers(&wide))?;
    cx.equal(&format!("{kind}'s columns"), &shown(&narrow), &headers(&usual))?;
    for (column, (_, cell)) in columns.iter().zip(cells.iter().skip(1)) {
        let expected: BTreeSet<String> =
            [&before, &after].map(|object| columns::evaluate(object, &column.path)).into();
        let agrees = match column.kind.as_str() {
            "date" => columns::is_age(cell),
            _ => expected.contains(cell),
        };
        cx.check(format!("{kind}'s {} shows {cell:?}, the object has {expected:?}", column.name), agrees)?;
    }
    Ok(columns.into_iter().map(|column| column.name).zip(cells.into_iter().skip(1).map(|c| c.1)).collect())
}

async fn object(cx: &Cx<'_>, args: &[&str]) -> anyhow::Result<Value> {
    let text = cx.kubectl(&[args, &["json"]].concat()).await?;
    serde_json::from_str(&text).context("kubectl -o json printed no JSON")
}

fn overlay() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "e2e-columns"},
        "spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
            "priceAdjustment": "+10%",
            "weight": 3,
        },
    })
}

fn buffer(namespace: &str) -> Value {
    let mut buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "e2e-columns", "namespace": namespace},
        "spec": {"replicas": 0},
    });
    let pod = manifests::pod(namespace, "shape", "none", "1");
    buffer["spec"]["podTemplateRef"] = json!({"name": pod["metadata"]["name"]});
    buffer
}
