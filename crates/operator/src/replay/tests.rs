//! Traces of every format, and what is made of them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    dump::{self, Anonymizer},
    scenarios,
};

fn folder() -> PathBuf {
    scenarios::from_root("tests/scenarios/replay")
}

fn options(path: &Path, against: &[&str]) -> ReplayOptions {
    ReplayOptions {
        path: path.to_owned(),
        files: Vec::new(),
        against: against.iter().map(|text| (*text).to_owned()).collect(),
        until: None,
        speed: None,
        top: false,
        seed: 1,
        output: ReplayFormat::Table,
        catalogue: crate::catalogue::CatalogueOptions::default(),
    }
}

fn played(path: &Path, against: &[&str]) -> ReplayReport {
    played_with(&options(path, against))
}

fn played_with(options: &ReplayOptions) -> ReplayReport {
    let resolve = |flags: &BTreeMap<String, String>| Ok(Values::resolve(flags, |_| None)?);
    replay(options, &scenarios::catalogues(), &BTreeMap::new(), resolve).unwrap().0
}

/// A trace of workloads, with the NodePool that it lacks.
fn workloads(path: &Path) -> ReplayOptions {
    let nodepool = folder().join("workloads/nodepool.yaml");
    ReplayOptions { files: vec![nodepool], ..options(path, &["PACKER=compatible"]) }
}

fn error(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let error = format!("{:#}", formats::read(&path, &[]).unwrap_err());
    error.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn every_format_is_played_and_reported() {
    let with_nodepools = |path: &str| options(&folder().join(path), &["PACKER=compatible"]);
    for (name, options) in [
        ("recording", with_nodepools("recording")),
        ("decisions", with_nodepools("decisions")),
        ("dumps", with_nodepools("dumps")),
        ("audit", with_nodepools("audit/audit.jsonl")),
        ("kubereplay", workloads(&folder().join("workloads/kubereplay.json"))),
        ("simkube", workloads(&folder().join("workloads/simkube.json"))),
    ] {
        let report = played_with(&options);
        let notes: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
        let json = serde_json::to_string_pretty(&report).unwrap();
        let shown = format!("{notes}{}\n{json}\n", report.page().render(Format::Table, None));
        let shown = shown.replace(&format!("{}/", folder().display()), "");
        assert!(!shown.contains("s3cr3t"), "{shown}");
        scenarios::check_file(&format!("tests/scenarios/replay/{name}.txt"), &shown);
    }
}

#[test]
fn the_same_trace_gives_the_same_report() {
    let path = folder().join("dumps");
    assert_eq!(played(&path, &[]), played(&path, &[]));
}

/// An anonymized recording has none of the names, and the same report.
#[test]
fn an_anonymized_recording_is_played_as_the_recording() {
    let catalogues = scenarios::catalogues();
    let anonymizer = Anonymizer::new(&catalogues, Some("key")).unwrap();
    let (text, notes) = dump::recording::anonymized(&folder().join("recording"), &anonymizer).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    for name in ["web", "agent", "report", "uid-"] {
        assert!(!text.contains(name), "{name} in {text}");
    }
    let copy = tempfile::tempdir().unwrap();
    std::fs::write(copy.path().join("copy.ndjson"), text).unwrap();
    let [recorded, played] = [&folder().join("recording"), copy.path()].map(|path| played(path, &[]));
    assert_eq!(played, recorded);
}

#[test]
fn an_anonymized_recording_has_no_decisions() {
    let catalogues = scenarios::catalogues();
    let anonymizer = Anonymizer::new(&catalogues, Some("key")).unwrap();
    let (text, notes) = dump::recording::anonymized(&folder().join("decisions"), &anonymizer).unwrap();
    assert_eq!(notes, ["11 lines of decisions left out: their texts have names"]);
    assert!(!text.contains("decision") && !text.contains("web"), "{text}");
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<ReplayReport>("replay.schema.json");
}

#[test]
fn an_evicted_pod_and_its_successor_are_one() {
    let trace = formats::read(&folder().join("recording"), &[]).unwrap();
    let lives = lives::lives(&trace);
    let names: Vec<&str> = lives.iter().map(|life| life.id.3.as_str()).collect();
    assert!(!names.contains(&"web-0b") && !names.contains(&"agent-x"), "{names:?}");
    let of = |name: &str| lives.iter().find(|life| life.id.3 == name).unwrap();
    let second = |second: i64| jiff::Timestamp::from_second(1_767_225_600 + second).unwrap();
    assert_eq!(
        (of("web-0").from, of("web-0").until),
        (second(0), Some(second(420))),
        "until its successor ends"
    );
    assert_eq!(of("web-5").until, Some(second(240)), "deleted by its owner");
    assert_eq!(of("report").runs_for, Some(Duration::from_secs(60)));
}

#[test]
fn unknown_formats_are_refused_with_file_and_line() {
    let recording = |lines: &[Value]| {
        let mut text = json!({"at": "2026-01-01T00:00:00Z", "recording": 1}).to_string() + "\n";
        lines.iter().for_each(|line| text += &format!("{line}\n"));
        text
    };
    let event = |more: Value| {
        let mut event = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "create", "objectRef": {"resource": "pods", "apiVersion": "v1"}, "responseStatus": {"code": 201}, "requestReceivedTimestamp": "2026-01-01T00:00:00Z"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event.to_string() + "\n"
    };
    let kubereplay = |more: Value| {
        let mut event = json!({"type": "create", "kind": "Deployment", "key": "n/web", "timestamp": "2026-01-01T00:00:00Z"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"cluster": "c", "captured": "2026-01-01T00:00:00Z", "events": [event]}).to_string()
    };
    for (name, text, expected) in [
        ("a.ndjson", "hello\n".to_owned(), "a.ndjson:1: not a format that replay reads"),
        ("a.ndjson", "{\"recording\": 9}\n".to_owned(), "a.ndjson:1: a recording of format 9"),
        ("a.ndjson", recording(&[]), "no objects"),
        ("a.ndjson", recording(&[json!({"at": "noon"})]), "a.ndjson:2: "),
        (
            "a.ndjson",
            recording(&[json!({"at": "2026-01-01T00:00:00Z", "other": 1})]),
            "a.ndjson:2: neither put",
        ),
        ("a.ndjson", recording(&[]) + "{\n{\n", "a.ndjson:2: EOF"),
        ("a.log", event(json!({})), "a.log:1: pods created without the object"),
        ("a.log", event(json!({"requestReceivedTimestamp": "?"})), "a.log:1: requestReceivedTimestamp"),
        (
            "a.log",
            event(json!({})).replace("create", "get") + "{\"kind\": \"Pod\"}\n",
            "a.log:2: no audit event",
        ),
        ("a.json", "{\"kind\": \"List\", \"items\": []}".to_owned(), "a.json:1: not a format"),
        ("a.json", kubereplay(json!({"type": "grow"})), "events[0].type: unknown variant `grow`"),
        ("a.json", kubereplay(json!({"key": "web"})), "events[0].key: \"web\" is not NAMESPACE/NAME"),
        ("a.json", kubereplay(json!({"timestamp": "noon"})), "events[0].timestamp"),
        ("a.json", kubereplay(json!({})), "events[0]: created without its Deployment"),
        ("a.json", kubereplay(json!({"job": {}})), "events[0]: created without its Deployment"),
        ("a.json", kubereplay(json!({"type": "scale"})), "events[0]: scaled without replicas"),
        (
            "a.json",
            json!({"version": 1, "events": []}).to_string(),
            "in format 1, and this binary reads [2, 3]",
        ),
        (
            "a.json",
            json!({"version": 2, "events": [{"ts": "x"}]}).to_string(),
            "a.json: a trace of SimKube: events[0].ts",
        ),
    ] {
        let found = error(name, &text);
        assert!(found.contains(expected), "{found}\n{text}");
    }
}

#[test]
fn a_recording_that_ends_in_half_a_line_is_read_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let whole =
        std::fs::read_to_string(self::folder().join("recording/recording-20260101T000000Z-000000.ndjson"))
            .unwrap();
    let path = folder.path().join("recording-a.ndjson");
    std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    let trace = formats::read(&path, &[]).unwrap();
    assert!(trace.notes[0].contains("the last line is incomplete"), "{:?}", trace.notes);
    assert!(trace.changes.len() > 20);
}

#[test]
fn pods_without_a_node_at_the_end_of_a_trace_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let whole =
        std::fs::read_to_string(self::folder().join("recording/recording-20260101T000000Z-000000.ndjson"))
            .unwrap();
    // Its last lines create pods.
    let begin: Vec<&str> = whole.lines().take(20).collect();
    let path = folder.path().join("recording-a.ndjson");
    std::fs::write(&path, begin.join("\n")).unwrap();
    let noted = |options: &ReplayOptions| {
        let notes = played_with(options).notes;
        notes.iter().filter(|note| note.contains("without a node where the trace ends")).count()
    };
    let to_the_end = options(&path, &[]);
    assert_eq!(noted(&to_the_end), 1);
    let longer = ReplayOptions { until: Some(Duration::from_secs(120)), ..to_the_end };
    assert_eq!(noted(&longer), 0);
}

/// As SimKube writes it: MessagePack with names, and keys that are pairs.
#[test]
fn jobs_of_a_binary_trace_of_simkube_run_as_long_as_they_did() {
    #[derive(serde::Serialize)]
    struct Exported {
        version: u16,
        config: Value,
        events: Value,
        index: Value,
        pod_lifecycles: BTreeMap<(String, String), BTreeMap<u64, Vec<Lifecycle>>>,
    }
    #[derive(serde::Serialize)]
    enum Lifecycle {
        Empty,
        Running(i64),
        Finished(i64, i64),
    }
    let text = std::fs::read_to_string(folder().join("workloads/simkube.json")).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    let pods =
        vec![Lifecycle::Empty, Lifecycle::Running(1), Lifecycle::Finished(1_767_225_800, 1_767_225_890)];
    let owner = ("batch/v1.Job".to_owned(), "shop/report".to_owned());
    let exported = Exported {
        version: 3,
        config: whole["config"].take(),
        events: whole["events"].take(),
        index: whole["index"].take(),
        pod_lifecycles: BTreeMap::from([(owner, BTreeMap::from([(15_858_556_048_943_196_710, pods)]))]),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, rmp_serde::to_vec_named(&exported).unwrap()).unwrap();
    let trace = formats::read(&path, &[]).unwrap();
    let job = trace.changes.iter().find_map(|(_, change)| match change {
        Change::Put(object) if object["kind"] == "Job" => Some(objects::clean(object)),
        _ => None,
    });
    let annotations = job.unwrap().pointer("/spec/template/metadata/annotations").cloned();
    assert_eq!(annotations, Some(json!({"fleetwright.dev/run-for": "90s"})));
    let minutes = |trace: &Trace| trace.span().map(|(from, to)| to.duration_since(from).as_mins());
    assert_eq!(minutes(&trace), Some(20), "to its last event, which changes nothing");
    std::fs::write(&path, [0x81, 0xff, 0xff]).unwrap();
    let error = format!("{:#}", formats::read(&path, &[]).unwrap_err());
    assert!(error.contains("neither text nor a trace of SimKube"), "{error}");
}

#[test]
fn a_trace_of_workloads_needs_nodepools() {
    let options =
        ReplayOptions { files: Vec::new(), ..workloads(&folder().join("workloads/kubereplay.json")) };
    let resolve = |flags: &BTreeMap<String, String>| Ok(Values::resolve(flags, |_| None)?);
    let error = replay(&options, &scenarios::catalogues(), &BTreeMap::new(), resolve).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.ends_with("kubereplay.json: the trace has no NodePool: add NodePools and NodeClasses with -f"),
        "{error}"
    );
}

#[test]
fn settings_to_compare_with() {
    let flags = against_flags("PACKER=compatible; BATCH_IDLE_DURATION=2s").unwrap();
    assert_eq!(flags["packer"], "compatible");
    assert_eq!(flags["batch-idle-duration"], "2s");
    assert!(against_flags("compatible").unwrap_err().to_string().contains("SETTING=VALUE"));
}

#[test]
fn objects_of_every_played_kind_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut text =
        std::fs::read_to_string(self::folder().join("recording/recording-20260101T000000Z-000000.ndjson"))
            .unwrap();
    let resources = json!({"requests": {"storage": "1Gi"}});
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c"}]}});
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    for (version, kind, namespace, spec) in [
        (
            "v1",
            "PersistentVolume",
            None,
            json!({"storageClassName": "fast", "hostPath": {"path": "/x"},
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}),
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            Some("shop"),
            json!({"storageClassName": "fast", "resources": resources,
            "accessModes": ["ReadWriteOnce"]}),
        ),
        ("v1", "LimitRange", Some("shop"), json!({"limits": [{"type": "Container", "max": {"cpu": "64"}}]})),
        ("v1", "ResourceQuota", Some("shop"), json!({"hard": {"pods": "1000"}})),
        (
            "policy/v1",
            "PodDisruptionBudget",
            Some("shop"),
            json!({"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
        ),
        (
            "apps/v1",
            "DaemonSet",
            Some("shop"),
            json!({"selector": {"matchLabels": {"app": "d"}}, "template": template}),
        ),
        ("karpenter.k8s.aws/v1", "EC2NodeClass", None, json!({})),
        (
            "karpenter.sh/v1",
            "NodePool",
            None,
            json!({"template": {"spec": {"nodeClassRef": class, "requirements": []}}}),
        ),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "second", "namespace": namespace}, "spec": spec});
        for (at, change) in [("00:05:00", "put"), ("00:06:00", "delete")] {
            text += &format!("{}\n", json!({"at": format!("2026-01-01T{at}Z"), change: object}));
        }
    }
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"});
    for (at, change) in [("00:05:00", "put"), ("00:06:00", "delete")] {
        text += &format!("{}\n", json!({"at": format!("2026-01-01T{at}Z"), change: class}));
    }
    let path = folder.path().join("recording-a.ndjson");
    std::fs::write(&path, text).unwrap();
    let notes = played(&path, &[]).notes;
    assert!(!notes.iter().any(|note| note.contains("second") || note.contains("fast")), "{notes:#?}");
}

#[test]
fn bad_traces_are_named() {
    scenarios::check_bad_input("replay", &["traces"], |files| {
        let [_, path] = files else { panic!("{files:?}") };
        let until = Some(Duration::from_secs(30));
        let options = ReplayOptions {
            until,
            files: vec![folder().join("workloads/nodepool.yaml")],
            ..options(path, &[])
        };
        let resolve = |flags: &BTreeMap<String, String>| Ok(Values::resolve(flags, |_| None)?);
        let (report, gaps) = replay(&options, &scenarios::catalogues(), &BTreeMap::new(), resolve)?;
        report.page().render(Format::Table, None);
        Ok([report.notes, gaps].concat())
    });
}

/// The nodes of a dump are launched again: a cluster that has room needs no others.
#[test]
fn a_replay_starts_with_the_nodes_of_the_trace() {
    let claim = |name: &str, status: Value| {
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name, "labels": {
                "karpenter.sh/nodepool": "default",
                "karpenter.sh/capacity-type": "on-demand",
                "node.kubernetes.io/instance-type": "m-16x-amd64-linux",
                "topology.kubernetes.io/zone": "test-zone-a",
            }},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}],
            },
            "status": status,
        })
    };
    let text = std::fs::read_to_string(folder().join("dumps/1.json")).unwrap();
    let mut dump: Value = serde_json::from_str(&text).unwrap();
    let items = dump["items"].as_array_mut().unwrap();
    items[0]["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    items.push(claim("large", json!({"providerID": "one", "nodeName": "one"})));
    items.push(claim("pending", json!({})));
    let copy = tempfile::tempdir().unwrap();
    std::fs::write(copy.path().join("1.json"), dump.to_string()).unwrap();
    // The variant plans this one itself, if it needs it, though it has a node soon.
    dump["metadata"]["annotations"]["fleetwright.dev/dump-taken-at"] = json!("2026-01-01T00:00:05Z");
    let items = dump["items"].as_array_mut().unwrap();
    *items.last_mut().unwrap() = claim("pending", json!({"providerID": "two", "nodeName": "two"}));
    std::fs::write(copy.path().join("2.json"), dump.to_string()).unwrap();
    let options = ReplayOptions { until: Some(Duration::from_secs(120)), ..options(copy.path(), &[]) };
    let report = serde_json::to_value(played_with(&options)).unwrap();
    let variant = &report["variants"][0];
    assert_eq!(variant["nodes"], json!({"m-16x-amd64-linux": 1}), "{report:#}");
    assert_eq!(
        (&variant["podsUnbound"], &variant["nodeClaimsCreated"]),
        (&json!(0), &json!(1)),
        "{report:#}"
    );
}
