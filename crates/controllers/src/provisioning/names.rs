//! Names of the controllers that enqueue each other's keys.

/// Karpenter's name of the controller that runs scheduling passes.
pub(crate) const PROVISIONER: &str = "provisioner";
/// The controller that resolves CapacityBuffers.
pub(crate) const CAPACITY_BUFFER: &str = "capacitybuffer";
