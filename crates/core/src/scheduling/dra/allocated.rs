//! A device that a search gives and a ledger holds.

use crate::scheduling::{
    dra::{Ref, capacity::Consumed},
    ids::CompiledClaimId,
};

/// A device for a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllocatedDevice {
    /// Index of the claim.
    pub(crate) claim: CompiledClaimId,
    pub(crate) request: usize,
    pub(crate) option: usize,
    pub(crate) device: Ref,
    /// Whether others may have it too.
    pub(crate) admin: bool,
    /// What is taken of it, where it is shared.
    pub(crate) consumed: Consumed,
    /// Whether the device's counters are charged: not for administration, and once for a shared device.
    pub(crate) charged: bool,
}
