//! Metrics of every request that the SDK sends: status of the answer, duration, number of attempts.
//!
//! A list of several pages is several requests. A request that is not sent, because of missing credentials or parameters, has no attempts
//! and status 0.

use std::sync::Arc;

use aws_sdk_ec2::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use fleetwright_aws::SharedClock;
use fleetwright_aws::calls::Figure;
use fleetwright_aws::figures::{ATTEMPT_TIME, ATTEMPTS, Ledger, REQUEST_RETRIES, REQUEST_TIME, REQUESTS};
use jiff::Timestamp;

/// Records the metrics of requests. Clones share the ledger.
#[derive(Clone)]
pub(crate) struct Requests {
    clock: SharedClock,
    ledger: Arc<Ledger>,
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    began: Timestamp,
    attempt_began: Timestamp,
    attempts: u32,
    /// The status of the last answer; 0 if there was none.
    code: u16,
}

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Requests {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { clock, ledger: Arc::default() }
    }

    /// Takes the figures recorded since the last call.
    pub(crate) fn take(&self) -> Vec<Figure> {
        self.ledger.take()
    }

    /// Seconds since `began`, on a monotonic clock.
    fn since(&self, began: Timestamp) -> f64 {
        self.clock.steady().duration_since(began).as_secs_f64().max(0.0)
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// Service and operation, as the SDK names them.
pub(crate) fn names(bag: &ConfigBag) -> (String, String) {
    let unknown = || ("Unknown".to_owned(), "Unknown".to_owned());
    bag.load::<Metadata>()
        .map_or_else(unknown, |with_causes| (with_causes.service().to_owned(), with_causes.name().to_owned()))
}

#[dyn_dispatch_hint]
impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "fleetwright::Requests"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = self.clock.steady();
        bag.interceptor_state().store_put(Sent { began: now, attempt_began: now, attempts: 0, code: 0 });
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(sent) = bag.get_mut_from_interceptor_state::<Sent>() {
            sent.attempt_began = self.clock.steady();
            sent.attempts = sent.attempts.saturating_add(1);
            sent.code = 0;
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let code = context.response().map_or(0, |answer| answer.status().as_u16());
        let Some(sent) = bag.get_mut_from_interceptor_state::<Sent>() else { return Ok(()) };
        sent.code = code;
        let took = self.since(sent.attempt_began);
        let (service, action) = names(bag);
        let labels = [&*service, &*action, &*code.to_string()];
        self.ledger.note(&ATTEMPTS, &labels, 1.0);
        self.ledger.note(&ATTEMPT_TIME, &labels, took);
        Ok(())
    }

    fn read_after_execution(
        &self,
        _: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(&Sent { began, attempts, code, .. }) = bag.load::<Sent>() else { return Ok(()) };
        let (service, action) = names(bag);
        let labels = [&*service, &*action, &*code.to_string()];
        self.ledger.note(&REQUESTS, &labels, 1.0);
        self.ledger.note(&REQUEST_TIME, &labels, self.since(began));
        self.ledger.note(&REQUEST_RETRIES, &labels, f64::from(attempts.saturating_sub(1)));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
