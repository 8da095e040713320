//! Client of the API server: each call has a deadline, and a process that is not the leader, or is about to release the
//! lease, makes no call.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client};

use super::{clocks::Clocks, controller::ReconcileError, leader::Leadership};

/// How long a call to the API server may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Interval at which [`ApiClient::idle`] looks for calls.
const IDLE_POLL: Duration = Duration::from_millis(20);

/// The number of calls in flight, and whether new ones are refused.
#[derive(Debug, Default)]
struct Calls {
    closed: AtomicBool,
    in_flight: AtomicUsize,
}

/// A call in flight.
struct CallInFlight<'a>(&'a Calls);

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Calls {
    /// Starts a call, unless new ones are refused. Counts it before the check, so that [`ApiClient::idle`] misses none.
    fn begin(&self) -> Option<CallInFlight<'_>> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let in_flight = CallInFlight(self);
        (!self.closed.load(Ordering::SeqCst)).then_some(in_flight)
    }
}

/// Client of the API server.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    clocks: Clocks,
    leadership: Leadership,
    calls: Arc<Calls>,
}

impl ApiClient {
    pub(super) fn new(client: Client, clocks: Clocks, leadership: Leadership) -> Self {
        Self { client, clocks, leadership, calls: Arc::default() }
    }

    /// The client itself, whose calls have neither deadline nor fence.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Refuses calls from now on.
    pub(super) fn close(&self) {
        self.calls.closed.store(true, Ordering::SeqCst);
    }

    /// Completes once no call is in flight.
    pub(super) async fn idle(&self) {
        while self.calls.in_flight.load(Ordering::SeqCst) > 0 {
            self.clocks.sleep(IDLE_POLL).await;
        }
    }

    /// An API for cluster-scoped objects.
    #[must_use]
    pub fn cluster<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// An API for the objects of one namespace.
    #[must_use]
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Waits for the response of the API server, at most [`CALL_DEADLINE`].
    ///
    /// # Errors
    /// The server's error, classified; [`ReconcileError::Deadline`], after which the call may have had its effect; or
    /// [`ReconcileError::NotLeading`] without a call.
    pub async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReconcileError> {
        if !self.leadership.holds() {
            return Err(ReconcileError::NotLeading { what });
        }
        let Some(_waiting) = self.calls.begin() else { return Err(ReconcileError::NotLeading { what }) };
        match self.clocks.within(CALL_DEADLINE, call).await {
            Some(result) => result.map_err(|error| ReconcileError::from_kube(what, error)),
            None => Err(ReconcileError::Deadline { what, after: CALL_DEADLINE }),
        }
    }
}
