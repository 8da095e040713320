//! What a burstable instance type may use of its CPUs all the time.

use super::labels::INSTANCE_TYPE;

/// The share of its CPUs that a burstable instance type may use all the time, and the labels by which NodePools ask for such types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// In thousandths of each CPU, 1 to 1000.
    permille: u16,
    /// Label keys of family and category.
    keys: &'static [&'static str],
}

impl Baseline {
    /// A baseline of `permille` thousandths of each CPU; `None` unless it is 1 to 1000.
    #[must_use]
    pub fn new(permille: u16, keys: &'static [&'static str]) -> Option<Self> {
        (1..=1000).contains(&permille).then_some(Self { permille, keys })
    }

    /// In thousandths of each CPU.
    #[must_use]
    pub fn permille(self) -> u16 {
        self.permille
    }

    /// The label keys by which a NodePool names such types.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().copied().chain([INSTANCE_TYPE])
    }
}
