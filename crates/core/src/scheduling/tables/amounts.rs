//! Resources as dense vectors: the four base ones first, then every other in the order in which it was met.

use foldhash::fast::FixedState;
use indexmap::IndexSet;
use smallvec::SmallVec;

use crate::model::{ResourceName, Resources, Str, resources::BASE};

/// Amounts by resource index; what lies beyond the end is zero.
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// The index of every resource beyond the base ones.
#[derive(Debug, Default)]
pub(crate) struct ResourceIndex {
    names: IndexSet<Str, FixedState>,
}

impl ResourceIndex {
    /// Dense form.
    pub(crate) fn amounts(&mut self, resources: &Resources) -> Amounts {
        let mut amounts: Amounts = resources.base().into();
        for (name, amount) in resources.extended() {
            let resource = self.index(&ResourceName::Other(name.clone()));
            set(&mut amounts, resource, *amount);
        }
        amounts
    }

    /// Dense form of the resources that have an index.
    pub(crate) fn known_amounts(&self, resources: &Resources) -> Amounts {
        let mut amounts: Amounts = resources.base().into();
        for (name, amount) in resources.extended() {
            let Some(index) = self.names.get_index_of(name) else { continue };
            set(&mut amounts, BASE.len() + index, *amount);
        }
        amounts
    }

    /// The index of a resource.
    pub(crate) fn index(&mut self, name: &ResourceName) -> usize {
        let ResourceName::Other(other) = name else {
            return BASE.iter().position(|base| base == name).unwrap_or(0);
        };
        BASE.len() + self.names.insert_full(other.clone()).0
    }

    /// The resource of an index.
    pub(crate) fn name(&self, resource: usize) -> ResourceName {
        let other = || resource.checked_sub(BASE.len()).and_then(|other| self.names.get_index(other));
        let other = || ResourceName::Other(other().cloned().unwrap_or_else(|| "".into()));
        BASE.get(resource).cloned().unwrap_or_else(other)
    }

    /// The model's form.
    pub(crate) fn resources(&self, amounts: &Amounts) -> Resources {
        let others = self.names.iter().map(|name| ResourceName::Other(name.clone()));
        BASE.into_iter().chain(others).zip(amounts.iter().copied()).collect()
    }
}

/// Whether `used` and `more` together fit into `supply`; resources without a request always fit.
pub(crate) fn fits(used: &Amounts, more: &Amounts, supply: &Amounts) -> bool {
    let len = used.len().max(more.len());
    (0..len).all(|resource| {
        let wanted = get(used, resource).saturating_add(get(more, resource));
        wanted <= 0 || wanted <= get(supply, resource)
    })
}

/// Whether `more` fits into `free`, which may be negative for resources without a request.
pub(crate) fn fits_free(more: &Amounts, free: &Amounts) -> bool {
    more.iter().enumerate().all(|(resource, wanted)| *wanted <= 0 || *wanted <= get(free, resource))
}

/// Sets one amount.
fn set(amounts: &mut Amounts, resource: usize, amount: i64) {
    if amounts.len() <= resource {
        amounts.resize(resource + 1, 0);
    }
    amounts[resource] = amount;
}

/// One amount.
pub(crate) fn get(amounts: &Amounts, resource: usize) -> i64 {
    amounts.get(resource).copied().unwrap_or(0)
}

/// Combines in place.
pub(crate) fn update(amounts: &mut Amounts, other: &Amounts, combine: impl Fn(i64, i64) -> i64) {
    if amounts.len() < other.len() {
        amounts.resize(other.len(), 0);
    }
    for resource in 0..amounts.len() {
        amounts[resource] = combine(amounts[resource], get(other, resource));
    }
}
