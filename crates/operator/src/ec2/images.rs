//! What decisions read of an EC2NodeClass, and which AMIs change by themselves.

use serde_json::Value;

use crate::catalogue::MovingImage;

/// What decisions read of an EC2NodeClass beside its conditions. Without user data and tags of instances: no instance type depends on them, and they may hold anything.
pub(super) const FIELDS: &str = "
    spec.amiFamily scalar
    spec.amiSelectorTerms[].alias scalar
    spec.amiSelectorTerms[].id name
    spec.amiSelectorTerms[].name name
    spec.amiSelectorTerms[].owner name
    spec.amiSelectorTerms[].ssmParameter name
    spec.amiSelectorTerms[].tags labels
    spec.subnetSelectorTerms[].id name
    spec.subnetSelectorTerms[].tags labels
    spec.securityGroupSelectorTerms[].id name
    spec.securityGroupSelectorTerms[].name name
    spec.securityGroupSelectorTerms[].tags labels
    spec.capacityReservationSelectorTerms[].id name
    spec.capacityReservationSelectorTerms[].ownerID name
    spec.capacityReservationSelectorTerms[].tags labels
    spec.role name
    spec.instanceProfile name
    spec.associatePublicIPAddress scalar
    spec.detailedMonitoring scalar
    spec.ipPrefixCount scalar
    spec.instanceStorePolicy scalar
    spec.blockDeviceMappings[].deviceName scalar
    spec.blockDeviceMappings[].rootVolume scalar
    spec.blockDeviceMappings[].ebs.volumeSize scalar
    spec.blockDeviceMappings[].ebs.volumeType scalar
    spec.blockDeviceMappings[].ebs.snapshotID name
    spec.kubelet.maxPods scalar
    spec.kubelet.podsPerCore scalar
    spec.kubelet.systemReserved amounts
    spec.kubelet.kubeReserved amounts
    spec.kubelet.evictionHard amounts
    spec.kubelet.evictionSoft amounts
    spec.kubelet.evictionSoftGracePeriod amounts
    spec.kubelet.evictionMaxPodGracePeriod scalar
    spec.kubelet.imageGCHighThresholdPercent scalar
    spec.kubelet.imageGCLowThresholdPercent scalar
    spec.kubelet.cpuCFSQuota scalar
    status.subnets[].id name
    status.subnets[].zone scalar
    status.subnets[].zoneID scalar
    status.amis[].id scalar
    status.amis[].name scalar
    status.amis[].deprecated scalar
    status.amis[].requirements requirements
    status.capacityReservations[].id name
    status.capacityReservations[].availabilityZone scalar
    status.capacityReservations[].instanceType scalar
    status.capacityReservations[].instanceMatchCriteria scalar
    status.capacityReservations[].reservationType scalar
    status.capacityReservations[].state scalar
    status.capacityReservations[].endTime scalar
    status.capacityReservations[].ownerID name
";

/// Parts of the names of AWS's public parameters whose value is the newest image.
const MOVING_PARAMETERS: [&str; 2] = ["/recommended", "/latest"];

/// A term of `amiSelectorTerms` that selects another AMI whenever one is published.
pub(super) fn moving(at: usize, term: &Value) -> Option<MovingImage> {
    let field = |name: &str| format!("spec.amiSelectorTerms[{at}].{name}");
    let is_pattern = |name: &str| name.contains('*');
    if term["alias"].as_str().is_some_and(|alias| alias.ends_with("@latest")) {
        let fix = "name a version, such as al2023@v20260101, and move it after a test";
        return Some(MovingImage::new(field("alias"), "each new image makes all nodes drift, untested", fix));
    }
    let parameter = term["ssmParameter"].as_str().unwrap_or_default();
    if MOVING_PARAMETERS.iter().any(|part| parameter.contains(part)) {
        let fix = "name the parameter of a version, or the image";
        let message =
            "the parameter names another image whenever one is published, and all nodes drift, untested";
        return Some(MovingImage::new(field("ssmParameter"), message, fix));
    }
    (term["name"].as_str().is_some_and(is_pattern) && term["id"].is_null()).then(|| {
        MovingImage::new(
            field("name"),
            "the name selects several images: the newest of each architecture is used, and nodes drift when one appears",
            "name one image, or use an alias with a version",
        )
    })
}
