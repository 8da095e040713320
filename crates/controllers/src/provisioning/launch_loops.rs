//! Holds the NodeClaims of a plan for demands whose pods did not run on the nodes that were launched for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fleetwright_api::labels::LAUNCH_LOOPS;
use fleetwright_core::{
    model::{Pod, PodUid, Str},
    safety::{
        Act, Facts, Held,
        launch_loop::{ByDemand, Demand, LoopPause, LoopRecord},
    },
    scheduling::Plan,
};
use fleetwright_state::launch_loops;

use super::pod_events;
use crate::{
    patch::Patches,
    runtime::{Clocks, Cluster, Ctx, Recorder},
    safety::Safety,
};

/// How soon a held demand is checked again: one of its pods may run by then.
const RECHECK_AFTER: Duration = Duration::from_secs(10);

/// The launch-loop breaker ([`fleetwright_core::safety::launch_loop`]).
#[derive(Clone)]
pub(super) struct LaunchLoops {
    cluster: Cluster,
    clocks: Clocks,
    safety: Safety,
    recorder: Recorder,
    patches: Patches,
}

impl LaunchLoops {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            safety: Safety::new(ctx),
            recorder: ctx.recorder.clone(),
            patches: Patches::new(ctx),
        }
    }

    /// Removes the pods of held demands from the new NodeClaims of `plan`, with an event on each. Returns how soon another pass should follow, if
    /// any demand is held.
    ///
    /// The next process continues from what is written: 1 demands that missed a node are recorded on the NodePool, 2 a NodeClaim names its demands
    /// from its creation on. Between the two, a node that is missed is counted by the process that follows as soon as it sees its NodeClaim.
    pub(super) async fn hold(&self, plan: &mut Plan) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let mut held: BTreeSet<PodUid> = BTreeSet::new();
        // Also for the NodePools whose records may be over.
        let mut records: BTreeMap<Str, Vec<LoopRecord>> = self.recorded(plan);
        for MissedDemand { demand, pause, pool, record } in self.missed(plan) {
            records.entry(pool).or_default().push(record);
            let Some(pause) = pause else { continue };
            let facts = Facts { launch_loop: Some(pause), ..Facts::default() };
            let Err(why) = self.safety.admit(Act::CreateClaim, &facts) else { continue };
            let left = why.left().unwrap_or(RECHECK_AFTER).min(RECHECK_AFTER);
            again = Some(again.map_or(left, |again| again.min(left)));
            let pods = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
            for pod in pods.filter(|pod| !pod.is_virtual && demand.includes(pod)) {
                report(&self.recorder, pod, &why);
                held.insert(pod.uid.clone());
            }
        }
        if !held.is_empty() {
            for new_claim in &mut plan.new_claims {
                new_claim.pods.retain(|pod| pod.is_virtual || !held.contains(&pod.uid));
            }
            plan.new_claims.retain(|new_claim| !new_claim.pods.is_empty());
        }
        for (pool, records) in &records {
            self.record(pool, records).await;
        }
        again
    }

    /// The NodePools of the plan that have records.
    fn recorded(&self, plan: &Plan) -> BTreeMap<Str, Vec<LoopRecord>> {
        let index = self.cluster.index();
        let pools: BTreeSet<&str> =
            plan.new_claims.iter().map(|new_claim| new_claim.pool.name.as_str()).collect();
        let has_records = |pool: &&str| {
            let annotations = index.pool(pool).and_then(|pool| pool.metadata.annotations.as_ref());
            annotations.is_some_and(|annotations| annotations.contains_key(LAUNCH_LOOPS))
        };
        pools.into_iter().filter(has_records).map(|pool| (pool.into(), Vec::new())).collect()
    }

    /// The demands among the new NodeClaims of the plan that missed nodes.
    fn missed(&self, plan: &Plan) -> Vec<MissedDemand> {
        let now = self.clocks.now();
        let mut index = self.cluster.index();
        let mut checked = ByDemand::default();
        for new_claim in &plan.new_claims {
            for pod in new_claim.pods.iter().filter(|pod| !pod.is_virtual) {
                checked.get_or_insert_with(pod, || {
                    let pause = index.launch_pause(pod, now);
                    let record = index.launch_record(pod, now)?;
                    let pool: Str = new_claim.pool.name.as_str().into();
                    Some((pause, pool, record))
                });
            }
        }
        let missed = |(demand, missed): (Demand, Option<_>)| {
            missed.map(|(pause, pool, record)| MissedDemand { demand, pause, pool, record })
        };
        checked.into_iter().filter_map(missed).collect()
    }

    /// Writes demands that missed nodes to a NodePool, in place of those that later launches made up for. An error is not one of the pass, and the
    /// next pass writes them again.
    async fn record(&self, pool: &str, missed: &[LoopRecord]) {
        let (now, known) = (self.clocks.now(), self.cluster.index().pool(pool).cloned());
        let Some(known) = known else { return };
        let change = |newest: Option<&str>| {
            let mut records = launch_loops::read(newest.unwrap_or_default());
            let index = self.cluster.index();
            records.retain(|old| {
                index.holds_launch_record(old, now) && !missed.iter().any(|new| new.replaces(old))
            });
            records.extend(missed.iter().cloned());
            launch_loops::write(records)
        };
        if let Err(error) = self.patches.annotate(known, LAUNCH_LOOPS, change).await {
            tracing::warn!(NodePool.name = pool, %error, "launch loop: a restart forgets it, because it is not recorded");
        }
    }
}

/// A demand that missed nodes.
struct MissedDemand {
    demand: Demand,
    /// Set if it gets no NodeClaim now.
    pause: Option<LoopPause>,
    /// The NodePool of the NodeClaim that it would get.
    pool: Str,
    record: LoopRecord,
}

fn report(recorder: &Recorder, pod: &Pod, why: &Held) {
    tracing::warn!(pod = %pod.id, %why, "launch loop: no nodeclaim is created for the pod");
    pod_events::held(recorder, pod, &why.to_string());
}
