//! The fields of Kubernetes' KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`, as of 1.36) and their JSON types.

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldType {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number, with or without a fraction.
    Float,
    /// A string.
    Text,
    /// A Go duration as a string.
    Duration,
    /// A list of one shape.
    List(&'static Self),
    /// A map from strings to one shape.
    Map(&'static Self),
    /// An object with these fields.
    Object(&'static [(&'static str, Self)]),
    /// Not validated.
    Any,
}

/// The type of a top-level field; `None` if Kubernetes has no such field.
pub(super) fn field_type(field: &str) -> Option<FieldType> {
    let plain = PLAIN.iter().find(|(_, names)| names.contains(&field)).map(|(field_type, _)| *field_type);
    plain.or_else(|| NESTED.iter().find(|(name, _)| *name == field).map(|(_, field_type)| *field_type))
}

const PLAIN: &[(FieldType, &[&str])] = &[
    (
        FieldType::Boolean,
        &[
            "enableServer",
            "rotateCertificates",
            "serverTLSBootstrap",
            "enableDebuggingHandlers",
            "enableContentionProfiling",
            "cgroupsPerQOS",
            "singleProcessOOMKill",
            "runOnce",
            "cpuCFSQuota",
            "serializeImagePulls",
            "mergeDefaultEvictionSettings",
            "enableControllerAttachDetach",
            "protectKernelDefaults",
            "makeIPTablesUtilChains",
            "failSwapOn",
            "kernelMemcgNotification",
            "enableSystemLogHandler",
            "enableSystemLogQuery",
            "enableProfilingHandler",
            "enableDebugFlagsHandler",
            "seccompDefault",
            "registerNode",
            "localStorageCapacityIsolation",
            "failCgroupV1",
        ],
    ),
    (
        FieldType::Int32,
        &[
            "port",
            "readOnlyPort",
            "registryPullQPS",
            "registryBurst",
            "eventRecordQPS",
            "eventBurst",
            "healthzPort",
            "oomScoreAdj",
            "nodeLeaseDurationSeconds",
            "imageGCHighThresholdPercent",
            "imageGCLowThresholdPercent",
            "maxPods",
            "nodeStatusMaxImages",
            "kubeAPIQPS",
            "kubeAPIBurst",
            "maxParallelImagePulls",
            "evictionMaxPodGracePeriod",
            "podsPerCore",
            "iptablesMasqueradeBit",
            "iptablesDropBit",
            "containerLogMaxFiles",
            "containerLogMaxWorkers",
        ],
    ),
    (FieldType::Int64, &["podPidsLimit", "maxOpenFiles"]),
    (FieldType::Float, &["memoryThrottlingFactor"]),
    (
        FieldType::Text,
        &[
            "apiVersion",
            "kind",
            "staticPodPath",
            "podLogsDir",
            "staticPodURL",
            "address",
            "tlsCertFile",
            "tlsPrivateKeyFile",
            "tlsMinVersion",
            "imagePullCredentialsVerificationPolicy",
            "healthzBindAddress",
            "clusterDomain",
            "kubeletCgroups",
            "systemCgroups",
            "cgroupRoot",
            "cgroupDriver",
            "cpuManagerPolicy",
            "memoryManagerPolicy",
            "topologyManagerPolicy",
            "topologyManagerScope",
            "hairpinMode",
            "podCIDR",
            "resolvConf",
            "contentType",
            "containerLogMaxSize",
            "configMapAndSecretChangeDetectionStrategy",
            "reservedSystemCPUs",
            "showHiddenMetricsForVersion",
            "systemReservedCgroup",
            "kubeReservedCgroup",
            "volumePluginDir",
            "providerID",
            "memoryReservationPolicy",
            "containerRuntimeEndpoint",
            "imageServiceEndpoint",
        ],
    ),
    (
        FieldType::Duration,
        &[
            "syncFrequency",
            "fileCheckFrequency",
            "httpCheckFrequency",
            "streamingConnectionIdleTimeout",
            "nodeStatusUpdateFrequency",
            "nodeStatusReportFrequency",
            "imageMinimumGCAge",
            "imageMaximumGCAge",
            "volumeStatsAggPeriod",
            "cpuManagerReconcilePeriod",
            "runtimeRequestTimeout",
            "cpuCFSQuotaPeriod",
            "evictionPressureTransitionPeriod",
            "containerLogMonitorInterval",
            "shutdownGracePeriod",
            "shutdownGracePeriodCriticalPods",
        ],
    ),
    (
        FieldType::List(&FieldType::Text),
        &[
            "tlsCipherSuites",
            "preloadedImagesVerificationAllowlist",
            "clusterDNS",
            "enforceNodeAllocatable",
            "allowedUnsafeSysctls",
        ],
    ),
    (
        FieldType::Map(&FieldType::Text),
        &[
            "cpuManagerPolicyOptions",
            "topologyManagerPolicyOptions",
            "qosReserved",
            "evictionHard",
            "evictionSoft",
            "evictionSoftGracePeriod",
            "evictionMinimumReclaim",
            "systemReserved",
            "kubeReserved",
        ],
    ),
];

const NESTED: &[(&str, FieldType)] = &[
    (
        "authentication",
        FieldType::Object(&[
            ("x509", FieldType::Object(&[("clientCAFile", FieldType::Text)])),
            (
                "webhook",
                FieldType::Object(&[("enabled", FieldType::Boolean), ("cacheTTL", FieldType::Duration)]),
            ),
            ("anonymous", FieldType::Object(&[("enabled", FieldType::Boolean)])),
        ]),
    ),
    (
        "authorization",
        FieldType::Object(&[
            ("mode", FieldType::Text),
            (
                "webhook",
                FieldType::Object(&[
                    ("cacheAuthorizedTTL", FieldType::Duration),
                    ("cacheUnauthorizedTTL", FieldType::Duration),
                ]),
            ),
        ]),
    ),
    ("crashLoopBackOff", FieldType::Object(&[("maxContainerRestartPeriod", FieldType::Duration)])),
    ("featureGates", FieldType::Map(&FieldType::Boolean)),
    (
        "logging",
        FieldType::Object(&[
            ("flushFrequency", FieldType::Any),
            ("format", FieldType::Text),
            ("options", FieldType::Any),
            ("verbosity", FieldType::Int64),
            ("vmodule", FieldType::Any),
        ]),
    ),
    ("memorySwap", FieldType::Object(&[("swapBehavior", FieldType::Text)])),
    ("registerWithTaints", FieldType::List(&FieldType::Any)),
    (
        "reservedMemory",
        FieldType::List(&FieldType::Object(&[
            ("numaNode", FieldType::Int32),
            ("limits", FieldType::Map(&FieldType::Any)),
        ])),
    ),
    (
        "shutdownGracePeriodByPodPriority",
        FieldType::List(&FieldType::Object(&[
            ("priority", FieldType::Int32),
            ("shutdownGracePeriodSeconds", FieldType::Int64),
        ])),
    ),
    ("staticPodURLHeader", FieldType::Map(&FieldType::List(&FieldType::Text))),
    ("tlsCurvePreferences", FieldType::List(&FieldType::Int32)),
    (
        "tracing",
        FieldType::Object(&[("endpoint", FieldType::Text), ("samplingRatePerMillion", FieldType::Int32)]),
    ),
    ("userNamespaces", FieldType::Object(&[("idsPerPod", FieldType::Int64)])),
];
