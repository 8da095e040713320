//! Puts the table of bad objects to a server, and compares what servers say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Row, Table, Verdict};
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

/// What the two servers say differently.
pub(crate) fn differences(recorded: &Answers, found: &Answers) -> Vec<String> {
    let names: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
    let differ = names.into_iter().filter(|name| recorded.get(*name) != found.get(*name));
    differ
        .map(|name| format!("{name}: recorded {:?}, answered {:?}", recorded.get(name), found.get(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::e2e::installation::Installation;

    /// The in-memory server, asked in process, says what a kube-apiserver said when its answers were recorded.
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
        let differences = differences(&recorded, &answers);
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
