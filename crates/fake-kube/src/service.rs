//! The server as a tower service: it reads a request, decides on a fault, has it served, and turns the answer into HTTP.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Response, header};
use http_body_util::BodyExt as _;

use crate::body::{BoxError, ReplyBody};
use crate::dispatch::{self, Reply};
use crate::faults::{Answer, Fault};
use crate::info;
use crate::request::{self, Asked, ResourceRequest};
use crate::server::Service;
use crate::status::ApiError;

impl Service {
    /// Answers a request.
    ///
    /// # Errors
    /// Only by the fault hook: a broken connection.
    async fn respond(
        &self,
        parts: http::request::Parts,
        body: Bytes,
    ) -> Result<Response<ReplyBody>, BoxError> {
        match request::read(&parts, &body) {
            Ok(Asked::Resource(request)) => self.resource(&request).await,
            Ok(Asked::Other(route)) => Ok(render(info::serve(&self.server, &parts, &route))),
            Err(error) => Ok(render(Err(error))),
        }
    }

    async fn resource(&self, request: &ResourceRequest) -> Result<Response<ReplyBody>, BoxError> {
        let summary = request.summary();
        self.server.count(request.verb, &request.path);
        let fault =
            self.server.config().faults.as_ref().map(|faults| faults.decide(&summary)).unwrap_or_default();
        if !fault.before.is_zero() {
            tokio::time::sleep(fault.before).await;
        }
        let answer = self.answer(request, &fault);
        if !fault.after.is_zero() {
            tokio::time::sleep(fault.after).await;
        }
        let response = render(answer?);
        if let Some(audit) = &self.server.config().audit {
            audit(&summary, response.status().as_u16());
        }
        Ok(response)
    }

    /// The answer under a fault; the outer error is a broken connection.
    fn answer(&self, request: &ResourceRequest, fault: &Fault) -> Result<Result<Reply, ApiError>, BoxError> {
        let apply = || dispatch::serve(&self.server, request, fault);
        match &fault.answer {
            Answer::Normal => Ok(apply()),
            Answer::Refuse(error) => Ok(Err(error.clone())),
            Answer::ApplyThenRefuse(error) => {
                drop(apply());
                Ok(Err(error.clone()))
            }
            Answer::Drop => Err("connection refused by the fault hook".into()),
            Answer::ApplyThenDrop => {
                drop(apply());
                Err("connection reset by the fault hook".into())
            }
        }
    }
}

/// Turns an answer into HTTP.
fn render(answer: Result<Reply, ApiError>) -> Response<ReplyBody> {
    let (code, kind, body, retry) = match answer {
        Ok(Reply::Json(code, bytes)) => (code, "application/json", ReplyBody::once(bytes), None),
        Ok(Reply::Typed(kind, bytes)) => (200, kind, ReplyBody::once(bytes), None),
        Ok(Reply::Text(code, text)) => (code, "text/plain; charset=utf-8", ReplyBody::once(text), None),
        Ok(Reply::Watch(watch)) => (200, "application/json", ReplyBody::stream(watch.into_stream()), None),
        Err(error) => {
            let retry = error.details["retryAfterSeconds"].as_u64();
            let body = crate::view_of::bytes(&error.to_value());
            (error.code, "application/json", ReplyBody::once(body), retry)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

impl<B> tower::Service<http::Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
            service.respond(parts, bytes).await
        })
    }
}
