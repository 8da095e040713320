//! Learns from nodes: the capacity that they report, nodes that are too small for the pods that they were launched for, and taints that
//! the NodePool does not declare.
//!
//! All of it is kept on NodePools ([`Observed`]), so that it survives the nodes and the process.
//! - Capacity is read from all registered nodes, up and down, and kept by instance type and image while the image is in use
//!   ([`CapacityLearner`]). It needs an instance type with a [`Prediction`](crate::model::Prediction).
//! - What a pod proved is recorded before the pod is released, holds for [`OBSERVATION_LIFETIME`], and only lowers: it covers what no
//!   capacity explains (a kubelet that reserves more), and instance types without a prediction.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::answer::Misfit;
use crate::model::{
    Catalog, Node, NodeClaim, NodeClassRef, NodePool, Observed, ObservedCapacity, ObservedNode,
    ObservedTaint, PoolName, SmallerNode, StateNode, Str, labels,
};

/// The lifetime of what a pod proved. After it, a permanent cause costs one node more; a shorter one would cost more nodes, a longer one
/// would exclude the instance type after its cause is removed. A newer image or another spec of the NodePool ends it earlier.
pub const OBSERVATION_LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);
/// Longest text of observed capacity in bytes; all annotations of an object may have 256 KiB.
const TEXT_MAX: usize = 64 * 1024;
/// Maximum number of observations in a message.
const MAX_NAMED: usize = 5;

/// Records what a misfit shows about the nodes of the NodePool. Returns whether that is new.
pub fn record(observed: &mut Observed, node: &StateNode, misfit: &Misfit, now: Timestamp) -> bool {
    let Some(claim) = node.claim.as_deref() else { return false };
    let until = now.checked_add(OBSERVATION_LIFETIME).unwrap_or(Timestamp::MAX);
    match misfit {
        Misfit::TooSmall { .. } => {
            let Some(smaller) = smaller_node(node, claim, until, now) else { return false };
            let known = observed.smaller.iter().any(|known| {
                known.instance_type == smaller.instance_type
                    && known.image == smaller.image
                    && known.allocatable == smaller.allocatable
                    && known.predicted == smaller.predicted
            });
            if !known {
                observed.add_smaller(smaller);
            }
            !known
        }
        Misfit::Taint(taint) => {
            let known = observed.taints.iter().any(|known| known.taint == *taint);
            if !known {
                let (taint, claim) = (taint.clone(), claim.name.as_str().into());
                observed.add_taint(ObservedTaint { taint, claim, since: now, until });
            }
            !known
        }
        _ => false,
    }
}

fn smaller_node(
    node: &StateNode,
    claim: &NodeClaim,
    until: Timestamp,
    since: Timestamp,
) -> Option<SmallerNode> {
    let predicted = claim.allocatable.clone();
    Some(SmallerNode {
        instance_type: claim.labels.get(labels::INSTANCE_TYPE)?.clone(),
        image: claim.image_id.clone(),
        allocatable: node.allocatable().component_min(&predicted),
        predicted,
        claim: claim.name.as_str().into(),
        since,
        until,
    })
}

/// The observations that are neither expired, nor of an earlier spec of the NodePool, nor contradicted by a later node of the instance
/// type with another image. Observed capacity is kept: it ends with its image.
#[must_use]
pub fn current(known: &Observed, same_spec: bool, claims: &[Arc<NodeClaim>], now: Timestamp) -> Observed {
    if !same_spec {
        return Observed { capacity: known.capacity.clone(), ..Observed::default() };
    }
    let mut current = known.current(now);
    current.smaller.retain(|node| {
        !claims.iter().any(|claim| {
            claim.labels.get(labels::INSTANCE_TYPE) == Some(&node.instance_type)
                && claim.created > node.since
                && claim.image_id.is_some()
                && claim.image_id != node.image
        })
    });
    current
}

/// The newest observations without those of `known` that are not `current`. Later ones are kept.
#[must_use]
pub fn without_outdated(mut newest: Observed, known: &Observed, current: &Observed) -> Observed {
    newest.smaller.retain(|node| !known.smaller.contains(node) || current.smaller.contains(node));
    newest.taints.retain(|taint| !known.taints.contains(taint) || current.taints.contains(taint));
    newest
}

/// Reason and message of the condition `NodesAsExpected` of a NodePool whose nodes differ.
#[must_use]
pub fn condition(observed: &Observed) -> (&'static str, String) {
    let smaller = observed.smaller.iter().map(|node| {
        let image = node.image.as_deref().map(|image| format!(" with image {image}")).unwrap_or_default();
        format!(
            "{}{image} has {} for pods, {} were predicted (nodeclaim {}, until {})",
            node.instance_type, node.allocatable, node.predicted, node.claim, node.until
        )
    });
    let taints = observed.taints.iter().map(|known| {
        format!(
            "nodes come up with taint {}, which the NodePool does not declare (nodeclaim {}, until {})",
            known.taint, known.claim, known.until
        )
    });
    let mut all: Vec<String> = smaller.chain(taints).collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    let reason = if observed.smaller.is_empty() { "UnexpectedTaint" } else { "SmallerThanExpected" };
    (reason, all.join("; "))
}

/// The cluster as the learner of capacity reads it.
#[derive(Clone, Copy, Debug)]
pub struct CapacityView<'a> {
    /// All NodePools, each with its instance types, if those are known.
    pub pools: &'a [(Arc<NodePool>, Option<Arc<Catalog>>)],
    /// All NodeClaims, each with its Node once that has joined.
    pub nodes: &'a [(Arc<NodeClaim>, Option<Arc<Node>>)],
}

/// Learns the capacity of instance types from the nodes of all NodePools. NodePools share the figures of an image, and each keeps those
/// of the images that it launches, so that no figure is lost with another NodePool.
#[derive(Clone, Debug, Default)]
pub struct CapacityLearner {
    observed: ObservedCapacity,
    /// The figures that each NodePool kept at the last look.
    kept: BTreeMap<PoolName, Str>,
}

impl CapacityLearner {
    /// The figures of all nodes, of those before this process too.
    #[must_use]
    pub fn observed(&self) -> &ObservedCapacity {
        &self.observed
    }

    /// Restores the figures that NodePools keep, takes those of all registered nodes, and drops those of unused images. Returns the text
    /// that each NodePool is to keep from now on, where that is another one. Without changes a look changes nothing.
    pub fn look(&mut self, view: CapacityView<'_>) -> Vec<(PoolName, Str)> {
        let images: Vec<BTreeSet<&str>> =
            view.pools.iter().map(|(_, catalog)| images(catalog.as_deref())).collect();
        self.restore(view.pools, &images);
        if images.iter().all(BTreeSet::is_empty) {
            return Vec::new();
        }
        self.observe(view);
        self.drop_unused(view, &images);
        let mut changed = Vec::new();
        for ((pool, _), images) in view.pools.iter().zip(&images) {
            // Without images, none is known to be outdated.
            if pool.deleting || images.is_empty() {
                continue;
            }
            let text = self.observed.text_of(|image| images.contains(image), TEXT_MAX);
            if *text != *pool.observed.capacity {
                changed.push((pool.name.clone(), text.as_str().into()));
            }
        }
        changed
    }

    /// Live nodes correct restored figures. A NodePool whose figures were removed from outside makes the learner forget its images;
    /// those of live nodes are observed again.
    fn restore(&mut self, pools: &[(Arc<NodePool>, Option<Arc<Catalog>>)], images: &[BTreeSet<&str>]) {
        let mut kept = BTreeMap::new();
        for ((pool, _), images) in pools.iter().zip(images) {
            let text = &pool.observed.capacity;
            let before = self.kept.get(&pool.name).map_or("", |before| &**before);
            if text.is_empty() && !before.is_empty() {
                self.observed.forget(|image| images.contains(image));
            } else if *before != **text {
                self.observed.restore(text);
            }
            kept.insert(pool.name.clone(), text.clone());
        }
        self.kept = kept;
    }

    fn observe(&mut self, view: CapacityView<'_>) {
        let catalogs: BTreeMap<&NodeClassRef, &Catalog> = view
            .pools
            .iter()
            .filter_map(|(pool, catalog)| Some((&pool.template.class, &**catalog.as_ref()?)))
            .collect();
        for (claim, node) in view.nodes {
            let (Some(node), Some(image)) = (node, &claim.image_id) else { continue };
            let label = |key: &str| node.labels.get(key).map(|value| &**value);
            let (Some("true"), Some(instance_type)) =
                (label(labels::REGISTERED), label(labels::INSTANCE_TYPE))
            else {
                continue;
            };
            // Device plugins report before initialization ends, not before.
            let is_complete = label(labels::INITIALIZED) == Some("true");
            let prediction = catalogs.get(&claim.class).and_then(|catalog| catalog.prediction(instance_type));
            let own = prediction.filter(|prediction| is_complete && prediction.is_of(&claim.annotations));
            let who = ObservedNode { name: &node.name, born: claim.created };
            self.observed.observe(instance_type, image, who, &node.capacity, own);
        }
    }

    /// Drops images that no NodePool launches and no NodeClaim runs. While the images of a NodePool are unknown, none is known to be
    /// unused.
    fn drop_unused(&mut self, view: CapacityView<'_>, images: &[BTreeSet<&str>]) {
        if images.iter().any(BTreeSet::is_empty) {
            return;
        }
        let running = view.nodes.iter().filter_map(|(claim, _)| claim.image_id.as_deref());
        let used: BTreeSet<&str> = images.iter().flatten().copied().chain(running).collect();
        self.observed.retain_images(|image| used.contains(image));
    }
}

/// The images of a catalogue's instance types; empty if the catalogue is unknown.
fn images(catalog: Option<&Catalog>) -> BTreeSet<&str> {
    let types =
        catalog.into_iter().flat_map(|catalog| catalog.instance_types.iter().chain(&catalog.unpriced));
    types.filter_map(|known| known.prediction.as_deref()).map(|prediction| &*prediction.image).collect()
}

#[cfg(test)]
mod tests;
