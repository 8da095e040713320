//! Holds the NodeClaims of a plan for demands whose pods did not run on the nodes that were launched for them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetwright_core::{
    model::{Pod, PodUid},
    safety::{
        Act, Facts, Held,
        launch_loop::{Demand, LoopPause},
    },
    scheduling::Plan,
};

use super::pod_events;
use crate::{
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
}

impl LaunchLoops {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            safety: Safety::new(ctx),
            recorder: ctx.recorder.clone(),
        }
    }

    /// Removes the pods of held demands from the new NodeClaims of `plan`, with an event on each. Returns how soon another pass
    /// should follow, if any demand is held.
    pub(super) fn hold(&self, plan: &mut Plan) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let mut held: BTreeSet<PodUid> = BTreeSet::new();
        for (demand, pause) in self.paused(plan) {
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
        again
    }

    /// The held demands among the new NodeClaims of the plan.
    fn paused(&self, plan: &Plan) -> Vec<(Demand, LoopPause)> {
        let now = self.clocks.now();
        let mut index = self.cluster.index();
        let mut checked: Vec<(Demand, Option<LoopPause>)> = Vec::new();
        let pods = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods).filter(|pod| !pod.is_virtual);
        for pod in pods.filter(|pod| index.has_launches(pod)).collect::<Vec<&Arc<Pod>>>() {
            if !checked.iter().any(|(demand, _)| demand.includes(pod)) {
                checked.push((Demand::of(pod), index.launch_pause(pod, now)));
            }
        }
        checked.into_iter().filter_map(|(demand, pause)| Some((demand, pause?))).collect()
    }
}

fn report(recorder: &Recorder, pod: &Pod, why: &Held) {
    tracing::warn!(pod = %pod.id, %why, "launch loop: no nodeclaim is created for the pod");
    pod_events::held(recorder, pod, &why.to_string());
}
