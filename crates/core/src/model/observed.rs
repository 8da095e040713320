//! Observations on nodes of a NodePool: nodes that are smaller than their instance type, and undeclared taints. Plans use them until they
//! expire, so that a mistake is made once.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    ids::Str,
    instance_type::{Catalog, InstanceType, Overhead},
    resources::{ResourceName, Resources},
    taint::Taint,
};

/// What was observed from the nodes of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Types whose nodes are smaller than promised.
    pub shapes: Vec<ObservedCapacity>,
    /// Undeclared taints of the NodePool's nodes.
    pub taints: Vec<ObservedTaint>,
}

/// A type, with an image, whose node was smaller than promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCapacity {
    /// The instance type.
    pub instance_type: Str,
    /// The image that the node ran.
    pub image: Option<Str>,
    /// The resources that were predicted for pods. The observation ends once the catalogue predicts others.
    pub promised: Resources,
    /// What pods could have.
    pub found: Resources,
    /// The NodeClaim that showed it.
    pub claim: Str,
    /// When it was observed.
    pub since: Timestamp,
    /// When it is forgotten.
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
    /// When it is forgotten.
    pub until: Timestamp,
}

impl Observed {
    /// Entries that a pool keeps at most; the oldest go.
    pub const MOST: usize = 32;

    /// Whether nothing was observed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.taints.is_empty()
    }

    /// Puts a shape in, in place of an earlier one of the same type and image.
    pub fn add_shape(&mut self, shape: ObservedCapacity) {
        self.shapes.retain(|known| known.instance_type != shape.instance_type || known.image != shape.image);
        self.shapes.push(shape);
        self.shapes.sort_by(|a, b| (&a.instance_type, &a.image).cmp(&(&b.instance_type, &b.image)));
        trim(&mut self.shapes, |shape| shape.since);
    }

    /// Puts a taint in, in place of an earlier one of the same key and effect.
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
        current.shapes.retain(|shape| shape.until > now);
        current.taints.retain(|taint| taint.until > now);
        current
    }

    /// When the next entry is out of date.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        let shapes = self.shapes.iter().map(|shape| shape.until);
        shapes.chain(self.taints.iter().map(|taint| taint.until)).min()
    }

    /// The catalogue with observed capacity; the same one without any.
    #[must_use]
    pub fn applied(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        let lowered = |known: &Arc<InstanceType>| {
            let promised = known.allocatable();
            let shapes =
                self.shapes.iter().filter(|s| s.instance_type == known.name && s.promised == promised);
            shapes.map(|shape| &shape.found).cloned().reduce(|a, b| a.component_min(&b))
        };
        if self.shapes.is_empty() || !catalog.instance_types.iter().any(|known| lowered(known).is_some()) {
            return Arc::clone(catalog);
        }
        let types = catalog.instance_types.iter().map(|known| match lowered(known) {
            Some(found) => Arc::new(shrunk(known, &found)),
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

/// A type of which pods can have no more than `found`.
fn shrunk(known: &InstanceType, found: &Resources) -> InstanceType {
    let allocatable = known.allocatable().component_min(found);
    // Hugepages are taken off memory by themselves.
    let pages = known.capacity.extended().iter().filter(|(name, _)| name.starts_with("hugepages-"));
    let held = pages.fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let mut reserved = known.capacity.minus(&allocatable);
    reserved.set(&ResourceName::Memory, reserved.memory().saturating_sub(held));
    let mut shrunk = known.clone();
    shrunk.overhead = Overhead { kube_reserved: reserved, ..Overhead::default() };
    for offering in &mut shrunk.offerings {
        offering.allocatable = offering.allocatable.as_ref().map(|own| own.component_min(found));
    }
    shrunk
}

#[cfg(test)]
mod tests {
    //! What an observation does to a catalogue, and how long it lasts.
    use super::*;
    use crate::{
        model::TaintEffect,
        testing::{instance_type, now},
    };

    fn catalog() -> Arc<Catalog> {
        let gpu = instance_type("gpu", 4, 8).offer("a", "spot", 10).resource("x.com/gpu", 2).build();
        Arc::new(Catalog::new(vec![gpu, instance_type("medium", 4, 8).offer("a", "spot", 10).build()]))
    }

    fn shape(name: &str, found: Resources, minutes: i64) -> ObservedCapacity {
        let promised = catalog().get(name).unwrap().allocatable();
        let until = now() + jiff::SignedDuration::from_mins(minutes);
        ObservedCapacity {
            instance_type: name.into(),
            image: None,
            promised,
            found,
            claim: "c".into(),
            since: now(),
            until,
        }
    }

    #[test]
    fn a_type_shrinks_to_what_was_found_and_no_other_changes() {
        let mut observed = Observed::default();
        let found = Resources::of(9000, 3 << 30).with("pods", 50);
        observed.add_shape(shape("gpu", found, 10));
        let before = catalog();
        let after = observed.applied(&before);
        let allocatable = after.get("gpu").unwrap().allocatable();
        assert_eq!(
            (allocatable.cpu(), allocatable.memory()),
            (4000, 3 << 30),
            "never more than was promised"
        );
        assert_eq!(allocatable.get(&"x.com/gpu".into()), 0, "a device that is not there");
        assert!(Arc::ptr_eq(after.get("medium").unwrap(), before.get("medium").unwrap()));
    }

    #[test]
    fn a_catalogue_that_has_observed_by_itself_is_believed() {
        let mut observed = Observed::default();
        let mut shape = shape("medium", Resources::of(1000, 1 << 30), 10);
        shape.promised = Resources::of(1, 1);
        observed.add_shape(shape);
        let catalog = catalog();
        assert!(Arc::ptr_eq(&observed.applied(&catalog), &catalog));
    }

    #[test]
    fn observations_end_are_replaced_and_are_few() {
        let mut observed = Observed::default();
        observed.add_shape(shape("medium", Resources::of(1, 1), 10));
        observed.add_shape(shape("medium", Resources::of(2, 2), 20));
        assert_eq!(observed.shapes.len(), 1);
        assert_eq!(observed.next_end(), Some(now() + jiff::SignedDuration::from_mins(20)));
        assert!(observed.current(now() + jiff::SignedDuration::from_mins(20)).is_empty());
        assert!(!observed.current(now() + jiff::SignedDuration::from_mins(19)).is_empty());
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
        assert!(observed.taints.iter().any(|known| &*known.taint.key == "t99"), "the oldest go");
    }
}
