//! The line between one operator and the API server: it carries the operator's name, can be cut, and can be made to lie.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use fleetwright_fake_kube::{ReplyBody, Server};
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header::USER_AGENT};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Changes what an operator says to the API server and what it hears: bugs are planted here.
pub trait Distort: Send + Sync {
    /// A request on its way out: its method, the plural of its resource, its subresource, its body (null without one).
    fn said(&self, _method: &Method, _resource: &str, _subresource: &str, _body: &mut Value) {}

    /// An object of this resource on its way in: an answer, an item of a list, or what a watch tells.
    fn heard(&self, _resource: &str, _object: &mut Value) {}
}

/// Until when the line is cut. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<Mutex<Option<Instant>>>);

impl Cut {
    /// Cuts the line for so long.
    pub(super) fn cut(&self, duration: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now().checked_add(duration);
    }

    /// The end of the cut, while there is one.
    fn until(&self) -> Option<Instant> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| Instant::now() < *until)
    }
}

/// A service under a `kube::Client`, in front of the API server's own.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) server: Server,
    /// The name under which the API server knows the operator.
    pub(super) agent: HeaderValue,
    pub(super) cut: Cut,
    pub(super) distort: Option<Arc<dyn Distort>>,
}

impl tower::Service<Request<Body>> for Link {
    type Response = Response<LinkBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move { link.carry(request).await })
    }
}

impl Link {
    async fn carry(self, mut request: Request<Body>) -> Result<Response<LinkBody>, BoxError> {
        // What is said into a cut line is never heard, and that is noticed when it is mended.
        if let Some(until) = self.cut.until() {
            tokio::time::sleep_until(until).await;
            return Err("the line to the API server was cut".into());
        }
        request.headers_mut().insert(USER_AGENT, self.agent.clone());
        let (resource, subresource) = resource_of(request.uri().path());
        let (resource, subresource) = (resource.to_owned(), subresource.to_owned());
        if let Some(distort) = &self.distort {
            request = said(&**distort, request, &resource, &subresource).await?;
        }
        let answer = tower::Service::call(&mut self.server.service(), request).await?;
        // An answer that comes while the line is cut is lost.
        if let Some(until) = self.cut.until() {
            tokio::time::sleep_until(until).await;
            return Err("the line to the API server was cut".into());
        }
        let (head, inner) = answer.into_parts();
        let distort = self.distort.filter(|_| head.status.is_success());
        Ok(Response::from_parts(head, LinkBody { inner, cut: self.cut, wait: None, distort, resource }))
    }
}

async fn said(
    distort: &dyn Distort,
    request: Request<Body>,
    resource: &str,
    subresource: &str,
) -> Result<Request<Body>, BoxError> {
    let (head, body) = request.into_parts();
    let bytes = body.collect_bytes().await?;
    let mut value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let before = value.clone();
    distort.said(&head.method, resource, subresource, &mut value);
    let bytes = if value == before { bytes } else { serde_json::to_vec(&value)?.into() };
    Ok(Request::from_parts(head, Body::from(bytes)))
}

/// Plural and subresource in a path such as `/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`.
fn resource_of(path: &str) -> (&str, &str) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let of_group = match parts.first() {
        Some(&"api") => parts.get(2..),
        Some(&"apis") => parts.get(3..),
        _ => None,
    };
    match of_group.unwrap_or_default() {
        ["namespaces", _, plural, rest @ ..] | [plural, rest @ ..] => {
            (plural, rest.get(1).copied().unwrap_or_default())
        }
        [] => ("", ""),
    }
}

/// Body of an answer over the line: nothing comes through while it is cut.
pub(super) struct LinkBody {
    inner: ReplyBody,
    cut: Cut,
    wait: Option<Pin<Box<Sleep>>>,
    distort: Option<Arc<dyn Distort>>,
    resource: String,
}

impl http_body::Body for LinkBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while let Some(until) = self.cut.until() {
            let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let Some(distort) = self.distort.clone() else { return Poll::Ready(frame) };
        let resource = &self.resource;
        let heard = |frame: Frame<Bytes>| frame.map_data(|data| heard(&*distort, resource, &data));
        Poll::Ready(frame.map(|frame| frame.map(heard)))
    }

    fn size_hint(&self) -> SizeHint {
        if self.distort.is_some() { SizeHint::default() } else { self.inner.size_hint() }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// The server sends whole documents: one answer, or lines of a watch.
fn heard(distort: &dyn Distort, resource: &str, data: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
            out.extend_from_slice(line);
            continue;
        };
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(|item| distort.heard(resource, item));
        } else if value.get("type").is_some() && value.get("object").is_some() {
            distort.heard(resource, &mut value["object"]);
        } else {
            distort.heard(resource, &mut value);
        }
        // A value of maps with text keys always serialises.
        serde_json::to_writer(&mut out, &value).unwrap_or_default();
        if line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    //! Paths.
    use super::*;

    #[test]
    fn a_path_names_resource_and_subresource() {
        for (path, expected) in [
            ("/api/v1/nodes", ("nodes", "")),
            ("/api/v1/nodes/a/status", ("nodes", "status")),
            ("/api/v1/namespaces/x/pods/a/eviction", ("pods", "eviction")),
            ("/api/v1/namespaces/x", ("namespaces", "")),
            ("/apis/karpenter.sh/v1/nodeclaims/a", ("nodeclaims", "")),
            ("/version", ("", "")),
        ] {
            assert_eq!(resource_of(path), expected, "{path}");
        }
    }
}
