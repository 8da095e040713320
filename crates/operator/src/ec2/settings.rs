//! The settings of Karpenter's AWS provider, with its names and defaults, and one of ours.

use crate::settings::table::{Setting, SettingKind};

/// The settings of AWS, of the controller and of the tools.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "CLUSTER_NAME",
        SettingKind::Text,
        "",
        "AWS: the cluster's name, in tags and user data; required there",
    ),
    Setting::new(
        "CLUSTER_ENDPOINT",
        SettingKind::Text,
        "",
        "AWS: the API server's address for nodes; EKS is asked where it is empty",
    ),
    Setting::new(
        "CLUSTER_CA_BUNDLE",
        SettingKind::Text,
        "",
        "AWS: the API server's certificate authority for nodes, base64",
    ),
    Setting::new(
        "ISOLATED_VPC",
        SettingKind::Bool,
        "false",
        "AWS: the endpoints of IAM and Pricing are not reachable",
    ),
    Setting::new(
        "EKS_CONTROL_PLANE",
        SettingKind::Bool,
        "false",
        "AWS: ask EKS for the control plane's version",
    ),
    Setting::new(
        "VM_MEMORY_OVERHEAD_PERCENT",
        SettingKind::Fraction,
        "0.075",
        "AWS: share of memory that the hypervisor uses",
    )
    .deciding(),
    Setting::new(
        "INTERRUPTION_QUEUE",
        SettingKind::Text,
        "",
        "AWS: SQS queue of interruptions; empty switches them off",
    ),
    Setting::new(
        "RESERVED_ENIS",
        SettingKind::Integer,
        "0",
        "AWS: network interfaces per node that pods do not use",
    )
    .deciding(),
    Setting::new(
        "DISABLE_DRY_RUN",
        SettingKind::Bool,
        "false",
        "AWS: skip the launch dry run when validating an EC2NodeClass",
    ),
    Setting::new(
        "ENABLE_ZONAL_SHIFT",
        SettingKind::Bool,
        "false",
        "AWS: launch no nodes in a zone that a zonal shift of the cluster leaves",
    ),
    Setting::new(
        "AMI_REFRESH_INTERVAL",
        SettingKind::Duration,
        "1m",
        "AWS: how often images are looked up; at least 1m",
    ),
    Setting::new(
        "SUBNET_REFRESH_INTERVAL",
        SettingKind::Duration,
        "1m",
        "AWS: how often subnets are looked up; at least 1m",
    ),
    Setting::new(
        "PRICES_FILE",
        SettingKind::Text,
        "",
        "AWS: prices that `fleetwright prices export` has written",
    )
    .deciding(),
    Setting::new(
        "AWS_FEATURE_GATES",
        SettingKind::Gates,
        "",
        "AWS: gates as name=true|false; NodeClassCEL is one",
    )
    .deciding(),
];
