//! Images, reservations, the cluster, messages, instance profiles and instance statuses.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `x86_64`, `arm64`.
    pub architecture: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its owner deprecates it.
    pub deprecated_at: Option<Timestamp>,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationInfo {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its owner's account.
    pub owner: String,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether its owner may reclaim it.
    pub interruptible: bool,
    /// When it starts, while that is ahead.
    pub starts: Option<Timestamp>,
    /// When it ends.
    pub ends: Option<Timestamp>,
    /// How many more instances it can hold.
    pub available: u32,
}

/// A cluster as EKS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Its ARN.
    pub arn: String,
    /// Address of the API server.
    pub endpoint: String,
    /// The API server's certificate authority, base64.
    pub ca_bundle: String,
    /// Version of the control plane, such as `1.35`.
    pub version: String,
    /// The services' IPv4 range.
    pub service_cidr_v4: Option<String>,
    /// The services' IPv6 range.
    pub service_cidr_v6: Option<String>,
}

/// A message of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The handle by which it is deleted.
    pub receipt: String,
    /// Its text.
    pub body: String,
    /// How often it was received, this time included; 0 if the queue does not report it.
    pub received: u32,
}

/// An instance profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its roles, by name.
    pub roles: Vec<String>,
    /// Its tags, if they were requested.
    pub tags: BTreeMap<String, String>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// A problem of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The instance.
    pub id: String,
    /// Since when its own checks fail.
    pub instance_impaired_since: Option<Timestamp>,
    /// Since when the checks of its host fail.
    pub system_impaired_since: Option<Timestamp>,
    /// Codes of scheduled events, such as `instance-retirement`.
    pub events: Vec<String>,
}

/// A shift of traffic away from a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZonalShift {
    /// The zone's id, such as `use1-az1`.
    pub zone_id: String,
    /// `APPLIED` or `NOT_APPLIED`.
    pub status: String,
    /// When it expires; `None` for an autoshift, which AWS begins and ends.
    pub expires: Option<Timestamp>,
}
