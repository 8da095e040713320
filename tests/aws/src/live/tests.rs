//! Recorded trials are replayed: the same calls get the recorded answers from a server on this host, through the SDK, and the results are those of the
//! recording. `recorded/` has one that was made on the emulator; those of real accounts belong beside it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use fleetwright_aws_client::Endpoint;
use fleetwright_aws_emulator::call::{Call, decode, encode};
use fleetwright_core::clock::Clock;
use http::{HeaderMap, Method, Uri};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::*;

/// Parameters that differ from call to call by chance or by the clock.
const VOLATILE: [&str; 3] = ["ClientToken", "StartTime", "EndTime"];

/// The most that a sleep really takes: calls that are under way get their answers meanwhile.
const SHORT: Duration = Duration::from_millis(20);

/// A clock that a sleep sets forward once it ends.
struct ReplayClock(Arc<Mutex<Timestamp>>);

impl Clock for ReplayClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let now = self.0.clone();
        Box::pin(async move {
            tokio::time::sleep(by.min(SHORT)).await;
            *now.lock().unwrap() += SignedDuration::try_from(by).unwrap();
        })
    }
}

/// What distinguishes calls: action, path and parameters.
fn key(action: &str, target: &str, body: &str) -> String {
    let mut params = decode(body);
    params.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    let body = if params.contains_key("Action") { encode(&params) } else { body.to_owned() };
    format!("{action} {target} {body}")
}

/// Path and query of a URI.
fn target(uri: &str) -> String {
    let uri: Uri = uri.parse().unwrap();
    uri.path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

/// Answers in the order of the recording, the last one again and again; and what was asked for that is not recorded.
#[derive(Default)]
struct Answers {
    known: BTreeMap<String, VecDeque<Value>>,
    unknown: Vec<String>,
}

impl Answers {
    fn of(document: &Value) -> Self {
        let mut known = BTreeMap::<String, VecDeque<Value>>::new();
        for call in document["calls"].as_array().unwrap() {
            let text = |name: &str| call[name].as_str().unwrap();
            known
                .entry(key(text("action"), &target(text("uri")), text("request")))
                .or_default()
                .push_back(call.clone());
        }
        Self { known, unknown: Vec::new() }
    }

    fn next(&mut self, key: String) -> Option<Value> {
        let Some(answers) = self.known.get_mut(&key) else {
            self.unknown.push(key);
            return None;
        };
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    }
}

async fn answer(
    State(answers): State<Arc<Mutex<Answers>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = Call::of(&method, uri.path(), &headers, &body);
    let asked = key(&call.action, &target(&uri.to_string()), &String::from_utf8_lossy(&body));
    let Some(recorded) = answers.lock().unwrap().next(asked) else {
        // Not one of those that the SDK repeats.
        return Response::builder().status(400).body("not recorded".into()).unwrap();
    };
    let mut response =
        Response::builder().status(u16::try_from(recorded["status"].as_u64().unwrap()).unwrap());
    for header in recorded["headers"].as_array().unwrap() {
        response = response.header(header[0].as_str().unwrap(), header[1].as_str().unwrap());
    }
    response.body(recorded["answer"].as_str().unwrap().to_owned().into()).unwrap()
}

/// The results of a recorded trial, replayed, and calls that are not recorded.
async fn replayed(document: &Value) -> (Vec<TrialResult>, Vec<String>) {
    let answers = Arc::new(Mutex::new(Answers::of(document)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(answers.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let recorded = &document["trial"];
    let text = |name: &str| recorded[name].as_str().unwrap().to_owned();
    let begins: Timestamp = text("begins").parse().unwrap();
    let endpoint = Endpoint {
        url,
        region: text("region"),
        access_key: "key".to_owned(),
        secret_key: "secret".to_owned(),
    };
    let clock: SharedClock = Arc::new(ReplayClock(Arc::new(Mutex::new(begins))));
    let sdk = SdkClient::at(&endpoint, clock.clone()).await.unwrap();
    let trial = Trial {
        begins,
        spend: recorded["spendNanoDollars"].as_i64().map(Price::from_nanos),
        settings: Settings::new(&text("cluster"), &text("region")),
        discovery: [0, 1].map(|at| recorded["discovery"][at].as_str().unwrap().to_owned()).into(),
        role: text("role"),
        windows_role: recorded["windowsRole"].as_str().map(str::to_owned),
    };
    let results = live::run(Arc::new(sdk), clock, &trial).await.unwrap();
    server.abort();
    let unknown = std::mem::take(&mut answers.lock().unwrap().unknown);
    (results, unknown)
}

/// A result without counts of what the recording was thinned of, and without seconds.
fn comparable(name: &str, said: &str) -> String {
    let said = said.split(" ran after ").next().unwrap_or_default();
    let thinned = name.starts_with("ec2:DescribeInstanceType")
        || ["ec2:DescribeSpotPriceHistory", "pricing:GetProducts"].contains(&name);
    format!("{name}: {}", if thinned { "" } else { said })
}

#[tokio::test]
async fn recorded_trials_have_the_same_results_offline() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (results, unknown) = replayed(&document).await;
        assert!(unknown.is_empty(), "{}: calls that are not recorded: {unknown:#?}", path.display());
        let of = |own: &Value| {
            let said = own["ok"].as_str().or_else(|| own["refused"].as_str()).unwrap();
            (comparable(own["name"].as_str().unwrap(), said), own["ok"].is_string())
        };
        let expected: Vec<_> = document["results"].as_array().unwrap().iter().map(of).collect();
        let found: Vec<_> = results
            .iter()
            .map(|own| match &own.result {
                Ok(said) => (comparable(&own.name, said), true),
                Err(why) => (comparable(&own.name, why), false),
            })
            .collect();
        assert_eq!(found, expected, "{}", path.display());
        files += 1;
    }
    assert!(files > 0, "there is no recording in {folder}");
}

#[test]
fn amounts_are_dollars() {
    assert_eq!(amount("1usd"), Price::from_dollars(1.0).map_err(|error| error.to_string()));
    assert_eq!(amount("0.50usd").unwrap().nanos(), 500_000_000);
    for wrong in ["1", "usd", "-1usd", "1eur", "NaNusd"] {
        assert!(amount(wrong).is_err(), "{wrong}");
    }
}
