//! One requirement: which values of one label key are allowed.
//!
//! A requirement is a set of values, possibly complemented, cut by inclusive integer bounds. The algebra is closed
//! under intersection, which is all that scheduling needs.

use std::{collections::BTreeSet, fmt};

use super::ids::Str;

/// How a requirement is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no such label.
    NotIn,
    /// Any value.
    Exists,
    /// No such label.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// An integer of at least the value.
    Gte,
    /// An integer of at most the value.
    Lte,
}

impl Operator {
    /// The operator as Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// Reads an operator as Kubernetes writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte]
            .into_iter()
            .find(|operator| operator.as_str() == text)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The allowed values of one label key.
///
/// Invariants: bounds stand only on complemented sets (a concrete set has them applied); `gte <= lte` where both
/// stand; the empty concrete set means that the label must not exist.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: Str,
    complement: bool,
    /// Of a complement: whether there must be a label at all. NotIn alone is content without one.
    present: bool,
    values: BTreeSet<Str>,
    gte: Option<i64>,
    lte: Option<i64>,
    min_values: Option<u32>,
}

/// Why a requirement cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// A numeric operator without exactly one integer.
    #[error("requirement on {key:?}: operator {operator} needs exactly one integer value")]
    NeedsInteger {
        /// The label key.
        key: Str,
        /// The operator.
        operator: Operator,
    },
}

impl Requirement {
    /// Builds a requirement from its written form.
    ///
    /// # Errors
    /// If a numeric operator does not have exactly one integer.
    pub fn new(
        key: impl Into<Str>,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<Str>>,
    ) -> Result<Self, RequirementError> {
        let key = key.into();
        let values: BTreeSet<Str> = values.into_iter().map(Into::into).collect();
        let bound = || -> Result<i64, RequirementError> {
            let error = || RequirementError::NeedsInteger { key: key.clone(), operator };
            let text = values.first().filter(|_| values.len() == 1).ok_or_else(error)?;
            text.parse().map_err(|_| error())
        };
        let any = Self {
            key: key.clone(),
            complement: true,
            present: true,
            values: BTreeSet::new(),
            gte: None,
            lte: None,
            min_values: None,
        };
        Ok(match operator {
            Operator::In => Self { values, ..Self::does_not_exist(key) },
            Operator::NotIn => Self { present: values.is_empty(), values, ..any },
            Operator::Exists => any,
            Operator::DoesNotExist => Self::does_not_exist(key),
            // Above the largest integer there is none.
            Operator::Gt => match bound()?.checked_add(1) {
                Some(gte) => Self { gte: Some(gte), ..any },
                None => Self::does_not_exist(key),
            },
            Operator::Lt => match bound()?.checked_sub(1) {
                Some(lte) => Self { lte: Some(lte), ..any },
                None => Self::does_not_exist(key),
            },
            Operator::Gte => Self { gte: Some(bound()?), ..any },
            Operator::Lte => Self { lte: Some(bound()?), ..any },
        })
    }

    /// One of `values`.
    pub fn is_in(key: impl Into<Str>, values: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        Self {
            key: key.into(),
            complement: false,
            present: false,
            values,
            gte: None,
            lte: None,
            min_values: None,
        }
    }

    /// None of `values`.
    pub fn not_in(key: impl Into<Str>, values: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        let named = Self::is_in(key, values);
        Self { complement: true, present: named.values.is_empty(), ..named }
    }

    /// Any value.
    pub fn exists(key: impl Into<Str>) -> Self {
        Self { complement: true, present: true, ..Self::does_not_exist(key) }
    }

    /// No such label.
    pub fn does_not_exist(key: impl Into<Str>) -> Self {
        Self::is_in(key, Vec::<Str>::new())
    }

    /// The same, demanding that at least this many distinct values stay possible.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The same under another key.
    #[must_use]
    pub fn with_key(mut self, key: Str) -> Self {
        self.key = key;
        self
    }

    /// The label key.
    #[must_use]
    pub fn key(&self) -> &Str {
        &self.key
    }

    /// The listed values: allowed ones, or excluded ones for a complement.
    #[must_use]
    pub fn values(&self) -> &BTreeSet<Str> {
        &self.values
    }

    /// Whether the named values are the excluded ones.
    #[must_use]
    pub fn is_complement(&self) -> bool {
        self.complement
    }

    /// Inclusive lower bound.
    #[must_use]
    pub fn gte(&self) -> Option<i64> {
        self.gte
    }

    /// Inclusive upper bound.
    #[must_use]
    pub fn lte(&self) -> Option<i64> {
        self.lte
    }

    /// How many distinct values must stay possible.
    #[must_use]
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The operator that describes the set; a bounded complement reads as Exists, as in Karpenter.
    #[must_use]
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Whether a missing label satisfies the requirement: NotIn and DoesNotExist, unless another operator requires a label.
    #[must_use]
    pub fn allows_missing(&self) -> bool {
        if self.complement { !self.present } else { self.values.is_empty() }
    }

    /// Whether values are excluded and a label is required, which takes two operators to express.
    #[must_use]
    pub fn is_present_beside(&self) -> bool {
        self.present && !self.values.is_empty() && self.gte.is_none() && self.lte.is_none()
    }

    /// Whether `value` is allowed.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.gte.is_none_or(|gte| number >= gte) && self.lte.is_none_or(|lte| number <= lte)
        })
    }

    /// Whether no value at all is allowed (the label must not exist).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        if !self.complement {
            return self.values.is_empty();
        }
        let (Some(gte), Some(lte)) = (self.gte, self.lte) else {
            return false;
        };
        // A bounded complement is empty when every integer of its range is excluded.
        let width = i128::from(lte) - i128::from(gte) + 1;
        let excluded: BTreeSet<i64> = self
            .values
            .iter()
            .filter_map(|value| value.parse().ok())
            .filter(|n| *n >= gte && *n <= lte)
            .collect();
        i128::try_from(excluded.len()).is_ok_and(|count| count >= width)
    }

    /// The only allowed value, if there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&Str> {
        self.values.first().filter(|_| !self.complement && self.values.len() == 1)
    }

    /// A value that satisfies the requirement, the smallest by text or the lower bound; `None` if there is none or the choice is open
    /// (Exists, NotIn without bounds).
    #[must_use]
    pub fn any(&self) -> Option<Str> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let start = self.gte.or_else(|| self.lte.map(|lte| lte.min(0)))?;
        let tries = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        let upward = (0..=tries).filter_map(|step| start.checked_add(step));
        let downward = (0..=tries).filter_map(|step| start.checked_sub(step));
        upward.chain(downward).map(|number| Str::from(number.to_string())).find(|text| self.has(text))
    }

    /// A value for an open choice: the smallest allowed number from zero on. `None` if there is none.
    #[must_use]
    pub fn unnamed(&self) -> Option<Str> {
        // With one more number than excluded values, at least one is allowed.
        let numbers = 0..=self.values.len();
        numbers.map(|number| Str::from(number.to_string())).find(|text| self.complement && self.has(text))
    }

    /// The values allowed by both; the stricter minValues holds.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = [self.lte, other.lte].into_iter().flatten().min();
        let min_values = self.min_values.max(other.min_values);
        let result = |complement, values, gte, lte| Self {
            key: self.key.clone(),
            complement,
            present: complement && (self.present || other.present),
            values,
            gte,
            lte,
            min_values,
        };
        if let (Some(gte), Some(lte)) = (gte, lte)
            && gte > lte
        {
            return result(false, BTreeSet::new(), None, None);
        }
        if self.complement && other.complement {
            let merged = result(true, self.values.union(&other.values).cloned().collect(), gte, lte);
            return if merged.is_empty() { result(false, BTreeSet::new(), None, None) } else { merged };
        }
        let (concrete, filter) = if self.complement { (other, self) } else { (self, other) };
        let bounds = result(true, BTreeSet::new(), gte, lte);
        let kept = concrete.values.iter().filter(|value| filter.values.contains(*value) != filter.complement);
        let values = kept.filter(|value| bounds.within_bounds(value)).cloned().collect();
        result(false, values, None, None)
    }

    /// Whether some value is allowed by both. Simulations ask this millions of times: nothing is allocated but for two complements with bounds.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (true, true) => {
                let is_bounded = self.gte.or(other.gte).is_some() && self.lte.or(other.lte).is_some();
                !is_bounded || !self.intersection(other).is_empty()
            }
            (false, _) => self.values.iter().any(|value| other.has(value)),
            (true, false) => other.intersects(self),
        }
    }
}

/// `key In [a b]`, `key Exists`, `key Exists >=2 <=5`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.operator())?;
        if !self.values.is_empty() {
            // A pool may name hundreds of instance types: events have a size.
            const SHOWN: usize = 5;
            let shown: Vec<&str> = self.values.iter().take(SHOWN).map(|value| &**value).collect();
            write!(f, " [{}", shown.join(" "))?;
            if self.values.len() > SHOWN {
                write!(f, " and {} others", self.values.len() - SHOWN)?;
            }
            f.write_str("]")?;
        }
        if let Some(gte) = self.gte {
            write!(f, " >={gte}")?;
        }
        if let Some(lte) = self.lte {
            write!(f, " <={lte}")?;
        }
        if let Some(min_values) = self.min_values {
            write!(f, " minValues {min_values}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
