//! Plain data that decisions read and write. No serialization, but for [`Currency`], and no Kubernetes client types: those
//! are a stable interface, and these types are free to change.

pub mod baseline;
pub mod currency;
pub mod device;
pub mod figures;
pub mod ids;
pub mod instance_type;
pub mod labels;
pub mod node;
pub mod nodeclaim;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod nomination;
pub mod objective;
pub mod observed;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod pdb;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod pod;
pub mod pool;
pub mod positions;
pub mod price;
pub mod requirement;
pub mod requirements;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod resource_claim;
pub mod resources;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod snapshot;
pub mod taint;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod volume;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod workloads;

pub use baseline::Baseline;
pub use currency::Currency;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use device::ResourceSlice;
pub use device::{Device, DeviceId, DeviceTemplates, SliceTemplate};
pub use figures::Rounding;
pub use fleetwright_kube_semantics::quantity::{self, Quantity};
pub use ids::{BatchId, ClaimName, NamespacedName, NodeName, PodUid, PoolName, ProviderId, Str};
pub use instance_type::{
    Catalog, InstanceType, Offering, Overhead, Prediction, ScheduledCapacity, SharedCapacity,
};
pub use labels::{LabelSchema, Labels};
pub use node::{Node, StateNode};
pub use nodeclaim::{Condition, ConditionStatus, NodeClaim, NodeClassRef};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use nomination::{ClaimStage, LeaseBound, Nomination, NominationEvent, PodNomination};
pub use objective::{Objective, Prices};
pub use observed::{
    Observed, ObservedTaint, SmallerNode,
    capacity::{ObservedCapacity, ObservedNode},
};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use pdb::PodDisruptionBudget;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use pod::{LabelSelector, Pod, PodAffinityTerm, PodPhase, TopologySpread};
pub use pool::{Budget, ConsolidationPolicy, DisruptionReason, Limits, NodePool};
pub use positions::Positions;
pub use price::Price;
pub use requirement::{Operator, Requirement};
pub use requirements::{Incompatible, Requirements};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use resource_claim::{ClaimSource, Devices, PodClaim, ResourceClaim, Selector};
pub use resources::{ResourceName, Resources};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use snapshot::Snapshot;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use taint::Toleration;
pub use taint::{Taint, TaintEffect};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use volume::{StorageClass, StorageClasses, VolumeClaim, VolumeState};
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub use workloads::Workloads;
