//! Before a second NodeClaim is created for a pod, the first one is judged: it keeps the pod, or releases it with a reason.
//!
//! Order of writes:
//! 1. the observation of the node, on the NodePool, so that the next plan does not repeat the misfit;
//! 2. the reason, as a condition of the NodeClaim;
//! 3. the release: the annotation of the NodeClaim that lists its pods.
//!
//! A crash between two of them leaves a pod without a second NodeClaim, never a release without a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetwright_api::labels as names;
use fleetwright_core::{
    model::{ClaimName, NamespacedName, Pod, PodUid, Resources, Snapshot, StateNode, Str},
    nodeclaim::{
        answer::{self, Misfit, Verdict},
        observations,
    },
    scheduling::Plan,
};
use fleetwright_state::{observed, raise};

use super::families;
use crate::{
    events::{Event, regarding, regarding_pod},
    metrics::Metrics,
    patch::Patches,
    runtime::{Clocks, Cluster, Ctx, ReconcileError, Recorder, later},
    settings::Settings,
};

/// How long an equal event is suppressed.
const DEDUPE_TIMEOUT: Duration = Duration::from_secs(300);

/// The verdicts on the pods of a plan.
#[derive(Debug, Default)]
pub(crate) struct NominationVerdicts {
    /// Pods that get no other NodeClaim in this pass.
    excluded: BTreeSet<PodUid>,
    /// Pods whose nomination is kept, with the name of their node.
    nominated: Vec<(PodUid, Str)>,
    /// Pods that their node cannot run now, with the reason.
    blocked: Vec<(Arc<Pod>, String)>,
    /// The released pods, by NodeClaim and reason.
    released: BTreeMap<ClaimName, BTreeMap<Misfit, Vec<Arc<Pod>>>>,
}

impl NominationVerdicts {
    /// Keeps the nomination of a pod to its node.
    fn keep_nomination(&mut self, pod: &Pod, node: &StateNode) {
        self.excluded.insert(pod.uid.clone());
        self.nominated.push((pod.uid.clone(), node.name().into()));
    }
}

/// Judges, keeps and releases the nominations of pods.
#[derive(Clone)]
pub(crate) struct Nominations {
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    patches: Patches,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl Nominations {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            patches: Patches::new(ctx),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
        }
    }

    /// Judges the existing NodeClaims of the pods of new NodeClaims: releases the pods that cannot run there, and removes
    /// the others from `plan`. Returns whether there is a new observation, so that another pass should follow soon.
    ///
    /// # Errors
    /// If a reason cannot be written: then no NodeClaim may be created.
    pub(crate) async fn resolve(&self, snapshot: &Snapshot, plan: &mut Plan) -> Result<bool, ReconcileError> {
        let mut verdicts = self.judge(snapshot, plan);
        let mut observed = false;
        self.renew_nominations(std::mem::take(&mut verdicts.nominated));
        for (pod, why) in &verdicts.blocked {
            publish_not_bound(&self.recorder, pod, why);
        }
        for (claim, released) in std::mem::take(&mut verdicts.released) {
            let Some(node) = snapshot.node(&claim) else { continue };
            for (misfit, pods) in released {
                if self.record_observation(node, &misfit).await? {
                    observed = true;
                    verdicts.excluded.extend(pods.iter().map(|pod| pod.uid.clone()));
                }
                self.release(&claim, node, &misfit, &pods).await?;
            }
        }
        if !verdicts.excluded.is_empty() {
            for new_claim in &mut plan.new_claims {
                new_claim.pods.retain(|pod| pod.is_virtual || !verdicts.excluded.contains(&pod.uid));
            }
            plan.new_claims.retain(|new_claim| !new_claim.pods.is_empty());
        }
        Ok(observed)
    }

    /// Renews nominations, so that the nodes are not disrupted as empty. [`answer::PATIENCE`] bounds the renewals.
    fn renew_nominations(&self, nominated: Vec<(PodUid, Str)>) {
        let until = later(self.clocks.now(), self.settings.nomination_window());
        let mut index = self.cluster.index();
        for (pod, node) in nominated {
            index.keep_nominated(&pod, node, until);
        }
    }

    fn judge(&self, snapshot: &Snapshot, plan: &Plan) -> NominationVerdicts {
        let now = self.clocks.now();
        let mut verdicts = NominationVerdicts::default();
        let mut planned: Option<BTreeMap<&str, Resources>> = None;
        let index = self.cluster.index();
        for pod in plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods).filter(|pod| !pod.is_virtual)
        {
            for claim in index.claims_created_for(&pod.uid) {
                let found = snapshot.nodes.iter().find(|node| node.claim_name() == Some(&claim));
                let Some(node) = found else {
                    // It was created after the snapshot was taken.
                    verdicts.excluded.insert(pod.uid.clone());
                    continue;
                };
                let planned = planned.get_or_insert_with(|| planned_requests(plan));
                let others = planned.get(node.name()).cloned().unwrap_or_default();
                match answer::judge(node, pod, &others, &snapshot.volumes, now) {
                    Verdict::Keep => verdicts.keep_nomination(pod, node),
                    Verdict::Wait(misfit, left) => {
                        verdicts.keep_nomination(pod, node);
                        if let Some(why) = answer::why_it_waits(&claim, &misfit, left) {
                            verdicts.blocked.push((pod.clone(), why));
                        }
                    }
                    Verdict::Release(misfit) => {
                        let of_claim = verdicts.released.entry(claim).or_default();
                        of_claim.entry(misfit).or_default().push(pod.clone());
                    }
                }
            }
        }
        verdicts
    }
}

/// The requests that the plan places on each node.
fn planned_requests(plan: &Plan) -> BTreeMap<&str, Resources> {
    let sum = |pods: &[Arc<Pod>]| {
        let mut sum = Resources::new();
        pods.iter().for_each(|pod| sum.add_assign(pod.requests()));
        sum
    };
    plan.existing.iter().map(|placement| (placement.node.name(), sum(&placement.pods))).collect()
}

impl Nominations {
    /// Records what a misfit shows about nodes of the NodePool; returns whether that is new.
    async fn record_observation(&self, node: &StateNode, misfit: &Misfit) -> Result<bool, ReconcileError> {
        let now = self.clocks.now();
        let Some(name) = node.claim.as_ref().and_then(|claim| claim.pool.clone()) else { return Ok(false) };
        let found = {
            let index = self.cluster.index();
            index.pool(&name).cloned().zip(index.pool_model(&name).map(|model| model.observed.current(now)))
        };
        let Some((pool, mut known)) = found else { return Ok(false) };
        if !observations::record(&mut known, node, misfit, now) {
            return Ok(false);
        }
        self.patches
            .annotate(pool.clone(), names::OBSERVED, |newest| {
                // The annotation may have changed since.
                let mut known = observed::read(newest.unwrap_or_default()).current(now);
                match observations::record(&mut known, node, misfit, now) {
                    true => observed::write(&known),
                    false => newest.map(str::to_owned),
                }
            })
            .await?;
        let kind = if matches!(misfit, Misfit::Taint(_)) { "taint" } else { "capacity" };
        self.metrics.inc(&families::OBSERVATIONS, &[&name, kind]);
        let text = observation(node, misfit);
        tracing::warn!(
            NodePool.name = name.as_str(),
            text,
            "nodes of the nodepool differ from what was expected"
        );
        self.recorder.publish(Event::warning(regarding(&*pool), "NodeNotAsExpected", text));
        Ok(true)
    }
}

fn observation(node: &StateNode, misfit: &Misfit) -> String {
    let label = |key: &str| node.label(key).unwrap_or("an unknown type").to_owned();
    let claim = node.claim_name().map(ToString::to_string).unwrap_or_default();
    let hours = observations::OBSERVATION_LIFETIME.as_secs() / 3600;
    match misfit {
        Misfit::Taint(taint) => format!(
            "node of nodeclaim {claim} has taint {taint}, which the NodePool does not declare: nodes of this pool are \
             expected to have it for {hours}h; declare it in spec.template.spec.startupTaints if it is removed at startup"
        ),
        _ => format!(
            "node of nodeclaim {claim}, instance type {}, is smaller than expected ({misfit}): for {hours}h this pool \
             expects that capacity of the instance type",
            label(fleetwright_core::model::labels::INSTANCE_TYPE)
        ),
    }
}

impl Nominations {
    /// Releases pods from their NodeClaim, with a condition and an event.
    async fn release(
        &self,
        claim: &ClaimName,
        node: &StateNode,
        misfit: &Misfit,
        pods: &[Arc<Pod>],
    ) -> Result<(), ReconcileError> {
        let ids: Vec<&NamespacedName> = pods.iter().map(|pod| &pod.id).collect();
        let uids: BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let text = answer::explanation(&ids, misfit);
        let pool = node.pool().map(|pool| pool.to_string()).unwrap_or_default();
        // Capacity that other pods use is no defect of the node: one event, no condition.
        let lasting = !matches!(misfit, Misfit::CapacityTaken);
        if lasting {
            self.release_pods(claim, misfit.reason(), &text, &uids).await?;
        } else {
            self.publish_and_release(claim, misfit.reason(), &text, &uids).await?;
        }
        let count = u32::try_from(pods.len()).map_or(f64::MAX, f64::from);
        self.metrics.add(&families::PODS_RELEASED, &[misfit.reason(), &pool], count);
        Ok(())
    }

    /// Writes condition, event and annotation of a NodeClaim that releases pods.
    pub(crate) async fn release_pods(
        &self,
        claim: &str,
        reason: &str,
        text: &str,
        pods: &BTreeSet<PodUid>,
    ) -> Result<(), ReconcileError> {
        self.patches
            .claim_conditions(claim, |conditions| {
                conditions.set_false(names::condition::PODS_FIT, reason, text);
            })
            .await?;
        self.publish_and_release(claim, reason, text, pods).await
    }

    /// Writes event and annotation of a NodeClaim that releases pods.
    async fn publish_and_release(
        &self,
        claim: &str,
        reason: &str,
        text: &str,
        pods: &BTreeSet<PodUid>,
    ) -> Result<(), ReconcileError> {
        let Some(raw) = self.cluster.index().claim(claim).cloned() else { return Ok(()) };
        self.recorder.publish(Event::warning(regarding(&*raw), "PodsDoNotFit", text));
        tracing::info!(NodeClaim.name = claim, reason, text, "released pods of the nodeclaim");
        self.patches
            .annotate(raw, names::NOMINATED_PODS, |record| {
                record.map(|record| raise::without_pods(record, pods))
            })
            .await
    }
}

/// Publishes why a pod is not bound to the node that it is nominated to.
fn publish_not_bound(recorder: &Recorder, pod: &Pod, why: &str) {
    let event =
        Event::warning(regarding_pod(pod), "FailedScheduling", format!("Failed to schedule pod, {why}"))
            .with_dedupe_values([pod.uid.as_str(), "waits"])
            .with_dedupe_timeout(DEDUPE_TIMEOUT);
    recorder.publish(event);
}

#[cfg(test)]
mod tests {
    //! Concurrent observations.
    use fleetwright_api as api;
    use fleetwright_core::{
        model::{Observed, ObservedTaint, Taint, TaintEffect},
        testing::node,
    };
    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    #[tokio::test(start_paused = true)]
    async fn an_observation_does_not_overwrite_concurrent_ones() {
        let harness = Harness::new();
        harness.pool("default", json!({}));
        let read = || async { harness.ctx.client.cluster::<api::NodePool>().get("default").await.unwrap() };
        harness.ctx.cluster.observe(read().await);
        let taint = |key: &str| Taint::new(key, "", TaintEffect::NoSchedule);
        let (since, until) =
            (harness.ctx.clocks.now(), later(harness.ctx.clocks.now(), observations::OBSERVATION_LIFETIME));
        let mut others = Observed::default();
        others.add_taint(ObservedTaint { taint: taint("other"), claim: "b".into(), since, until });
        let annotations = json!({ names::OBSERVED: observed::write(&others) });
        let metadata = json!({"name": "default", "annotations": annotations});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata});
        harness.server.apply(pool).unwrap();
        let node = node("a").with_claim(|claim| claim.pool = Some("default".into())).build();
        let misfit = Misfit::Taint(taint("own"));
        assert!(Nominations::new(&harness.ctx).record_observation(&node, &misfit).await.unwrap());
        let written = read().await.metadata.annotations.unwrap_or_default().remove(names::OBSERVED);
        let taints = observed::read(&written.unwrap_or_default()).taints;
        let keys: Vec<&str> = taints.iter().map(|known| &*known.taint.key).collect();
        assert_eq!(keys, ["other", "own"]);
    }
}
