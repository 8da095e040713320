//! Sends the table of invalid objects to a server, and compares the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Row, Table, Verdict};
use crate::e2e::arguments::Tier;
use crate::e2e::rest::{Rest, Written};
use crate::e2e::schema;

/// The answer to each row, by the row's name.
pub(crate) type Answers = BTreeMap<String, Verdict>;

/// Asks the server at `rest` about every row; namespaced objects are meant for `namespace`.
pub(crate) async fn answers(
    rest: &Rest,
    crds: &[Value],
    table: &Table,
    namespace: &str,
) -> anyhow::Result<Answers> {
    let mut answers = Answers::new();
    for row in &table.rows {
        let collection = match schema::of_kind(crds, &row.of) {
            Some(crd) => schema::collection(crd, namespace).context("an incomplete CRD")?,
            None => format!("/api/v1/namespaces/{namespace}/{}s", row.of.to_lowercase()),
        };
        let verdict = attempt(rest, &collection, table, row).await.with_context(|| row.name.clone())?;
        answers.insert(row.name.clone(), verdict);
    }
    Ok(answers)
}

/// Sends a row's object and returns the answer. Rows about updates leave nothing behind.
async fn attempt(rest: &Rest, collection: &str, table: &Table, row: &Row) -> anyhow::Result<Verdict> {
    let (stored, mut sent) = table.objects(row)?;
    let Some(mut stored) = stored else {
        let written = rest.write("POST", &format!("{collection}?dryRun=All"), &sent).await?;
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
    let created = rest.write("POST", collection, &stored).await?;
    created.map_err(|status| anyhow::anyhow!("the valid object is refused: {}", status.message))?;
    let answer = update(rest, &path, &sent).await;
    rest.write("DELETE", &path, &json!({})).await?.ok();
    answer
}

/// Sends `object` as an update of what is stored. The operator may write meanwhile, so a conflict is tried again.
async fn update(rest: &Rest, path: &str, object: &Value) -> anyhow::Result<Verdict> {
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let current = rest.get(path).await?.context("the stored object is gone")?;
        let mut sent = object.clone();
        for field in ["resourceVersion", "finalizers"] {
            sent["metadata"][field] = current["metadata"][field].clone();
        }
        let answer = verdict(rest.write("PUT", &format!("{path}?dryRun=All"), &sent).await?, 200);
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
pub(crate) fn silent_rules(crds: &[Value], table: &Table, verdicts: &Answers) -> Vec<String> {
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

/// The differences between the server of `tier` and the record. Rows that are known to differ on the in-memory server must be rejected
/// there too, and must still differ: an outdated note is a finding as well.
pub(crate) fn differences(tier: Tier, table: &Table, recorded: &Answers, found: &Answers) -> Vec<String> {
    let known: BTreeSet<&String> = table
        .rows
        .iter()
        .filter(|row| tier == Tier::FakeKube && row.differs.is_some())
        .map(|row| &row.name)
        .collect();
    let names: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let (recorded, found) = (recorded.get(name), found.get(name));
        let outcome =
            |verdict: Option<&Verdict>| verdict.map(|verdict| (verdict.code, verdict.reason.clone()));
        if known.contains(name) && recorded == found {
            differences.push(format!("{name}: no longer differs; remove the note"));
        } else if recorded != found && !(known.contains(name) && outcome(recorded) == outcome(found)) {
            differences.push(format!("{name}: recorded {recorded:?}, answered {found:?}"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::e2e::installation::Installation;

    /// The in-memory server, called in process, returns the recorded answers of a kube-apiserver.
    #[tokio::test]
    async fn fake_kube_answers_like_kube_apiserver() -> anyhow::Result<()> {
        let now = || jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 50);
        let server = fleetwright_fake_kube::Server::new(fleetwright_fake_kube::Config::new(Arc::new(now), 1));
        let rest = Rest::new(kube::Client::new(server.service(), "default"));
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let crds = Installation::read(&deploy)?.crds;
        for crd in &crds {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            rest.write("POST", path, crd).await?.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        }
        let table = Table::parse(include_str!("../../../e2e/refusals.yaml"))?;
        let recorded: Answers = serde_json::from_str(include_str!("../../../e2e/refusals.json"))?;
        assert_eq!(recorded.len(), table.rows.len(), "the record is older than the table");
        let answers = answers(&rest, &crds, &table, "default").await?;
        let differences = differences(Tier::FakeKube, &table, &recorded, &answers);
        assert!(differences.is_empty(), "{differences:#?}");
        Ok(())
    }

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
        let table =
            "base: {Thing: {a: 1}}\nrows:\n- {name: known, of: Thing, set: {/a: 2}, differs: words}\n";
        let table = Table::parse(table).unwrap();
        let refused =
            |cause: &str| Verdict { code: 422, reason: "Invalid".into(), causes: vec![cause.into()] };
        let recorded = Answers::from([
            ("gone".to_owned(), Verdict::accepted(200)),
            ("known".to_owned(), refused("bad")),
            ("other".to_owned(), refused("bad")),
            ("same".to_owned(), refused("bad")),
        ]);
        let mut found = recorded.clone();
        found.remove("gone");
        found.insert("known".to_owned(), refused("worse"));
        found.insert("other".to_owned(), refused("worse"));
        let named = |tier, found: &Answers| -> Vec<String> {
            let differences = differences(tier, &table, &recorded, found);
            differences.iter().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
        };
        assert_eq!(named(Tier::FakeKube, &found), ["gone", "other"]);
        assert_eq!(named(Tier::Kube, &found), ["gone", "known", "other"]);
        assert_eq!(named(Tier::FakeKube, &recorded), ["known"], "a note that is no longer true");
        found.insert("known".to_owned(), Verdict::accepted(201));
        assert_eq!(
            named(Tier::FakeKube, &found),
            ["gone", "known", "other"],
            "other words, not another outcome"
        );
    }
}
