//! The API server as controllers call it: each call has a deadline, and a process that is not the leader makes none.

use std::{future::Future, time::Duration};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client};

use super::{clocks::Clocks, controller::ReconcileError, leader::Leadership};

/// How long a call to the API server may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Client of the API server.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    clocks: Clocks,
    leadership: Leadership,
}

impl ApiClient {
    pub(super) fn new(client: Client, clocks: Clocks, leadership: Leadership) -> Self {
        Self { client, clocks, leadership }
    }

    /// The client itself, whose calls have neither deadline nor fence.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
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
        match self.clocks.within(CALL_DEADLINE, call).await {
            Some(result) => result.map_err(|error| ReconcileError::from_kube(what, error)),
            None => Err(ReconcileError::Deadline { what, after: CALL_DEADLINE }),
        }
    }
}
