//! Before a second NodeClaim is written for a pod, the first one is judged: it keeps the pod, or it says why not. What that
//! teaches about the nodes of a pool is written down first, so that the next plan does not repeat it.
//!
//! Order of writes: the observation (on the NodePool), the reason (a condition of the NodeClaim), the release (its record of
//! pods). A process that ends in between leaves a pod without a second answer, never one without a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api::labels as names;
use fleetwright_core::{
    model::{ClaimName, NamespacedName, Pod, PodUid, Resources, Snapshot, StateNode, Str},
    nodeclaim::answer::{self, Misfit, Verdict},
    scheduling::Plan,
};
use fleetwright_state::{observed, raise};

use super::tell;
use crate::{
    events::{Event, regarding},
    nodeclaim::families,
    patch,
    runtime::{Ctx, ReconcileError, later},
};

/// What judging came to.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Pods for which nothing is opened in this pass.
    kept: BTreeSet<PodUid>,
    /// Pods that their node is kept for, with its name.
    held: Vec<(PodUid, Str)>,
    /// Pods that wait for something about their node to pass, with what it is.
    waiting: Vec<(Arc<Pod>, String)>,
    /// By claim: the pods that it lets go, by reason.
    released: BTreeMap<ClaimName, BTreeMap<Misfit, Vec<Arc<Pod>>>>,
}

impl Judged {
    /// Keeps a pod with its node.
    fn hold(&mut self, pod: &Pod, node: &StateNode) {
        self.kept.insert(pod.uid.clone());
        self.held.push((pod.uid.clone(), node.name().into()));
    }
}

/// Judges the earlier answers to the pods that `plan` opens nodes for, lets go of what does not hold, and takes out of
/// the new NodeClaims who stays. True where something was observed that the plan did not know: another should follow soon.
///
/// # Errors
/// Where a reason cannot be written: then nothing may be opened.
pub(super) async fn settle(ctx: &Ctx, snapshot: &Snapshot, plan: &mut Plan) -> Result<bool, ReconcileError> {
    let mut judged = judge(ctx, snapshot, plan);
    let mut observed = false;
    hold(ctx, std::mem::take(&mut judged.held));
    for (pod, why) in &judged.waiting {
        tell::waits(ctx, pod, why);
    }
    for (claim, released) in std::mem::take(&mut judged.released) {
        let Some(node) = snapshot.node(&claim) else { continue };
        for (misfit, pods) in released {
            if learn(ctx, node, &misfit).await? {
                observed = true;
                judged.kept.extend(pods.iter().map(|pod| pod.uid.clone()));
            }
            release(ctx, &claim, node, &misfit, &pods).await?;
        }
    }
    if !judged.kept.is_empty() {
        for new_claim in &mut plan.new_claims {
            new_claim.pods.retain(|pod| pod.is_virtual || !judged.kept.contains(&pod.uid));
        }
        plan.new_claims.retain(|new_claim| !new_claim.pods.is_empty());
    }
    Ok(observed)
}

/// A node whose pods wait for it is not empty, whatever it looks like. [`answer::PATIENCE`] bounds that.
fn hold(ctx: &Ctx, held: Vec<(PodUid, Str)>) {
    let until = later(ctx.now(), ctx.settings.nomination_window());
    let mut index = ctx.index();
    for (pod, node) in held {
        index.keep_nominated(&pod, node, until);
    }
}

fn judge(ctx: &Ctx, snapshot: &Snapshot, plan: &Plan) -> Judged {
    let now = ctx.now();
    let mut judged = Judged::default();
    let mut planned: Option<BTreeMap<usize, Resources>> = None;
    let index = ctx.index();
    for pod in plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods).filter(|pod| !pod.is_virtual) {
        for claim in index.claims_created_for(&pod.uid) {
            let found = snapshot.nodes.iter().position(|node| node.claim_name() == Some(&claim));
            let Some((at, node)) = found.and_then(|at| Some((at, snapshot.nodes.get(at)?))) else {
                // Written after the snapshot was taken: it is as good an answer as any.
                judged.kept.insert(pod.uid.clone());
                continue;
            };
            let planned = planned.get_or_insert_with(|| beside(plan));
            let beside = planned.get(&at).cloned().unwrap_or_default();
            match answer::judge(node, pod, &beside, &snapshot.volumes, now) {
                // Pods that wait are brought up again by themselves.
                Verdict::Keep => judged.hold(pod, node),
                Verdict::Wait(misfit, left) => {
                    judged.hold(pod, node);
                    if let Some(why) = answer::why_it_waits(&claim, &misfit, left) {
                        judged.waiting.push((pod.clone(), why));
                    }
                }
                Verdict::Release(misfit) => {
                    let of_claim = judged.released.entry(claim).or_default();
                    of_claim.entry(misfit).or_default().push(pod.clone());
                }
            }
        }
    }
    judged
}

/// What the plan puts on each node.
fn beside(plan: &Plan) -> BTreeMap<usize, Resources> {
    let sum = |pods: &[Arc<Pod>]| {
        let mut sum = Resources::new();
        pods.iter().for_each(|pod| sum.add_assign(pod.requests()));
        sum
    };
    plan.existing.iter().map(|placement| (placement.node, sum(&placement.pods))).collect()
}

/// Writes down what a misfit teaches; true where it was not known.
async fn learn(ctx: &Ctx, node: &StateNode, misfit: &Misfit) -> Result<bool, ReconcileError> {
    let now = ctx.now();
    let Some(name) = node.claim.as_ref().and_then(|claim| claim.pool.clone()) else { return Ok(false) };
    let found = {
        let index = ctx.index();
        index.pool(&name).cloned().zip(index.pool_model(&name).map(|model| model.observed.current(now)))
    };
    let Some((pool, mut known)) = found else { return Ok(false) };
    if !answer::learn(&mut known, node, misfit, now) {
        return Ok(false);
    }
    patch::annotate(ctx, pool.clone(), names::OBSERVED, |newest| {
        // Others may have taught it something meanwhile, or the same.
        let mut known = observed::read(newest.unwrap_or_default()).current(now);
        match answer::learn(&mut known, node, misfit, now) {
            true => observed::write(&known),
            false => newest.map(str::to_owned),
        }
    })
    .await?;
    let kind = if matches!(misfit, Misfit::Taint(_)) { "taint" } else { "shape" };
    ctx.metrics.inc(&families::OBSERVATIONS, &[&name, kind]);
    let text = observation(node, misfit);
    tracing::warn!(NodePool = name.as_str(), text, "nodes of the nodepool are not what was promised");
    ctx.recorder.publish(Event::warning(regarding(&*pool), "NodeNotAsExpected", text));
    Ok(true)
}

fn observation(node: &StateNode, misfit: &Misfit) -> String {
    let label = |key: &str| node.label(key).unwrap_or("an unknown type").to_owned();
    let claim = node.claim_name().map(ToString::to_string).unwrap_or_default();
    let hours = answer::OBSERVATION_LIFETIME.as_secs() / 3600;
    match misfit {
        Misfit::Taint(taint) => format!(
            "nodeclaim {claim} came up with taint {taint}, which nobody announced: for {hours}h nodes of this pool are \
             expected to have it; declare it in spec.template.spec.startupTaints if it goes away by itself"
        ),
        _ => format!(
            "nodeclaim {claim} of type {} is smaller than promised ({misfit}): for {hours}h that type counts as that small \
             in this pool",
            label(fleetwright_core::model::labels::INSTANCE_TYPE)
        ),
    }
}

/// Lets pods go from their claim, with the reason where people look.
async fn release(
    ctx: &Ctx,
    claim: &ClaimName,
    node: &StateNode,
    misfit: &Misfit,
    pods: &[Arc<Pod>],
) -> Result<(), ReconcileError> {
    let ids: Vec<&NamespacedName> = pods.iter().map(|pod| &pod.id).collect();
    let uids: BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
    let text = answer::explanation(&ids, misfit);
    let pool = node.pool().map(|pool| pool.to_string()).unwrap_or_default();
    // That others took the room is no fault of the node: it is told once, and does not stay on it.
    let lasting = !matches!(misfit, Misfit::CapacityTaken);
    if lasting {
        let_go(ctx, claim, misfit.reason(), &text, &uids).await?;
    } else {
        tell_and_forget(ctx, claim, misfit.reason(), &text, &uids).await?;
    }
    let count = u32::try_from(pods.len()).map_or(f64::MAX, f64::from);
    ctx.metrics.add(&families::PODS_RELEASED, &[misfit.reason(), &pool], count);
    Ok(())
}

/// Condition, event and record of a claim that lets pods go.
pub(crate) async fn let_go(
    ctx: &Ctx,
    claim: &str,
    reason: &str,
    text: &str,
    pods: &BTreeSet<PodUid>,
) -> Result<(), ReconcileError> {
    patch::claim_conditions(ctx, claim, |conditions| {
        conditions.set_false(names::condition::PODS_FIT, reason, text);
    })
    .await?;
    tell_and_forget(ctx, claim, reason, text, pods).await
}

/// Event and record of a claim that lets pods go.
async fn tell_and_forget(
    ctx: &Ctx,
    claim: &str,
    reason: &str,
    text: &str,
    pods: &BTreeSet<PodUid>,
) -> Result<(), ReconcileError> {
    let Some(raw) = ctx.index().claim(claim).cloned() else { return Ok(()) };
    ctx.recorder.publish(Event::warning(regarding(&*raw), "PodsDoNotFit", text));
    tracing::info!(NodeClaim = claim, reason, text, "pods of the nodeclaim are free");
    patch::annotate(ctx, raw, names::NOMINATED_PODS, |record| {
        record.map(|record| raise::without_pods(record, pods))
    })
    .await
}

#[cfg(test)]
mod tests {
    //! An observation beside others.
    use fleetwright_api as api;
    use fleetwright_core::{
        model::{Observed, ObservedTaint, Taint, TaintEffect},
        testing::node,
    };
    use serde_json::json;

    use super::*;
    use crate::testing::World;

    #[tokio::test(start_paused = true)]
    async fn an_observation_is_put_beside_those_that_came_meanwhile() {
        let world = World::new();
        world.pool("default", json!({}));
        let read = || async { world.ctx.cluster_api::<api::NodePool>().get("default").await.unwrap() };
        world.ctx.observe(read().await);
        let taint = |key: &str| Taint::new(key, "", TaintEffect::NoSchedule);
        let (since, until) = (world.ctx.now(), later(world.ctx.now(), answer::OBSERVATION_LIFETIME));
        let mut others = Observed::default();
        others.add_taint(ObservedTaint { taint: taint("other"), claim: "b".into(), since, until });
        let annotations = json!({ names::OBSERVED: observed::write(&others) });
        let metadata = json!({"name": "default", "annotations": annotations});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata});
        world.server.apply(pool).unwrap();
        let node = node("a").with_claim(|claim| claim.pool = Some("default".into())).build();
        let misfit = Misfit::Taint(taint("own"));
        assert!(learn(&world.ctx, &node, &misfit).await.unwrap());
        let written = read().await.metadata.annotations.unwrap_or_default().remove(names::OBSERVED);
        let taints = observed::read(&written.unwrap_or_default()).taints;
        let keys: Vec<&str> = taints.iter().map(|known| &*known.taint.key).collect();
        assert_eq!(keys, ["other", "own"]);
    }
}
