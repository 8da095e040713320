//! How the conditions of an object change, with Karpenter's semantics.
//!
//! A kind has *dependent* conditions that together decide its *root* condition, and independent ones. Dependents are
//! always there; the root follows from them after every change. Time is an argument, in whole seconds as on the wire.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::condition::{Condition, ConditionStatus, find};
use crate::labels::condition as names;
use crate::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};

/// Reason of a condition that has not been reconciled yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Reason of a root condition of which a dependent is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root condition of which a dependent is Unknown or out of date.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
const AWAITING_MESSAGE: &str = "object is awaiting reconciliation";

/// Which conditions a kind has, besides its independent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionTypes {
    /// The condition that sums up the dependents; not every kind has one.
    pub root: Option<&'static str>,
    /// The conditions that the root depends on.
    pub dependents: &'static [&'static str],
}

/// A kind whose status holds conditions.
pub trait HasConditions {
    /// The kind's conditions.
    const TYPES: ConditionTypes;

    /// The object's metadata and its stored conditions, if it has a status.
    fn parts(&mut self) -> (&ObjectMeta, &mut Vec<Condition>);

    /// The stored conditions.
    fn conditions(&self) -> &[Condition];

    /// The conditions for reading and changing, those that must be there filled in.
    fn condition_set(&mut self, now: Timestamp) -> ConditionSet<'_> {
        let (meta, conditions) = self.parts();
        ConditionSet::new(Self::TYPES, meta, conditions, now)
    }
}

macro_rules! has_conditions {
    ($kind:ty, $root:expr, [$($dependent:expr),*]) => {
        impl HasConditions for $kind {
            const TYPES: ConditionTypes = ConditionTypes { root: $root, dependents: &[$($dependent),*] };

            fn parts(&mut self) -> (&ObjectMeta, &mut Vec<Condition>) {
                (&self.metadata, &mut self.status.get_or_insert_default().conditions)
            }

            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
        }
    };
}

has_conditions!(NodePool, Some(names::READY), [names::VALIDATION_SUCCEEDED, names::NODE_CLASS_READY]);
has_conditions!(NodeClaim, Some(names::READY), [names::LAUNCHED, names::REGISTERED, names::INITIALIZED]);
has_conditions!(NodeOverlay, Some(names::READY), [names::VALIDATION_SUCCEEDED]);
has_conditions!(CapacityBuffer, None, []);
has_conditions!(KwokNodeClass, Some(names::READY), []);

/// Only independent conditions can be taken away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition {0} cannot be cleared: the root condition depends on it, or it is the root")]
pub struct NotClearable(pub String);

/// The conditions of one object, under change.
#[derive(Debug)]
pub struct ConditionSet<'a> {
    types: ConditionTypes,
    generation: i64,
    deleting: bool,
    created: Timestamp,
    now: Timestamp,
    conditions: &'a mut Vec<Condition>,
}

impl<'a> ConditionSet<'a> {
    /// The conditions of an object, for changes. Missing dependents and a missing root are added as Unknown; a dependent counts
    /// as Unknown since the object was created.
    pub fn new(
        types: ConditionTypes,
        meta: &ObjectMeta,
        conditions: &'a mut Vec<Condition>,
        now: Timestamp,
    ) -> Self {
        let now = whole_seconds(now);
        let created = meta.creation_timestamp.as_ref().map_or(now, |time| whole_seconds(time.0));
        let (generation, deleting) = (meta.generation.unwrap_or(0), meta.deletion_timestamp.is_some());
        let mut set = Self { types, generation, deleting, created, now, conditions };
        for type_ in types.dependents.iter().copied().chain(types.root) {
            if set.get(type_).is_none() {
                set.set_unknown(type_);
            }
        }
        set
    }

    /// The condition of that type, if there is one.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        find(self.conditions, type_)
    }

    /// Whether the condition of that type exists and holds.
    pub fn is_true(&self, type_: &str) -> bool {
        self.get(type_).is_some_and(Condition::is_true)
    }

    /// The root condition, for kinds that have one.
    pub fn root(&self) -> Option<&Condition> {
        self.types.root.and_then(|root| self.get(root))
    }

    /// All conditions, oldest change first, root last.
    pub fn all(&self) -> &[Condition] {
        self.conditions
    }

    /// The condition holds; its reason is its own name. Returns whether anything changed, as all setters do.
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, ConditionStatus::True, type_, "")
    }

    /// The condition holds, for a reason worth telling.
    pub fn set_true_with_reason(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::True, reason, message)
    }

    /// The condition does not hold.
    pub fn set_false(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::False, reason, message)
    }

    /// The condition was not evaluated yet.
    pub fn set_unknown(&mut self, type_: &str) -> bool {
        self.set(type_, ConditionStatus::Unknown, AWAITING_RECONCILIATION, AWAITING_MESSAGE)
    }

    /// The condition cannot be evaluated, for a reason.
    pub fn set_unknown_with_reason(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::Unknown, reason, message)
    }

    /// Removes an independent condition. Returns whether it was there.
    ///
    /// # Errors
    /// For the root and its dependents, which are always there.
    pub fn clear(&mut self, type_: &str) -> Result<bool, NotClearable> {
        if self.types.root == Some(type_) || self.types.dependents.contains(&type_) {
            return Err(NotClearable(type_.to_owned()));
        }
        let before = self.conditions.len();
        self.conditions.retain(|condition| condition.type_ != type_);
        Ok(self.conditions.len() != before)
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let position = self.conditions.iter().position(|condition| condition.type_ == type_);
        let stored = position.map(|position| &self.conditions[position]);
        let changed_at = match stored {
            Some(stored) if stored.status == status => {
                stored.last_transition_time.clone().unwrap_or(Time(self.now))
            }
            Some(_) => Time(self.now),
            // The root and its dependents are always there in principle: their first appearance dates from the object's creation.
            None if self.types.root == Some(type_) || self.types.dependents.contains(&type_) => {
                Time(self.created)
            }
            None => Time(self.now),
        };
        let condition = Condition {
            last_transition_time: Some(changed_at),
            message: message.to_owned(),
            observed_generation: self.generation,
            reason: reason.to_owned(),
            status,
            type_: type_.to_owned(),
        };
        if stored == Some(&condition) {
            return false;
        }
        if let Some(position) = position {
            self.conditions.remove(position);
        }
        // A deletion is a generation of its own, for which nobody evaluates what was true before.
        for other in self.conditions.iter_mut().filter(|_| self.deleting) {
            other.observed_generation = self.generation;
        }
        self.conditions.push(condition);
        self.sort();
        if self.types.root.is_some_and(|root| root != type_) {
            self.recompute_root();
        }
        true
    }

    /// Oldest change first, the root last; a stable order among equals.
    fn sort(&mut self) {
        let root = self.types.root;
        self.conditions
            .sort_by_key(|condition| (root == Some(condition.type_.as_str()), condition.changed_at()));
    }

    /// True when every dependent is True at the current generation; else False when one is False at it; else Unknown.
    fn recompute_root(&mut self) {
        let Some(root) = self.types.root else { return };
        let mut open: Vec<&Condition> = self
            .types
            .dependents
            .iter()
            .filter_map(|type_| self.get(type_))
            .filter(|condition| !condition.is_true() || condition.observed_generation != self.generation)
            .collect();
        // Latest change first; dependents that changed together in the order of their declaration.
        open.sort_by_key(|condition| std::cmp::Reverse(condition.changed_at()));
        let message: Vec<String> =
            open.iter().map(|condition| format!("{}={}", condition.type_, condition.status)).collect();
        let message = message.join(", ");
        if open.is_empty() {
            self.set_true(root);
        } else if open
            .iter()
            .any(|condition| condition.is_false() && condition.observed_generation == self.generation)
        {
            self.set_false(root, UNHEALTHY_DEPENDENTS, &message);
        } else {
            self.set_unknown_with_reason(root, RECONCILING_DEPENDENTS, &message);
        }
    }
}

/// The wire carries whole seconds; what is finer would look like a change after every round trip.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
