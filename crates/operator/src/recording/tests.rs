//! Recordings are bounded, stand alone, hold no secrets, and fail alone.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use fleetwright_core::{
    decisions::of_held,
    model::Currency,
    safety::{Act, Held},
};
use fleetwright_fake_kube::{Config, Server};
use serde_json::json;

use super::*;
use crate::{clock::SystemClock, scenarios};

const PLANTED: &str = "s3cr3t";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn pod(name: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name}, "status": {"phase": phase}})
}

fn list(objects: Vec<Value>) -> Delivery {
    Delivery::List { api_version: "v1".to_owned(), kind: "Pod".to_owned(), objects }
}

/// The files of a folder by name, with their lines.
fn files(folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.file_name().unwrap().to_string_lossy().into_owned(), lines)
        })
        .collect()
}

#[test]
fn a_file_begins_with_itself_and_goes_on_with_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::begin(folder.path(), MIB, at(0)).unwrap();
    tape.write(at(1), list(vec![pod("a", "Pending"), pod("b", "Pending")])).unwrap();
    tape.write(at(2), Delivery::Put(pod("a", "Running"))).unwrap();
    // Nothing that is read has changed.
    tape.write(at(3), Delivery::Put(pod("a", "Running"))).unwrap();
    tape.note_lost(at(4), 3).unwrap();
    tape.write(at(4), Delivery::Delete(pod("b", "Pending"))).unwrap();
    tape.end().unwrap();
    let files = files(folder.path());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["recording-20260101T000000Z-000000.ndjson"]);
    let time = |second| at(second).to_string();
    let deleted = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "default", "uid": "b"}});
    assert_eq!(
        files.into_values().next().unwrap(),
        [
            json!({"at": time(0), "recording": 1}),
            json!({"at": time(1), "list": {"apiVersion": "v1", "kind": "Pod"}}),
            json!({"at": time(1), "put": pod("a", "Pending")}),
            json!({"at": time(1), "put": pod("b", "Pending")}),
            json!({"at": time(2), "put": pod("a", "Running")}),
            json!({"at": time(4), "lost": 3}),
            json!({"at": time(4), "delete": deleted}),
        ]
    );
}

/// Those that were taken before it is followed, then the others.
#[tokio::test]
async fn decisions_are_recorded() {
    let clock: SharedClock = Arc::new(SystemClock);
    let decisions = Decisions::new(clock, 1, "cluster-uid", Currency::USD);
    let held = |subject: &str| {
        decisions.record(of_held(Act::Taint, subject, &Held::Outage { unready: 5, all: 9 }, at(0)))
    };
    let (to, from) = sync_channel(8);
    let active = IntGauge::new("test", "test").unwrap();
    active.set(1);
    let sink = Arc::new(Sink { to, lost: AtomicU64::new(0), active });
    let mut ids = vec![held("a")];
    let following = tokio::spawn(follow(decisions.clone(), sink));
    tokio::task::yield_now().await;
    ids.push(held("b"));
    let mut recorded = Vec::new();
    while recorded.len() < 2 {
        tokio::task::yield_now().await;
        while let Ok(Timed(_, Delivery::Decision(record), 0)) = from.try_recv() {
            recorded.push(record.id.clone());
        }
    }
    assert_eq!(recorded, ids);
    drop(decisions);
    following.abort();
}

#[test]
fn a_decision_is_a_line_that_is_read_again() {
    let clock: SharedClock = Arc::new(SystemClock);
    let decisions = Decisions::new(clock, 1, "cluster-uid", Currency::USD);
    decisions.record(of_held(Act::Taint, "node", &Held::Outage { unready: 5, all: 9 }, at(0)));
    let record = decisions.ring().lock().read(&DecisionQuery::default()).remove(0);
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::begin(folder.path(), MIB, at(0)).unwrap();
    tape.write(at(1), list(vec![pod("a", "Pending")])).unwrap();
    tape.write(at(2), Delivery::Decision(record.clone())).unwrap();
    let changed = DecisionRecord { revision: 2, ..(*record).clone() };
    tape.write(at(3), Delivery::Decision(Arc::new(changed.clone()))).unwrap();
    tape.write(at(4), Delivery::Delete(pod("a", "Pending"))).unwrap();
    tape.end().unwrap();
    let mut changes = changes::Changes::default();
    for file in lines::files(folder.path()).unwrap() {
        changes.recording(&file, &fs::read_to_string(&file).unwrap()).unwrap();
    }
    assert_eq!(changes.decisions, [changed], "the last line of a decision counts");
    let names = |second: i64| changes::objects_at(&changes.all, at(second)).len();
    assert_eq!([0, 1, 3, 4].map(names), [0, 1, 1, 0]);
}

#[test]
fn all_files_together_stay_below_the_limit_and_each_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bytes_max = 32 * 1024;
    let mut tape = Tape::begin(folder.path(), bytes_max, at(0)).unwrap();
    tape.write(at(0), list(vec![pod("stays", "Running")])).unwrap();
    for second in 1..2000 {
        tape.write(at(second), Delivery::Put(pod("changes", &format!("{second}")))).unwrap();
        if second % 50 == 0 {
            tape.flush().unwrap();
            let sizes =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
            assert!(sizes.sum::<u64>() <= bytes_max);
        }
    }
    tape.end().unwrap();
    let files = files(folder.path());
    assert!(files.len() > 3, "{:?}", files.keys());
    for (name, lines) in files {
        assert_eq!(lines[0]["recording"], 1, "{name}");
        let first: Vec<&str> =
            lines[1..3].iter().filter_map(|line| line.pointer("/put/metadata/name")?.as_str()).collect();
        assert_eq!(first, ["changes", "stays"], "{name}");
    }
}

#[test]
fn a_cluster_that_does_not_fit_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::begin(folder.path(), 4096, at(0)).unwrap();
    let objects = (0..100).map(|number| pod(&format!("pod-{number}"), "Running")).collect();
    let error = tape.write(at(1), list(objects)).unwrap_err().to_string();
    assert!(error.contains("RECORD_MAX_MIB"), "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_switches_recording_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let options = RecordingOptions { folder: file, bytes_max: MIB };
    let (to, from) = sync_channel(1);
    let active = IntGauge::new("test", "test").unwrap();
    active.set(1);
    spawn_writer(options, at(0), from, active.clone());
    let sink = Sink { to, lost: AtomicU64::new(0), active };
    for _ in 0..500 {
        if !sink.is_open() {
            // Deliveries go nowhere, and nobody waits.
            sink.send(at(1), Delivery::Put(pod("a", "Running")));
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it still records");
}

#[test]
fn what_is_lost_is_counted() {
    let (to, from) = sync_channel(1);
    let active = IntGauge::new("test", "test").unwrap();
    let sink = Sink { to, lost: AtomicU64::new(0), active };
    for name in ["a", "b", "c"] {
        sink.send(at(0), Delivery::Put(pod(name, "Running")));
    }
    assert_eq!(from.recv().unwrap().2, 0);
    sink.send(at(0), Delivery::Put(pod("d", "Running")));
    assert_eq!(from.recv().unwrap().2, 2);
}

#[tokio::test]
async fn secrets_of_pods_nodes_and_claims_are_not_recorded() {
    let server = Server::new(Config::new(Arc::new(|| at(0)), 7));
    for definition in fleetwright_api::crd::kwok() {
        let mut value = serde_json::to_value(&definition).unwrap();
        (value["apiVersion"], value["kind"]) =
            (json!("apiextensions.k8s.io/v1"), json!("CustomResourceDefinition"));
        server.apply(value).unwrap();
    }
    let annotations = json!({"acme.example/token": PLANTED});
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}, "stringData": {"k": PLANTED}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "planted-pod", "namespace": "default", "annotations": annotations}, "spec": {"containers": [{"name": "main", "image": PLANTED, "args": [PLANTED], "env": [{"name": "TOKEN", "value": PLANTED}]}]}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "planted-node", "annotations": annotations}, "status": {"addresses": [{"type": "Hostname", "address": PLANTED}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "planted-claim", "namespace": "default", "annotations": annotations}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "planted-nodeclaim", "annotations": annotations}, "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []}}),
    ] {
        server.apply(object).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let options = RecordingOptions { folder: folder.path().to_owned(), bytes_max: MIB };
    let client = Client::new(server.service(), "default");
    let clock: SharedClock = Arc::new(SystemClock);
    let recording = Recording::start(options, &client, &clock, &[], &scenarios::catalogues()).unwrap();
    let names = ["planted-pod", "planted-node", "planted-claim", "planted-nodeclaim"];
    let read = || -> String {
        let paths = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| fs::read_to_string(path).unwrap()).collect()
    };
    // A flush takes a second.
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let text = read();
        if names.iter().all(|name| text.contains(name)) {
            assert_eq!(recording.active.get(), 1);
            assert!(!text.contains(PLANTED), "{text}");
            return;
        }
    }
    panic!("not recorded: {}", read());
}
