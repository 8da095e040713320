//! `nodeclaim.expiration`: deletes claims that reached their age.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::nodeclaim::{Stage, expiration};
use fleetwright_state::{Change, Index, Key};

use crate::{
    lifecycle::{Memory, hand::Hand, machine::Machine, requeue},
    runtime::{Controller, Ctx, ReconcileError, Requeue},
};

/// Deletes claims at their age, one after another.
pub struct Expiration(pub Arc<Memory>);

#[async_trait]
impl Controller for Expiration {
    fn name(&self) -> &'static str {
        "nodeclaim.expiration"
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        // The age of a claim is settled at its birth.
        let born = change.claim().is_some() && change.is_created();
        born.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(machine) = Machine::look(ctx, &key.name) else { return Ok(Requeue::No) };
        let next = expiration::Expiration.next(&machine.view(ctx.cloud.info()), ctx.now());
        let done = Hand::new(ctx, &self.0, &machine).carry_out(next).await?;
        Ok(requeue(done.again))
    }
}
