//! `nodeoverlay.controller`: reports in its conditions whether each NodeOverlay is in effect.
//!
//! The index applies overlays, so that no decision sees instance types from before an overlay. This controller writes
//! conditions only.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_api::{self as api, ConditionSet, HasConditions, labels::condition::VALIDATION_SUCCEEDED};
use fleetwright_state::{Change, Feature, Index, Key, OverlayOutcome, WatchedKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::runtime::{
    ApiClient, Clocks, Cluster, Controller, Ctx, Features, RateLimit, ReconcileError, Requeue,
    ignore_not_found,
};

/// How often overlays are checked without a change of an object: instance types change too.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// The permission that the status needs.
const STATUS: (&str, &str, &[&str]) = ("karpenter.sh", "nodeoverlays/status", &["patch"]);

/// Updates the conditions of NodeOverlays.
pub struct OverlayStatus {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    features: Features,
}

impl OverlayStatus {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            features: ctx.features.clone(),
        }
    }
}

#[async_trait]
impl Controller for OverlayStatus {
    fn name(&self) -> &'static str {
        "nodeoverlay.controller"
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_millis(100), Duration::from_secs(60), 10, 100)
    }

    fn is_singleton(&self) -> bool {
        true
    }

    /// A change of one overlay may affect others.
    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let about = match change.kind {
            WatchedKind::NodeOverlay => true,
            WatchedKind::NodePool | WatchedKind::NodeClass => index.has_overlays(),
            _ => false,
        };
        about.then(Key::singleton).into_iter().collect()
    }

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let outcomes: Vec<(Arc<api::NodeOverlay>, OverlayOutcome)> = {
            let mut index = self.cluster.index();
            let outcomes = index.overlay_outcomes();
            outcomes
                .into_iter()
                .filter_map(|(name, outcome)| Some((index.overlay(&name)?.clone(), outcome)))
                .collect()
        };
        for (overlay, outcome) in outcomes {
            self.set_conditions(&overlay, &outcome).await?;
        }
        Ok(Requeue::After(CHECK_INTERVAL))
    }
}

impl OverlayStatus {
    /// Writes the conditions of one overlay, where they change.
    async fn set_conditions(
        &self,
        overlay: &api::NodeOverlay,
        outcome: &OverlayOutcome,
    ) -> Result<(), ReconcileError> {
        let mut status = overlay.status.clone().unwrap_or_default();
        let types = api::NodeOverlay::TYPES;
        let mut conditions =
            ConditionSet::new(types, &overlay.metadata, &mut status.conditions, self.clocks.now());
        match outcome {
        OverlayOutcome::Applied(_) => conditions.set_true(VALIDATION_SUCCEEDED),
        OverlayOutcome::Conflict(with) => conditions.set_false(
            VALIDATION_SUCCEEDED,
            "Conflict",
            &format!("conflict with another overlay: {with} has the same weight and sets the same; raise the weight of one"),
        ),
        OverlayOutcome::Invalid(why) => conditions.set_false(VALIDATION_SUCCEEDED, "RuntimeValidation", why),
    };
        if overlay.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = overlay.metadata.name.as_deref().unwrap_or_default();
        let body = Patch::Merge(json!({
            "metadata": { "resourceVersion": overlay.metadata.resource_version },
            "status": status,
        }));
        let (api, params) = (self.client.cluster::<api::NodeOverlay>(), PatchParams::default());
        let patched =
            self.client.call("write nodeoverlay status", api.patch_status(name, &params, &body)).await;
        let patched =
            self.features.optional(Feature::NodeOverlayStatus, STATUS, ignore_not_found(patched))?;
        if let Some(Some(written)) = patched {
            self.cluster.observe(written);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Prices with overlays, and conditions of overlays.
    use serde_json::{Value, json};

    use super::OverlayStatus;
    use crate::{provisioning::CatalogController, testing::Harness};

    fn overlay(harness: &Harness, name: &str, spec: Value) {
        harness
            .server
            .apply(json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
                "metadata": {"name": name}, "spec": spec}))
            .unwrap();
    }

    /// `status reason` of the condition ValidationSucceeded, and the status of Ready.
    fn state(harness: &Harness, name: &str) -> (String, String) {
        let overlay = harness.server.get("karpenter.sh/v1alpha1", "NodeOverlay", "", name).unwrap();
        let find = |type_: &str| {
            let conditions = overlay["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let validated = find("ValidationSucceeded");
        let ready = text(&find("Ready")["status"]);
        (format!("{} {}", text(&validated["status"]), text(&validated["reason"])), ready)
    }

    /// The price of instance type `small`, on-demand in zone a, in a snapshot.
    fn price(harness: &Harness) -> String {
        let snapshot = harness.ctx.cluster.index().snapshot(harness.ctx.clocks.now());
        snapshot.catalogs["default"].price("small", "a", "on-demand").unwrap().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn overlays_are_applied_and_have_conditions() {
        let harness = Harness::gated(|gates| gates.node_overlay = true);
        harness.pool("default", json!({}));
        overlay(&harness, "b", json!({"requirements": [], "priceAdjustment": "+100%", "weight": 5}));
        overlay(&harness, "a", json!({"requirements": [], "price": "3", "weight": 5}));
        overlay(
            &harness,
            "odd",
            json!({"requirements": [{"key": "team", "operator": "In", "values": ["no value!"]}], "price": "9"}),
        );
        let (stop, running) = harness.run(vec![
            std::sync::Arc::new(CatalogController::new(&harness.ctx)),
            std::sync::Arc::new(OverlayStatus::new(&harness.ctx)),
        ]);
        harness.pass(5).await;
        assert_eq!(price(&harness), "0.24");
        assert_eq!(state(&harness, "b"), ("True ValidationSucceeded".to_owned(), "True".to_owned()));
        assert_eq!(state(&harness, "a"), ("False Conflict".to_owned(), "False".to_owned()));
        assert_eq!(state(&harness, "odd").0, "False RuntimeValidation");
        // Without the conflicting overlay the other one is in effect; without any, the provider's price is.
        harness.server.delete("karpenter.sh/v1alpha1", "NodeOverlay", "", "b").unwrap();
        harness.pass(5).await;
        assert_eq!((price(&harness).as_str(), state(&harness, "a").1.as_str()), ("3", "True"));
        harness.server.delete("karpenter.sh/v1alpha1", "NodeOverlay", "", "a").unwrap();
        harness.pass(5).await;
        assert_eq!(price(&harness), "0.12");
        stop.fire();
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_gate_overlays_are_not_read() {
        let harness = Harness::new();
        harness.pool("default", json!({}));
        overlay(&harness, "a", json!({"requirements": [], "price": "3"}));
        let (stop, running) = harness.run(vec![
            std::sync::Arc::new(CatalogController::new(&harness.ctx)),
            std::sync::Arc::new(OverlayStatus::new(&harness.ctx)),
        ]);
        harness.pass(5).await;
        assert_eq!(price(&harness), "0.12");
        assert_eq!(state(&harness, "a").0, " ");
        stop.fire();
        running.await.unwrap().unwrap();
    }
}
