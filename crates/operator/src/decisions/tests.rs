//! The endpoint over HTTP, and the tool's output.

use std::{sync::Arc, time::Duration};

use fleetwright_controllers::runtime::decisions::Decisions;
use fleetwright_core::{
    clock::{Clock, SharedClock},
    decisions::{
        DeletedClaim, NodeClaimContext, Refused, inputs_of_nodes, inputs_of_plan, of_claim, of_command,
        of_deletion, of_held, of_plan, of_refused_pods,
    },
    disruption::{self, propose},
    model::{Currency, Pod, PodPhase, Price, nodeclaim::ConditionType},
    safety::{Act, Cause, Held},
    scheduling::{Effort, Purpose, Request, Rules, solve},
    testing::{ClusterBuilder, node, now, pod},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    client::{Endpoint, Event, next_event},
    document::DecisionList,
    endpoint::{CLIENTS, routes},
    source::parse,
    table,
    tool::{written, written_one},
};
use crate::{cli::DecisionsFormat, scenarios};

/// A clock that stands.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        now()
    }
    fn steady(&self) -> Timestamp {
        now()
    }
    fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(super) fn none() -> Decisions {
    let clock: SharedClock = Arc::new(Standing);
    Decisions::new(clock, 1, "cluster-uid", Currency::USD)
}

/// One decision of each kind, as the controllers record them.
fn decisions() -> Decisions {
    let decisions = none();
    let snapshot = ClusterBuilder::with_default_pool()
        .pending(pod("a").cpu(3500))
        .pending(pod("huge").cpu(900_000))
        .build();
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let plan = solve(&snapshot, &request, &Rules::default());
    let inputs = inputs_of_plan(&snapshot, &snapshot.pending);
    let parent = decisions.record(of_plan(&plan, inputs.clone(), now()));
    let refused: Vec<Refused<'_>> = Refused::pods(&plan).collect();
    for draft in of_refused_pods(&refused, &parent, &inputs) {
        decisions.record(draft);
    }
    let new_claim = &plan.new_claims[0];
    let context =
        NodeClaimContext { name: "default-x7k2p", pods: &new_claim.pods, parent: Some(parent), inputs };
    decisions.record(of_claim(new_claim, context, now()));
    let running: Arc<Pod> = pod("p")
        .cpu(1500)
        .with(|pod| {
            pod.node = Some("n".into());
            pod.phase = PodPhase::Running;
            pod.unschedulable = false;
            pod.ready = true;
            pod.started = Some(now());
        })
        .into();
    let too_large = node("n").size("xlarge", 16, 32).condition(ConditionType::Consolidatable).pod(running);
    let snapshot = ClusterBuilder::with_default_pool().node(too_large.build()).build();
    let proposal = propose(&snapshot, &disruption::Rules::default(), now());
    decisions.record(of_command(&proposal.commands[0], inputs_of_nodes(&snapshot), now()));
    let known = &snapshot.nodes[0];
    let nodes: Vec<_> = known.node.iter().cloned().collect();
    let claim = known.claim.as_deref().unwrap();
    let deleted = DeletedClaim {
        claim,
        nodes: &nodes,
        pods: &known.pods,
        price: Price::from_dollars(0.32).ok(),
        found: None,
    };
    decisions.record(of_deletion(&deleted, Cause::GarbageCollected, now()));
    held(&decisions, "");
    decisions
}

pub(super) fn held(decisions: &Decisions, subject: &str) -> String {
    let held = Held::Outage { unready: 5, all: 9 };
    decisions.record(of_held(Act::Taint, subject, &held, now()))
}

fn list(decisions: &Decisions) -> Value {
    serde_json::to_value(DecisionList::new(
        &decisions.ring().lock(),
        &fleetwright_controllers::runtime::decisions::DecisionQuery::default(),
    ))
    .unwrap()
}

/// Serves decisions on a free port.
async fn serve(decisions: Decisions) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes(move || Some(decisions.clone()))).await });
    format!("http://{address}")
}

/// Status line with headers, and body, of a GET.
async fn get(url: &str, path: &str) -> (String, String) {
    let mut connection = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn the_schema_is_documented() {
    scenarios::check_schema::<DecisionList>("decisions.schema.json");
}

#[test]
fn output_is_stored() {
    let list = list(&decisions());
    let lines: String =
        list["decisions"].as_array().unwrap().iter().map(|record| table::line(record) + "\n").collect();
    let table = written(&list, DecisionsFormat::Table).unwrap();
    scenarios::check_file("tests/scenarios/decisions/table.txt", &format!("{table}\n{lines}"));
    let json = written(&list, DecisionsFormat::Json).unwrap();
    scenarios::check_file("tests/scenarios/decisions/list.json", &json);
    assert_eq!(parse(&json).unwrap(), list);
    let lines = written(&list, DecisionsFormat::Jsonl).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&records, list["decisions"].as_array().unwrap());
    let yaml = written(&list, DecisionsFormat::Yaml).unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), list);
}

#[test]
fn lists_of_other_forms_are_refused() {
    let refusal = |text: &str| format!("{:#}", parse(text).unwrap_err());
    assert!(refusal("nonsense").starts_with("this is not a list of decisions"));
    assert_eq!(refusal("{}"), "this is not a list of decisions: it has no field decisions");
    let later = r#"{"version": 9, "decisions": []}"#;
    assert_eq!(refusal(later), "the list has version 9; this binary reads version 1");
}

#[test]
fn kinds_of_later_versions_have_a_row() {
    let record = json!({"id": "p-1", "time": "2025-06-15T15:06:40.5Z", "kind": "rebalance", "choice": {"a": 1},
        "outcome": {"status": "started"}});
    assert_eq!(table::line(&record), "2025-06-15T15:06:40  p-1  rebalance  started");
}

#[test]
fn names_do_not_control_the_terminal() {
    let decisions = none();
    held(&decisions, "a\u{1b}[2J\nb<script>");
    let list = list(&decisions);
    let shown = written(&list, DecisionsFormat::Table).unwrap();
    assert!(shown.contains("taint a\u{fffd}[2J\u{fffd}b<script>") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(shown.lines().count(), 2);
    // JSON escapes it, so that an event has one line of data.
    let json = written_one(&list["decisions"][0], DecisionsFormat::Json).unwrap();
    assert!(json.contains("a\\u001b[2J\\nb<script>") && json.lines().count() == 1, "{json}");
}

#[tokio::test]
async fn lists_are_selected_by_kind_time_and_number() {
    let url = serve(decisions()).await;
    let (head, body) = get(&url, "/decisions").await;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    for header in
        ["content-type: application/json", "x-content-type-options: nosniff", "cache-control: no-store"]
    {
        assert!(head.contains(header), "{head}");
    }
    assert_eq!(parse(&body).unwrap(), list(&decisions()));
    let kinds = async |path: &str| {
        let (_, body) = get(&url, path).await;
        let list = parse(&body).unwrap();
        let records = list["decisions"].as_array().unwrap().clone();
        records.iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("/decisions?kind=plan,held").await, ["plan", "held"]);
    assert_eq!(kinds("/decisions?limit=2").await, ["deletion", "held"]);
    assert_eq!(kinds("/decisions?since=2025-06-15T15:06:41Z").await, Vec::<String>::new());
    assert_eq!(kinds("/decisions?since=10m&kind=refusal").await, ["refusal"]);
    for (path, why) in [
        (
            "/decisions?kind=plans",
            "kind \"plans\": give some of plan, nodeClaim, disruption, deletion, refusal, held",
        ),
        (
            "/decisions?since=soon",
            "since \"soon\": give a time such as 2025-06-15T15:06:40Z, or a duration such as 10m",
        ),
    ] {
        let (head, body) = get(&url, path).await;
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        assert_eq!(body, why);
    }
}

async fn event(stream: &mut (impl futures::AsyncBufRead + Unpin)) -> (String, Value) {
    let next = tokio::time::timeout(Duration::from_secs(5), next_event(stream)).await;
    let Event { id, name, data } = next.unwrap().unwrap().unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    (format!("{name} {}", id.unwrap_or_default()), data)
}

#[tokio::test]
async fn a_stream_has_what_was_decided_then_each_change_and_is_resumed() {
    let decisions = decisions();
    let process = decisions.ring().lock().process().to_owned();
    let endpoint = Endpoint::new(&serve(decisions.clone()).await).unwrap();
    let mut stream = endpoint.watch("kind=held,plan", None).await.unwrap();
    for (revision, kind) in [(1, "plan"), (6, "held")] {
        let (event, data) = event(&mut stream).await;
        assert_eq!((event, &data["kind"]), (format!("decision {process}-{revision}"), &json!(kind)));
    }
    let id = held(&decisions, "later");
    assert_eq!(event(&mut stream).await.1["id"], id);
    // A client that saw revision 4 gets what came afterwards; one of another process gets all, and a note.
    let mut resumed = endpoint.watch("", Some(&format!("{process}-4"))).await.unwrap();
    assert_eq!(event(&mut resumed).await.0, format!("decision {process}-5"));
    let mut other = endpoint.watch("limit=1", Some("other-4")).await.unwrap();
    assert_eq!(event(&mut other).await.0, "gap ");
    assert_eq!(event(&mut other).await.0, format!("decision {process}-1"));
}

#[tokio::test]
async fn clients_are_bounded_and_leave_room_when_they_go() {
    let endpoint = Endpoint::new(&serve(decisions()).await).unwrap();
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        streams.push(endpoint.watch("", None).await.unwrap());
    }
    let refused = endpoint.watch("", None).await.err().unwrap().to_string();
    assert!(refused.ends_with("16 clients follow the decisions already"), "{refused}");
    drop(streams);
    for _ in 0..50 {
        if endpoint.watch("", None).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("clients that are gone count");
}

#[tokio::test]
async fn errors_say_how_to_reach_the_endpoint() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await });
    let off = Endpoint::new(&url).unwrap().list("").await.unwrap_err().to_string();
    assert!(
        off.contains("/decisions: the endpoint is off. ") && off.contains("DECISIONS_ENDPOINT=true"),
        "{off}"
    );
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unreachable = Endpoint::new(&format!("http://{closed}")).unwrap().list("").await.unwrap_err();
    let unreachable = format!("{unreachable:#}");
    assert!(unreachable.contains("port-forward deployment/karpenter 8080"), "{unreachable}");
}
