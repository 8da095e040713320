//! Funnels of unschedulable pods: one for each reason, because pods of one template have the same.

use fleetwright_core::{model::Snapshot, scheduling::Rules};

use super::document::PodFunnels;
use crate::{explain::funnel, fleet::FleetReport};

/// Reasons that have funnels at most, those of most pods first: each asks the solver some ten times for each NodePool.
const MAX_REASONS: usize = 8;
/// NodePools of a funnel at most, in the order of the snapshot.
const MAX_NODE_POOLS: usize = 8;

/// The funnels of the unschedulable pods of a fleet.
pub(crate) fn of(report: &FleetReport, snapshot: &Snapshot, rules: &Rules) -> Vec<PodFunnels> {
    let mut found: Vec<PodFunnels> = Vec::new();
    for row in report.pending.iter().filter(|row| row.unschedulable) {
        match found.iter_mut().find(|known| known.message == row.message) {
            Some(known) => known.pods += 1,
            None => found.push(PodFunnels {
                message: row.message.clone(),
                pod: row.pod.clone(),
                pods: 1,
                funnels: Vec::new(),
            }),
        }
    }
    found.sort_by_key(|reason| std::cmp::Reverse(reason.pods));
    found.truncate(MAX_REASONS);
    for reason in &mut found {
        let all = snapshot.pending.iter().chain(&snapshot.unscheduled);
        let Some(pod) = all.into_iter().find(|pod| pod.id.to_string() == reason.pod) else { continue };
        let pools = snapshot.pools.iter().filter(|pool| !pool.is_static() && !pool.deleting);
        let funnels = pools.take(MAX_NODE_POOLS).map(|pool| funnel::of(snapshot, rules, pod, &pool.name));
        reason.funnels = funnels.collect();
    }
    found
}
