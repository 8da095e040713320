//! The CRDs on the server: accepted, served, defaulted, and strict as required.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use crate::e2e::arguments::Tier;
use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::manifests;
use crate::e2e::refusal::{Table, Verdict, ask};
use crate::e2e::schema;

/// The defaults that Karpenter's NodePool has, which the server fills in.
const DEFAULTS: [(&str, &str); 4] = [
    ("/spec/template/spec/expireAfter", "720h"),
    ("/spec/disruption/consolidateAfter", "0s"),
    ("/spec/disruption/consolidationPolicy", "WhenEmptyOrUnderutilized"),
    ("/spec/disruption/budgets/0/nodes", "10%"),
];

/// Every CRD of deploy/fake-cloud/ is accepted without complaint, and a NodePool gets its defaults.
pub(super) async fn crds(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let crds = cx.world.installation.crds.clone();
    for crd in &crds {
        let name = fleet::name(crd);
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let stored = cx.world.get(&path).await?.with_context(|| format!("no CRD {name}"))?;
        for condition in ["Established", "NamesAccepted"] {
            cx.check(
                format!("{name} is {condition}: {}", stored["status"]),
                fleet::is_true(&stored, condition),
            )?;
        }
        let flaw = fleet::condition(&stored, "NonStructuralSchema");
        cx.check(format!("{name} has a structural schema: {flaw:?}"), flaw.is_none())?;
        let collection =
            schema::collection(crd, "default").context("a CRD without group, version or plural")?;
        let served = cx.world.get(&collection).await?;
        cx.check(format!("{collection} is served"), served.is_some())?;
    }
    let mut pool = manifests::node_pool("defaults", 4);
    pool["spec"]["disruption"].take();
    if let Some(spec) = pool["spec"].as_object_mut() {
        spec.remove("disruption");
    }
    let path = "/apis/karpenter.sh/v1/nodepools?dryRun=All";
    let written = cx.world.rest.write("POST", path, &pool).await?;
    let defaulted = written.map_err(|status| anyhow::anyhow!("the pool is refused: {}", status.message))?;
    for (pointer, expected) in DEFAULTS {
        cx.equal(pointer, &defaulted.pointer(pointer), &Some(&json!(expected)))?;
    }
    Ok(())
}

/// Every row of the table gets the answer it expects, both servers give the recorded ones, and no CEL rule is left out.
pub(super) async fn refusals(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let table = Table::parse(include_str!("../../../e2e/refusals.yaml"))?;
    cx.apply(&manifests::namespace(&cx.namespace())).await?;
    let crds = &cx.world.installation.crds;
    let verdicts = ask::answers(&cx.world.rest, crds, &table, &cx.namespace()).await?;
    let silent = ask::silent_rules(crds, &table, &verdicts);
    let faults: Vec<String> =
        table.rows.iter().filter_map(|row| verdicts.get(&row.name)?.fault(row)).collect();
    let count = table.rows.len();
    cx.equal("answers, one per row", &verdicts.len(), &count)?;
    cx.check(format!("all {count} answers are as expected: {faults:#?}"), faults.is_empty())?;
    cx.check(format!("every CEL rule is tried; never heard from: {silent:#?}"), silent.is_empty())?;
    let record = cx.world.root.join("tests/e2e/refusals.json");
    if cx.bless {
        return bless(cx, &record, &verdicts);
    }
    let recorded: BTreeMap<String, Verdict> = serde_json::from_str(
        &std::fs::read_to_string(&record).context("no recorded answers; --bless makes them")?,
    )?;
    let differences = ask::differences(cx.world.tier, &table, &recorded, &verdicts);
    cx.check(format!("the answers are the recorded ones: {differences:#?}"), differences.is_empty())
}

fn bless(cx: &mut Cx<'_>, record: &Path, verdicts: &BTreeMap<String, Verdict>) -> anyhow::Result<()> {
    cx.check("only a real server's answers are recorded", cx.world.tier == Tier::Kube)?;
    let text = serde_json::to_string_pretty(verdicts)? + "\n";
    std::fs::write(record, text).with_context(|| format!("cannot write {}", record.display()))
}
