//! The state of the controller that a dump shows only indirectly: commands in progress, nominations of pending
//! pods, and virtual pods of CapacityBuffers. Nodes that are being disrupted, or are nominated, are not disrupted.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_controllers::{
    disruption::resumable_commands, provisioning::eligible, runtime::later, settings::Settings,
};
use fleetwright_core::{
    model::{ClaimName, Pod, Str},
    scheduling::{Compatible, Effort, Packer as _, PreparedSnapshot, Purpose, Request},
};
use fleetwright_state::{Index, intents::RENEWALS};
use jiff::Timestamp;

/// Records all of it in the index at `now`.
pub(super) fn note(index: &mut Index, settings: &Settings, now: Timestamp) {
    for (id, command) in resumable_commands(&index.snapshot(now), now) {
        index.begin_command(id, command);
    }
    expect(index, settings, now);
}

/// Places pending pods as a provisioning pass would, and nominates those that fit on existing nodes.
fn expect(index: &mut Index, settings: &Settings, now: Timestamp) {
    let snapshot = index.snapshot(now);
    let pods = eligible::pods(&snapshot, now);
    if pods.is_empty() {
        return;
    }
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    let plan = Compatible.pack(&mut PreparedSnapshot::new(&snapshot, &settings.rules()), &request);
    let until = later(now, settings.nomination_window());
    let mut chunks: BTreeMap<Str, u32> = BTreeMap::new();
    for placement in &plan.existing {
        let node = &placement.node;
        let name = node.claim_name().map_or_else(|| node.name(), ClaimName::as_str);
        for pod in &placement.pods {
            if pod.is_virtual {
                let count = chunks.entry(name.into()).or_default();
                *count = count.saturating_add(1);
            } else if is_still_nominated(pod, settings, now) {
                index.nominate(pod.uid.clone(), name, until);
            }
        }
    }
    index.set_buffer_outcomes(&BTreeMap::new(), chunks);
}

/// Whether a pod is still nominated to a node. A pod that is pending for longer than nominations are renewed was refused there
/// by kube-scheduler; one of a manifest was not created yet.
fn is_still_nominated(pod: &Arc<Pod>, settings: &Settings, now: Timestamp) -> bool {
    let leases = settings.nomination_window().saturating_mul(RENEWALS.saturating_add(1));
    pod.node.is_some() || pod.created == Timestamp::UNIX_EPOCH || later(pod.created, leases) > now
}
