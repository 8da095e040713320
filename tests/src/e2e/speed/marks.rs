//! When pods were bound and NodeClaims written, as watches tell it. Only what is needed is read of each object: thousands
//! of them change within seconds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde::Deserialize;
use tokio::time::Instant;

use super::PODS;
use crate::e2e::{
    rest::Rest,
    watches::{Versioned, Watches},
};

/// What is read of an object.
#[derive(Clone, Deserialize)]
struct Slim {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
}

impl Versioned for Slim {
    fn version(&self) -> Option<&str> {
        Some(&self.metadata.resource_version)
    }
}

#[derive(Default)]
struct Marked {
    bound: BTreeSet<String>,
    claims: BTreeSet<String>,
    first_claim: Option<Instant>,
    last_claim: Option<Instant>,
}

/// What has happened so far. Dropping it ends the watches.
pub(super) struct Marks {
    state: Arc<Mutex<Marked>>,
    watches: Watches,
}

impl Marks {
    /// Watches from now on.
    pub(super) async fn start(client: kube::Client) -> anyhow::Result<Self> {
        let state: Arc<Mutex<Marked>> = Arc::default();
        let mut watches = Watches::default();
        for (path, note) in [(PODS, note_pod as Note), ("/apis/karpenter.sh/v1/nodeclaims", note_claim)] {
            let list = Rest::new(client.clone()).get(path).await?;
            let list = list.with_context(|| format!("{path} is not served"))?;
            let version = list["metadata"]["resourceVersion"].as_str().context("a list without version")?;
            let state = state.clone();
            watches.add(client.clone(), path, version, move |_, object| {
                note(&mut lock(&state), object);
                Ok(())
            });
        }
        Ok(Self { state, watches })
    }

    /// Fails when a watch has ended.
    pub(super) async fn check(&mut self) -> anyhow::Result<()> {
        self.watches.check().await
    }

    /// How many pods were ever bound.
    pub(super) fn bound(&self) -> usize {
        lock(&self.state).bound.len()
    }

    /// How many NodeClaims were ever written.
    pub(super) fn claims(&self) -> usize {
        lock(&self.state).claims.len()
    }

    pub(super) fn first_claim(&self) -> Option<Instant> {
        lock(&self.state).first_claim
    }

    pub(super) fn last_claim(&self) -> Option<Instant> {
        lock(&self.state).last_claim
    }
}

type Note = fn(&mut Marked, Slim);

fn note_pod(state: &mut Marked, pod: Slim) {
    if pod.spec.node_name.is_some_and(|node| !node.is_empty()) {
        state.bound.insert(pod.metadata.name);
    }
}

fn note_claim(state: &mut Marked, claim: Slim) {
    if state.claims.insert(claim.metadata.name) {
        let now = Instant::now();
        state.first_claim.get_or_insert(now);
        state.last_claim = Some(now);
    }
}

fn lock(state: &Mutex<Marked>) -> MutexGuard<'_, Marked> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
