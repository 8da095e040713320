//! A thin proxy between the SDK and moto. It passes calls on as they are, counts them, and adds what AWS does and moto does not: the decisions are
//! those of `fleetwright-aws-emulator`, whose modules say what they follow. Here is what needs a connection: several launches for one fleet,
//! tags of instances that IAM wants to know, what instance types support, instances that AWS terminates itself, lost answers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, header};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::account::REGION;
use crate::clock::Forward;

use fleetwright_aws_emulator::answer::{self, Answer};
use fleetwright_aws_emulator::call::{Call, encode};
use fleetwright_aws_emulator::fleet::{self, Allocation};
use fleetwright_aws_emulator::rules::{Decision, Rules};
use fleetwright_aws_emulator::xml::{self, Element};
use fleetwright_core::clock::Clock as _;
use jiff::Timestamp;

/// The largest body that is passed on.
const BODY_MAX: usize = 16 << 20;

/// A running proxy; it ends with this value.
pub(crate) struct Proxy {
    /// `http://host:port`
    pub(crate) url: String,
    /// The clock of AWS, which cases set forward.
    pub(crate) clock: Arc<Forward>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    clock: Arc<Forward>,
    /// moto's URL.
    upstream: String,
    client: reqwest::Client,
    rules: Mutex<Rules>,
    calls: Mutex<Vec<Call>>,
    /// The call that hangs next, and whether it does so after its effect.
    trap: Mutex<Option<(&'static str, bool)>>,
    sprung: Notify,
    /// One fleet is launched at a time: a token that is repeated meanwhile waits for the answer to its first call.
    launching: tokio::sync::Mutex<()>,
}

impl Proxy {
    /// Starts a proxy to the moto server at `upstream`.
    pub(crate) async fn start(upstream: String) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        // Whatever proxies the environment names, moto runs on this host.
        let client = reqwest::Client::builder().no_proxy().build()?;
        let clock = Arc::new(Forward::default());
        let rules = Mutex::new(Rules::of(REGION));
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            upstream,
            client,
            rules,
            calls: Mutex::default(),
            trap: Mutex::default(),
            sprung: Notify::new(),
            launching: tokio::sync::Mutex::default(),
        });
        let router = Router::new().fallback(handle).with_state(shared.clone());
        let task = tokio::spawn(async move {
            // Only a broken listener ends it, and then every call fails.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, clock, shared, task })
    }

    /// Reads or changes the rules.
    pub(crate) fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets rules, calls and the time that passed, as for a new account.
    pub(crate) fn reset(&self) {
        self.clock.reset();
        self.rules(|rules| *rules = Rules::of(REGION));
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets the next call of an action hang, before or after its effect; a call that is refused has none.
    pub(crate) fn trap(&self, action: &'static str, after: bool) {
        *self.shared.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some((action, after));
    }

    /// Waits until a call hangs.
    pub(crate) async fn sprung(&self) {
        self.shared.sprung.notified().await;
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The index of the next call in the log.
    pub(crate) fn mark(&self) -> usize {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Calls by action since a mark, those that were answered with an error too.
    pub(crate) fn counts(&self, since: usize) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.calls().into_iter().skip(since) {
            *counts.entry(call.action).or_default() += 1;
        }
        counts
    }

    /// How often an action was called since a mark.
    pub(crate) fn count(&self, action: &str, since: usize) -> usize {
        self.counts(since).get(action).copied().unwrap_or_default()
    }

    /// Actions since a mark that would change something.
    pub(crate) fn mutations(&self, since: usize) -> Vec<String> {
        let calls = self.calls().into_iter().skip(since).filter(Call::mutates);
        calls.map(|call| call.action).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A received request.
struct Incoming {
    method: Method,
    /// Path and query.
    target: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Shared {
    fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a call, and notes it.
    async fn answer(&self, incoming: Incoming) -> anyhow::Result<Answer> {
        let path = incoming.target.split('?').next().unwrap_or_default();
        let mut call = Call::of(&incoming.method, path, &incoming.headers, &incoming.body);
        self.spring(&call, false).await;
        self.reclaim().await?;
        self.learn_tags(&call).await?;
        self.learn_types(&call).await?;
        let now = self.clock.now();
        let own = self.rules(|rules| rules.answer(&call, now));
        let mut answer = match own {
            Some(own) => own,
            None if call.action == "CreateFleet" && !call.is_dry_run() => {
                self.fleet(&call, &incoming, now).await?
            }
            None => answer::reworded(&call, self.whole(&call, &incoming).await?),
        };
        if answer.status == 200 {
            self.rules(|rules| rules.note(&call, now));
            self.show(&call, &mut answer, now)?;
        }
        answer.lost = self.rules(|rules| rules.loses(&call));
        call.status = answer.status;
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        if call.status == 200 {
            self.spring(&call, true).await;
        }
        Ok(answer)
    }

    /// Hangs if the call is the one of the trap: its caller is killed meanwhile, and the connection with it.
    async fn spring(&self, call: &Call, after: bool) {
        let hangs = {
            let mut trap = self.trap.lock().unwrap_or_else(PoisonError::into_inner);
            let hangs = *trap == Some((call.action.as_str(), after)) && !call.is_dry_run();
            if hangs {
                *trap = None;
            }
            hangs
        };
        if hangs {
            self.sprung.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Changes an answer to what AWS shows, one page of it.
    fn show(&self, call: &Call, answer: &mut Answer, now: Timestamp) -> anyhow::Result<()> {
        const CHANGED: [&str; 5] = [
            "DescribeImages",
            "DescribeInstances",
            "DescribeInstanceStatus",
            "DescribeLaunchTemplates",
            "ListInstanceProfiles",
        ];
        if CHANGED.contains(&call.action.as_str()) {
            let mut root = xml::parse(&answer.body)?;
            if let Err(refusal) = self.rules(|rules| rules.show(call, &mut root, now)) {
                *answer = Answer::refusal(call, &refusal);
                return Ok(());
            }
            answer.body = root.document();
        }
        if let Some(size) = self.page_size(call) {
            let token = call.params.get("NextToken").and_then(|token| token.strip_prefix("page-"));
            let from = token.and_then(|from| from.parse().ok()).unwrap_or(0);
            let mut root = xml::parse(&answer.body)?;
            answer::page(&mut root, from, size);
            answer.body = root.document();
        }
        Ok(())
    }

    /// Terminates what AWS terminates by itself.
    async fn reclaim(&self) -> anyhow::Result<()> {
        let now = self.clock.now();
        let ids = self.rules(|rules| rules.reclaimed(now));
        if ids.is_empty() {
            return Ok(());
        }
        let listed = |prefix: &str| -> Vec<(String, String)> {
            (1..).zip(&ids).map(|(number, id)| (format!("{prefix}{number}"), id.clone())).collect()
        };
        self.ask("TerminateInstances", listed("InstanceId.")).await.map(drop)
    }

    /// Looks up the tags of the instances that a call changes: IAM decides by them.
    async fn learn_tags(&self, call: &Call) -> anyhow::Result<()> {
        if !["CreateTags", "TerminateInstances"].contains(&call.action.as_str()) {
            return Ok(());
        }
        let is_id = |key: &str| key.starts_with("InstanceId.") || key.starts_with("ResourceId.");
        let ids: Vec<String> =
            call.params.iter().filter(|(key, _)| is_id(key)).map(|(_, id)| id.clone()).collect();
        let mut asked = vec![("Filter.1.Name".to_owned(), "resource-id".to_owned())];
        asked.extend((1..).zip(&ids).map(|(number, id)| (format!("Filter.1.Value.{number}"), id.clone())));
        let told = self.ask("DescribeTags", asked).await?;
        let mut found = BTreeMap::<String, BTreeMap<String, String>>::new();
        for item in told.child("tagSet").map(|set| set.children.as_slice()).unwrap_or_default() {
            let text = |name: &str| item.at(&[name]).to_owned();
            let resource = format!("instance/{}", text("resourceId"));
            found.entry(resource).or_default().insert(text("key"), text("value"));
        }
        self.rules(|rules| rules.tags.extend(found));
        Ok(())
    }

    /// Looks up what the instance types of a launch support.
    async fn learn_types(&self, call: &Call) -> anyhow::Result<()> {
        if !["CreateFleet", "RunInstances"].contains(&call.action.as_str()) {
            return Ok(());
        }
        let names = self.rules(|rules| rules.unknown_types(call));
        if names.is_empty() {
            return Ok(());
        }
        let asked = (1..).zip(&names).map(|(number, name)| (format!("InstanceType.{number}"), name.clone()));
        let told = self.ask("DescribeInstanceTypes", asked.collect()).await?;
        self.rules(|rules| rules.learn_types(&told));
        Ok(())
    }

    /// Asks moto's EC2 as the emulator.
    async fn ask(&self, action: &str, params: Vec<(String, String)>) -> anyhow::Result<Element> {
        let own = [("Action", action), ("Version", "2016-11-15")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let all: BTreeMap<String, String> = own.into_iter().chain(params).collect();
        let request =
            self.client.post(&self.upstream).header("authorization", crate::account::signature("ec2"));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        xml::parse(&request.body(encode(&all)).send().await?.error_for_status()?.text().await?)
    }

    async fn fleet(&self, call: &Call, incoming: &Incoming, now: Timestamp) -> anyhow::Result<Answer> {
        let _first = self.launching.lock().await;
        let allocation = match self.rules(|rules| rules.decide(call, now)) {
            Decision::Refused(refusal) => return Ok(Answer::refusal(call, &refusal)),
            Decision::Again(body) => return Ok(Answer { body, ..Answer::xml(&Element::default()) }),
            Decision::Launch(allocation) => allocation,
        };
        let Allocation { shares, errors } = allocation;
        let mut whole = fleet::nothing();
        for share in shares {
            let answer = self.pass(incoming, encode(&share.params).into()).await?;
            if answer.status != 200 {
                return Ok(answer);
            }
            let ids = fleet::add(&mut whole, &xml::parse(&answer.body)?);
            self.rules(|rules| rules.launched(&share.way, &ids, now));
        }
        whole.children.push(Element::of("errorSet", errors));
        let answer = Answer::xml(&whole);
        self.rules(|rules| rules.fleets.keep(call, &answer.body));
        Ok(answer)
    }

    /// The number of items per page, if the case requests pages.
    fn page_size(&self, call: &Call) -> Option<usize> {
        let size = self.rules(|rules| rules.pages.get(call.action.as_str()).copied());
        size.filter(|_| call.service == "ec2")
    }

    /// The complete answer of moto, which is split into pages afterwards.
    async fn whole(&self, call: &Call, incoming: &Incoming) -> anyhow::Result<Answer> {
        if self.page_size(call).is_none() {
            return self.pass(incoming, incoming.body.clone()).await;
        }
        let own = call.params.iter().filter(|(key, _)| !["MaxResults", "NextToken"].contains(&key.as_str()));
        self.pass(incoming, encode(own).into()).await
    }

    /// Asks moto.
    async fn pass(&self, incoming: &Incoming, body: Bytes) -> anyhow::Result<Answer> {
        let url = format!("{}{}", self.upstream, incoming.target);
        let mut headers = incoming.headers.clone();
        for name in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let request = self.client.request(incoming.method.clone(), url).headers(headers).body(body);
        let told = request.send().await.context("moto does not answer")?;
        let status = told.status().as_u16();
        let mut headers = told.headers().clone();
        for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
            headers.remove(name);
        }
        Ok(Answer { status, headers, body: told.text().await?, lost: false })
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let answered = async {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let body = to_bytes(body, BODY_MAX).await?;
        let incoming = Incoming { method: parts.method, target, headers: parts.headers, body };
        // A call whose caller has gone has its effect all the same.
        tokio::spawn(async move { shared.answer(incoming).await }).await?
    };
    let answer = answered.await.unwrap_or_else(|error: anyhow::Error| Answer {
        status: StatusCode::BAD_GATEWAY.as_u16(),
        body: format!("{error:#}"),
        ..Answer::default()
    });
    if answer.lost {
        // A body that breaks off before it begins: the caller sees a connection that was reset.
        let broken =
            futures::stream::iter([Err::<Bytes, std::io::Error>(std::io::ErrorKind::ConnectionReset.into())]);
        return Response::new(Body::from_stream(broken));
    }
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = answer.headers;
    response
}
