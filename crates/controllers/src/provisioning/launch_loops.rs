//! Holds the NodeClaims of a plan for demands whose pods did not run on the nodes that were launched for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetwright_api::labels::LAUNCH_LOOPS;
use fleetwright_core::{
    model::{Pod, PodUid, Str},
    safety::{
        Act, Facts, Held,
        launch_loop::{Demand, LoopPause, LoopRecord},
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

    /// Removes the pods of held demands from the new NodeClaims of `plan`, with an event on each, and records the demands for the next
    /// process. Returns how soon another pass should follow, if any demand is held.
    pub(super) async fn hold(&self, plan: &mut Plan) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let mut held: BTreeSet<PodUid> = BTreeSet::new();
        let mut records: BTreeMap<Str, Vec<LoopRecord>> = BTreeMap::new();
        for HeldDemand { demand, pause, pool, record } in self.paused(plan) {
            let facts = Facts { launch_loop: Some(pause), ..Facts::default() };
            let Err(why) = self.safety.admit(Act::CreateClaim, &facts) else { continue };
            let left = why.left().unwrap_or(RECHECK_AFTER).min(RECHECK_AFTER);
            again = Some(again.map_or(left, |again| again.min(left)));
            let pods = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
            for pod in pods.filter(|pod| !pod.is_virtual && demand.includes(pod)) {
                report(&self.recorder, pod, &why);
                held.insert(pod.uid.clone());
            }
            records.entry(pool).or_default().extend(record);
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

    /// The held demands among the new NodeClaims of the plan.
    fn paused(&self, plan: &Plan) -> Vec<HeldDemand> {
        let now = self.clocks.now();
        let mut index = self.cluster.index();
        let mut checked: Vec<(Demand, Option<HeldDemand>)> = Vec::new();
        for new_claim in &plan.new_claims {
            let pods = new_claim.pods.iter().filter(|pod| !pod.is_virtual);
            for pod in pods.filter(|pod| index.has_launches(pod)).collect::<Vec<&Arc<Pod>>>() {
                if checked.iter().any(|(demand, _)| demand.includes(pod)) {
                    continue;
                }
                let demand = Demand::of(pod);
                let held = index.launch_pause(pod, now).map(|pause| HeldDemand {
                    demand: demand.clone(),
                    pause,
                    pool: new_claim.pool.name.as_str().into(),
                    record: index.launch_record(pod, now),
                });
                checked.push((demand, held));
            }
        }
        checked.into_iter().filter_map(|(_, held)| held).collect()
    }

    /// Writes held demands to a NodePool, in place of those whose pods ran: after a restart their pauses go on. An error is not one of the
    /// pass, and the next pass writes them again.
    async fn record(&self, pool: &str, held: &[LoopRecord]) {
        let (now, known) = (self.clocks.now(), self.cluster.index().pool(pool).cloned());
        let Some(known) = known else { return };
        let change = |newest: Option<&str>| {
            let mut records = launch_loops::read(newest.unwrap_or_default());
            let index = self.cluster.index();
            records.retain(|old| {
                index.holds_launch_record(old, now) && !held.iter().any(|new| new.replaces(old))
            });
            records.extend(held.iter().cloned());
            launch_loops::write(records)
        };
        if let Err(error) = self.patches.annotate(known, LAUNCH_LOOPS, change).await {
            tracing::warn!(NodePool.name = pool, %error, "launch loop: a restart forgets it, because it is not recorded");
        }
    }
}

/// A demand that gets no NodeClaim now.
struct HeldDemand {
    demand: Demand,
    pause: LoopPause,
    /// The NodePool of the NodeClaim that it would get.
    pool: Str,
    record: Option<LoopRecord>,
}

fn report(recorder: &Recorder, pod: &Pod, why: &Held) {
    tracing::warn!(pod = %pod.id, %why, "launch loop: no nodeclaim is created for the pod");
    pod_events::held(recorder, pod, &why.to_string());
}
