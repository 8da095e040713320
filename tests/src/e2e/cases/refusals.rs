//! The CRDs as the server sees them: taken, served, defaulted, and strict where they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::arguments::Tier;
use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::manifests;
use crate::e2e::refusal::{Row, Table, Verdict};
use crate::e2e::schema;
use crate::e2e::world::Written;

/// The defaults that Karpenter's NodePool has, which the server fills in.
const DEFAULTS: [(&str, &str); 4] = [
    ("/spec/template/spec/expireAfter", "720h"),
    ("/spec/disruption/consolidateAfter", "0s"),
    ("/spec/disruption/consolidationPolicy", "WhenEmptyOrUnderutilized"),
    ("/spec/disruption/budgets/0/nodes", "10%"),
];

/// Every CRD of deploy/ is accepted without complaint, and a NodePool gets its defaults.
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
    let written = cx.world.write("POST", path, &pool).await?;
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
    let mut verdicts = BTreeMap::new();
    let mut faults = Vec::new();
    for row in &table.rows {
        let verdict = attempt(cx, &table, row).await.with_context(|| row.name.clone())?;
        faults.extend(verdict.fault(row));
        verdicts.insert(row.name.clone(), verdict);
    }
    let count = table.rows.len();
    cx.check(format!("all {count} answers are as expected: {faults:#?}"), faults.is_empty())?;
    let silent = silent_rules(&cx.world.installation.crds, &table, &verdicts);
    cx.check(format!("every CEL rule is tried; never heard from: {silent:#?}"), silent.is_empty())?;
    let record = cx.world.root.join("tests/e2e/refusals.json");
    if cx.bless {
        return bless(cx, &record, &verdicts);
    }
    let recorded: BTreeMap<String, Verdict> = serde_json::from_str(
        &std::fs::read_to_string(&record).context("no recorded answers; --bless makes them")?,
    )?;
    let differences = differences(&recorded, &verdicts);
    cx.check(format!("the answers are the recorded ones: {differences:#?}"), differences.is_empty())
}

fn bless(cx: &mut Cx<'_>, record: &PathBuf, verdicts: &BTreeMap<String, Verdict>) -> anyhow::Result<()> {
    cx.check("only a real server's answers are recorded", cx.world.tier == Tier::Kube)?;
    let text = serde_json::to_string_pretty(verdicts)? + "\n";
    std::fs::write(record, text).with_context(|| format!("cannot write {}", record.display()))
}

/// Sends a row's object and returns the answer. Rows about updates leave nothing behind.
async fn attempt(cx: &Cx<'_>, table: &Table, row: &Row) -> anyhow::Result<Verdict> {
    let (stored, mut sent) = table.objects(row)?;
    let collection = match schema::of_kind(&cx.world.installation.crds, &row.of) {
        Some(crd) => schema::collection(crd, &cx.namespace()).context("an incomplete CRD")?,
        None => format!("/api/v1/namespaces/{}/{}s", cx.namespace(), row.of.to_lowercase()),
    };
    let Some(mut stored) = stored else {
        let written = cx.world.write("POST", &format!("{collection}?dryRun=All"), &sent).await?;
        return Ok(verdict(written, 201));
    };
    // A name of its own per row: an object that still terminates must not get in the way of the next.
    let name = row.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-").to_lowercase();
    for object in [&mut stored, &mut sent] {
        object["metadata"]["name"] = json!(name);
        // The operator adds its finalizer to claims that it may launch; these are none of its business.
        object["metadata"]["annotations"] = json!({"e2e": "refusals"});
    }
    let path = format!("{collection}/{name}");
    let created = cx.world.write("POST", &collection, &stored).await?;
    created.map_err(|status| anyhow::anyhow!("the valid object is refused: {}", status.message))?;
    let answer = update(cx, &path, &sent).await;
    cx.world.write("DELETE", &path, &json!({})).await?.ok();
    answer
}

/// Sends `object` as an update of what is stored. The operator may write meanwhile, so a conflict is tried again.
async fn update(cx: &Cx<'_>, path: &str, object: &Value) -> anyhow::Result<Verdict> {
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let current = cx.world.get(path).await?.context("the stored object is gone")?;
        let mut sent = object.clone();
        for field in ["resourceVersion", "finalizers"] {
            sent["metadata"][field] = current["metadata"][field].clone();
        }
        let answer = verdict(cx.world.write("PUT", &format!("{path}?dryRun=All"), &sent).await?, 200);
        if answer.code != 409 {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("conflicts {ATTEMPTS} times in a row")
}

fn verdict(written: Written, accepted: u16) -> Verdict {
    match written {
        Ok(_) => Verdict::accepted(accepted),
        Err(status) => Verdict::refused(&status),
    }
}

/// The CEL rules, as kind and message, that no row of the table made the server give as a reason.
fn silent_rules(crds: &[Value], table: &Table, verdicts: &BTreeMap<String, Verdict>) -> Vec<String> {
    let mut heard: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in &table.rows {
        let causes = verdicts.get(&row.name).map(|verdict| verdict.causes.as_slice()).unwrap_or_default();
        heard.extend(causes.iter().map(|cause| (row.of.as_str(), cause.as_str())));
    }
    let mut silent = Vec::new();
    for crd in crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        for message in schema::rule_messages(crd) {
            if !heard.iter().any(|(of, cause)| *of == kind && cause.contains(&message)) {
                silent.push(format!("{kind}: {message}"));
            }
        }
    }
    silent
}

/// What the two servers say differently.
fn differences(recorded: &BTreeMap<String, Verdict>, found: &BTreeMap<String, Verdict>) -> Vec<String> {
    let names: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
    let differ = names.into_iter().filter(|name| recorded.get(*name) != found.get(*name));
    differ
        .map(|name| format!("{name}: recorded {:?}, answered {:?}", recorded.get(name), found.get(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_nothing_tries_is_named() {
        let crd = json!({"spec": {"names": {"kind": "Thing"}, "versions": [{"schema": {
            "x-kubernetes-validations": [{"rule": "a", "message": "tried"}, {"rule": "b", "message": "untried"}],
        }}]}});
        let table = "base: {Thing: {a: 1}, Other: {a: 1}}\nrows:\n\
                     - {name: one, of: Thing, set: {/a: 2}, expect: [tried]}\n\
                     - {name: two, of: Other, set: {/a: 2}, expect: [untried]}\n";
        let table = Table::parse(table).unwrap();
        let refused =
            |cause: &str| Verdict { code: 422, reason: "Invalid".into(), causes: vec![cause.into()] };
        let verdicts = BTreeMap::from([
            ("one".into(), refused("spec: tried")),
            ("two".into(), refused("spec: untried")),
        ]);
        assert_eq!(silent_rules(&[crd], &table, &verdicts), ["Thing: untried"]);
    }

    #[test]
    fn answers_that_differ_or_are_missing_are_named() {
        let recorded = BTreeMap::from([
            ("same".to_owned(), Verdict::accepted(200)),
            ("other".to_owned(), Verdict::accepted(200)),
            ("gone".to_owned(), Verdict::accepted(200)),
        ]);
        let mut found = recorded.clone();
        found.remove("gone");
        found.insert("other".to_owned(), Verdict::accepted(201));
        let differences = differences(&recorded, &found);
        assert_eq!(differences.len(), 2);
        assert!(differences[0].starts_with("gone") && differences[1].starts_with("other"), "{differences:?}");
    }
}
