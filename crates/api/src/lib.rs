//! The Kubernetes API that Fleetwright speaks: the custom resources of `karpenter.sh`, `autoscaling.x-k8s.io` and
//! `karpenter.kwok.sh`, their conditions, durations, drift hash and generated CRDs.
//!
//! This crate is a leaf: types and pure functions, no client. Reading is lenient (what an older CRD admitted must never
//! make a list fail), writing skips what is unset, as Go's `omitempty` does. Values that we do not know are kept as
//! written and left to the validation of the layer above.

pub mod capacitybuffer;
pub mod condition;
pub mod conditions;
pub mod crd;
pub mod duration;
pub mod hash;
pub mod installed;
pub mod kwoknodeclass;
pub mod labels;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod providerclass;
pub mod schema;
pub mod shared;
mod text;

pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use condition::{Condition, ConditionStatus};
pub use conditions::{ConditionSet, ConditionTypes, HasConditions};
pub use crd::{file_name, generate, to_yaml};
pub use duration::NillableDuration;
pub use kwoknodeclass::{KwokNodeClass, KwokNodeClassSpec, KwokNodeClassStatus};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use providerclass::{NodeClassView, NodeClassViewStatus};
pub use shared::{NodeClassRef, Operator, Quantities, Requirement, Taint, TaintEffect};
