//! The fields of Kubernetes' KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`, as of 1.36) and their JSON types.

/// What a field may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
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
    /// Not looked into.
    Any,
}

/// The shape of a top-level field; `None` where Kubernetes has no such field.
pub(super) fn shape(field: &str) -> Option<Shape> {
    let plain = PLAIN.iter().find(|(_, names)| names.contains(&field)).map(|(shape, _)| *shape);
    plain.or_else(|| NESTED.iter().find(|(name, _)| *name == field).map(|(_, shape)| *shape))
}

const PLAIN: &[(Shape, &[&str])] = &[
    (
        Shape::Boolean,
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
        Shape::Int32,
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
    (Shape::Int64, &["podPidsLimit", "maxOpenFiles"]),
    (Shape::Float, &["memoryThrottlingFactor"]),
    (
        Shape::Text,
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
        Shape::Duration,
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
        Shape::List(&Shape::Text),
        &[
            "tlsCipherSuites",
            "preloadedImagesVerificationAllowlist",
            "clusterDNS",
            "enforceNodeAllocatable",
            "allowedUnsafeSysctls",
        ],
    ),
    (
        Shape::Map(&Shape::Text),
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

const NESTED: &[(&str, Shape)] = &[
    (
        "authentication",
        Shape::Object(&[
            ("x509", Shape::Object(&[("clientCAFile", Shape::Text)])),
            ("webhook", Shape::Object(&[("enabled", Shape::Boolean), ("cacheTTL", Shape::Duration)])),
            ("anonymous", Shape::Object(&[("enabled", Shape::Boolean)])),
        ]),
    ),
    (
        "authorization",
        Shape::Object(&[
            ("mode", Shape::Text),
            (
                "webhook",
                Shape::Object(&[
                    ("cacheAuthorizedTTL", Shape::Duration),
                    ("cacheUnauthorizedTTL", Shape::Duration),
                ]),
            ),
        ]),
    ),
    ("crashLoopBackOff", Shape::Object(&[("maxContainerRestartPeriod", Shape::Duration)])),
    ("featureGates", Shape::Map(&Shape::Boolean)),
    (
        "logging",
        Shape::Object(&[
            ("flushFrequency", Shape::Any),
            ("format", Shape::Text),
            ("options", Shape::Any),
            ("verbosity", Shape::Int64),
            ("vmodule", Shape::Any),
        ]),
    ),
    ("memorySwap", Shape::Object(&[("swapBehavior", Shape::Text)])),
    ("registerWithTaints", Shape::List(&Shape::Any)),
    (
        "reservedMemory",
        Shape::List(&Shape::Object(&[("numaNode", Shape::Int32), ("limits", Shape::Map(&Shape::Any))])),
    ),
    (
        "shutdownGracePeriodByPodPriority",
        Shape::List(&Shape::Object(&[
            ("priority", Shape::Int32),
            ("shutdownGracePeriodSeconds", Shape::Int64),
        ])),
    ),
    ("staticPodURLHeader", Shape::Map(&Shape::List(&Shape::Text))),
    ("tlsCurvePreferences", Shape::List(&Shape::Int32)),
    ("tracing", Shape::Object(&[("endpoint", Shape::Text), ("samplingRatePerMillion", Shape::Int32)])),
    ("userNamespaces", Shape::Object(&[("idsPerPod", Shape::Int64)])),
];
