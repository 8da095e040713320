//! Names on the wire that only the shell reads and writes: hash annotations, finalizers, lifecycle labels, condition
//! types and our own `fleetwright.dev/*` annotations. Keys that decisions read belong to the core's label schema.

/// API group of NodePool, NodeClaim and NodeOverlay.
pub const GROUP: &str = "karpenter.sh";
/// API group of KWOKNodeClass.
pub const KWOK_GROUP: &str = "karpenter.kwok.sh";
/// API group of CapacityBuffer.
pub const BUFFER_GROUP: &str = "autoscaling.x-k8s.io";

/// Finalizer on Nodes and NodeClaims: objects are deleted only after their instance is terminated.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// Drift hash of the NodePool's template, on NodePools and on the NodeClaims made from them.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODEPOOL_HASH`]; hashes of different versions are never compared.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// The version that this crate computes.
pub const CURRENT_NODEPOOL_HASH_VERSION: &str = "v3";

/// RFC 3339 time at which a terminating NodeClaim's pods lose their protection.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Set on a NodeClaim whose minValues were relaxed to launch at all.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Drivers of dynamic resources that the NodeClaim's pods asked for.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Set on a NodeClaim that was priced by a NodeOverlay.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Set on a NodeClaim whose capacity was extended by a NodeOverlay.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Marks the in-memory pods that stand for a CapacityBuffer's chunks.
pub const BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// Name of the buffer behind such a pod.
pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// Namespace of the buffer behind such a pod.
pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// Label of a Node whose NodeClaim has registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Label of a Node whose NodeClaim has initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Label of Nodes that manage their own taints.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// What every annotation and finalizer of Fleetwright begins with.
pub const PREFIX: &str = "fleetwright.dev/";
/// The annotations of Fleetwright that users set; it writes the others itself.
pub const SET_BY_USERS: [&str; 6] = [
    INITIALIZATION_TIMEOUT,
    BUDGET_TIME_ZONE,
    EXPIRE_WITHIN_BUDGETS,
    DRIFT_CAP,
    HARD_LIMITS,
    DELETE_PROTECTION,
];

/// Our annotation: NodeClaims of one plan with equal launch requirements share this id; it is a part of the launch token.
pub const BATCH_ID: &str = "fleetwright.dev/batch-id";
/// Our annotation: the position of a NodeClaim in its batch, written at creation.
pub const BATCH_POSITION: &str = "fleetwright.dev/batch-position";
/// Our annotation: the positions that the launch attempt is for, as ranges such as `0-3,5`.
pub const ATTEMPT_MEMBERS: &str = "fleetwright.dev/attempt-members";
/// Our annotation: the number of the launch attempt, written before the cloud is called; absent before the first.
pub const ATTEMPT: &str = "fleetwright.dev/attempt";
/// Our annotation: UID of the cluster (its kube-system namespace) that made the object.
pub const CLUSTER_UID: &str = "fleetwright.dev/cluster-uid";
/// Our annotation: the pods that a NodeClaim was opened for, as `namespace/name:uid` joined by commas.
pub const NOMINATED_PODS: &str = "fleetwright.dev/nominated-pods";
/// Annotation of Fleetwright: the constraints of those pods at the time of the decision, for users.
pub const POD_CONSTRAINTS: &str = "fleetwright.dev/pod-constraints";
/// Annotation of Fleetwright on NodePools: the observations on their nodes, as JSON.
pub const OBSERVED: &str = "fleetwright.dev/observed";
/// Annotation of Fleetwright on NodePools: workloads whose pods did not run on the nodes that were launched for them, as JSON.
pub const LAUNCH_LOOPS: &str = "fleetwright.dev/launch-loops";
/// Annotation of Fleetwright: the demands that a NodeClaim was created for, as hashes joined by commas.
pub const LAUNCHED_FOR: &str = "fleetwright.dev/launched-for";
/// Annotation of Fleetwright on NodePools: the maximum time from joining to initialization, as a Go duration; `Never` or zero disables
/// it.
pub const INITIALIZATION_TIMEOUT: &str = "fleetwright.dev/initialization-timeout";
/// Our annotation on NodePools: `generation/claim/time` of the NodeClaim that was replaced because its node was not
/// initialized in time.
pub const INITIALIZATION_FAILURES: &str = "fleetwright.dev/initialization-failures";
/// Annotation of Fleetwright: the id of the decision to create a NodeClaim, among the records of decisions.
pub const DECISION: &str = "fleetwright.dev/decision";
/// Our annotation: the disruption command that takes a NodeClaim, as JSON; written before anything else of the command.
pub const DISRUPTION_COMMAND: &str = "fleetwright.dev/disruption-command";
/// Annotation of Fleetwright on NodePools: the IANA time zone of budget schedules; UTC by default.
pub const BUDGET_TIME_ZONE: &str = "fleetwright.dev/budget-time-zone";
/// Our annotation on NodePools: for so long after `expireAfter` nodes are replaced within budgets, before they are deleted
/// by force. A Go duration.
pub const EXPIRE_WITHIN_BUDGETS: &str = "fleetwright.dev/expire-within-budgets";
/// Our annotation on NodePools: how many nodes may be replaced for drift within a time, as `nodes/duration`.
pub const DRIFT_CAP: &str = "fleetwright.dev/drift-cap";
/// Our annotation on NodePools: nodes count against `spec.limits` until they are gone, also while they are deleted; all but
/// `false` is on.
pub const HARD_LIMITS: &str = "fleetwright.dev/hard-limits";
/// Annotation of Fleetwright on NodePools, and the finalizer that it adds: a deleted NodePool stays while it has NodeClaims; any value
/// except `false` enables it.
pub const DELETE_PROTECTION: &str = "fleetwright.dev/delete-protection";
/// Annotation of Fleetwright: the [`TERMINATION_TIMESTAMP`] that node repair set. If the NodeClaim is not deleted after all, both are
/// removed.
pub const REPAIR_DEADLINE: &str = "fleetwright.dev/repair-deadline";

/// Condition types, by the kind that carries them.
pub mod condition {
    /// Root condition of every kind that has one.
    pub const READY: &str = "Ready";

    /// NodePool, NodeOverlay: the spec passed validation at run time.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// NodePool: its node class exists and is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// NodePool: nodes of recent launches have registered.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

    /// Our condition on NodePools: their nodes are what was promised.
    pub const NODES_AS_EXPECTED: &str = "NodesAsExpected";
    /// Our condition on NodePools: their nodes are initialized in time.
    pub const INITIALIZATION_HEALTHY: &str = "InitializationHealthy";
    /// Our condition on NodePools: no feature is off because the API server refuses what it needs.
    pub const FEATURES_AVAILABLE: &str = "FeaturesAvailable";
    /// Our condition on NodePools: they are deleted, and stay as long as they have NodeClaims.
    pub const DELETION_HELD: &str = "DeletionHeld";
    /// Our condition on NodePools: no drifted node waits for their drift cap.
    pub const DRIFT_WITHIN_CAP: &str = "DriftWithinCap";

    /// NodeClaim: an instance exists.
    pub const LAUNCHED: &str = "Launched";
    /// NodeClaim: its Node joined.
    pub const REGISTERED: &str = "Registered";
    /// NodeClaim: its Node is ready, its startup taints are gone and its resources are there.
    pub const INITIALIZED: &str = "Initialized";
    /// NodeClaim: quiet for long enough to be consolidated.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// NodeClaim: no longer what its NodePool or node class asks for.
    pub const DRIFTED: &str = "Drifted";
    /// NodeClaim: every pod that has to leave has left.
    pub const DRAINED: &str = "Drained";
    /// NodeClaim: its volumes are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// NodeClaim: the termination of the instance was requested.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// NodeClaim: the Node agrees with what was launched.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// Our condition on NodeClaims: the pods that they were created for can go there.
    pub const PODS_FIT: &str = "PodsFit";
    /// Our condition on NodeClaims: the node is initialized within its deadline.
    pub const INITIALIZED_IN_TIME: &str = "InitializedInTime";
    /// Our condition on NodeClaims: everything lasting that keeps them from being disrupted.
    pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
    /// NodeClaim: why it is being disrupted.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";

    /// CapacityBuffer: its shape and count are resolved.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// CapacityBuffer: its chunks have nodes, or nodes are on their way.
    pub const PROVISIONING: &str = "Provisioning";
    /// CapacityBuffer: cut short by its limits.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

    /// The conditions on NodePools and NodeClaims that Karpenter does not have, and therefore never removes.
    pub const OWN: [&str; 8] = [
        NODES_AS_EXPECTED,
        FEATURES_AVAILABLE,
        INITIALIZATION_HEALTHY,
        DELETION_HELD,
        DRIFT_WITHIN_CAP,
        PODS_FIT,
        INITIALIZED_IN_TIME,
        DISRUPTION_BLOCKED,
    ];
}

#[cfg(test)]
mod tests {
    //! The lists of what is Fleetwright's own.
    use super::{PREFIX, SET_BY_USERS, condition};

    /// Values of the constants of a text whose documentation begins with one of `words`.
    fn documented<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
        let mut comment: Option<&str> = None;
        let mut found = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(more) = line.strip_prefix("/// ") {
                comment.get_or_insert(more);
            } else if let Some(of) = comment.take()
                && words.iter().any(|word| of.starts_with(word))
            {
                found.extend(line.split('"').nth(1));
            }
        }
        found
    }

    #[test]
    fn each_condition_that_is_documented_as_ours_is_listed() {
        let mut listed = condition::OWN.to_vec();
        let mut of_comments = documented(include_str!("labels.rs"), &["Our condition"]);
        listed.sort_unstable();
        of_comments.sort_unstable();
        assert_eq!(listed, of_comments);
    }

    #[test]
    fn each_of_our_annotations_has_the_prefix() {
        let ours = documented(include_str!("labels.rs"), &["Our annotation", "Annotation of Fleetwright"]);
        assert!(ours.len() > 15, "{ours:?}");
        assert!(ours.iter().chain(&SET_BY_USERS).all(|key| key.starts_with(PREFIX)), "{ours:?}");
        assert!(SET_BY_USERS.iter().all(|key| ours.contains(key)));
    }
}
