//! Vectors of resources: exact integers, CPU in milli-CPUs, everything else in whole units (bytes, pods, devices).

use std::fmt;

use super::{
    ids::Str,
    quantity::{Format, Quantity},
};

/// The name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceName {
    /// `cpu`, counted in milli-CPUs.
    Cpu,
    /// `memory`, in bytes.
    Memory,
    /// `ephemeral-storage`, in bytes.
    EphemeralStorage,
    /// `pods`, in pods.
    Pods,
    /// Any other: extended resources, hugepages, attachable volumes.
    Other(Str),
}

/// The four resources that every node has, in the order of [`Resources`]' fixed part.
pub const BASE: [ResourceName; 4] =
    [ResourceName::Cpu, ResourceName::Memory, ResourceName::EphemeralStorage, ResourceName::Pods];

impl ResourceName {
    /// The name as Kubernetes writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Pods => "pods",
            Self::Other(name) => name,
        }
    }

    fn slot(&self) -> Option<usize> {
        match self {
            Self::Cpu => Some(0),
            Self::Memory => Some(1),
            Self::EphemeralStorage => Some(2),
            Self::Pods => Some(3),
            Self::Other(_) => None,
        }
    }

    /// Converts a demanded quantity into this resource's integer unit, rounding up.
    #[must_use]
    pub fn demand(&self, quantity: Quantity) -> i64 {
        if *self == Self::Cpu { quantity.milli_ceil() } else { quantity.units_ceil() }
    }

    /// Converts a supplied quantity into this resource's integer unit, rounding down.
    #[must_use]
    pub fn supply(&self, quantity: Quantity) -> i64 {
        if *self == Self::Cpu { quantity.milli_floor() } else { quantity.units_floor() }
    }

    /// The quantity that prints as Kubernetes users expect for this resource.
    #[must_use]
    pub fn quantity(&self, amount: i64) -> Quantity {
        match self {
            Self::Cpu => Quantity::from_milli(amount),
            Self::Memory | Self::EphemeralStorage => Quantity::from_units(amount, Format::BinarySi),
            Self::Other(name) if name.starts_with("hugepages-") => {
                Quantity::from_units(amount, Format::BinarySi)
            }
            Self::Pods | Self::Other(_) => Quantity::from_units(amount, Format::DecimalSi),
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            "pods" => Self::Pods,
            other => Self::Other(other.into()),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount of every resource; missing resources are zero.
///
/// Arithmetic saturates: an amount beyond `i64` is as infeasible as the largest one, and never wraps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    base: [i64; 4],
    /// Sorted by name, without zeros.
    other: Vec<(Str, i64)>,
}

impl Resources {
    /// Nothing of anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Milli-CPUs and bytes: the usual pair.
    #[must_use]
    pub fn of(cpu_milli: i64, memory_bytes: i64) -> Self {
        Self { base: [cpu_milli, memory_bytes, 0, 0], other: Vec::new() }
    }

    /// The amount of one resource.
    #[must_use]
    pub fn get(&self, name: &ResourceName) -> i64 {
        match name {
            ResourceName::Other(key) => self.find(key).map_or(0, |at| self.other[at].1),
            named => named.slot().map_or(0, |slot| self.base[slot]),
        }
    }

    /// Milli-CPUs.
    #[must_use]
    pub fn cpu(&self) -> i64 {
        self.base[0]
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> i64 {
        self.base[1]
    }

    /// Number of pods.
    #[must_use]
    pub fn pods(&self) -> i64 {
        self.base[3]
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.other.binary_search_by(|(name, _)| (**name).cmp(key)).ok()
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &ResourceName, amount: i64) {
        let ResourceName::Other(key) = name else {
            if let Some(slot) = name.slot() {
                self.base[slot] = amount;
            }
            return;
        };
        match (self.other.binary_search_by(|(name, _)| name.cmp(key)), amount) {
            (Ok(at), 0) => {
                self.other.remove(at);
            }
            (Ok(at), _) => self.other[at].1 = amount,
            (Err(_), 0) => {}
            (Err(at), _) => self.other.insert(at, (key.clone(), amount)),
        }
    }

    /// The same with one amount set: for building values.
    #[must_use]
    pub fn with(mut self, name: impl Into<ResourceName>, amount: i64) -> Self {
        self.set(&name.into(), amount);
        self
    }

    /// Every resource whose amount is not zero, the four base ones first, then by name.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceName, i64)> + '_ {
        let base = BASE.into_iter().zip(self.base).filter(|(_, amount)| *amount != 0);
        base.chain(self.other.iter().map(|(name, amount)| (ResourceName::Other(name.clone()), *amount)))
    }

    /// The resources beyond the four base ones, sorted by name.
    #[must_use]
    pub fn extended(&self) -> &[(Str, i64)] {
        &self.other
    }

    /// Cpu, memory, ephemeral storage, pods.
    #[must_use]
    pub fn base(&self) -> [i64; 4] {
        self.base
    }

    /// Whether every amount is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.base == [0; 4] && self.other.is_empty()
    }

    /// The first resource with an amount below zero.
    #[must_use]
    pub fn first_negative(&self) -> Option<ResourceName> {
        self.iter().find(|(_, amount)| *amount < 0).map(|(name, _)| name)
    }

    /// The first resource of which `self` demands more than `supply` has. A demand of zero always fits.
    #[must_use]
    pub fn first_exceeding(&self, supply: &Self) -> Option<ResourceName> {
        self.iter().find(|(name, amount)| *amount > 0 && *amount > supply.get(name)).map(|(name, _)| name)
    }

    /// Whether all of `self` fits into `supply`.
    #[must_use]
    pub fn fits(&self, supply: &Self) -> bool {
        self.base.iter().zip(supply.base).all(|(want, have)| *want <= 0 || *want <= have)
            && self.other.iter().all(|(name, want)| {
                *want <= 0 || supply.find(name).is_some_and(|at| *want <= supply.other[at].1)
            })
    }

    fn zip_with(&self, other: &Self, combine: impl Fn(i64, i64) -> i64) -> Self {
        let mut result = Self::new();
        for (slot, value) in result.base.iter_mut().enumerate() {
            *value = combine(self.base[slot], other.base[slot]);
        }
        if self.other.is_empty() && other.other.is_empty() {
            return result;
        }
        let mut names: Vec<&Str> = self.other.iter().chain(&other.other).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of = |from: &Self| from.find(name).map_or(0, |at| from.other[at].1);
            let amount = combine(of(self), of(other));
            if amount != 0 {
                result.other.push((name.clone(), amount));
            }
        }
        result
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip_with(other, i64::saturating_add)
    }

    /// The difference, which may be negative.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.zip_with(other, i64::saturating_sub)
    }

    /// The larger amount of each resource.
    #[must_use]
    pub fn component_max(&self, other: &Self) -> Self {
        self.zip_with(other, i64::max)
    }

    /// The smaller amount of each resource; one that either lacks is zero.
    #[must_use]
    pub fn component_min(&self, other: &Self) -> Self {
        self.zip_with(other, i64::min)
    }

    /// The same with every negative amount raised to zero.
    #[must_use]
    pub fn floored(&self) -> Self {
        self.zip_with(&Self::new(), |amount, _| amount.max(0))
    }

    /// Adds in place, without allocating while both hold base resources only.
    pub fn add_assign(&mut self, other: &Self) {
        for (amount, more) in self.base.iter_mut().zip(other.base) {
            *amount = amount.saturating_add(more);
        }
        for (name, more) in &other.other {
            let key = ResourceName::Other(name.clone());
            let sum = self.get(&key).saturating_add(*more);
            self.set(&key, sum);
        }
    }

    /// Subtracts in place; amounts may become negative.
    pub fn sub_assign(&mut self, other: &Self) {
        for (amount, less) in self.base.iter_mut().zip(other.base) {
            *amount = amount.saturating_sub(less);
        }
        for (name, less) in &other.other {
            let key = ResourceName::Other(name.clone());
            let rest = self.get(&key).saturating_sub(*less);
            self.set(&key, rest);
        }
    }
}

impl FromIterator<(ResourceName, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceName, i64)>>(amounts: I) -> Self {
        let mut resources = Self::new();
        for (name, amount) in amounts {
            resources.set(&name, amount);
        }
        resources
    }
}

/// `cpu: 100m, memory: 1Gi`, as events and reports show it.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {}", name.quantity(amount))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
