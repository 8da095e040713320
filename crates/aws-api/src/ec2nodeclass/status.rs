//! The status of an EC2NodeClass: resolved selectors and conditions.

use fleetwright_api::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Condition types of EC2NodeClass.
pub mod condition {
    /// Images were found.
    pub const AMIS_READY: &str = "AMIsReady";
    /// Subnets were found.
    pub const SUBNETS_READY: &str = "SubnetsReady";
    /// Security groups were found.
    pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
    /// The instance profile exists.
    pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
    /// The spec passed the checks beyond the CRD, and dry runs.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The placement group was found, if one is selected.
    pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
    /// Capacity reservations were looked up, if the feature is enabled.
    pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
    /// The EKS cluster of the configured name is the one behind the API server. Not part of Karpenter; Ready does not depend on it.
    pub const CLUSTER_IDENTITY_PROVEN: &str = "ClusterIdentityProven";
    /// All enabled features work. Not part of Karpenter; present only after a failure; Ready does not depend on it.
    pub const FEATURES_AVAILABLE: &str = "FeaturesAvailable";

    /// The conditions that Karpenter does not have, and therefore never removes.
    pub const OWN: [&str; 2] = [CLUSTER_IDENTITY_PROVEN, FEATURES_AVAILABLE];

    /// The conditions that Ready depends on, with capacity reservations enabled (the default).
    pub const DEPENDENTS: &[&str] = &[
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
        CAPACITY_RESERVATIONS_READY,
    ];
}

/// The observed state of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Ec2NodeClassStatus {
    /// Images that the selectors match, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Capacity reservations that the selectors match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Conditions of the EC2NodeClass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The instance profile in use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_profile: String,
    /// Security groups that the selectors match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Subnets that the selectors match, those with the most free addresses first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["id", "zone"]))]
pub struct Subnet {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// The zone's id, which is the same in all accounts.
    #[serde(rename = "zoneID", skip_serializing_if = "String::is_empty")]
    pub zone_id: String,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["id"]))]
pub struct SecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// An image and the instance types that it supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["id", "requirements"]))]
pub struct Ami {
    /// Whether its owner has deprecated it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Requirements on the instance type.
    pub requirements: Vec<AmiRequirement>,
}

/// A requirement on a label of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct AmiRequirement {
    /// The label.
    pub key: String,
    /// The operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"]))]
pub struct CapacityReservation {
    /// The zone that it is in.
    pub availability_zone: String,
    /// When it ends; afterwards nothing is launched into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Its id.
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// How instances are matched to it.
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: String,
    /// The instance type that it is for.
    pub instance_type: String,
    /// Whether its owner may reclaim the capacity.
    pub interruptible: bool,
    /// Account that owns it.
    #[serde(rename = "ownerID")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// An ordinary reservation, or a capacity block.
    #[schemars(extend("enum" = ["default", "capacity-block"], "x-crd-default" = "default"))]
    pub reservation_type: String,
    /// Whether it is about to end; capacity blocks only.
    #[schemars(extend("enum" = ["active", "expiring"], "x-crd-default" = "active"))]
    pub state: String,
}
