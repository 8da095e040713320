//! Label, annotation and provider names of the fake cloud: those of Karpenter's kwok provider, and Fleetwright's.

pub use fleetwright_api::labels::{ATTEMPT, BATCH_ID, CLUSTER_UID, KWOK_GROUP as GROUP};
pub use fleetwright_instance_types::labels::{INSTANCE_CPU, INSTANCE_FAMILY, INSTANCE_MEMORY, INSTANCE_SIZE};

/// Kind of the node class.
pub const NODE_CLASS_KIND: &str = "KWOKNodeClass";

/// Label and annotation that mark a node as simulated; the value is [`FAKE_NODE_VALUE`].
pub const FAKE_NODE: &str = "kwok.x-k8s.io/node";
/// Value of [`FAKE_NODE`].
pub const FAKE_NODE_VALUE: &str = "fake";
/// Dollars per hour, as eks-node-viewer reads it.
pub const NODE_VIEWER_PRICE: &str = "eks-node-viewer/instance-price";
/// One of ten partitions of simulated nodes.
pub const PARTITION: &str = "kwok-partition";
/// Values of [`PARTITION`].
pub const PARTITIONS: [&str; 10] = [
    "partition-a",
    "partition-b",
    "partition-c",
    "partition-d",
    "partition-e",
    "partition-f",
    "partition-g",
    "partition-h",
    "partition-i",
    "partition-j",
];

/// Annotation of a Node: the NodeClaim that its instance was launched for.
pub const CLAIM: &str = "fleetwright.dev/nodeclaim";
/// Annotation of a Pod: how long it runs before it succeeds, as a duration such as `30s` or `2m`.
pub const RUN_FOR: &str = "fleetwright.dev/run-for";

/// KWOK's label that keeps a Node or a Pod in a stage; the value is [`UNHEALTHY`].
pub const STAGE: &str = "kwok.x-k8s.io/stage";
/// Value of [`STAGE`]: the conditions of a Node stay as a client set them, and a Pod never becomes ready.
pub const UNHEALTHY: &str = "unhealthy";
/// KWOK's label, with the value `true`, of a Pod that fails after the start of its containers. Pods whose containers are restarted ignore it.
pub const RUNNING_FAILED: &str = "pod-container-running-failed.stage.kwok.x-k8s.io";
/// Annotation of such a Pod: how long its containers run, as a duration; at once without it.
pub const RUNNING_FAILED_DELAY: &str = "pod-container-running-failed.stage.kwok.x-k8s.io/delay";

/// Lower-case image id of every fake instance.
pub const IMAGE_ID: &str = "fake-image-1";
