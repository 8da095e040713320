//! PodDisruptionBudgets.

use fleetwright_core::model::{NamespacedName, PodDisruptionBudget};
use k8s_openapi::{api::policy::v1 as k8s, apimachinery::pkg::util::intstr::IntOrString};

use super::{Invalid, affinity};

/// A PodDisruptionBudget.
///
/// # Errors
/// If the selector is invalid.
pub fn pdb(pdb: &k8s::PodDisruptionBudget) -> Result<PodDisruptionBudget, Invalid> {
    let spec = pdb.spec.as_ref();
    let is = |value: Option<&IntOrString>, number: Option<i32>, share: &str| match value {
        Some(IntOrString::Int(value)) => Some(*value) == number,
        Some(IntOrString::String(value)) => value == share,
        None => false,
    };
    let max_unavailable = spec.and_then(|spec| spec.max_unavailable.as_ref());
    let min_available = spec.and_then(|spec| spec.min_available.as_ref());
    Ok(PodDisruptionBudget {
        id: NamespacedName::new(
            pdb.metadata.namespace.as_deref().unwrap_or_default(),
            pdb.metadata.name.as_deref().unwrap_or_default(),
        ),
        selector: affinity::selector(spec.and_then(|spec| spec.selector.as_ref()))?,
        disruptions_allowed: pdb.status.as_ref().map_or(0, |status| status.disruptions_allowed),
        blocks_always: is(max_unavailable, Some(0), "0%") || is(min_available, None, "100%"),
        always_allow_unhealthy: spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref())
            == Some("AlwaysAllow"),
    })
}
