//! `nodepool.readiness`: whether a NodePool's class is there and ready.

use async_trait::async_trait;
use fleetwright_api::labels::condition::NODE_CLASS_READY;
use fleetwright_state::{Change, Index, Key};

use super::status::{change_conditions, class_of, managed, pools_of};
use crate::{
    runtime::{Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Keeps the condition NodeClassReady.
pub struct Readiness;

#[async_trait]
impl Controller for Readiness {
    fn name(&self) -> &'static str {
        "nodepool.readiness"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pools_of(change, index)
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = managed(ctx, &key.name) else { return Ok(Requeue::No) };
        let class = class_of(&pool);
        let state = ctx.index().node_class(&class).cloned();
        let problem: Option<(String, String)> = match state {
            None => Some((
                "NodeClassNotFound".to_owned(),
                format!("{class} is not there: create it, or correct spec.template.spec.nodeClassRef"),
            )),
            Some(state) if state.deleting.is_some() => {
                Some(("NodeClassTerminating".to_owned(), format!("{class} is being deleted")))
            }
            Some(state) => match state.ready {
                Some(true) => None,
                Some(false) => Some((state.why.0.to_string(), state.why.1.to_string())),
                None => Some((
                    "NodeClassReadinessUnknown".to_owned(),
                    format!("{class} does not say yet whether it is ready"),
                )),
            },
        };
        change_conditions(ctx, &pool, |conditions| {
            match &problem {
                None => conditions.set_true(NODE_CLASS_READY),
                Some((reason, message)) => conditions.set_false(NODE_CLASS_READY, reason, message),
            };
        })
        .await?;
        Ok(Requeue::No)
    }
}
