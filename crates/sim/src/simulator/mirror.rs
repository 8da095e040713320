//! Copies the instances of a cloud into memory, where their kubelets run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetwright_core::{
    clock::SharedClock,
    cloud::GroundTruth,
    model::{
        ProviderId,
        labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, OS, ZONE},
    },
};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, Vocabulary,
    api::{Bootstrap, WireTaint},
    cloud::Adopted,
    quantities::to_quantities,
};
use fleetwright_fake_kube::Server;
use serde_json::Value;

use super::cloud::SimulatedCloud;

/// How often the cloud is asked for new and terminated instances.
const LOOK: Duration = Duration::from_secs(1);

/// A cloud in memory that has nothing but copies.
pub(super) fn empty(clock: SharedClock) -> Cloud {
    Cloud::new(Catalogue::new(Vocabulary::Cloud, Vec::new()), CloudConfig::default(), clock)
}

/// Copies instances of this cluster when they run, and ends their copies with them, for ever.
pub(super) async fn run(of: Arc<dyn SimulatedCloud>, into: Arc<Cloud>, server: Server, clock: SharedClock) {
    let mut copied: BTreeSet<ProviderId> = BTreeSet::new();
    loop {
        let uid = cluster_uid(&server);
        let truths = of.ground_truth();
        let is_ours = |truth: &GroundTruth| truth.cluster_uid.as_deref().is_none_or(|owner| owner == uid);
        // What is born with nothing was not launched to become a node.
        let boots = |truth: &GroundTruth| !(truth.node_labels.is_empty() && truth.node_taints.is_empty());
        let running: BTreeMap<&ProviderId, &GroundTruth> = truths
            .iter()
            .filter(|truth| !truth.terminating && is_ours(truth) && boots(truth))
            .map(|truth| (&truth.provider_id, &**truth))
            .collect();
        for (id, truth) in &running {
            if copied.insert((*id).clone()) {
                into.adopt(copy(truth));
            }
        }
        copied.retain(|id| {
            let runs = running.contains_key(id);
            if !runs {
                into.lose(id.as_str());
            }
            runs
        });
        clock.sleep(LOOK).await;
    }
}

/// The UID of the cluster of an API server.
pub(super) fn cluster_uid(server: &Server) -> String {
    let system = server.get("v1", "Namespace", "", "kube-system");
    let uid = system.as_ref().and_then(|space| space.pointer("/metadata/uid").and_then(Value::as_str));
    uid.unwrap_or_default().to_owned()
}

/// An instance whose node is still to join.
fn copy(truth: &GroundTruth) -> Adopted {
    let text = |(key, value): (&_, &_)| (str::to_owned(key), str::to_owned(value));
    let born: BTreeMap<String, String> =
        truth.node_labels.iter().map(|(key, value)| text((&**key, &**value))).collect();
    // What a kubelet and the cloud controller of a cluster set.
    let set = [
        (INSTANCE_TYPE, &*truth.instance_type),
        (ZONE, &*truth.zone),
        (CAPACITY_TYPE, &*truth.capacity_type),
        (ARCH, "amd64"),
        (OS, "linux"),
        (HOSTNAME, &*truth.node_name),
    ];
    let mut labels: BTreeMap<String, String> = set.map(text).into();
    labels.extend(born.clone());
    let taint = |taint: &fleetwright_core::model::Taint| WireTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    Adopted {
        provider_id: truth.provider_id.to_string(),
        node_name: truth.node_name.to_string(),
        labels,
        bootstrap: Bootstrap {
            labels: born,
            annotations: BTreeMap::new(),
            taints: truth.node_taints.iter().map(taint).collect(),
        },
        capacity: to_quantities(&truth.capacity),
        allocatable: to_quantities(&truth.allocatable),
        launched_at: truth.launched,
        ..Adopted::default()
    }
}
