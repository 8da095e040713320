//! The allow-list itself: per kind, the paths that are read. A new field of [`crate::lower`] or of a tool needs its line here.

use std::sync::OnceLock;

use fleetwright_api::labels as names;
use fleetwright_core::model::labels as model;

use super::{
    Fields,
    pod::{POD_SPEC, POD_STATUS, TEMPLATE_META},
};

/// The annotations that decisions and tools read, of every kind. All others are left out.
pub const ANNOTATIONS: [&str; 33] = [
    model::DO_NOT_DISRUPT,
    model::REQUESTED_DRA_DRIVERS,
    model::LINEAGE,
    model::AWAITS_LABEL,
    names::NODEPOOL_HASH,
    names::NODEPOOL_HASH_VERSION,
    names::TERMINATION_TIMESTAMP,
    names::MIN_VALUES_RELAXED,
    names::PRICE_OVERLAY_APPLIED,
    names::CAPACITY_OVERLAY_APPLIED,
    names::BATCH_ID,
    names::BATCH_POSITION,
    names::ATTEMPT,
    names::ATTEMPT_MEMBERS,
    names::NOMINATED_PODS,
    names::OBSERVED,
    names::LAUNCH_LOOPS,
    names::LAUNCHED_FOR,
    names::INITIALIZATION_TIMEOUT,
    names::INITIALIZATION_FAILURES,
    names::BUDGET_TIME_ZONE,
    names::EXPIRE_WITHIN_BUDGETS,
    names::DRIFT_CAP,
    names::HARD_LIMITS,
    names::DELETE_PROTECTION,
    names::REPAIR_DEADLINE,
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "controller.kubernetes.io/pod-deletion-cost",
    "kubernetes.io/config.mirror",
    "pv.kubernetes.io/bind-completed",
    "storageclass.kubernetes.io/is-default-class",
    "volume.kubernetes.io/selected-node",
];

/// Of every object.
const OBJECT: &str = "
    apiVersion scalar
    kind scalar
    metadata.name name
    metadata.namespace name
    metadata.uid uid
    metadata.generation scalar
    metadata.creationTimestamp scalar
    metadata.deletionTimestamp scalar
    metadata.labels labels
    metadata.annotations annotations
    metadata.ownerReferences owners
    metadata.finalizers finalizers
";

const NODE: &str = "
    spec.providerID name
    spec.taints taints
    spec.unschedulable scalar
    status.capacity amounts
    status.allocatable amounts
    status.conditions conditions
";

/// The annotations of the template are part of the drift hash.
const NODE_POOL: &str = "
    spec.weight scalar
    spec.replicas scalar
    spec.limits amounts
    spec.disruption.consolidateAfter scalar
    spec.disruption.consolidationPolicy scalar
    spec.disruption.budgets[].nodes scalar
    spec.disruption.budgets[].reasons scalars
    spec.disruption.budgets[].schedule scalar
    spec.disruption.budgets[].duration scalar
    spec.template.metadata.labels labels
    spec.template.metadata.annotations labels
    spec.template.spec.taints taints
    spec.template.spec.startupTaints taints
    spec.template.spec.requirements requirements
    spec.template.spec.nodeClassRef.group scalar
    spec.template.spec.nodeClassRef.kind scalar
    spec.template.spec.nodeClassRef.name name
    spec.template.spec.expireAfter scalar
    spec.template.spec.terminationGracePeriod scalar
    status.conditions told-conditions
";

const NODE_CLAIM: &str = "
    spec.taints taints
    spec.startupTaints taints
    spec.requirements requirements
    spec.resources.requests amounts
    spec.nodeClassRef.group scalar
    spec.nodeClassRef.kind scalar
    spec.nodeClassRef.name name
    spec.expireAfter scalar
    spec.terminationGracePeriod scalar
    status.providerID name
    status.nodeName name
    status.imageID scalar
    status.capacity amounts
    status.allocatable amounts
    status.lastPodEventTime scalar
    status.conditions told-conditions
";

const NODE_OVERLAY: &str = "
    spec.weight scalar
    spec.requirements requirements
    spec.price scalar
    spec.priceAdjustment scalar
    spec.capacity amounts
    status.conditions told-conditions
";

const BUFFER: &str = "
    spec.replicas scalar
    spec.percentage scalar
    spec.provisioningStrategy scalar
    spec.limits amounts
    spec.podTemplateRef.name name
    spec.scalableRef.apiGroup scalar
    spec.scalableRef.kind scalar
    spec.scalableRef.name name
    status.conditions told-conditions
";

const VOLUME: &str = "
    spec.storageClassName name
    spec.local.path scalar
    spec.hostPath.path scalar
    spec.nodeAffinity.required.nodeSelectorTerms[].matchExpressions requirements
    spec.nodeAffinity.required.nodeSelectorTerms[].matchFields requirements
    spec.csi.driver scalar
    spec.csi.volumeHandle name
    spec.awsElasticBlockStore.volumeID name
    spec.claimRef.namespace name
    spec.claimRef.name name
    spec.claimRef.uid uid
    status.phase scalar
";

const VOLUME_CLAIM: &str = "
    spec.volumeName name
    spec.storageClassName name
    spec.volumeMode scalar
    spec.accessModes scalars
    spec.resources.requests amounts
    status.phase scalar
";

const STORAGE_CLASS: &str = "
    provisioner scalar
    volumeBindingMode scalar
    allowedTopologies[].matchLabelExpressions requirements
";

const CSI_NODE: &str = "
    spec.drivers[].name scalar
    spec.drivers[].nodeID name
    spec.drivers[].topologyKeys keys
    spec.drivers[].allocatable.count scalar
";

const ATTACHMENT: &str = "
    spec.attacher scalar
    spec.nodeName name
    spec.source.persistentVolumeName name
    status.attached scalar
";

const BUDGET: &str = "
    spec.selector selector
    spec.minAvailable scalar
    spec.maxUnavailable scalar
    spec.unhealthyPodEvictionPolicy scalar
    status.disruptionsAllowed scalar
    status.currentHealthy scalar
    status.desiredHealthy scalar
    status.expectedPods scalar
    status.observedGeneration scalar
";

const LIMIT_RANGE: &str = "
    spec.limits[].type scalar
    spec.limits[].default amounts
    spec.limits[].defaultRequest amounts
    spec.limits[].max amounts
    spec.limits[].min amounts
";

const QUOTA: &str = "
    spec.hard amounts
    spec.scopes scalars
    status.hard amounts
    status.used amounts
";

const WORKLOAD: &str = "
    spec.replicas scalar
    spec.selector selector
    status.replicas scalar
    status.readyReplicas scalar
    status.availableReplicas scalar
";

const DAEMON_SET: &str = "
    spec.selector selector
    status.desiredNumberScheduled scalar
    status.currentNumberScheduled scalar
    status.numberReady scalar
    status.numberMisscheduled scalar
";

/// A claim template of a StatefulSet.
const CLAIM_TEMPLATES: &str = "
    spec.podManagementPolicy scalar
    spec.serviceName name
    spec.ordinals.start scalar
    spec.volumeClaimTemplates[].metadata.name name
    spec.volumeClaimTemplates[].metadata.labels labels
    spec.volumeClaimTemplates[].spec.storageClassName name
    spec.volumeClaimTemplates[].spec.accessModes scalars
    spec.volumeClaimTemplates[].spec.resources.requests amounts
";

const JOB: &str = "
    parallelism scalar
    completions scalar
    completionMode scalar
    suspend scalar
";

const JOB_STATUS: &str = "
    status.active scalar
    status.succeeded scalar
    status.failed scalar
    status.conditions conditions
";

/// Expressions of device selectors (CEL) are kept as they are.
const DEVICE_CLASS: &str = "
    spec.selectors[].cel.expression scalar
";

/// What a ResourceClaim asks for, below its spec.
const DEVICES: &str = "
    devices.requests[].name name
    devices.requests[].exactly.deviceClassName name
    devices.requests[].exactly.selectors[].cel.expression scalar
    devices.requests[].exactly.allocationMode scalar
    devices.requests[].exactly.count scalar
    devices.requests[].exactly.adminAccess scalar
    devices.requests[].exactly.tolerations taints
    devices.requests[].exactly.capacity.requests amounts
    devices.requests[].firstAvailable[].name name
    devices.requests[].firstAvailable[].deviceClassName name
    devices.requests[].firstAvailable[].selectors[].cel.expression scalar
    devices.requests[].firstAvailable[].allocationMode scalar
    devices.requests[].firstAvailable[].count scalar
    devices.requests[].firstAvailable[].tolerations taints
    devices.requests[].firstAvailable[].capacity.requests amounts
    devices.constraints[].requests names
    devices.constraints[].matchAttribute scalar
    devices.constraints[].distinctAttribute scalar
";

const DEVICE_CLAIM: &str = "
    status.allocation.nodeSelector.nodeSelectorTerms[].matchExpressions requirements
    status.allocation.nodeSelector.nodeSelectorTerms[].matchFields requirements
    status.allocation.devices.results[].request name
    status.allocation.devices.results[].driver scalar
    status.allocation.devices.results[].pool name
    status.allocation.devices.results[].device name
    status.allocation.devices.results[].adminAccess scalar
    status.allocation.devices.results[].shareID scalar
    status.allocation.devices.results[].consumedCapacity amounts
    status.reservedFor[].apiGroup scalar
    status.reservedFor[].resource scalar
    status.reservedFor[].name name
    status.reservedFor[].uid uid
";

const SLICE: &str = "
    spec.driver scalar
    spec.nodeName name
    spec.allNodes scalar
    spec.perDeviceNodeSelection scalar
    spec.pool.name name
    spec.pool.generation scalar
    spec.pool.resourceSliceCount scalar
    spec.nodeSelector.nodeSelectorTerms[].matchExpressions requirements
    spec.nodeSelector.nodeSelectorTerms[].matchFields requirements
    spec.sharedCounters[].name name
    spec.sharedCounters[].counters.*.value scalar
    spec.devices[].name name
    spec.devices[].nodeName name
    spec.devices[].allNodes scalar
    spec.devices[].nodeSelector.nodeSelectorTerms[].matchExpressions requirements
    spec.devices[].nodeSelector.nodeSelectorTerms[].matchFields requirements
    spec.devices[].allowMultipleAllocations scalar
    spec.devices[].bindsToNode scalar
    spec.devices[].taints taints
    spec.devices[].attributes.*.int scalar
    spec.devices[].attributes.*.bool scalar
    spec.devices[].attributes.*.string scalar
    spec.devices[].attributes.*.version scalar
    spec.devices[].capacity.*.value scalar
    spec.devices[].capacity.*.requestPolicy.default scalar
    spec.devices[].capacity.*.requestPolicy.validValues scalars
    spec.devices[].capacity.*.requestPolicy.validRange.min scalar
    spec.devices[].capacity.*.requestPolicy.validRange.max scalar
    spec.devices[].capacity.*.requestPolicy.validRange.step scalar
    spec.devices[].consumesCounters[].counterSet name
    spec.devices[].consumesCounters[].counters.*.value scalar
";

/// Tables of paths, each below a position.
type Tables = &'static [(&'static str, &'static str)];

/// Group, kind, and the tables of its fields.
const KINDS: [(&str, &str, Tables); 28] = [
    ("", "Namespace", &[]),
    ("", "Pod", &[("spec", POD_SPEC), ("status", POD_STATUS)]),
    ("", "Node", &[("", NODE)]),
    ("", "PersistentVolume", &[("", VOLUME)]),
    ("", "PersistentVolumeClaim", &[("", VOLUME_CLAIM)]),
    ("", "Service", &[("", "spec.selector labels")]),
    (
        "",
        "ReplicationController",
        &[
            ("", "spec.selector labels\nspec.replicas scalar\nstatus.replicas scalar"),
            ("spec.template.metadata", TEMPLATE_META),
            ("spec.template.spec", POD_SPEC),
        ],
    ),
    ("", "LimitRange", &[("", LIMIT_RANGE)]),
    ("", "ResourceQuota", &[("", QUOTA)]),
    ("", "PodTemplate", &[("template.metadata", TEMPLATE_META), ("template.spec", POD_SPEC)]),
    ("apps", "Deployment", &TEMPLATED),
    ("apps", "ReplicaSet", &TEMPLATED),
    (
        "apps",
        "StatefulSet",
        &[
            ("", WORKLOAD),
            ("", CLAIM_TEMPLATES),
            ("spec.template.metadata", TEMPLATE_META),
            ("spec.template.spec", POD_SPEC),
        ],
    ),
    (
        "apps",
        "DaemonSet",
        &[("", DAEMON_SET), ("spec.template.metadata", TEMPLATE_META), ("spec.template.spec", POD_SPEC)],
    ),
    (
        "batch",
        "Job",
        &[
            ("", JOB_STATUS),
            ("", "spec.selector selector"),
            ("spec", JOB),
            ("spec.template.metadata", TEMPLATE_META),
            ("spec.template.spec", POD_SPEC),
        ],
    ),
    (
        "batch",
        "CronJob",
        &[
            ("", "spec.schedule scalar\nspec.suspend scalar\nstatus.lastScheduleTime scalar"),
            ("spec.jobTemplate.spec", JOB),
            ("spec.jobTemplate.spec.template.metadata", TEMPLATE_META),
            ("spec.jobTemplate.spec.template.spec", POD_SPEC),
        ],
    ),
    ("policy", "PodDisruptionBudget", &[("", BUDGET)]),
    ("storage.k8s.io", "StorageClass", &[("", STORAGE_CLASS)]),
    ("storage.k8s.io", "CSINode", &[("", CSI_NODE)]),
    ("storage.k8s.io", "VolumeAttachment", &[("", ATTACHMENT)]),
    ("resource.k8s.io", "DeviceClass", &[("", DEVICE_CLASS)]),
    ("resource.k8s.io", "ResourceSlice", &[("", SLICE)]),
    ("resource.k8s.io", "ResourceClaim", &[("spec", DEVICES), ("", DEVICE_CLAIM)]),
    ("resource.k8s.io", "ResourceClaimTemplate", &[("spec.spec", DEVICES)]),
    ("karpenter.sh", "NodePool", &[("", NODE_POOL)]),
    ("karpenter.sh", "NodeClaim", &[("", NODE_CLAIM)]),
    ("karpenter.sh", "NodeOverlay", &[("", NODE_OVERLAY)]),
    ("autoscaling.x-k8s.io", "CapacityBuffer", &[("", BUFFER)]),
];

/// A workload with a pod template.
const TEMPLATED: [(&str, &str); 3] =
    [("", WORKLOAD), ("spec.template.metadata", TEMPLATE_META), ("spec.template.spec", POD_SPEC)];

/// The fields of a kind; `None` if no decision reads it.
pub(super) fn fields(group: &str, kind: &str) -> Option<&'static Fields> {
    static ALL: OnceLock<Vec<(&str, &str, Fields)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        KINDS.into_iter().map(|(group, kind, tables)| (group, kind, of_tables(tables))).collect()
    });
    all.iter().find(|(of, known, _)| (*of, *known) == (group, kind)).map(|(_, _, fields)| fields)
}

/// The fields of a NodeClass: its conditions, and the lines of `table`.
pub(super) fn class(table: &'static str) -> Fields {
    of_tables(&[("", "status.conditions told-conditions"), ("", table)])
}

fn of_tables(tables: &[(&'static str, &'static str)]) -> Fields {
    let mut fields = Fields::none();
    fields.extend(OBJECT);
    for (below, table) in tables {
        if below.is_empty() { &mut fields } else { fields.below(below) }.extend(table);
    }
    fields
}

/// Every path of the lists with its class, for tests.
#[cfg(test)]
pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    let tables = KINDS.into_iter().flat_map(|(_, _, tables)| tables.iter().map(|(_, table)| *table));
    tables.chain([OBJECT]).flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty())
}

/// Group and kind of everything that is listed.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().map(|(group, kind, _)| (group, kind))
}
