//! Lines of the log: the order of keys, one golden line per message of a life cycle, and what log parsers extract.

use std::io;

use fleetwright_controllers::log;
use fleetwright_core::{
    clock::Clock,
    cloud::Instance,
    model::{Price, Resources},
};
use fleetwright_state::Key;
use regex::Regex;
use serde_json::json;

use super::*;

/// A clock that is stopped.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
    fn steady(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
    fn sleep(&self, _: std::time::Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `work` logs inside a reconcile of `controller`, with a fixed commit and reconcile ID.
fn lines(controller: &'static str, key: &Key, caller: bool, work: impl FnOnce()) -> String {
    let buffer = Buffer::default();
    let sink: Sink = Arc::new(Mutex::new(vec![Box::new(buffer.clone())]));
    let layer = JsonLayer { sink, clock: Arc::new(Stopped), caller };
    tracing::subscriber::with_default(Registry::default().with(layer), || {
        log::reconcile_span(controller, key, 1, jiff::Timestamp::UNIX_EPOCH).in_scope(work);
    });
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    let ids = Regex::new(r#""reconcileID":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}""#).unwrap();
    assert!(ids.is_match(&text), "{text}");
    let text = ids.replace_all(&text, r#""reconcileID":"ID""#);
    text.replace(&format!("\"commit\":\"{COMMIT}\""), "\"commit\":\"C\"")
}

const HEAD: &str = r#"{"level":"INFO","time":"1970-01-01T00:00:00.000Z","logger":"controller","message":"#;
const CLAIM: &str = r#""commit":"C","controller":"nodeclaim.lifecycle","controllerGroup":"karpenter.sh","controllerKind":"NodeClaim","NodeClaim":{"name":"default-x"},"namespace":"","name":"default-x","reconcileID":"ID""#;

/// A message of a NodeClaim's life cycle: its text, its own fields, and the pattern by which log parsers read the line.
fn check(message: &str, fields: &str, pattern: &str, work: impl FnOnce()) {
    let line = lines("nodeclaim.lifecycle", &Key::cluster("default-x"), false, work);
    assert_eq!(line, format!("{HEAD}\"{message}\",{CLAIM}{fields}}}\n"));
    parsed(&line, message, pattern);
}

/// Whether a log parser finds message and fields.
fn parsed(line: &str, message: &str, pattern: &str) {
    let found = Regex::new(r#""message":"(.*)","commit""#).unwrap().captures(line).unwrap();
    assert_eq!(&found[1], message);
    let whole = format!(r#""time":"(.*)","logger".*{pattern}"#);
    assert!(Regex::new(&whole).unwrap().is_match(line), "{whole} does not match {line}");
}

fn instance() -> Instance {
    let labels = [
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("karpenter.sh/capacity-type", "spot"),
    ];
    let mut instance = Instance::new("aws:///us-east-1a/i-1")
        .with_resources(Resources::default(), Resources::of(1930, 7 << 30));
    instance.labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    instance
}

#[test]
fn launched() {
    check(
        "launched nodeclaim",
        r#","provider-id":"aws:///us-east-1a/i-1","instance-type":"m5.large","zone":"us-east-1a","capacity-type":"spot","allocatable":{"cpu":"1930m","memory":"7Gi"}"#,
        r#""NodeClaim":\{"name":"(.*)"\},.*"provider-id":"(.*)","instance-type":"(.*)","zone":"(.*)","capacity-type":"(.*)","allocatable""#,
        || log::launched_nodeclaim("default-x", &instance()),
    );
}

#[test]
fn registered() {
    check(
        "registered nodeclaim",
        r#","provider-id":"aws:///a/i-1","Node":{"name":"node-1"}"#,
        r#""NodeClaim":\{"name":"(.*)"\},.*,"Node":\{"name":"(.*)"\}"#,
        || log::registered_nodeclaim("default-x", "aws:///a/i-1", "node-1"),
    );
}

#[test]
fn initialized() {
    check(
        "initialized nodeclaim",
        r#","provider-id":"aws:///a/i-1","Node":{"name":"node-1"},"allocatable":{"cpu":"1930m","memory":"7Gi"}"#,
        r#""NodeClaim":\{"name":"(.*)"\},"namespace""#,
        || log::initialized_nodeclaim("default-x", "aws:///a/i-1", "node-1", &Resources::of(1930, 7 << 30)),
    );
}

#[test]
fn annotated() {
    check(
        "annotated nodeclaim",
        r#","karpenter.sh/nodeclaim-termination-timestamp":"2026-01-01T00:00:00Z""#,
        r#""NodeClaim":\{"name":"(.*)"\},"namespace".*,"(.*)":"(.*)"\}"#,
        || log::annotated_nodeclaim("default-x", "2026-01-01T00:00:00Z"),
    );
}

#[test]
fn deleted() {
    check(
        "deleted nodeclaim",
        r#","provider-id":"aws:///a/i-1","Node":{"name":"node-1"}"#,
        r#""NodeClaim":\{"name":"(.*)"\},"namespace""#,
        || log::deleted_nodeclaim("default-x", "aws:///a/i-1", "node-1"),
    );
}

#[test]
fn nodes() {
    let key = Key::cluster("node-1");
    let head = r#""commit":"C","controller":"node.termination","controllerGroup":"","controllerKind":"Node","Node":{"name":"node-1"},"namespace":"","name":"node-1","reconcileID":"ID""#;
    let line = lines("node.termination", &key, false, || log::deleted_node("node-1", Some("default-x")));
    assert_eq!(line, format!("{HEAD}\"deleted node\",{head},\"NodeClaim\":{{\"name\":\"default-x\"}}}}\n"));
    let line = lines("node.termination", &key, false, || {
        log::tainted_node("node-1", "default-x", "karpenter.sh/disrupted", "", "NoSchedule");
    });
    let fields = r#","NodeClaim":{"name":"default-x"},"taint.Key":"karpenter.sh/disrupted","taint.Value":"","taint.Effect":"NoSchedule""#;
    assert_eq!(line, format!("{HEAD}\"tainted node\",{head}{fields}}}\n"));
    parsed(
        &line,
        "tainted node",
        r#""NodeClaim":\{"name":"(.*)"\},"taint.Key":"(.*)","taint.Value":"(.*)","taint.Effect":"(.*)"\}"#,
    );
}

#[test]
fn interrupted() {
    let line = lines("interruption", &Key::singleton(), false, || {
        log::interrupted_nodeclaim("default-x", "spot_interrupted");
    });
    let fields = r#""commit":"C","controller":"interruption","namespace":"","name":"","reconcileID":"ID","messageKind":"spot_interrupted","NodeClaim":{"name":"default-x"},"action":"CordonAndDrain""#;
    assert_eq!(line, format!("{HEAD}\"initiating delete from interruption message\",{fields}}}\n"));
    parsed(
        &line,
        "initiating delete from interruption message",
        r#""messageKind":"(.*)","NodeClaim":\{"name":"(.*)"\},"action""#,
    );
}

#[test]
fn created_and_disrupted() {
    let head = |controller: &str| {
        format!(r#""commit":"C","controller":"{controller}","namespace":"","name":"","reconcileID":"ID""#)
    };
    let types = |count: usize| (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>();
    let line = lines("provisioner", &Key::singleton(), false, || {
        log::found_pods(["a/p", "a/q"].map(str::to_owned).into_iter(), std::time::Duration::from_millis(12));
        log::computed_new(1, 2);
        log::computed_unready(3, 4);
        log::created_nodeclaim("default-x", "default", &Resources::of(150, 1 << 20), types(7).into_iter());
    });
    let head_of = head("provisioner");
    let expected = [
        ("found provisionable pod(s)", r#""Pods":"a/p, a/q","duration":"12ms""#),
        ("computed new nodeclaim(s) to fit pod(s)", r#""nodeclaims":1,"pods":2"#),
        ("computed unready node(s) will fit pod(s)", r#""nodes":3,"pods":4"#),
        (
            "created nodeclaim",
            r#""NodePool":{"name":"default"},"NodeClaim":{"name":"default-x"},"requests":{"cpu":"150m","memory":"1Mi"},"instance-types":"t0, t1, t2, t3, t4 and 2 other(s)""#,
        ),
    ];
    let expected: String =
        expected.map(|(message, fields)| format!("{HEAD}\"{message}\",{head_of},{fields}}}\n")).concat();
    assert_eq!(line, expected);
    let created =
        r#""NodePool":\{"name":"(.*)"\},"NodeClaim":\{"name":"(.*)"\},"requests".*"instance-types":"(.*)"\}"#;
    parsed(line.lines().last().unwrap(), "created nodeclaim", created);

    let command = log::Disrupting {
        id: "c1",
        reason: "Underutilized",
        pools: vec!["default"],
        savings: Price::from_nanos(1_234_000_000),
        decision: "replace",
        pods: 5,
        nodes: vec![["node-1", "default-x", "on-demand", "m5.large"]],
        replacements: vec![("spot", types(2))],
    };
    let line = lines("disruption", &Key::singleton(), false, || command.log());
    let fields = r#""command":"Underutilized/c1: replace: nodepools=[default]: [node-1] -> [1 replacement] (savings: $1.23)","decision":"replace","disrupted-node-count":1,"replacement-node-count":1,"pod-count":5,"disrupted-nodes":[{"Node":{"name":"node-1"},"NodeClaim":{"name":"default-x"},"capacity-type":"on-demand","instance-type":"m5.large"}],"replacement-nodes":[{"capacity-type":"spot","instance-types":"t0, t1"}]"#;
    assert_eq!(line, format!("{HEAD}\"disrupting node(s)\",{},{fields}}}\n", head("disruption")));
    let disrupting = r#""command":"(.*)","decision":"(.*)","disrupted-node-count":(.*),"replacement-node-count":(.*),"pod-count":(.*),"disrupted-nodes":.*,"NodeClaim":\{"name":"(.*)"\},"capacity-type""#;
    parsed(&line, "disrupting node(s)", disrupting);
}

#[test]
fn could_not_be_scheduled() {
    let line = lines("provisioner", &Key::singleton(), false, || {
        log::could_not_schedule("default", "web-1", "no NodePool fits");
    });
    let head = HEAD.replace("INFO", "ERROR");
    let fields = r#""commit":"C","controller":"provisioner","namespace":"","name":"","reconcileID":"ID","Pod":{"name":"web-1","namespace":"default"},"error":"no NodePool fits""#;
    assert_eq!(line, format!("{head}\"could not schedule pod\",{fields}}}\n"));
    parsed(&line, "could not schedule pod", r#""Pod":\{"name":"(.*)","namespace":"(.*)"\},"error":"(.*)""#);
}

/// The keys of a line with the shapes of their values: `{}` for objects with free keys, the shape of the first member for arrays.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let free = ["requests", "allocatable"];
            let of = |(key, value): (&String, &Value)| {
                (key.clone(), if free.contains(&key.as_str()) { json!({}) } else { shape(value) })
            };
            fields.iter().map(of).collect()
        }
        Value::Array(members) => json!([members.first().map(shape)]),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!(0),
        other => other.clone(),
    }
}

/// `tests/logs/karpenter.jsonl` has lines that Karpenter 1.14.1 itself wrote, with its kwok provider, at level debug.
#[test]
fn lines_have_the_shape_of_those_that_karpenter_writes() {
    let resources = Resources::of(150, 1 << 20);
    let types = || ["t0".to_owned()].into_iter();
    let command = log::Disrupting {
        id: "c1",
        reason: "Drifted",
        pools: vec!["default"],
        savings: Price::ZERO,
        decision: "replace",
        pods: 5,
        nodes: vec![["node-1", "default-x", "on-demand", "m5.large"]],
        replacements: vec![("spot", types().collect())],
    };
    let written = |message: &str| -> Option<Box<dyn FnOnce() + '_>> {
        Some(match message {
            "found provisionable pod(s)" => Box::new(|| log::found_pods(types(), std::time::Duration::ZERO)),
            "computed new nodeclaim(s) to fit pod(s)" => Box::new(|| log::computed_new(1, 2)),
            "created nodeclaim" => {
                Box::new(|| log::created_nodeclaim("default-x", "default", &resources, types()))
            }
            "launched nodeclaim" => Box::new(|| log::launched_nodeclaim("default-x", &instance())),
            "registered nodeclaim" => Box::new(|| log::registered_nodeclaim("default-x", "p", "node-1")),
            "initialized nodeclaim" => {
                Box::new(|| log::initialized_nodeclaim("default-x", "p", "node-1", &resources))
            }
            "disrupting node(s)" => Box::new(|| command.log()),
            "tainted node" => Box::new(|| log::tainted_node("node-1", "default-x", "k", "v", "NoSchedule")),
            "deleted node" => Box::new(|| log::deleted_node("node-1", Some("default-x"))),
            "deleted nodeclaim" => Box::new(|| log::deleted_nodeclaim("default-x", "p", "node-1")),
            _ => return None,
        })
    };
    let stored = include_str!("../../../../tests/logs/karpenter.jsonl");
    for theirs in stored.lines() {
        let theirs: Value = serde_json::from_str(theirs).unwrap();
        let text = |key: &str| theirs[key].as_str().unwrap();
        let controllers = ["provisioner", "nodeclaim.lifecycle", "node.termination", "disruption"];
        let controller = controllers.into_iter().find(|name| *name == text("controller")).unwrap();
        let work = written(text("message")).unwrap_or_else(|| panic!("no line {theirs}"));
        let mut ours: Value =
            serde_json::from_str(&lines(controller, &Key::cluster(text("name")), true, work)).unwrap();
        // The build of the stored lines had none.
        ours.as_object_mut().unwrap().remove("commit").unwrap();
        assert_eq!(shape(&ours), shape(&theirs), "{ours}");
    }
    assert_eq!(stored.lines().count(), 10);
}

#[test]
fn keys_are_in_karpenters_order() {
    let map = |value: Value| value.as_object().cloned().unwrap().into_iter().collect();
    let inherited = map(json!({"controller": "provisioner"}));
    let own = map(json!({"message": "created nodeclaim", "NodeClaim": {"name": "x"}}));
    let line = render((Level::INFO, "2026-01-01T00:00:00.5Z", None), inherited, own);
    let head = r#"{"level":"INFO","time":"2026-01-01T00:00:00.500Z","logger":"controller","message":"created nodeclaim","commit":""#;
    assert!(line.starts_with(head), "{line}");
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["NodeClaim"]["name"], "x");
    assert_eq!(parsed["controller"], "provisioner");
    assert_eq!(millis("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00.000Z");
}

#[test]
fn debug_lines_have_their_source_location() {
    let line =
        lines("provisioner", &Key::singleton(), true, || log::deleted_node("node-1", Some("default-x")));
    let place =
        Regex::new(r#""logger":"controller","caller":"src/log\.rs:\d+","message":"deleted node""#).unwrap();
    assert!(place.is_match(&line), "{line}");
}
