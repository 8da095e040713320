//! Features that are off because the API server refuses what they need: forbidden by RBAC, or not served.
//!
//! A feature is on again after the first successful call. A metric, a log line and the condition `FeaturesAvailable` of
//! NodePools report what is off, and what to do.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_state::{Feature, Key, Refusal, RefusalCause};

use super::{cluster::Cluster, controller::ReconcileError, shared::Shared};
use crate::metrics::{Metrics, runtime::FEATURE_OFF};

/// The controller that writes the condition.
pub(crate) const CONTROLLER: &str = "nodepool.features";

/// The features that are off, by the resource that is refused. Clones share them.
#[derive(Clone)]
pub struct Features {
    off: Shared<BTreeMap<(Feature, String), Refusal>>,
    cluster: Cluster,
    metrics: Arc<Metrics>,
}

impl Features {
    pub(super) fn new(cluster: Cluster, metrics: Arc<Metrics>) -> Self {
        Self { off: Shared::default(), cluster, metrics }
    }

    /// Switches a feature off, or records a changed cause.
    pub(crate) fn refuse(&self, feature: Feature, refusal: &Refusal) {
        let resource = resource(refusal);
        let before = self.off.lock().insert((feature, resource.clone()), refusal.clone());
        if before.as_ref() == Some(refusal) {
            return;
        }
        if let Some(before) = before {
            self.metrics.remove(&FEATURE_OFF, &[feature.as_str(), &resource, before.cause.as_str()]);
        }
        self.metrics.set(&FEATURE_OFF, &[feature.as_str(), &resource, refusal.cause.as_str()], 1.0);
        tracing::warn!(%feature, %refusal, effect = feature.without(), "feature is off");
        self.enqueue_pools();
    }

    /// Switches a feature on that was off because of this resource.
    pub(crate) fn restore(&self, feature: Feature, group: &str, name: &str) {
        let resource = qualified(group, name);
        let Some(before) = self.off.lock().remove(&(feature, resource.clone())) else { return };
        self.metrics.remove(&FEATURE_OFF, &[feature.as_str(), &resource, before.cause.as_str()]);
        tracing::info!(%feature, resource, "feature is on again");
        self.enqueue_pools();
    }

    /// The result of an optional call: `None` if it is forbidden, which switches the feature off.
    ///
    /// # Errors
    /// Any other error of the call.
    pub(crate) fn optional<T>(
        &self,
        feature: Feature,
        call: (&str, &str, &'static [&'static str]),
        result: Result<T, ReconcileError>,
    ) -> Result<Option<T>, ReconcileError> {
        let (group, resource, verbs) = call;
        match result {
            Err(error) if error.is_forbidden() => {
                let cause = RefusalCause::Forbidden;
                self.refuse(
                    feature,
                    &Refusal { cause, group: group.into(), resource: resource.into(), verbs },
                );
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(value) => {
                self.restore(feature, group, resource);
                Ok(Some(value))
            }
        }
    }

    /// Reason and message of the condition; `None` while every feature is on.
    pub(crate) fn condition(&self) -> Option<(&'static str, String)> {
        let off = self.off.lock();
        let reason = off.values().next()?.cause.as_str();
        let each =
            off.iter().map(|((feature, _), why)| format!("{feature} is off ({}): {why}", feature.without()));
        Some((reason, each.collect::<Vec<_>>().join("; ")))
    }

    fn enqueue_pools(&self) {
        let names: Vec<String> =
            self.cluster.index().pools().filter_map(|pool| pool.metadata.name.clone()).collect();
        for name in names {
            self.cluster.enqueue(CONTROLLER, Key::cluster(name));
        }
    }
}

/// The refused resource as `plural.group`.
fn resource(refusal: &Refusal) -> String {
    qualified(&refusal.group, &refusal.resource)
}

fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

#[cfg(test)]
mod tests;
