//! Volumes: where a pod's claims allow it to run, attach limits of nodes, and which volume a claim gets.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::Quantity;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec},
    storage::v1::StorageClass,
};

use super::{
    filter::Rejections,
    node::{ClusterView, NodeInfo},
    pod::PodInfo,
};
use crate::actors::{cache::Key, selector};

/// A provisioner without dynamic provisioning: volumes are created in advance.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The volume of a claim when its pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimVolume {
    /// An existing volume.
    Existing(String),
    /// A volume that is provisioned for the node.
    Made,
}

/// A pod's claims, resolved as far as they do not depend on nodes.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    bound: Vec<&'a PersistentVolume>,
    waiting: Vec<(&'a PersistentVolumeClaim, &'a StorageClass)>,
    /// Driver and handle of each volume that counts against attach limits.
    attached: BTreeSet<(String, String)>,
    /// Claims with ReadWriteOncePod access, and whether another pod uses them.
    exclusive: bool,
}

impl<'a> Claims<'a> {
    /// Resolves the claims of a pod.
    ///
    /// # Errors
    /// Why no node is possible, in kube-scheduler's words.
    pub(super) fn new(pod: &PodInfo, cluster: &'a ClusterView) -> Result<Self, String> {
        let mut claims = Self::default();
        for name in &pod.claims {
            let claim = cluster
                .claims
                .get(&Key::new(&pod.key.namespace, name))
                .ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            claims.read(claim, cluster)?;
            claims.exclusive |= only_one_pod(claim) && used_elsewhere(pod, name, cluster);
        }
        claims.attached = attached(pod, cluster);
        Ok(claims)
    }

    fn read(&mut self, claim: &'a PersistentVolumeClaim, cluster: &'a ClusterView) -> Result<(), String> {
        let spec = claim.spec.as_ref();
        if let Some(volume) =
            spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty())
        {
            let missing = || format!("persistentvolume {volume:?} not found");
            self.bound.push(cluster.volumes.get(&Key::new("", volume)).ok_or_else(missing)?);
            return Ok(());
        }
        let class = spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default();
        match cluster.classes.get(&Key::new("", class)) {
            Some(class) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => {
                self.waiting.push((claim, class));
                Ok(())
            }
            _ => Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
        }
    }

    /// Whether the claims allow a node.
    ///
    /// # Errors
    /// The reasons, in kube-scheduler's words.
    pub(super) fn check(&self, node: &NodeInfo, cluster: &ClusterView) -> Result<(), Rejections> {
        let one = |reason: &str| Err(vec![reason.to_owned()]);
        if self.exclusive {
            return one(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            );
        }
        if self.too_many(node, cluster) {
            return one("node(s) exceed max volume count");
        }
        if !self.bound.iter().all(|volume| is_accessible(volume, node)) {
            return one("node(s) didn't match PersistentVolume's node affinity");
        }
        if self.plan(node, cluster).is_none() {
            return one("node(s) didn't find available persistent volumes to bind");
        }
        Ok(())
    }

    /// The volume of each unbound claim on a node; `None` if one cannot be satisfied there.
    pub(super) fn plan(&self, node: &NodeInfo, cluster: &ClusterView) -> Option<BTreeMap<Key, ClaimVolume>> {
        let mut taken = BTreeSet::new();
        let mut plan = BTreeMap::new();
        for (claim, class) in &self.waiting {
            let found = existing(claim, node, cluster, &taken);
            let wanted = match found {
                Some(name) => {
                    taken.insert(name.clone());
                    ClaimVolume::Existing(name)
                }
                None if class.provisioner != NO_PROVISIONER && topology_allows(class, node) => {
                    ClaimVolume::Made
                }
                None => return None,
            };
            plan.insert(Key::of(&claim.metadata), wanted);
        }
        Some(plan)
    }

    fn too_many(&self, node: &NodeInfo, cluster: &ClusterView) -> bool {
        let Some(limits) = cluster.csi_nodes.get(&Key::new("", &node.name)) else { return false };
        if self.attached.is_empty() {
            return false;
        }
        let present: BTreeSet<(String, String)> =
            node.pods.iter().flat_map(|pod| attached(pod, cluster)).collect();
        let all: BTreeSet<&(String, String)> = present.union(&self.attached).collect();
        limits.spec.drivers.iter().any(|driver| {
            let limit = driver.allocatable.as_ref().and_then(|limit| limit.count).unwrap_or(i32::MAX);
            let adds =
                self.attached.iter().any(|volume| volume.0 == driver.name && !present.contains(volume));
            let count = all.iter().filter(|volume| volume.0 == driver.name).count();
            adds && i32::try_from(count).unwrap_or(i32::MAX) > limit
        })
    }
}

fn only_one_pod(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().any(|mode| mode == "ReadWriteOncePod")
}

fn used_elsewhere(pod: &PodInfo, claim: &str, cluster: &ClusterView) -> bool {
    let mut pods = cluster.nodes.iter().flat_map(|node| &node.pods);
    pods.any(|other| {
        other.uid != pod.uid && other.key.namespace == pod.key.namespace && other.claims.contains(claim)
    })
}

/// Driver and handle of the volumes of a pod's claims; an unbound claim stands for its future volume.
fn attached(pod: &PodInfo, cluster: &ClusterView) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for name in &pod.claims {
        let Some(claim) = cluster.claims.get(&Key::new(&pod.key.namespace, name)) else { continue };
        let spec = claim.spec.as_ref();
        let bound = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
        match bound {
            Some(bound) => {
                let volume = cluster.volumes.get(&Key::new("", bound));
                let source =
                    volume.and_then(|volume| volume.spec.as_ref()).and_then(|spec| spec.csi.as_ref());
                found.extend(source.map(|csi| (csi.driver.clone(), csi.volume_handle.clone())));
            }
            None => {
                let class = spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default();
                let class = cluster.classes.get(&Key::new("", class));
                let handle = format!("{}/{name}", pod.key.namespace);
                found.extend(class.map(|class| (class.provisioner.clone(), handle)));
            }
        }
    }
    found
}

/// Whether a volume is accessible from a node.
fn is_accessible(volume: &PersistentVolume, node: &NodeInfo) -> bool {
    let required = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref())
        .and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| selector::selects(required, &node.name, &node.labels))
}

/// Whether a class provisions volumes for the node.
fn topology_allows(class: &StorageClass, node: &NodeInfo) -> bool {
    let Some(allowed) = class.allowed_topologies.as_ref().filter(|allowed| !allowed.is_empty()) else {
        return true;
    };
    allowed.iter().any(|term| {
        term.match_label_expressions
            .iter()
            .flatten()
            .all(|wanted| node.labels.get(&wanted.key).is_some_and(|value| wanted.values.contains(value)))
    })
}

/// The smallest existing free volume that satisfies the claim on the node; ties by name.
fn existing(
    claim: &PersistentVolumeClaim,
    node: &NodeInfo,
    cluster: &ClusterView,
    taken: &BTreeSet<String>,
) -> Option<String> {
    let fitting = cluster.volumes.iter().filter(|(key, volume)| {
        !taken.contains(&key.name) && serves(volume, claim) && is_accessible(volume, node)
    });
    let size = |volume: &PersistentVolume| capacity(volume.spec.as_ref());
    fitting.min_by_key(|(key, volume)| (size(volume), key.name.clone())).map(|(key, _)| key.name.clone())
}

fn capacity(spec: Option<&PersistentVolumeSpec>) -> i64 {
    storage(spec.and_then(|spec| spec.capacity.as_ref()))
}

fn storage(list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> i64 {
    let text = list.and_then(|list| list.get("storage"));
    text.and_then(|text| text.0.parse::<Quantity>().ok()).map_or(0, Quantity::units_ceil)
}

/// Whether a volume is free and satisfies the claim.
pub(crate) fn serves(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(offer), Some(wish)) = (volume.spec.as_ref(), claim.spec.as_ref()) else { return false };
    let reserved_for = offer.claim_ref.as_ref();
    let free = reserved_for.is_none_or(|reserved| {
        reserved.name == claim.metadata.name
            && reserved.namespace == claim.metadata.namespace
            && (reserved.uid.is_none() || reserved.uid == claim.metadata.uid)
    });
    let modes = offer.access_modes.as_deref().unwrap_or_default();
    let wanted = storage(wish.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    free && volume.metadata.deletion_timestamp.is_none()
        && offer.storage_class_name.as_deref().unwrap_or_default()
            == wish.storage_class_name.as_deref().unwrap_or_default()
        && wish.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && capacity(Some(offer)) >= wanted
        && wish.selector.as_ref().is_none_or(|_| {
            selector::matches(wish.selector.as_ref(), &volume.metadata.labels.clone().unwrap_or_default())
        })
}
