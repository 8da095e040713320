//! EC2NodeClass: how the instances of NodePools are launched on EC2.

mod alias;
mod devices;
mod hash;
mod network;
mod selectors;
mod status;

use std::collections::BTreeMap;

use fleetwright_api::conditions::{ConditionTypes, HasConditions};
use fleetwright_api::schema::{self, rules};
use fleetwright_api::{Condition, labels::condition::READY};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use alias::{Alias, AliasError, Family};
pub use devices::{BlockDevice, BlockDeviceMapping};
pub use network::{ConnectionTracking, CpuOptions, EnclaveOptions, MetadataOptions, NetworkInterface};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use status::{
    Ami, AmiRequirement, CapacityReservation, Ec2NodeClassStatus, SecurityGroup, Subnet, condition,
};

use crate::kubelet::KubeletConfig;

/// Key-value pairs of EC2 resources.
pub type Tags = BTreeMap<String, String>;

/// The desired configuration of an EC2NodeClass.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    root = "Ec2NodeClass",
    plural = "ec2nodeclasses",
    doc = "An EC2NodeClass says how the instances of NodePools are launched on EC2.",
    category = "karpenter",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    status = "Ec2NodeClassStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Role", "type": "string", "jsonPath": ".spec.role", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend(
    "required" = ["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"],
    "x-kubernetes-validations" = rules(SPEC_RULES)
))]
pub struct Ec2NodeClassSpec {
    /// Family of the images: it determines the format of the user data and the default volumes. Optional if an alias is set; it must then
    /// be the alias's family, or Custom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = Family::NAMES))]
    pub ami_family: Option<String>,
    /// Which images may be launched; an image is selected if it meets any term.
    #[schemars(extend("minItems" = 1, "maxItems" = 30, "x-kubernetes-validations" = rules(selectors::AMI_RULES)))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Whether instances get a public address; unset leaves it to the subnet.
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Volumes of the instances. They replace all defaults of the family.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-validations" = rules(devices::MAPPINGS_RULES)))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// Which capacity reservations may be used; one is selected if it meets any term.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(selectors::RESERVATION_RULES)))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// Idle timeouts of tracked connections, for every network interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Reserved by EC2: passed to CreateFleet as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Options of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Whether CloudWatch measures the instances every minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Whether the instances can host Nitro enclaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
    /// Instance profile of the instances, managed by the user; excludes role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("self != ''", "instanceProfile cannot be empty")])))]
    pub instance_profile: Option<String>,
    /// How the local disks of the instance are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["RAID0"]))]
    pub instance_store_policy: Option<String>,
    /// How many address prefixes the primary network interface gets at launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Configuration of the kubelet: any field of Kubernetes' KubeletConfiguration. The controller validates it and reports problems in
    /// the condition ValidationSucceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kubelet_schema")]
    pub kubelet: Option<KubeletConfig>,
    /// Options of the instance metadata service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    })))]
    pub metadata_options: Option<MetadataOptions>,
    /// Network interfaces of the instances, if one default interface is not enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 150, "x-kubernetes-validations" = rules(network::INTERFACES_RULES)))]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// The placement group that instances are launched into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// IAM role of the instances, for which a profile is created; excludes instanceProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("self != ''", "role cannot be empty")])))]
    pub role: Option<String>,
    /// Security groups of the instances: all that meet any term.
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(selectors::SECURITY_GROUP_RULES)))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Which subnets instances are launched in; one is selected if it meets any term.
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(selectors::SUBNET_RULES)))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Tags of the resources that are created on EC2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(TAGS_RULES)))]
    pub tags: Option<Tags>,
    /// User data in the family's format; Fleetwright merges its own settings into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
}

const TAGS_RULES: &[(&str, &str)] = &[
    ("self.all(k, k != '')", "empty tag keys aren't supported"),
    (
        "self.all(k, k !='eks:eks-cluster-name')",
        "tag contains a restricted tag matching eks:eks-cluster-name",
    ),
    (
        "self.all(k, !k.startsWith('kubernetes.io/cluster') )",
        "tag contains a restricted tag matching kubernetes.io/cluster/",
    ),
    (
        "self.all(k, k != 'karpenter.sh/nodepool')",
        "tag contains a restricted tag matching karpenter.sh/nodepool",
    ),
    (
        "self.all(k, k !='karpenter.sh/nodeclaim')",
        "tag contains a restricted tag matching karpenter.sh/nodeclaim",
    ),
    (
        "self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')",
        "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
    ),
];

/// The family of an alias must be the one in amiFamily, or that is Custom.
macro_rules! alias_rule {
    ($alias:literal, $article:literal, $family:literal) => {
        (
            concat!(
                "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '",
                $alias,
                "') ? (self.amiFamily == 'Custom' || self.amiFamily == '",
                $family,
                "') : true)"
            ),
            concat!(
                "if set, amiFamily must be '",
                $family,
                "' or 'Custom' when using ",
                $article,
                " ",
                $family,
                " alias"
            ),
        )
    };
}

const SPEC_RULES: &[(&str, &str)] = &[
    (
        "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
        "must specify exactly one of ['role', 'instanceProfile']",
    ),
    alias_rule!("al2", "an", "AL2"),
    alias_rule!("al2023", "an", "AL2023"),
    alias_rule!("bottlerocket", "a", "Bottlerocket"),
    alias_rule!("windows2019", "a", "Windows2019"),
    alias_rule!("windows2022", "a", "Windows2022"),
    alias_rule!("windows2025", "a", "Windows2025"),
    (
        "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
    ),
];

/// Any object: the API server does not validate it.
fn kubelet_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true},
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

impl Ec2NodeClassSpec {
    /// The alias among the selector terms, if there is a valid one.
    #[must_use]
    pub fn alias(&self) -> Option<Alias> {
        let text = self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref())?;
        text.parse().ok()
    }

    /// The family of the images: amiFamily, else the alias's, else Custom (which the CRD's rules prevent).
    #[must_use]
    pub fn family(&self) -> Family {
        let named = self.ami_family.as_deref().and_then(|name| Family::from_name(name).ok());
        named.or_else(|| self.alias().map(|alias| alias.family)).unwrap_or(Family::Custom)
    }
}

impl HasConditions for Ec2NodeClass {
    const TYPES: ConditionTypes = ConditionTypes { root: Some(READY), dependents: condition::DEPENDENTS };

    fn parts(&mut self) -> (&ObjectMeta, &mut Vec<Condition>) {
        (&self.metadata, &mut self.status.get_or_insert_default().conditions)
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// The structural schema of the spec, to validate objects without an API server.
#[must_use]
pub fn spec_schema() -> serde_json::Value {
    schema::of::<Ec2NodeClassSpec>()
}
