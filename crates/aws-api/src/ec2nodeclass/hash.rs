//! The drift hash of an EC2NodeClass, version `v6`, and `v5` beside it, so that a change between two controllers is noticed.
//!
//! It combines four hashes: the spec's static fields, the resolved image family, the cluster's certificate authority as written to user
//! data, and the kubelet block as JSON. The names below are those of Karpenter's Go types and fields in declaration order: they are part
//! of the hash and must not change.

mod v5;

use fleetwright_api::hash::{StructHash, boolean, int32, int64, map, set, text};

use super::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, Ec2NodeClass, Ec2NodeClassSpec, MetadataOptions,
    NetworkInterface, PlacementGroupSelector, Tags,
};
use crate::{
    kubelet::KubeletConfig,
    labels::{CURRENT_HASH_VERSION, HASH_VERSION_OF_1_14},
};

impl Ec2NodeClass {
    /// The value of the annotation [`HASH`](crate::labels::HASH), of version
    /// [`CURRENT_HASH_VERSION`]. `ca_bundle` is the certificate authority of the cluster
    /// as in user data (base64); empty if none is configured.
    #[must_use]
    pub fn drift_hash(&self, ca_bundle: &str) -> String {
        self.spec.drift_hash(ca_bundle)
    }

    /// The same under `version`: the current one, or `v5` of Karpenter 1.14. `None` for other versions, and where Karpenter 1.14 cannot read
    /// the kubelet block.
    #[must_use]
    pub fn drift_hash_of(&self, version: &str, ca_bundle: &str) -> Option<String> {
        match version {
            CURRENT_HASH_VERSION => Some(self.drift_hash(ca_bundle)),
            HASH_VERSION_OF_1_14 => v5::drift_hash(&self.spec, ca_bundle).map(|hash| hash.to_string()),
            _ => None,
        }
    }
}

impl Ec2NodeClassSpec {
    /// See [`Ec2NodeClass::drift_hash`].
    #[must_use]
    pub fn drift_hash(&self, ca_bundle: &str) -> String {
        let kubelet = self.kubelet.as_ref().map_or_else(|| "null".to_owned(), KubeletConfig::go_json);
        set([spec(self, None), text(self.family().as_str()), text(ca_bundle), text(&kubelet)]).to_string()
    }
}

fn optional(value: Option<&String>) -> Option<u64> {
    // A pointer to a string: only nil is skipped.
    value.map(|value| text(value))
}

/// The static fields. `kubelet` is the hash of the kubelet block in versions in which it is one of them.
fn spec(spec: &Ec2NodeClassSpec, kubelet: Option<u64>) -> u64 {
    let mappings = |mappings: &Vec<BlockDeviceMapping>| set(mappings.iter().map(mapping));
    let interfaces = |interfaces: &Vec<NetworkInterface>| set(interfaces.iter().map(interface));
    let enclave = spec.enclave_options.as_ref().map(|options| {
        let enabled = options.enabled.then(|| boolean(true));
        StructHash::new("EnclaveOptions").field("Enabled", enabled).finish()
    });
    let cpu = spec.cpu_options.as_ref().map(|options| {
        let nested = optional(options.nested_virtualization.as_ref());
        StructHash::new("CPUOptions").field("NestedVirtualization", nested).finish()
    });
    StructHash::new("EC2NodeClassSpec")
        .field("PlacementGroupSelector", spec.placement_group_selector.as_ref().map(placement_group))
        .field("AssociatePublicIPAddress", spec.associate_public_ip_address.map(boolean))
        .field("UserData", optional(spec.user_data.as_ref()))
        .text("Role", spec.role.as_deref().unwrap_or_default())
        .field("InstanceProfile", optional(spec.instance_profile.as_ref()))
        .field("Tags", spec.tags.as_ref().map(tags))
        .field("Kubelet", kubelet)
        .field("BlockDeviceMappings", spec.block_device_mappings.as_ref().map(mappings))
        .field("InstanceStorePolicy", optional(spec.instance_store_policy.as_ref()))
        .field("NetworkInterfaces", spec.network_interfaces.as_ref().map(interfaces))
        .field("DetailedMonitoring", spec.detailed_monitoring.map(boolean))
        .field("MetadataOptions", spec.metadata_options.as_ref().map(metadata))
        .field("EnclaveOptions", enclave)
        .field("ConnectionTracking", spec.connection_tracking.as_ref().map(tracking))
        .field("Context", optional(spec.context.as_ref()))
        .field("CPUOptions", cpu)
        .finish()
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    StructHash::new("PlacementGroupSelector")
        .field("Name", optional(selector.name.as_ref()))
        .field("ID", optional(selector.id.as_ref()))
        .finish()
}

fn tags(tags: &Tags) -> u64 {
    map(tags.iter().map(|(key, value)| (text(key), text(value))))
}

fn mapping(mapping: &BlockDeviceMapping) -> u64 {
    StructHash::new("BlockDeviceMapping")
        .field("DeviceName", optional(mapping.device_name.as_ref()))
        .field("EBS", mapping.ebs.as_ref().map(device))
        .field("RootVolume", mapping.root_volume.then(|| boolean(true)))
        .finish()
}

fn device(device: &BlockDevice) -> u64 {
    let size = device.volume_size.as_deref().map(|size| text(&canonical(size)));
    StructHash::new("BlockDevice")
        .field("DeleteOnTermination", device.delete_on_termination.map(boolean))
        .field("Encrypted", device.encrypted.map(boolean))
        .field("IOPS", device.iops.map(int64))
        .field("KMSKeyID", optional(device.kms_key_id.as_ref()))
        .field("SnapshotID", optional(device.snapshot_id.as_ref()))
        .field("Throughput", device.throughput.map(int64))
        .field("VolumeInitializationRate", device.volume_initialization_rate.map(int32))
        .field("VolumeSize", size)
        .field("VolumeType", optional(device.volume_type.as_ref()))
        .finish()
}

fn interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| int32(index));
    StructHash::new("NetworkInterface")
        .field("NetworkCardIndex", index(interface.network_card_index))
        .field("DeviceIndex", index(interface.device_index))
        .text("InterfaceType", &interface.interface_type)
        .finish()
}

fn metadata(options: &MetadataOptions) -> u64 {
    StructHash::new("MetadataOptions")
        .field("HTTPEndpoint", optional(options.http_endpoint.as_ref()))
        .field("HTTPProtocolIPv6", optional(options.http_protocol_ipv6.as_ref()))
        .field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit.map(int64))
        .field("HTTPTokens", optional(options.http_tokens.as_ref()))
        .finish()
}

fn tracking(tracking: &ConnectionTracking) -> u64 {
    StructHash::new("ConnectionTracking")
        .field("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(int32))
        .field("UDPStreamTimeout", tracking.udp_stream_timeout.map(int32))
        .field("UDPTimeout", tracking.udp_timeout.map(int32))
        .finish()
}

/// A volume's size as Kubernetes prints the quantity: the largest suffix that leaves a whole number.
fn canonical(size: &str) -> String {
    let end = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
    let (digits, suffix) = size.split_at(end);
    let (step, suffixes): (u64, [&str; 4]) = match suffix {
        "Gi" | "Ti" => (1024, ["Gi", "Ti", "Pi", "Ei"]),
        "G" | "T" => (1000, ["G", "T", "P", "E"]),
        _ => return size.to_owned(),
    };
    let (Ok(mut amount), Some(mut at)) =
        (digits.parse::<u64>(), suffixes.iter().position(|known| *known == suffix))
    else {
        return size.to_owned();
    };
    while amount != 0 && amount % step == 0 && at + 1 < suffixes.len() {
        amount /= step;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}

#[cfg(test)]
mod tests;
