//! A thin proxy between the SDK and moto. It passes calls on as they are, counts them, and adds what AWS does and moto does
//! not:
//!
//! - `CreateFleet`: a repeated token returns the first answer, missing capacity is an error, as are tags of spot requests where none is
//!   created, and the cheapest override is used ([`fleet`]);
//! - what is made without the tags that `deploy/iam` demands is refused;
//! - throttling, missing permissions, expired tokens and lost answers, if a case requests them ([`rules`]);
//! - pages, if a case requests them: moto returns everything at once;
//! - the architecture of registered images, which moto forgets; the security groups of instances, which moto returns for their interfaces
//!   only;
//! - SSM parameters of images, capacity reservations, placement groups, the price list, zonal shifts: moto has few or
//!   none of them ([`answer`]).

pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod fleet;
pub(crate) mod rules;
pub(crate) mod xml;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, header};
use tokio::task::JoinHandle;

use answer::Answer;
use call::{Call, encode};
use fleet::Decision;
use rules::Rules;
use xml::Element;

/// The largest body that is passed on.
const BODY_MAX: usize = 16 << 20;

/// A running proxy; it ends with this value.
pub(crate) struct Proxy {
    /// `http://host:port`
    pub(crate) url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// moto's URL.
    upstream: String,
    client: reqwest::Client,
    rules: Mutex<Rules>,
    calls: Mutex<Vec<Call>>,
}

impl Proxy {
    /// Starts a proxy to the moto server at `upstream`.
    pub(crate) async fn start(upstream: String) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        // Whatever proxies the environment names, moto runs on this host.
        let client = reqwest::Client::builder().no_proxy().build()?;
        let shared = Arc::new(Shared { upstream, client, rules: Mutex::default(), calls: Mutex::default() });
        let router = Router::new().fallback(handle).with_state(shared.clone());
        let task = tokio::spawn(async move {
            // Only a broken listener ends it, and then every call fails.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, task })
    }

    /// Reads or changes the rules.
    pub(crate) fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets rules and calls, as for a new account.
    pub(crate) fn reset(&self) {
        self.rules(|rules| *rules = Rules::default());
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
        let own = self.rules(|rules| rules.answer(&call));
        let mut answer = match own {
            Some(own) => own,
            None if call.action == "CreateFleet" && !call.is_dry_run() => {
                self.fleet(&call, &incoming).await?
            }
            None => self.whole(&call, &incoming).await?,
        };
        if ["DescribeImages", "DescribeInstances"].contains(&call.action.as_str()) && answer.status == 200 {
            let mut root = xml::parse(&answer.body)?;
            self.rules(|rules| rules.add_architectures(&mut root));
            answer::add_groups(&mut root);
            answer.body = root.document();
        }
        if let Some(size) = self.page_size(&call)
            && answer.status == 200
        {
            let token = call.params.get("NextToken").and_then(|token| token.strip_prefix("page-"));
            let from = token.and_then(|from| from.parse().ok()).unwrap_or(0);
            let mut root = xml::parse(&answer.body)?;
            answer::page(&mut root, from, size);
            answer.body = root.document();
        }
        answer.lost = self.rules(|rules| rules.loses(&call));
        call.status = answer.status;
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Ok(answer)
    }

    async fn fleet(&self, call: &Call, incoming: &Incoming) -> anyhow::Result<Answer> {
        let decision = self.rules(|rules| rules.fleets.decide(call, &rules.dry));
        let answer = match decision {
            Decision::Refused(refusal) => return Ok(Answer::refusal(call, &refusal)),
            Decision::Again(body) => Answer { body, ..Answer::xml(&Element::default()) },
            Decision::Nothing(errors) => Answer::xml(&fleet::nothing(errors)),
            Decision::Launch(params, errors) => {
                let mut answer = self.pass(incoming, encode(&params).into()).await?;
                if answer.status == 200 && !errors.is_empty() {
                    let mut root = xml::parse(&answer.body)?;
                    root.children.push(Element::of("errorSet", errors));
                    answer.body = root.document();
                }
                answer
            }
        };
        if answer.status == 200 {
            self.rules(|rules| rules.fleets.keep(call, &answer.body));
        }
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
        shared.answer(Incoming { method: parts.method, target, headers: parts.headers, body }).await
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
