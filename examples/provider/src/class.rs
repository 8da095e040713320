//! The NodeClass of the cloud: its kind, its definition, and the objects of the cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use fleetwright_api::{condition::Condition, crd};
use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the servers of NodePools are launched.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "pebble.example",
    version = "v1",
    kind = "PebbleNodeClass",
    plural = "pebblenodeclasses",
    status = "PebbleNodeClassStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct PebbleNodeClassSpec {
    /// The image that servers boot.
    pub image: String,
    /// The zones that servers may be in; all of them if empty.
    #[serde(default)]
    pub zones: Vec<String>,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PebbleNodeClassStatus {
    /// Signals about the class. The controllers use a class whose condition `Ready` is True.
    pub conditions: Vec<Condition>,
}

impl PebbleNodeClass {
    /// Whether the class may be used for launches; `None` if nobody has said so yet.
    #[must_use]
    pub fn readiness(&self) -> Option<bool> {
        let conditions = self.status.as_ref().map(|status| &status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|known| known.type_ == "Ready").map(Condition::is_true)
    }
}

/// Every definition that a cluster needs: the class, and the common ones.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let class = crd::definition::<PebbleNodeClass, PebbleNodeClassSpec, PebbleNodeClassStatus>(
        "A PebbleNodeClass says how the servers of NodePools are launched.",
    );
    std::iter::once(class).chain(crd::base()).collect()
}

/// The classes of the cluster; `None` until they are listed.
#[derive(Clone, Debug, Default)]
pub struct Classes(Arc<RwLock<Option<BTreeMap<String, PebbleNodeClass>>>>);

impl Classes {
    /// Replaces all classes.
    pub fn replace(&self, all: Vec<PebbleNodeClass>) {
        let all = all.into_iter().map(|class| (class.name_any(), class)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(all);
    }

    /// The classes by name; `None` until they are listed.
    #[must_use]
    pub fn all(&self) -> Option<BTreeMap<String, PebbleNodeClass>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Watches the classes of the cluster for ever.
pub async fn follow(client: Client, classes: Classes) {
    let events = watcher::watcher(Api::<PebbleNodeClass>::all(client), watcher::Config::default());
    let mut events = std::pin::pin!(events.default_backoff());
    let mut all: BTreeMap<String, PebbleNodeClass> = BTreeMap::new();
    while let Some(event) = events.next().await {
        let is_complete = matches!(event, Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)));
        match event {
            Ok(Event::Init) => all.clear(),
            Ok(Event::InitDone) => {}
            Ok(Event::InitApply(class) | Event::Apply(class)) => drop(all.insert(class.name_any(), class)),
            Ok(Event::Delete(class)) => drop(all.remove(&class.name_any())),
            Err(error) => tracing::warn!(%error, "the watch of PebbleNodeClasses was interrupted"),
        }
        if is_complete {
            classes.replace(all.values().cloned().collect());
        }
    }
}
