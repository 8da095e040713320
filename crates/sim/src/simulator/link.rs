//! The connection between an operator and the API server: it carries the operator's user agent, can be cut, and can be distorted.

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

/// Modifies an operator's requests and the answers: bugs are planted here.
pub trait Distortion: Send + Sync {
    /// A request: its method, the plural of its resource, its subresource, its body (null without one).
    fn request(&self, _method: &Method, _resource: &str, _subresource: &str, _body: &mut Value) {}

    /// A received object of this resource: an answer, an item of a list, or a watch event.
    fn received(&self, _resource: &str, _object: &mut Value) {}
}

/// The end of a cut. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<Mutex<Option<Instant>>>);

impl Cut {
    /// Cuts the connection for this duration.
    pub(super) fn cut(&self, duration: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now().checked_add(duration);
    }

    /// The end of the current cut, if any.
    fn until(&self) -> Option<Instant> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| Instant::now() < *until)
    }
}

/// A service under a `kube::Client`, in front of the API server's.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) server: Server,
    /// The user agent of the operator.
    pub(super) agent: HeaderValue,
    pub(super) cut: Cut,
    pub(super) distort: Option<Arc<dyn Distortion>>,
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
        // A request during a cut is lost, which is noticed at its end.
        if let Some(until) = self.cut.until() {
            tokio::time::sleep_until(until).await;
            return Err("the line to the API server was cut".into());
        }
        request.headers_mut().insert(USER_AGENT, self.agent.clone());
        let (resource, subresource) = resource_of(request.uri().path());
        let (resource, subresource) = (resource.to_owned(), subresource.to_owned());
        if let Some(distort) = &self.distort {
            request = distort_request(&**distort, request, &resource, &subresource).await?;
        }
        let answer = tower::Service::call(&mut self.server.service(), request).await?;
        // An answer during a cut is lost.
        if let Some(until) = self.cut.until() {
            tokio::time::sleep_until(until).await;
            return Err("the line to the API server was cut".into());
        }
        let (head, inner) = answer.into_parts();
        let distort = self.distort.filter(|_| head.status.is_success());
        Ok(Response::from_parts(head, LinkBody { inner, cut: self.cut, wait: None, distort, resource }))
    }
}

async fn distort_request(
    distort: &dyn Distortion,
    request: Request<Body>,
    resource: &str,
    subresource: &str,
) -> Result<Request<Body>, BoxError> {
    let (head, body) = request.into_parts();
    let bytes = body.collect_bytes().await?;
    let mut value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let before = value.clone();
    distort.request(&head.method, resource, subresource, &mut value);
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

/// The body of an answer: it stalls during a cut.
pub(super) struct LinkBody {
    inner: ReplyBody,
    cut: Cut,
    wait: Option<Pin<Box<Sleep>>>,
    distort: Option<Arc<dyn Distortion>>,
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
        let received =
            |frame: Frame<Bytes>| frame.map_data(|data| distort_received(&*distort, resource, &data));
        Poll::Ready(frame.map(|frame| frame.map(received)))
    }

    fn size_hint(&self) -> SizeHint {
        if self.distort.is_some() { SizeHint::default() } else { self.inner.size_hint() }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// The server sends whole documents: one answer, or lines of a watch.
fn distort_received(distort: &dyn Distortion, resource: &str, data: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
            out.extend_from_slice(line);
            continue;
        };
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(|item| distort.received(resource, item));
        } else if value.get("type").is_some() && value.get("object").is_some() {
            distort.received(resource, &mut value["object"]);
        } else {
            distort.received(resource, &mut value);
        }
        // A map with text keys always serializes.
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
    fn a_path_has_resource_and_subresource() {
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
