//! Volumes of an instance.

use fleetwright_api::schema::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume and its device name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceMapping {
    /// Name of the device, such as `/dev/xvda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the kubelet's files are on it; at most one device may set this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

/// An EBS volume that is created with the instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(EBS_RULES)))]
pub struct BlockDevice {
    /// Whether the volume is deleted with the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted. Must not be set for a volume from a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second; for gp3, io1 and io2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// The encryption key: an id, alias or ARN.
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Id of the snapshot that the volume is created from.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Throughput in MiB/s; for gp3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// How fast a snapshot's blocks are fetched, in MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 100, "maximum" = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size of the volume in Gi, G, Ti or T.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = VOLUME_SIZE))]
    pub volume_size: Option<String>,
    /// Type of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]))]
    pub volume_type: Option<String>,
}

/// Sizes that EBS supports, as in Karpenter's CRD.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$";

const EBS_RULES: &[(&str, &str)] = &[
    ("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
    (
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "snapshotID must be set when volumeInitializationRate is set",
    ),
];

pub(super) const MAPPINGS_RULES: &[(&str, &str)] = &[(
    "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
    "must have only one blockDeviceMappings with rootVolume",
)];
