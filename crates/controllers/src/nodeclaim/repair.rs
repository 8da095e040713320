//! `node.health`: replaces nodes that are unhealthy by a repair policy of the provider. No disruption budget, no
//! PodDisruptionBudget and no do-not-disrupt holds the deletion; the limits of [`fleetwright_core::safety`] do.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{
    cloud::{CloudProvider, RepairPolicy},
    model::{NodeClaim, labels},
    nodeclaim::{
        ClaimStep, Next,
        repair::{BLOCKED, Breach, NodeCondition, earliest},
    },
    safety::{Act, Cause, Facts, Health, Held},
};
use fleetwright_state::{Change, Index, Key};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executors, families};
use crate::{
    events::{Event, regarding},
    metrics::Metrics,
    runtime::{Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue},
    safety::Safety,
    settings::Settings,
};

const QUARTER_HOUR: Duration = Duration::from_secs(900);

/// The act of a repair.
const REPAIR: Act = Act::DeleteClaim(Cause::Unhealthy);

/// Replaces unhealthy nodes.
pub struct Repair {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    executors: Executors,
    safety: Safety,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl Repair {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            executors: Executors::new(ctx, cache),
            safety: Safety::new(ctx),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
        }
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
        let is_live = change.node().is_some() && !change.is_deleted();
        is_live.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let (now, steady) = (self.clocks.now(), self.clocks.steady());
        self.safety.limits().begin(REPAIR, steady);
        let policies = &self.cloud.info().repair_policies;
        let found = {
            let index = self.cluster.index();
            let claim = index.claim_of_node(&key.name).cloned();
            index.node(&key.name).cloned().zip(claim)
        };
        let Some((object, claim)) = found else { return Ok(Requeue::No) };
        let breach = earliest(policies, &conditions(&object));
        if breach.is_none() && !has_repair_deadline(&claim) {
            return Ok(Requeue::No);
        }
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, name)
            .filter(|node| node.claim.deleting.is_none())
        else {
            return Ok(Requeue::No);
        };
        let Some(breach) = breach else {
            self.cancel_repair(&node).await?;
            return Ok(Requeue::No);
        };
        if let Ok(left) = Duration::try_from(breach.due.duration_since(now))
            && !left.is_zero()
        {
            self.cancel_repair(&node).await?;
            return Ok(Requeue::After(left));
        }
        if let Err(held) = admit(&self.cluster, &self.safety, policies, &node.claim, &object) {
            self.cancel_repair(&node).await?;
            publish_blocked(&self.recorder, &node, &object, &held.to_string());
            return Ok(Requeue::After(
                self.safety.limits().again(REPAIR, steady).map_or(BLOCKED, |left| left.min(BLOCKED)),
            ));
        }
        replace(&self.executors, &self.metrics, &node, &breach, now).await?;
        Ok(Requeue::No)
    }
}

impl Repair {
    /// Removes the deadline of a repair that did not delete the NodeClaim, so that pods are protected during a later
    /// deletion for another reason.
    async fn cancel_repair(&self, node: &ClaimedNode) -> Result<(), ReconcileError> {
        if has_repair_deadline(&node.raw) {
            let cancel = Next::steps([ClaimStep::CancelRepair]);
            self.executors.on(node).execute(cancel).await?;
        }
        Ok(())
    }
}

/// Admits the repair of a node by the health of its NodePool, or by that of the cluster if it has no NodePool.
fn admit(
    cluster: &Cluster,
    safety: &Safety,
    policies: &[RepairPolicy],
    claim: &NodeClaim,
    node: &Node,
) -> Result<(), Held> {
    let mut health =
        Health { pool: claim.pool.as_ref().map(|pool| pool.as_str().into()), ..Health::default() };
    let mut all = 0;
    for other in cluster.index().nodes() {
        all += 1;
        let label = other.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
        if claim.pool.is_some() && label.map(String::as_str) != claim.pool.as_deref() {
            continue;
        }
        health.nodes += 1;
        health.unhealthy += usize::from(earliest(policies, &conditions(other)).is_some());
    }
    let subject = node.metadata.name.as_deref().unwrap_or_default();
    safety.admit(REPAIR, &Facts { subject, all, health, ..Facts::default() })
}

/// Whether a repair has written its termination deadline on the NodeClaim.
fn has_repair_deadline(claim: &api::NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::REPAIR_DEADLINE))
}

/// The conditions of a Node with a transition time.
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

fn publish_blocked(recorder: &Recorder, node: &ClaimedNode, object: &Node, why: &str) {
    for object in [regarding(object), regarding(&*node.raw)] {
        let event = Event::warning(object, "NodeRepairBlocked", why).with_dedupe_timeout(QUARTER_HOUR);
        recorder.publish(event);
    }
}

/// Deletes the NodeClaim with a deadline that has already passed, so that the drain is forced. One that has passed before stays.
async fn replace(
    executors: &Executors,
    metrics: &Metrics,
    node: &ClaimedNode,
    breach: &Breach,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    tracing::info!(
        NodeClaim.name = node.claim.name.as_str(),
        condition = &*breach.condition,
        status = &*breach.status,
        "deleting nodeclaim of an unhealthy node"
    );
    let has_passed = node.claim.termination_deadline.is_some_and(|deadline| deadline < now);
    let deadline = (!has_passed).then_some(ClaimStep::SetRepairDeadline(now));
    let next = Next::steps(deadline.into_iter().chain([ClaimStep::Delete(Cause::Unhealthy)]));
    let Breach { condition, status, due } = breach;
    let found =
        format!("node condition {condition} is {status}; the toleration of the repair policy ended at {due}");
    executors.on(node).because(found).execute(next).await?;
    let image = node.claim.image_id.as_deref().unwrap_or_default();
    let condition = snake_case(&breach.condition);
    let figures = [&*condition, node.pool_name(), node.label(labels::CAPACITY_TYPE), image];
    metrics.inc(&families::CLAIMS_UNHEALTHY, &figures);
    Ok(())
}

/// `KernelReady` is `kernel_ready`, `DRAReady` is `dra_ready`, as in Karpenter's metrics.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    let mut before = None;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before: char| {
                let within = before.is_ascii_lowercase() || before.is_ascii_digit();
                within || letters.peek().is_some_and(char::is_ascii_lowercase)
            });
        if begins {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
        before = Some(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    //! Labels of metrics.
    use rstest::rstest;

    #[rstest]
    #[case("Ready", "ready")]
    #[case("KernelReady", "kernel_ready")]
    #[case("DRAReady", "dra_ready")]
    #[case("AcceleratedHardware2Ready", "accelerated_hardware2_ready")]
    #[case("example.com/Bad", "example.com/_bad")]
    fn conditions_are_labels(#[case] condition: &str, #[case] label: &str) {
        assert_eq!(super::snake_case(condition), label);
    }
}
