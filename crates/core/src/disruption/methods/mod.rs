//! The disruption methods, one file each.

mod drift;
mod emptiness;
mod expiry;
mod multi_node;
mod n_to_m;
mod single_node;
mod static_drift;

use super::Method;

/// All methods, in the order in which they run. A new method is one file and one line here.
pub static METHODS: &[&dyn Method] = &[
    &emptiness::Emptiness,
    &static_drift::StaticDrift,
    &drift::Drift,
    &expiry::Expiry,
    &multi_node::MultiNode,
    &single_node::SingleNode,
    &n_to_m::NToM,
];

/// Returns method `name`.
#[must_use]
pub fn method(name: &str) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| method.spec().name == name)
}
