//! What the launch-loop breaker keeps across a restart: demands that missed their nodes, in the annotation `fleetwright.dev/launch-loops` of a
//! NodePool, and the demands that a NodeClaim was created for, in its annotation `fleetwright.dev/launched-for`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api::labels::LAUNCHED_FOR;
use fleetwright_core::{
    model::{NamespacedName, Pod},
    safety::launch_loop::{Demand, DemandOwner, LoopRecord, is_launched_for},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lower::text;

/// The most records of a NodePool, the newest ones: 64 of at most 1 KiB each, of the 256 KiB that the annotations of an object may have.
const MOST: usize = 64;

/// One record, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    kind: String,
    namespace: String,
    name: String,
    /// Of a pod without a controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// In hexadecimal: not every reader of JSON keeps 64 bits.
    class: String,
    rounds: usize,
    missed: usize,
    claim: String,
    launched: Timestamp,
    since: Timestamp,
}

/// Reads the annotation; invalid entries are skipped.
#[must_use]
pub fn read(written: &str) -> Vec<LoopRecord> {
    let entries: Vec<serde_json::Value> = serde_json::from_str(written).unwrap_or_default();
    entries.into_iter().take(MOST).filter_map(|entry| record(&serde_json::from_value(entry).ok()?)).collect()
}

fn record(entry: &Entry) -> Option<LoopRecord> {
    let id = NamespacedName::new(text(&entry.namespace), text(&entry.name));
    let owner = match &entry.uid {
        Some(uid) => DemandOwner::Pod(id, uid.as_str().into()),
        None => DemandOwner::Controller(text(&entry.kind), id),
    };
    Some(LoopRecord {
        owner,
        class: u64::from_str_radix(&entry.class, 16).ok()?,
        rounds: entry.rounds,
        missed: entry.missed,
        claim: text(&entry.claim).into(),
        launched: entry.launched,
        since: entry.since,
    })
}

/// The value of the annotation; `None` without records.
#[must_use]
pub fn write(mut records: Vec<LoopRecord>) -> Option<String> {
    if records.is_empty() {
        return None;
    }
    records.sort_by(|a, b| (b.since, &a.owner, a.class).cmp(&(a.since, &b.owner, b.class)));
    let entries: Vec<Entry> = records.iter().take(MOST).map(entry).collect();
    serde_json::to_string(&entries).ok()
}

fn entry(record: &LoopRecord) -> Entry {
    let (kind, id, uid) = match &record.owner {
        DemandOwner::Controller(kind, id) => (kind.to_string(), id, None),
        DemandOwner::Pod(id, uid) => ("Pod".to_owned(), id, Some(uid.to_string())),
    };
    Entry {
        kind,
        namespace: id.namespace.to_string(),
        name: id.name.to_string(),
        uid,
        class: format!("{:016x}", record.class),
        rounds: record.rounds,
        missed: record.missed,
        claim: record.claim.to_string(),
        launched: record.launched,
        since: record.since,
    }
}

/// Writes the demands of the pods without a node that a NodeClaim is created for.
pub fn note_demands(annotations: &mut BTreeMap<String, String>, pods: &[Arc<Pod>]) {
    let keys = write_keys(pods);
    if !keys.is_empty() {
        annotations.insert(LAUNCHED_FOR.to_owned(), keys);
    }
}

/// The demands of the pods without a node, by [`Demand::key`] in hexadecimal, joined by commas: 17 bytes for each, and at most as many as
/// pods.
#[must_use]
fn write_keys(pods: &[Arc<Pod>]) -> String {
    let mut demands: Vec<Demand> = Vec::new();
    for pod in pods.iter().filter(|pod| is_launched_for(pod)) {
        if !demands.iter().any(|demand| demand.includes(pod)) {
            demands.push(Demand::of(pod));
        }
    }
    let keys: BTreeSet<String> = demands.iter().map(|demand| format!("{:016x}", demand.key())).collect();
    keys.into_iter().collect::<Vec<_>>().join(",")
}

/// Reads [`write_keys`]; invalid entries are skipped.
#[must_use]
pub fn read_keys(written: &str) -> BTreeSet<u64> {
    written.split(',').filter_map(|key| u64::from_str_radix(key, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    //! What is written is read.
    use super::*;

    fn record(owner: DemandOwner, since: i64) -> LoopRecord {
        LoopRecord {
            owner,
            class: u64::MAX - 1,
            rounds: 2,
            missed: 3,
            claim: "default-abcde".into(),
            launched: Timestamp::from_second(since - 60).unwrap(),
            since: Timestamp::from_second(since).unwrap(),
        }
    }

    #[test]
    fn records_survive_being_written() {
        let id = NamespacedName::new("default", "web");
        let newest = record(DemandOwner::Controller("Deployment".into(), id.clone()), 1_750_000_100);
        let oldest = record(DemandOwner::Pod(id, "u".into()), 1_750_000_000);
        let text = write(vec![oldest.clone(), newest.clone()]).unwrap();
        assert_eq!(read(&text), [newest, oldest], "{text}");
        assert_eq!(write(Vec::new()), None);
    }

    #[test]
    fn what_is_invalid_is_skipped_and_the_length_is_bounded() {
        for bad in ["", "{}", "[1]", r#"[{"kind":"Deployment"}]"#, "null", "[[]]"] {
            assert_eq!(read(bad), [], "{bad}");
        }
        let of = |number: i64| {
            let id = NamespacedName::new("default", format!("web-{number}"));
            record(DemandOwner::Controller("Deployment".into(), id), 1_750_000_000 + number)
        };
        let kept = read(&write((0..100).map(of).collect()).unwrap());
        assert_eq!((kept.len(), &kept[0]), (MOST, &of(99)));
    }
}
