//! The initial content of the region.

use fleetwright_aws_api::Ec2NodeClass;
use serde_json::json;

use super::Inner;
use crate::calls::{
    Card, ClusterInfo, Gpu, GroupInfo, Image, InstanceTypeDescription, Network, SoldIn, SubnetInfo,
};

/// The region's name.
pub const REGION: &str = "us-west-2";
/// The cluster's name.
pub const CLUSTER: &str = "test-cluster";
/// The cluster's certificate authority: base64 of PEM around the smallest DER.
pub const CA: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BTUNBUUU9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

/// The certificate authority of another cluster.
pub const OTHER_CA: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BTUNBUUk9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

/// Name, vCPUs, GiB, interfaces, addresses of each.
const TYPES: [(&str, i64, i64, i64, i64); 7] = [
    ("c5.large", 2, 4, 3, 10),
    ("c5.xlarge", 4, 8, 4, 15),
    ("m5.large", 2, 8, 3, 10),
    ("m5.xlarge", 4, 16, 4, 15),
    ("m6g.large", 2, 8, 3, 10),
    ("p3.2xlarge", 8, 61, 4, 15),
    ("r5.large", 2, 16, 3, 10),
];
const ZONES: [(&str, &str); 3] =
    [("us-west-2a", "usw2-az1"), ("us-west-2b", "usw2-az2"), ("us-west-2c", "usw2-az3")];

fn instance_type(
    (name, vcpus, gib, interfaces_max, ipv4_per_interface): (&str, i64, i64, i64, i64),
) -> InstanceTypeDescription {
    let arm = name.starts_with("m6g");
    let gpu =
        Gpu { name: "V100".to_owned(), manufacturer: "NVIDIA".to_owned(), count: 1, memory_mib: 16_384 };
    InstanceTypeDescription {
        name: name.to_owned(),
        usage_classes: vec!["on-demand".to_owned(), "spot".to_owned()],
        architectures: vec![if arm { "arm64" } else { "x86_64" }.to_owned()],
        cpu_manufacturer: Some(if arm { "AWS" } else { "Intel" }.to_owned()),
        vcpus,
        memory_mib: gib * 1024,
        hypervisor: "nitro".to_owned(),
        network: Network {
            cards: vec![Card { index: 0, interfaces_max }],
            ipv4_per_interface,
            ena: true,
            ..Network::default()
        },
        placement_strategies: ["cluster", "partition", "spread"].map(str::to_owned).to_vec(),
        gpus: if name.starts_with("p3") { vec![gpu] } else { Vec::new() },
        ..InstanceTypeDescription::default()
    }
}

/// One Bottlerocket alias resolves to four images: variant, architecture and id of each.
const BOTTLEROCKET: [(&str, &str, &str); 4] = [
    ("", "x86_64", "ami-br-amd64"),
    ("", "arm64", "ami-br-arm64"),
    ("-nvidia", "x86_64", "ami-br-nvidia-amd64"),
    ("-nvidia", "arm64", "ami-br-nvidia-arm64"),
];

fn bottlerocket_parameter((variant, arch, id): (&str, &str, &str)) -> (String, String) {
    (format!("/aws/service/bottlerocket/aws-k8s-1.35{variant}/{arch}/latest/image_id"), id.to_owned())
}

/// The cluster in EKS.
#[must_use]
pub fn cluster() -> ClusterInfo {
    ClusterInfo {
        arn: format!("arn:aws:eks:{REGION}:123456789012:cluster/{CLUSTER}"),
        endpoint: "https://test-cluster".to_owned(),
        ca_bundle: CA.to_owned(),
        version: "1.35".to_owned(),
        service_cidr_v4: Some("10.100.0.0/16".to_owned()),
        service_cidr_v6: None,
    }
}

pub(super) fn inner() -> Inner {
    let image = |id: &str, name: &str, architecture: &str| Image {
        id: id.to_owned(),
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        created: Some(jiff::Timestamp::UNIX_EPOCH),
        deprecated_at: None,
    };
    let folder = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023";
    let parameter = |arch: &str, variant: &str, id: &str| {
        (format!("{folder}/{arch}/{variant}/recommended/image_id"), id.to_owned())
    };
    let sold =
        |name: &str| ZONES.map(|(zone, _)| SoldIn { instance_type: name.to_owned(), zone: zone.to_owned() });
    let subnet = |(zone, id): &(&str, &str)| SubnetInfo {
        id: format!("subnet-{}", &zone[zone.len() - 1..]),
        zone: (*zone).to_owned(),
        zone_id: (*id).to_owned(),
        free_addresses: 4000,
        tags: [("team".to_owned(), "a".to_owned())].into(),
    };
    Inner {
        instance_types: TYPES.map(instance_type).into(),
        sold_in: TYPES.iter().flat_map(|(name, ..)| sold(name)).collect(),
        subnets: ZONES.iter().map(subnet).collect(),
        groups: vec![GroupInfo {
            id: "sg-1".to_owned(),
            name: "nodes".to_owned(),
            tags: [("team".to_owned(), "a".to_owned())].into(),
        }],
        images: [
            image("ami-amd64", "amazon-eks-node-al2023-x86_64-standard-1.35", "x86_64"),
            image("ami-arm64", "amazon-eks-node-al2023-arm64-standard-1.35", "arm64"),
            image("ami-nvidia", "amazon-eks-node-al2023-x86_64-nvidia-1.35", "x86_64"),
        ]
        .into_iter()
        .chain(BOTTLEROCKET.map(|(variant, arch, id)| {
            image(id, &format!("bottlerocket-aws-k8s-1.35{variant}-{arch}-v1.50.0"), arch)
        }))
        .collect(),
        parameters: [
            parameter("x86_64", "standard", "ami-amd64"),
            parameter("arm64", "standard", "ami-arm64"),
            parameter("x86_64", "nvidia", "ami-nvidia"),
        ]
        .into_iter()
        .chain(BOTTLEROCKET.map(bottlerocket_parameter))
        .collect(),
        cluster: Some(cluster()),
        roles: ["node".to_owned()].into(),
        ..Inner::default()
    }
}

/// A class that selects everything in the region, with the resulting status.
#[must_use]
pub fn class(name: &str, ready: bool) -> Ec2NodeClass {
    let subnets: Vec<_> = ZONES
        .iter()
        .map(|(zone, id)| json!({"id": format!("subnet-{}", &zone[zone.len() - 1..]), "zone": zone, "zoneID": id}))
        .collect();
    let on = |arch: &str| json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]});
    let gpu = |operator: &str| json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": operator});
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
        },
        "status": {
            "subnets": subnets,
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "instanceProfile": "profile",
            "amis": [
                {"id": "ami-amd64", "requirements": [on("amd64"), gpu("DoesNotExist")]},
                {"id": "ami-arm64", "requirements": [on("arm64"), gpu("DoesNotExist")]},
                {"id": "ami-nvidia", "requirements": [on("amd64"), gpu("Exists")]},
            ],
            "conditions": [{
                "type": "Ready",
                "status": if ready { "True" } else { "False" },
                "reason": "Ready",
                "message": "",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    // The object above matches the kind; a mistake shows as an empty class in every test.
    serde_json::from_value(object).unwrap_or_default()
}
