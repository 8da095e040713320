//! The Kubernetes API of the AWS provider: EC2NodeClass of `karpenter.k8s.aws/v1`, its kubelet block, conditions, drift
//! hash, labels, and the rules that AWS adds to the common custom resources.
//!
//! Re-exports the items of the common API that the provider needs; the provider depends on this crate alone.
//!
//! Types and pure functions only; no client and no AWS SDK. Deserialization is lenient; serialization skips unset fields.

pub mod crd;
pub mod ec2nodeclass;
pub mod kubelet;
pub mod labels;

pub use crd::crds;
pub use ec2nodeclass::{Alias, Ec2NodeClass, Ec2NodeClassSpec, Ec2NodeClassStatus, Family};
pub use fleetwright_api::Condition;
pub use fleetwright_api::conditions::{ConditionSet, ConditionTypes, HasConditions};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
pub use kubelet::{KubeletConfig, MaxPods, ParsedKubelet};
