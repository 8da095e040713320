//! Observations on nodes of a NodePool: the capacity that they report, nodes that are too small for their pods, and undeclared taints.
//! Plans use them, so that a wrong prediction costs one node.

pub mod capacity;

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    ids::Str,
    instance_type::{Catalog, InstanceType, Overhead},
    resources::{ResourceName, Resources},
    taint::Taint,
};

/// The observations that a NodePool keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The capacity that nodes report, as [`ObservedCapacity::text_of`] writes it.
    ///
    /// [`ObservedCapacity::text_of`]: capacity::ObservedCapacity::text_of
    pub capacity: Str,
    /// Instance types of which a node was too small for its pods.
    pub smaller: Vec<SmallerNode>,
    /// Undeclared taints of the NodePool's nodes.
    pub taints: Vec<ObservedTaint>,
}

/// An instance type, with an image, whose node was smaller than predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallerNode {
    /// The instance type.
    pub instance_type: Str,
    /// The image that the node ran.
    pub image: Option<Str>,
    /// The resources that were predicted for pods. The observation ends once the catalogue predicts others.
    pub predicted: Resources,
    /// The allocatable resources of the node, none above the prediction.
    pub allocatable: Resources,
    /// The NodeClaim that showed it.
    pub claim: Str,
    /// When it was observed.
    pub since: Timestamp,
    /// When it expires.
    pub until: Timestamp,
}

/// A taint that appeared on a node and stayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTaint {
    /// The taint.
    pub taint: Taint,
    /// The NodeClaim that showed it.
    pub claim: Str,
    /// When it was observed.
    pub since: Timestamp,
    /// When it expires.
    pub until: Timestamp,
}

impl Observed {
    /// Entries of each kind that a NodePool keeps at most; the oldest are dropped.
    pub const MOST: usize = 32;

    /// Whether no node differed from what its pods needed. Observed capacity alone is no difference: the next plan has it.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.smaller.is_empty() && self.taints.is_empty()
    }

    /// Adds a node that is too small, in place of an earlier one of its instance type and image.
    pub fn add_smaller(&mut self, node: SmallerNode) {
        self.smaller.retain(|known| known.instance_type != node.instance_type || known.image != node.image);
        self.smaller.push(node);
        self.smaller.sort_by(|a, b| (&a.instance_type, &a.image).cmp(&(&b.instance_type, &b.image)));
        trim(&mut self.smaller, |node| node.since);
    }

    /// Adds a taint, in place of an earlier one of the same key and effect.
    pub fn add_taint(&mut self, taint: ObservedTaint) {
        self.taints.retain(|known| !known.taint.matches(&taint.taint));
        self.taints.push(taint);
        self.taints.sort_by(|a, b| a.taint.cmp(&b.taint));
        trim(&mut self.taints, |taint| taint.since);
    }

    /// Without expired observations at `now`.
    #[must_use]
    pub fn current(&self, now: Timestamp) -> Self {
        let mut current = self.clone();
        current.smaller.retain(|node| node.until > now);
        current.taints.retain(|taint| taint.until > now);
        current
    }

    /// When the next entry expires.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        let smaller = self.smaller.iter().map(|node| node.until);
        smaller.chain(self.taints.iter().map(|taint| taint.until)).min()
    }

    /// The catalogue without what the nodes that are too small lack; the same one without such nodes.
    #[must_use]
    pub fn applied(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        let lowered = |known: &Arc<InstanceType>| {
            let predicted = known.allocatable();
            let nodes = self
                .smaller
                .iter()
                .filter(|node| node.instance_type == known.name && node.predicted == predicted);
            nodes.map(|node| &node.allocatable).cloned().reduce(|a, b| a.component_min(&b))
        };
        if self.smaller.is_empty() || !catalog.instance_types.iter().any(|known| lowered(known).is_some()) {
            return Arc::clone(catalog);
        }
        let types = catalog.instance_types.iter().map(|known| match lowered(known) {
            Some(allocatable) => Arc::new(shrunk(known, &allocatable)),
            None => Arc::clone(known),
        });
        Arc::new(Catalog { instance_types: types.collect(), ..(**catalog).clone() })
    }
}

/// Drops the oldest entries beyond the bound.
fn trim<T>(entries: &mut Vec<T>, since: impl Fn(&T) -> Timestamp) {
    while entries.len() > Observed::MOST {
        let oldest = entries.iter().enumerate().min_by_key(|(_, entry)| since(entry)).map(|(at, _)| at);
        if let Some(at) = oldest {
            entries.remove(at);
        }
    }
}

/// An instance type of which pods can have no more than `most`.
fn shrunk(known: &InstanceType, most: &Resources) -> InstanceType {
    let allocatable = known.allocatable().component_min(most);
    // Hugepages reduce the allocatable memory already.
    let pages = known.capacity.extended().iter().filter(|(name, _)| name.starts_with("hugepages-"));
    let held = pages.fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let mut reserved = known.capacity.minus(&allocatable);
    reserved.set(&ResourceName::Memory, reserved.memory().saturating_sub(held));
    let mut shrunk = known.clone();
    shrunk.overhead = Overhead { kube_reserved: reserved, ..Overhead::default() };
    for offering in &mut shrunk.offerings {
        offering.allocatable = offering.allocatable.as_ref().map(|own| own.component_min(most));
    }
    shrunk
}

#[cfg(test)]
mod tests {
    //! The effect of an observation on a catalogue, and its lifetime.
    use super::*;
    use crate::{
        model::TaintEffect,
        testing::{instance_type, now},
    };

    fn catalog() -> Arc<Catalog> {
        let gpu = instance_type("gpu", 4, 8).offer("a", "spot", 10).resource("x.com/gpu", 2).build();
        Arc::new(Catalog::new(vec![gpu, instance_type("medium", 4, 8).offer("a", "spot", 10).build()]))
    }

    fn smaller(name: &str, allocatable: Resources, minutes: i64) -> SmallerNode {
        let predicted = catalog().get(name).unwrap().allocatable();
        let until = now() + jiff::SignedDuration::from_mins(minutes);
        SmallerNode {
            instance_type: name.into(),
            image: None,
            predicted,
            allocatable,
            claim: "c".into(),
            since: now(),
            until,
        }
    }

    #[test]
    fn an_instance_type_shrinks_to_the_node_and_no_other_changes() {
        let mut observed = Observed::default();
        let found = Resources::of(9000, 3 << 30).with("pods", 50);
        observed.add_smaller(smaller("gpu", found, 10));
        let before = catalog();
        let after = observed.applied(&before);
        let allocatable = after.get("gpu").unwrap().allocatable();
        assert_eq!(
            (allocatable.cpu(), allocatable.memory()),
            (4000, 3 << 30),
            "never more than was predicted"
        );
        assert_eq!(allocatable.get(&"x.com/gpu".into()), 0, "a missing device");
        assert!(Arc::ptr_eq(after.get("medium").unwrap(), before.get("medium").unwrap()));
    }

    #[test]
    fn a_newer_prediction_ends_an_observation() {
        let mut observed = Observed::default();
        let mut node = smaller("medium", Resources::of(1000, 1 << 30), 10);
        node.predicted = Resources::of(1, 1);
        observed.add_smaller(node);
        let catalog = catalog();
        assert!(Arc::ptr_eq(&observed.applied(&catalog), &catalog));
    }

    #[test]
    fn observations_expire_are_replaced_and_are_bounded() {
        let mut observed = Observed::default();
        observed.add_smaller(smaller("medium", Resources::of(1, 1), 10));
        observed.add_smaller(smaller("medium", Resources::of(2, 2), 20));
        assert_eq!(observed.smaller.len(), 1);
        assert_eq!(observed.next_end(), Some(now() + jiff::SignedDuration::from_mins(20)));
        assert!(observed.current(now() + jiff::SignedDuration::from_mins(20)).is_as_expected());
        assert!(!observed.current(now() + jiff::SignedDuration::from_mins(19)).is_as_expected());
        for n in 0..100_i64 {
            let at = now() + jiff::SignedDuration::from_mins(n);
            observed.add_taint(ObservedTaint {
                taint: Taint::new(format!("t{n}"), "", TaintEffect::NoSchedule),
                claim: "c".into(),
                since: at,
                until: at,
            });
        }
        assert_eq!(observed.taints.len(), Observed::MOST);
        assert!(observed.taints.iter().any(|known| &*known.taint.key == "t99"), "the oldest are dropped");
    }
}
