//! Observations on the nodes of a NodePool, stored in its annotation `fleetwright.dev/observed`: they survive the nodes and this process.
//!
//! A list. An entry with `capacity` has the capacity that nodes report, one line per instance type and image; each other entry has a node
//! that was too small for its pods (`smaller`) or an undeclared taint (`taint`), with its NodeClaim and expiry.

use std::collections::BTreeMap;

use fleetwright_core::model::{
    Observed, ObservedTaint, ResourceName, Resources, SmallerNode, Str, Taint, TaintEffect,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lower::{supply, text};

/// One entry, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    claim: String,
    since: Timestamp,
    until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    smaller: Option<WrittenNode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taint: Option<WrittenTaint>,
}

/// The observed capacity, as lines.
#[derive(Debug, Serialize, Deserialize)]
struct CapacityEntry {
    capacity: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenNode {
    instance_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    predicted: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenTaint {
    key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
    effect: String,
}

/// Reads the annotation; invalid entries are ignored.
#[must_use]
pub fn read(written: &str) -> Observed {
    let mut observed = Observed::default();
    let entries: Vec<serde_json::Value> = serde_json::from_str(written).unwrap_or_default();
    for entry in entries.into_iter().take(2 * Observed::MOST + 1) {
        if entry.get("capacity").is_some() {
            let lines = serde_json::from_value(entry).map(|CapacityEntry { capacity }| capacity);
            let lines = lines.unwrap_or_default();
            observed.capacity = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into();
            continue;
        }
        let Ok(Entry { claim, since, until, smaller, taint }) = serde_json::from_value(entry) else {
            continue;
        };
        let claim: Str = text(&claim);
        if let Some(node) = smaller.and_then(|written| smaller_node(&written, &claim, since, until)) {
            observed.add_smaller(node);
        }
        if let Some(taint) = taint
            && let Some(effect) = TaintEffect::parse(&taint.effect)
        {
            let taint = Taint::new(taint.key, taint.value, effect);
            observed.add_taint(ObservedTaint { taint, claim, since, until });
        }
    }
    observed
}

fn smaller_node(
    written: &WrittenNode,
    claim: &Str,
    since: Timestamp,
    until: Timestamp,
) -> Option<SmallerNode> {
    Some(SmallerNode {
        instance_type: text(&written.instance_type),
        image: written.image.as_deref().map(text),
        predicted: amounts(&written.predicted)?,
        allocatable: amounts(&written.allocatable)?,
        claim: claim.clone(),
        since,
        until,
    })
}

fn amounts(written: &BTreeMap<String, String>) -> Option<Resources> {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    let quantities = written.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
    supply("observed", Some(&quantities)).ok()
}

/// The value of the annotation; `None` without observations.
#[must_use]
pub fn write(observed: &Observed) -> Option<String> {
    let smaller = observed.smaller.iter().map(|known| Entry {
        claim: known.claim.to_string(),
        since: known.since,
        until: known.until,
        smaller: Some(WrittenNode {
            instance_type: known.instance_type.to_string(),
            image: known.image.as_deref().map(str::to_owned),
            predicted: written(&known.predicted),
            allocatable: written(&known.allocatable),
        }),
        taint: None,
    });
    let taints = observed.taints.iter().map(|known| Entry {
        claim: known.claim.to_string(),
        since: known.since,
        until: known.until,
        smaller: None,
        taint: Some(WrittenTaint {
            key: known.taint.key.to_string(),
            value: known.taint.value.to_string(),
            effect: known.taint.effect.as_str().to_owned(),
        }),
    });
    // As `read` ends them: a carriage return before the end is of the line.
    let lines: Vec<String> = observed.capacity.split_terminator('\n').map(str::to_owned).collect();
    let capacity = (!lines.is_empty()).then_some(CapacityEntry { capacity: lines });
    let capacity = capacity.into_iter().map(serde_json::to_value);
    let entries = capacity.chain(smaller.chain(taints).map(serde_json::to_value));
    let entries = entries.collect::<Result<Vec<serde_json::Value>, _>>().ok()?;
    (!entries.is_empty()).then(|| serde_json::Value::from(entries).to_string())
}

fn written(amounts: &Resources) -> BTreeMap<String, String> {
    let one = |(name, amount): (ResourceName, i64)| (name.to_string(), name.quantity(amount).to_string());
    amounts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    //! What is written is read.
    use super::*;

    #[test]
    fn observations_survive_being_written() {
        let since = Timestamp::from_second(1_750_000_000).unwrap();
        let until = Timestamp::from_second(1_750_003_600).unwrap();
        let mut observed = Observed {
            capacity: "m5.large ami-1 2000 8589934592 pods:29=58\nm5.large ami-2 2000 7\n".into(),
            ..Observed::default()
        };
        let only_capacity = observed.clone();
        assert_eq!(read(&write(&only_capacity).unwrap()), only_capacity);
        observed.add_smaller(SmallerNode {
            instance_type: "m5.large".into(),
            image: Some("ami-1".into()),
            predicted: Resources::of(1930, 7 << 30).with("pods", 29),
            allocatable: Resources::of(1930, (7 << 30) - 12_345).with("pods", 29),
            claim: "default-abcde".into(),
            since,
            until,
        });
        let taint = Taint::new("agent", "x", TaintEffect::NoExecute);
        observed.add_taint(ObservedTaint { taint, claim: "default-abcde".into(), since, until });
        let text = write(&observed).unwrap();
        assert_eq!(read(&text), observed, "{text}");
        assert_eq!(write(&Observed::default()), None);
    }

    #[test]
    fn lines_are_written_as_they_were_read() {
        let observed = read(r#"[{"capacity":["m5.large ami-1 2000 7\r","","a\nb"]}]"#);
        assert_eq!(&*observed.capacity, "m5.large ami-1 2000 7\r\n\na\nb\n");
        assert_eq!(read(&write(&observed).unwrap()), observed);
    }

    #[test]
    fn invalid_entries_are_ignored() {
        for bad in ["", "{}", "[1]", r#"[{"claim":"a"}]"#, "null", "[[]]", r#"[{"capacity":7}]"#] {
            assert_eq!(read(bad), Observed::default(), "{bad}");
        }
        let negative = r#"[{"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z",
            "smaller":{"instanceType":"m","predicted":{"cpu":"-1"},"allocatable":{}}},
            {"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","taint":{"key":"k","effect":"Some"}},
            {"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","taint":{"key":"k","effect":"NoSchedule"}}]"#;
        let observed = read(negative);
        assert_eq!((observed.smaller.len(), observed.taints.len()), (0, 1));
    }

    #[test]
    fn as_many_observations_as_are_kept_are_read() {
        let (since, until) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let mut observed = Observed { capacity: "m ami-1 2000 7\n".into(), ..Observed::default() };
        for number in 0..Observed::MOST {
            let name = format!("t{number:02}");
            observed.add_smaller(SmallerNode {
                instance_type: name.as_str().into(),
                image: None,
                predicted: Resources::of(2000, 0),
                allocatable: Resources::of(1000, 0),
                claim: "c".into(),
                since,
                until,
            });
            let taint = Taint::new(name, "", TaintEffect::NoExecute);
            observed.add_taint(ObservedTaint { taint, claim: "c".into(), since, until });
        }
        assert_eq!(read(&write(&observed).unwrap()), observed);
    }
}
