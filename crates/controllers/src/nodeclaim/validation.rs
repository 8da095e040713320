//! `nodeclaim.validation`: reports why a NodeClaim is invalid.

use async_trait::async_trait;
use fleetwright_api::{
    condition::find, conditions::HasConditions, labels::condition::CONSISTENT_STATE_FOUND,
};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use crate::{
    events::{Event, regarding},
    patch::Patches,
    runtime::{Cluster, Controller, Ctx, ReconcileError, Recorder, Requeue, UNREADABLE, ignore_not_found},
    settings::Settings,
};

/// Validates NodeClaims.
pub struct Validation {
    cluster: Cluster,
    patches: Patches,
    recorder: Recorder,
}

impl Validation {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), patches: Patches::new(ctx), recorder: ctx.recorder.clone() }
    }
}

#[async_trait]
impl Controller for Validation {
    fn name(&self) -> &'static str {
        "nodeclaim.validation"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let Some(claim) = change.claim().filter(|_| !change.is_deleted()) else { return Vec::new() };
        let reported = find(claim.conditions(), CONSISTENT_STATE_FOUND)
            .is_some_and(|condition| condition.reason == UNREADABLE);
        let invalid = index.invalid().contains_key(&(WatchedKind::NodeClaim, change.key.clone()));
        if reported || invalid { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let (claim, problem) = {
            let index = self.cluster.index();
            let problem =
                index.invalid().get(&(WatchedKind::NodeClaim, key.clone())).map(ToString::to_string);
            (index.claim(&key.name).cloned(), problem)
        };
        let Some(claim) = claim else { return Ok(Requeue::No) };
        if let Some(problem) = &problem {
            tracing::error!(NodeClaim.name = %key, problem, "ignoring invalid nodeclaim");
            self.recorder.publish(Event::warning(
                regarding(&*claim),
                "FailedConsistencyCheck",
                problem.clone(),
            ));
        }
        let written = self.patches.claim_conditions(&key.name, |conditions| {
            match &problem {
                Some(problem) => {
                    conditions.set_false(CONSISTENT_STATE_FOUND, UNREADABLE, problem);
                }
                // `nodeclaim.consistency` checks the node.
                None => {
                    conditions.set_unknown(CONSISTENT_STATE_FOUND);
                }
            };
        });
        ignore_not_found(written.await)?;
        Ok(Requeue::No)
    }
}

#[cfg(test)]
mod tests {
    //! A NodeClaim with an invalid quantity.
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::Validation;
    use crate::testing::Harness;

    fn claim(name: &str, cpu: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
            "spec": {"requirements": [], "resources": {"requests": {"cpu": cpu}}, "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}})
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_claim_has_a_condition_with_the_reason() {
        let harness = Harness::new();
        harness.server.apply(claim("odd", "-1")).unwrap();
        harness.server.apply(claim("fine", "1")).unwrap();
        let (_trigger, _task) = harness.run(vec![Arc::new(Validation::new(&harness.ctx))]);
        harness.pass(10).await;
        let claims = harness.server.list("karpenter.sh/v1", "NodeClaim", "");
        let conditions = |name: &str| {
            let claim = claims.iter().find(|claim| claim["metadata"]["name"] == name).unwrap();
            claim["status"]["conditions"].as_array().cloned().unwrap_or_default()
        };
        assert_eq!(conditions("fine"), Vec::<Value>::new());
        let condition = conditions("odd").into_iter().find(|c| c["type"] == "ConsistentStateFound").unwrap();
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Unreadable")));
        let message = condition["message"].as_str().unwrap();
        assert!(
            message.contains("spec.resources.requests[cpu]") && message.contains("negative"),
            "{message}"
        );
        let events = harness.events();
        assert_eq!(events, [format!("NodeClaim/odd FailedConsistencyCheck: {message}")]);
        assert!(harness.ctx.cluster.index().claim_model("fine").is_some(), "other NodeClaims are unaffected");
    }
}
