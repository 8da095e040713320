//! Bodies of answers: complete, or a stream of watch events.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame};

/// Any error.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of an answer of the server.
pub struct ReplyBody(BodyKind);

enum BodyKind {
    Once(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>),
}

impl ReplyBody {
    /// A complete body.
    pub(crate) fn once(bytes: impl Into<Bytes>) -> Self {
        Self(BodyKind::Once(Some(bytes.into())))
    }

    /// A streamed body.
    pub(crate) fn stream(stream: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> Self {
        Self(BodyKind::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.0 {
            BodyKind::Once(_) => "ReplyBody::Once",
            BodyKind::Stream(_) => "ReplyBody::Stream",
        })
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            BodyKind::Once(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|item| item.map(|data| data.map(Frame::data)))
            }
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            BodyKind::Once(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                http_body::SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            BodyKind::Stream(_) => http_body::SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyKind::Once(None))
    }
}
