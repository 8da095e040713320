//! What became of a node class: what its selectors found, and its conditions.

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
    /// The instance profile is there.
    pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
    /// The spec passed what the CRD cannot check, and dry runs.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The placement group was found, where one is asked for.
    pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
    /// Capacity reservations were looked up, where they are switched on.
    pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
    /// The cluster of the configured name is the one behind the API server. Not Karpenter's, and nothing depends on it.
    pub const CLUSTER_IDENTITY_PROVEN: &str = "ClusterIdentityProven";
    /// What is switched on works. Not Karpenter's, there only once something did not, and nothing depends on it.
    pub const FEATURES_AVAILABLE: &str = "FeaturesAvailable";

    /// The conditions that the root depends on, with capacity reservations switched on as they are by default.
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

/// What became of a node class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Ec2NodeClassStatus {
    /// Images that the selectors found, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Capacity reservations that the selectors found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Signals about the node class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The instance profile in use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_profile: String,
    /// Security groups that the selectors found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Subnets that the selectors found, the one with the most free addresses first.
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
    /// Its zone by the id that all accounts share.
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

/// An image, and which instance types it is for.
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
    /// What an instance type must be to run it.
    pub requirements: Vec<AmiRequirement>,
}

/// A condition on the labels of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct AmiRequirement {
    /// The label.
    pub key: String,
    /// How the label relates to the values: In, NotIn, Exists, DoesNotExist, Gt or Lt.
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
    /// When it ends; after that nothing is launched into it.
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
    /// Whether its capacity may be taken back.
    pub interruptible: bool,
    /// Account that owns it.
    #[serde(rename = "ownerID")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// An ordinary reservation, or a block for a fixed time.
    #[schemars(extend("enum" = ["default", "capacity-block"], "x-crd-default" = "default"))]
    pub reservation_type: String,
    /// Whether it is about to end; blocks only.
    #[schemars(extend("enum" = ["active", "expiring"], "x-crd-default" = "active"))]
    pub state: String,
}
