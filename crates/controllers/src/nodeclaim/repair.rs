//! `node.health`: replaces nodes that a policy of the provider calls broken. A forceful end: no budget, no disruption
//! budget of pods and no do-not-disrupt keeps a broken node, so there are two brakes instead.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{
    cloud::RepairPolicy,
    model::{NodeClaim, labels},
    nodeclaim::{
        Next, Removal, Step,
        brake::{Brake, Share},
        repair::{BLOCKED, Breach, NodeCondition, earliest, is_too_many},
    },
};
use fleetwright_state::{Change, Index, Key};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executor, families};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, RateLimit, ReconcileError, Requeue},
    settings::Settings,
};

const QUARTER_HOUR: Duration = Duration::from_secs(900);

/// Replaces broken nodes.
pub struct Repair {
    cache: Arc<LifecycleCache>,
    brake: Mutex<Brake>,
}

impl Repair {
    /// Has repaired nothing yet.
    #[must_use]
    pub fn new(cache: Arc<LifecycleCache>) -> Self {
        Self { cache, brake: Mutex::new(Brake::new(Share::NODES)) }
    }

    fn brake(&self) -> MutexGuard<'_, Brake> {
        // No statement leaves the brake half changed.
        self.brake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Controller for Repair {
    fn name(&self) -> &'static str {
        "node.health"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::REASONABLE
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        let here = change.node().is_some() && !change.is_deleted();
        here.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let (now, steady) = (ctx.now(), ctx.steady());
        self.brake().begin(steady);
        let policies = &ctx.cloud.info().repair_policies;
        let found = {
            let index = ctx.index();
            let claim = index.claim_of_node(&key.name).cloned();
            index.node(&key.name).cloned().zip(claim)
        };
        let Some((object, claim)) = found else { return Ok(Requeue::No) };
        let breach = earliest(policies, &conditions(&object));
        if breach.is_none() && !has_repair_deadline(&claim) {
            return Ok(Requeue::No);
        }
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let Some(node) = ClaimedNode::find(ctx, name).filter(|node| node.claim.deleting.is_none()) else {
            return Ok(Requeue::No);
        };
        let Some(breach) = breach else {
            self.cancel_repair(ctx, &node).await?;
            return Ok(Requeue::No);
        };
        if let Ok(left) = Duration::try_from(breach.due.duration_since(now))
            && !left.is_zero()
        {
            self.cancel_repair(ctx, &node).await?;
            return Ok(Requeue::After(left));
        }
        if let Some(why) = self.held(ctx, policies, &node.claim, &object) {
            self.cancel_repair(ctx, &node).await?;
            tell_blocked(ctx, &node, &object, &why);
            return Ok(Requeue::After(self.brake().again(steady).map_or(BLOCKED, |left| left.min(BLOCKED))));
        }
        replace(ctx, &self.cache, &node, &breach, now).await?;
        Ok(Requeue::No)
    }
}

impl Repair {
    /// Removes the deadline of a repair that did not delete the claim. A later deletion for another reason then leaves the
    /// pods their protection.
    async fn cancel_repair(&self, ctx: &Ctx, node: &ClaimedNode) -> Result<(), ReconcileError> {
        if has_repair_deadline(&node.raw) {
            let cancel = Next::steps([Step::CancelRepair]);
            Executor::new(ctx, &self.cache, node).execute(cancel).await?;
        }
        Ok(())
    }

    /// Why the node is not repaired now.
    fn held(&self, ctx: &Ctx, policies: &[RepairPolicy], claim: &NodeClaim, node: &Node) -> Option<String> {
        let (mut broken, mut of_pool, mut all) = (0, 0, 0);
        {
            let index = ctx.index();
            for other in index.nodes() {
                all += 1;
                let label = other.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
                // A claim of no pool is judged by the whole cluster.
                if claim.pool.is_some() && label.map(String::as_str) != claim.pool.as_deref() {
                    continue;
                }
                of_pool += 1;
                broken += usize::from(earliest(policies, &conditions(other)).is_some());
            }
        }
        if is_too_many(broken, of_pool) {
            let of = claim
                .pool
                .as_ref()
                .map_or_else(|| "the cluster".to_owned(), |pool| format!("nodepool {}", pool.as_str()));
            return Some(format!(
                "more than 20% of the nodes of {of} are unhealthy ({broken} of {of_pool}), repair waits"
            ));
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        (!self.brake().passes(name, all, ctx.steady())).then(|| {
            ctx.metrics.inc(&families::BRAKED, &["repair"]);
            format!("repair is limited to the larger of 3 nodes and 5% of all {all} nodes within 10 minutes, a third of them at a time")
        })
    }
}

/// Whether a repair has written its termination deadline on the claim.
fn has_repair_deadline(claim: &api::NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::REPAIR_DEADLINE))
}

/// The conditions of a Node that say since when.
fn conditions(node: &Node) -> Vec<NodeCondition> {
    let all = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let read = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
        Some(NodeCondition {
            condition: condition.type_.as_str().into(),
            status: condition.status.as_str().into(),
            since: condition.last_transition_time.as_ref()?.0,
        })
    };
    all.into_iter().flatten().filter_map(read).collect()
}

fn tell_blocked(ctx: &Ctx, node: &ClaimedNode, object: &Node, why: &str) {
    for object in [regarding(object), regarding(&*node.raw)] {
        let event = Event::warning(object, "NodeRepairBlocked", why).quiet_for(QUARTER_HOUR);
        ctx.recorder.publish(event);
    }
}

/// Ends the claim now: its deadline is over before its drain begins.
async fn replace(
    ctx: &Ctx,
    cache: &LifecycleCache,
    node: &ClaimedNode,
    breach: &Breach,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    tracing::info!(
        NodeClaim = node.claim.name.as_str(),
        condition = &*breach.condition,
        status = &*breach.status,
        "deleting nodeclaim of an unhealthy node"
    );
    let next = Next::steps([Step::SetRepairDeadline(now), Step::Delete(Removal::Unhealthy)]);
    Executor::new(ctx, cache, node).execute(next).await?;
    let image = node.claim.image_id.as_deref().unwrap_or_default();
    let figures = [&*breach.condition, node.pool_name(), node.label(labels::CAPACITY_TYPE), image];
    ctx.metrics.inc(&families::CLAIMS_UNHEALTHY, &figures);
    Ok(())
}
