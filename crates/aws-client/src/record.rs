//! Requests and answers as they are sent, for recordings that offline tests replay.

use std::sync::Arc;

use aws_sdk_ec2::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_types::config_bag::{Storable, StoreReplace};

use crate::requests::names;

/// Headers of an answer that the SDK reads beside the body.
const HEADERS: [&str; 3] = ["content-type", "x-amzn-errortype", "x-amzn-query-error"];

/// A request and its answer, without credentials: signatures are in headers, which are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The action, as the SDK names it.
    pub action: String,
    /// Where it was sent.
    pub uri: String,
    /// The body of the request.
    pub request: String,
    /// The status of the answer.
    pub status: u16,
    /// Those headers of the answer that matter.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the answer.
    pub answer: String,
}

/// Receives every answered request, each attempt of it.
pub type Listener = Arc<dyn Fn(Exchange) + Send + Sync>;

/// A request on its way: the SDK keeps none once it is sent.
#[derive(Debug)]
struct Transmitted {
    uri: String,
    body: String,
}

impl Storable for Transmitted {
    type Storer = StoreReplace<Self>;
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// Hands requests and answers to a listener.
#[derive(Clone)]
pub(crate) struct Recorder(pub(crate) Listener);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

#[dyn_dispatch_hint]
impl Intercept for Recorder {
    fn name(&self) -> &'static str {
        "fleetwright::Recorder"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let body = text(request.body().bytes());
        bag.interceptor_state().store_put(Transmitted { uri: request.uri().to_owned(), body });
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let (Some(request), Some(response)) = (bag.load::<Transmitted>(), context.response()) else {
            return Ok(());
        };
        let header = |name: &'static str| response.headers().get(name).map(|value| (name, value.to_owned()));
        (self.0)(Exchange {
            action: names(bag).1,
            uri: request.uri.clone(),
            request: request.body.clone(),
            status: response.status().as_u16(),
            headers: HEADERS.into_iter().filter_map(header).collect(),
            answer: text(response.body().bytes()),
        });
        Ok(())
    }
}
