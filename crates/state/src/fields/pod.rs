//! The fields of pods and pod templates that are read.

/// Of a pod's spec, in pods and in templates.
pub(super) const POD_SPEC: &str = "
    nodeName name
    nodeSelector labels
    schedulerName scalar
    priority scalar
    priorityClassName name
    preemptionPolicy scalar
    hostNetwork scalar
    restartPolicy scalar
    terminationGracePeriodSeconds scalar
    overhead amounts
    schedulingGates[].name name
    tolerations taints
    topologySpreadConstraints[].maxSkew scalar
    topologySpreadConstraints[].minDomains scalar
    topologySpreadConstraints[].topologyKey key
    topologySpreadConstraints[].whenUnsatisfiable scalar
    topologySpreadConstraints[].nodeAffinityPolicy scalar
    topologySpreadConstraints[].nodeTaintsPolicy scalar
    topologySpreadConstraints[].matchLabelKeys keys
    topologySpreadConstraints[].labelSelector selector
    affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions requirements
    affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchFields requirements
    affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight scalar
    affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchExpressions requirements
    affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchFields requirements
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].labelSelector selector
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaceSelector selector
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaces names
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].topologyKey key
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].matchLabelKeys keys
    affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].mismatchLabelKeys keys
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight scalar
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.labelSelector selector
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.namespaceSelector selector
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.namespaces names
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.topologyKey key
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.matchLabelKeys keys
    affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.mismatchLabelKeys keys
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].labelSelector selector
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaceSelector selector
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaces names
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].topologyKey key
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].matchLabelKeys keys
    affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].mismatchLabelKeys keys
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight scalar
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.labelSelector selector
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.namespaceSelector selector
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.namespaces names
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.topologyKey key
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.matchLabelKeys keys
    affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.mismatchLabelKeys keys
    resources.requests amounts
    resources.limits amounts
    containers[].name name
    containers[].resources.requests amounts
    containers[].resources.limits amounts
    containers[].resources.claims[].name name
    containers[].resources.claims[].request name
    containers[].ports[].containerPort scalar
    containers[].ports[].hostPort scalar
    containers[].ports[].hostIP scalar
    containers[].ports[].protocol scalar
    initContainers[].name name
    initContainers[].restartPolicy scalar
    initContainers[].resources.requests amounts
    initContainers[].resources.limits amounts
    initContainers[].resources.claims[].name name
    initContainers[].resources.claims[].request name
    initContainers[].ports[].containerPort scalar
    initContainers[].ports[].hostPort scalar
    initContainers[].ports[].hostIP scalar
    initContainers[].ports[].protocol scalar
    resourceClaims[].name name
    resourceClaims[].resourceClaimName name
    resourceClaims[].resourceClaimTemplateName name
    volumes[].name name
    volumes[].persistentVolumeClaim.claimName name
    volumes[].ephemeral.volumeClaimTemplate.metadata.labels labels
    volumes[].ephemeral.volumeClaimTemplate.spec.storageClassName name
    volumes[].ephemeral.volumeClaimTemplate.spec.accessModes scalars
    volumes[].ephemeral.volumeClaimTemplate.spec.resources.requests amounts
";

/// Of a pod's status.
pub(super) const POD_STATUS: &str = "
    phase scalar
    startTime scalar
    nominatedNodeName name
    resize scalar
    conditions pod-conditions
    resources.requests amounts
    allocatedResources amounts
    containerStatuses[].name name
    containerStatuses[].resources.requests amounts
    containerStatuses[].allocatedResources amounts
    initContainerStatuses[].name name
    initContainerStatuses[].resources.requests amounts
    initContainerStatuses[].allocatedResources amounts
    resourceClaimStatuses[].name name
    resourceClaimStatuses[].resourceClaimName name
";

/// Of a pod template's metadata.
pub(super) const TEMPLATE_META: &str = "
    labels labels
    annotations annotations
";
