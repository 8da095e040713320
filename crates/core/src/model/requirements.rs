//! A conjunction of requirements, one per label key.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    ids::Str,
    labels::{LabelSchema, Labels},
    requirement::Requirement,
};

/// Requirements by label key; a key that is absent is unconstrained. Cloning shares all: claims of one kind have one set.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(Arc<BTreeMap<Str, Requirement>>);

/// Why two sets of requirements cannot hold together: the first key, by name, on which they disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The other side does not define a label that must exist.
    #[error("label \"{}\" does not have known values", .0.key())]
    Undefined(Box<Requirement>),
    /// Both sides define it and share no value.
    #[error("key {}, {wanted} not in {offered}", .wanted.key())]
    Disjoint {
        /// What is asked for.
        wanted: Box<Requirement>,
        /// What there is.
        offered: Box<Requirement>,
    },
}

impl Incompatible {
    /// The label key on which the sides disagree.
    #[must_use]
    pub fn key(&self) -> &Str {
        match self {
            Self::Undefined(requirement) => requirement.key(),
            Self::Disjoint { wanted, .. } => wanted.key(),
        }
    }
}

impl Requirements {
    /// No constraint at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The requirements, to be changed.
    fn all(&mut self) -> &mut BTreeMap<Str, Requirement> {
        Arc::make_mut(&mut self.0)
    }

    /// Each label as `key In [value]`.
    #[must_use]
    pub fn from_labels(labels: &Labels) -> Self {
        labels.iter().map(|(key, value)| Requirement::is_in(key.clone(), [value.clone()])).collect()
    }

    /// Narrows the key of `requirement` by it.
    pub fn add(&mut self, requirement: Requirement) {
        let narrowed = match self.0.get(requirement.key()) {
            Some(present) => present.intersection(&requirement),
            None => requirement,
        };
        self.all().insert(narrowed.key().clone(), narrowed);
    }

    /// Narrows by every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    /// Replaces the requirement on the key.
    pub fn replace(&mut self, requirement: Requirement) {
        self.all().insert(requirement.key().clone(), requirement);
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.all().remove(key)
    }

    /// The requirement on `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// Whether `key` is constrained.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Whether `value` is allowed for `key`; an absent key allows all.
    #[must_use]
    pub fn allows(&self, key: &str, value: &str) -> bool {
        self.get(key).is_none_or(|requirement| requirement.has(value))
    }

    /// All requirements by key.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> + Clone + '_ {
        self.0.values()
    }

    /// How many keys are constrained.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is constrained.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a node described by `self` can satisfy `wanted`.
    ///
    /// Every key that `wanted` requires must be defined by `self`, unless `undefined_ok` allows it to be undefined (well-known keys on
    /// nodes that do not exist yet), or a missing label satisfies it.
    ///
    /// # Errors
    /// The first key, by name, on which they disagree.
    pub fn compatible(&self, wanted: &Self, undefined_ok: impl Fn(&str) -> bool) -> Result<(), Incompatible> {
        for requirement in wanted.iter() {
            if !self.contains_key(requirement.key())
                && !requirement.allows_missing()
                && !undefined_ok(requirement.key())
            {
                return Err(Incompatible::Undefined(Box::new(requirement.clone())));
            }
        }
        self.intersects(wanted)
    }

    /// [`Self::compatible`] with the schema's well-known keys allowed to be undefined: for NodeClaims, not for existing nodes.
    ///
    /// # Errors
    /// The first key, by name, on which they disagree.
    pub fn compatible_claim(&self, wanted: &Self, schema: &LabelSchema) -> Result<(), Incompatible> {
        self.compatible(wanted, |key| schema.is_well_known(key))
    }

    /// Whether every key that both constrain has a common value. Two sides that are both satisfied by a missing label
    /// do not disagree.
    ///
    /// # Errors
    /// The first key, by name, on which they disagree.
    pub fn intersects(&self, wanted: &Self) -> Result<(), Incompatible> {
        match self.disagreement(wanted) {
            Some((offered, wanted)) => Err(Incompatible::Disjoint {
                wanted: Box::new(wanted.clone()),
                offered: Box::new(offered.clone()),
            }),
            None => Ok(()),
        }
    }

    /// [`Self::intersects`] where the reason does not matter.
    #[must_use]
    pub fn overlaps(&self, wanted: &Self) -> bool {
        self.disagreement(wanted).is_none()
    }

    /// The requirements of both on the first key, by name, on which they disagree.
    fn disagreement<'a>(&'a self, wanted: &'a Self) -> Option<(&'a Requirement, &'a Requirement)> {
        let mut both = wanted.iter().filter_map(|wanted| Some((self.get(wanted.key())?, wanted)));
        both.find(|(offered, wanted)| {
            let both_allow_missing = offered.allows_missing() && wanted.allows_missing();
            !both_allow_missing && !offered.intersects(wanted)
        })
    }

    /// The labels that follow from the requirements: every key with exactly one allowed value.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.iter().filter_map(|r| Some((r.key().clone(), r.single()?.clone()))).collect()
    }

    /// Whether any key demands a minimum of distinct values.
    #[must_use]
    pub fn has_min_values(&self) -> bool {
        self.iter().any(|requirement| requirement.min_values().is_some())
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut all = Self::new();
        for requirement in requirements {
            all.add(requirement);
        }
        all
    }
}

/// `a In [1], b Exists`.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    //! Compatibility of requirement sets.
    use rstest::rstest;

    use super::*;
    use crate::model::{labels, requirement::Operator};

    fn set(items: &[(&str, Operator, &[&str])]) -> Requirements {
        items
            .iter()
            .map(|(key, op, values)| Requirement::new(*key, *op, values.iter().copied()).unwrap())
            .collect()
    }

    #[rstest]
    #[case::well_known_may_be_undefined(&[], &[(labels::ZONE, Operator::In, &["a"][..])], true)]
    #[case::custom_key_must_be_defined(&[], &[("team", Operator::In, &["a"][..])], false)]
    #[case::missing_satisfies_not_in(&[], &[("team", Operator::NotIn, &["a"][..])], true)]
    #[case::missing_satisfies_does_not_exist(&[], &[("team", Operator::DoesNotExist, &[][..])], true)]
    #[case::defined_conflicts_with_does_not_exist(&[("team", Operator::In, &["a"][..])], &[("team", Operator::DoesNotExist, &[][..])], false)]
    #[case::both_absent_agree(&[("team", Operator::DoesNotExist, &[][..])], &[("team", Operator::NotIn, &["a"][..])], true)]
    #[case::bounds(&[("n", Operator::In, &["4", "8"][..])], &[("n", Operator::Gt, &["4"][..])], true)]
    #[case::bounds_exclude(&[("n", Operator::In, &["4", "8"][..])], &[("n", Operator::Gt, &["8"][..])], false)]
    fn compatibility(
        #[case] node: &[(&str, Operator, &[&str])],
        #[case] pod: &[(&str, Operator, &[&str])],
        #[case] expected: bool,
    ) {
        let schema = LabelSchema::default();
        assert_eq!(set(node).compatible_claim(&set(pod), &schema).is_ok(), expected);
    }

    #[test]
    fn existing_nodes_define_what_they_have() {
        let wanted = set(&[(labels::ZONE, Operator::In, &["a"])]);
        let error = set(&[]).compatible(&wanted, |_| false).unwrap_err();
        assert_eq!(error.to_string(), "label \"topology.kubernetes.io/zone\" does not have known values");
    }
}
