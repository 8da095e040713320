//! The passes after the first: each decides on the cluster as the commands before it leave it.
//!
//! Commands are taken to be done when the next pass begins, [`STEP`] later: their nodes are gone, replacements are ready, and the pods are
//! where a plan of the provisioner places them, on new nodes too if they find no room. No load comes or goes, and nothing fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::{
    disruption::{self, Blocker, Command, Method, Rules, Survey, lineage},
    model::{
        Condition, ConditionStatus, NodeClaim, Pod, PodUid, Snapshot, StateNode, labels::LINEAGE,
        nodeclaim::ConditionType,
    },
    scheduling::{Compatible, Effort, Packer as _, PreparedSnapshot, Purpose, Request},
};
use jiff::{SignedDuration, Timestamp};

use crate::planned;

/// From one pass to the next: the validation delay, the boot of a replacement, and a drain.
pub(crate) const STEP: SignedDuration = SignedDuration::from_mins(2);

/// What the passes after the first find.
pub(crate) struct Forecast {
    /// Their commands, each with the start of its pass, in order.
    pub(crate) commands: Vec<(Timestamp, Command)>,
    /// The last pass.
    pub(crate) last: Survey,
}

/// The passes after `first`, which decided on `snapshot`, up to `until`.
pub(crate) fn later_passes(
    first: Survey,
    snapshot: &Snapshot,
    (rules, methods): (&Rules, &[&'static dyn Method]),
    until: Timestamp,
) -> Forecast {
    let mut snapshot = snapshot.clone();
    let mut found = Forecast { commands: Vec::new(), last: first };
    while let Some(at) = next_pass(&found.last, snapshot.taken_at).filter(|at| *at <= until) {
        let commands = std::mem::take(&mut found.last.commands);
        snapshot.taken_at = at;
        if !commands.is_empty() {
            snapshot = after(&snapshot, &commands, rules);
        }
        end_of_consolidate_after(&mut snapshot);
        found.last = disruption::survey(&snapshot, rules, at, methods);
        found.commands.extend(found.last.commands.iter().map(|command| (at, command.clone())));
    }
    found
}

/// When the next pass decides otherwise: once the commands are done or, if there are none, when the first blocker or budget ends.
fn next_pass(last: &Survey, at: Timestamp) -> Option<Timestamp> {
    let soon = at.checked_add(STEP).ok()?;
    if !last.commands.is_empty() || !last.unreached.is_empty() {
        return Some(soon);
    }
    let blockers = last.nodes.iter().flat_map(|status| &status.blockers).filter_map(Blocker::until);
    let ends = blockers.chain(last.budgets.iter().filter_map(|budget| budget.until));
    ends.filter(|end| *end > at).min().map(|end| end.max(soon))
}

/// The cluster once `commands` are done.
fn after(snapshot: &Snapshot, commands: &[Command], rules: &Rules) -> Snapshot {
    let removed: BTreeSet<&str> =
        commands.iter().flat_map(|command| &command.candidates).map(|candidate| candidate.name()).collect();
    let mut left = snapshot.clone();
    let mut waiting: BTreeMap<PodUid, Arc<Pod>> = left.pending.iter().map(by_uid).collect();
    left.nodes.retain(|node| {
        let stays = !removed.contains(node.name());
        if !stays {
            waiting.extend(node.pods.iter().filter(|pod| pod.is_reschedulable()).map(by_uid));
        }
        stays
    });
    for (nth, command) in commands.iter().enumerate() {
        for node in replacements(snapshot, command, nth) {
            node.pods.iter().for_each(|pod| _ = waiting.remove(&pod.uid));
            left.nodes.push(Arc::new(node));
        }
    }
    let pods: Vec<Arc<Pod>> = waiting.into_values().collect();
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    let plan = Compatible.pack(&mut PreparedSnapshot::new(&left, &rules.scheduling), &request);
    left.pending = plan.unplaced.iter().map(|(pod, _)| pod.clone()).collect();
    let word = format!("new-{}", snapshot.taken_at.as_second());
    let mut after = planned::with(&left, &plan, &word);
    after.nodes.sort_by(|a, b| a.name().cmp(b.name()));
    after
}

fn by_uid(pod: &Arc<Pod>) -> (PodUid, Arc<Pod>) {
    (pod.uid.clone(), pod.clone())
}

/// The replacements of a command, ready and with their pods.
fn replacements(snapshot: &Snapshot, command: &Command, nth: usize) -> impl Iterator<Item = StateNode> {
    let now = snapshot.taken_at;
    let old = command.candidates.iter().map(|candidate| &*candidate.node);
    let lineage = lineage::of_replacement("forecast", old, now);
    command.replacements.iter().enumerate().map(move |(at, new_claim)| {
        let name = format!("{}-replacement-{}-{nth}-{at}", new_claim.pool.name, now.as_second());
        let mut node = planned::node(snapshot, new_claim, &name);
        if let Some(claim) = &mut node.claim {
            Arc::make_mut(claim).annotations.insert(LINEAGE.into(), lineage.as_str().into());
        }
        node
    })
}

/// Sets the condition that the controllers would have set by now. That consolidateAfter is over is what decides.
fn end_of_consolidate_after(snapshot: &mut Snapshot) {
    let since = snapshot.taken_at;
    let reason = ConditionType::Consolidatable.as_str();
    let is_true =
        Condition { status: ConditionStatus::True, reason: reason.into(), message: "".into(), since };
    for node in &mut snapshot.nodes {
        let waits = |claim: &&Arc<NodeClaim>| !claim.is(ConditionType::Consolidatable);
        let Some(claim) = node.claim.as_ref().filter(waits).filter(|_| node.is_initialized()) else {
            continue;
        };
        let mut claim = claim.clone();
        Arc::make_mut(&mut claim).conditions.insert(ConditionType::Consolidatable, is_true.clone());
        Arc::make_mut(node).claim = Some(claim);
    }
}
