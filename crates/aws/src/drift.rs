//! Whether an instance still matches its EC2NodeClass.

use std::collections::BTreeSet;

use fleetwright_aws_api::ec2nodeclass::{Ec2NodeClassSpec, Ec2NodeClassStatus};
use fleetwright_aws_api::{Ec2NodeClass, labels};
use fleetwright_core::model::Labels;

use crate::calls::InstanceInfo;

/// Why an instance has drifted; the names are Karpenter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftReason {
    /// A static field of the EC2NodeClass has changed.
    NodeClass,
    /// Its image is not the one that its instance type would get now.
    Ami,
    /// It is in a subnet that the EC2NodeClass no longer selects.
    Subnet,
    /// It has other security groups.
    SecurityGroup,
    /// It uses a reservation that the EC2NodeClass no longer selects.
    CapacityReservation,
    /// It is in another placement group.
    PlacementGroup,
}

impl DriftReason {
    /// The reason's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodeClass => "NodeClassDrift",
            Self::Ami => "AMIDrift",
            Self::Subnet => "SubnetDrift",
            Self::SecurityGroup => "SecurityGroupDrift",
            Self::CapacityReservation => "CapacityReservationDrift",
            Self::PlacementGroup => "PlacementGroupDrift",
        }
    }
}

/// Why drift cannot be determined: a required value is missing. This is never drift.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drift cannot be determined: {0}")]
pub struct Unclear(pub &'static str);

/// Whether a NodeClaim's hash differs from its EC2NodeClass's. Hashes of different versions are never compared.
#[must_use]
pub fn of_hash(claim: &Labels, spec: &Ec2NodeClassSpec, ca_bundle: &str) -> Option<DriftReason> {
    let version = claim.get(labels::HASH_VERSION)?;
    let hash = claim.get(labels::HASH)?;
    let compared = &**version == labels::CURRENT_HASH_VERSION;
    (compared && **hash != *spec.drift_hash(ca_bundle)).then_some(DriftReason::NodeClass)
}

/// The hash of an EC2NodeClass with the version of its annotation. It is computed from the spec where that version can be: the annotation does
/// not have a change that no controller saw.
#[must_use]
pub fn stored_hash(class: &Ec2NodeClass, ca_bundle: &str) -> Option<(String, String)> {
    let annotations = class.metadata.annotations.as_ref()?;
    let (hash, version) = (annotations.get(labels::HASH)?, annotations.get(labels::HASH_VERSION)?);
    let computed = class.drift_hash_of(version, ca_bundle);
    Some((computed.unwrap_or_else(|| hash.clone()), version.clone()))
}

/// Whether an instance differs from the status of its EC2NodeClass. `image` is the one that its instance type would get now.
///
/// # Errors
/// If the status is empty, or the instance's image is selected and no longer for its instance type: that is a problem of the EC2NodeClass,
/// and no reason to replace nodes.
pub fn of_instance(
    instance: &InstanceInfo,
    status: &Ec2NodeClassStatus,
    image: Option<&str>,
    group: Option<&str>,
) -> Result<Option<DriftReason>, Unclear> {
    if status.amis.is_empty() || status.subnets.is_empty() || status.security_groups.is_empty() {
        return Err(Unclear("the class has no images, subnets or security groups"));
    }
    if instance.image.is_empty() {
        return Err(Unclear("the instance's image is not known"));
    }
    let selected = || status.amis.iter().any(|ami| ami.id == instance.image);
    match image {
        Some(image) if instance.image == image => {}
        None if selected() => return Err(Unclear("no image of the class is for the instance's type")),
        _ => return Ok(Some(DriftReason::Ami)),
    }
    let groups: BTreeSet<&str> = instance.security_groups.iter().map(String::as_str).collect();
    let wanted: BTreeSet<&str> = status.security_groups.iter().map(|group| group.id.as_str()).collect();
    if groups != wanted {
        return Ok(Some(DriftReason::SecurityGroup));
    }
    if !status.subnets.iter().any(|subnet| subnet.id == instance.subnet) {
        return Ok(Some(DriftReason::Subnet));
    }
    let known = |id: &String| status.capacity_reservations.iter().any(|reservation| reservation.id == *id);
    if instance.reservation.as_ref().is_some_and(|id| !known(id)) {
        return Ok(Some(DriftReason::CapacityReservation));
    }
    let placed = instance.placement.as_ref().map(|(id, _)| id.as_str());
    Ok((placed != group).then_some(DriftReason::PlacementGroup))
}

#[cfg(test)]
mod tests {
    //! Each reason, in Karpenter's order.
    use fleetwright_aws_api::ec2nodeclass::{Ami, SecurityGroup, Subnet};
    use rstest::rstest;

    use super::*;

    fn status() -> Ec2NodeClassStatus {
        Ec2NodeClassStatus {
            amis: vec![Ami { id: "ami-1".to_owned(), ..Ami::default() }],
            subnets: vec![Subnet { id: "subnet-1".to_owned(), ..Subnet::default() }],
            security_groups: ["sg-1", "sg-2"]
                .map(|id| SecurityGroup { id: id.to_owned(), ..SecurityGroup::default() })
                .into(),
            ..Ec2NodeClassStatus::default()
        }
    }

    fn instance() -> InstanceInfo {
        InstanceInfo {
            image: "ami-1".to_owned(),
            subnet: "subnet-1".to_owned(),
            security_groups: vec!["sg-2".to_owned(), "sg-1".to_owned()],
            ..InstanceInfo::default()
        }
    }

    type Edit = fn(&mut InstanceInfo);

    #[rstest]
    #[case::none(|_: &mut InstanceInfo| {}, None)]
    #[case::image(|i: &mut InstanceInfo| i.image = "ami-2".to_owned(), Some(DriftReason::Ami))]
    #[case::groups(|i: &mut InstanceInfo| i.security_groups = vec!["sg-1".to_owned()], Some(DriftReason::SecurityGroup))]
    #[case::more_groups(|i: &mut InstanceInfo| i.security_groups.push("sg-3".to_owned()), Some(DriftReason::SecurityGroup))]
    #[case::subnet(|i: &mut InstanceInfo| i.subnet = "subnet-2".to_owned(), Some(DriftReason::Subnet))]
    #[case::reservation(|i: &mut InstanceInfo| i.reservation = Some("cr-1".to_owned()), Some(DriftReason::CapacityReservation))]
    #[case::placement(|i: &mut InstanceInfo| i.placement = Some(("pg-1".to_owned(), None)), Some(DriftReason::PlacementGroup))]
    fn of_an_instance(#[case] edit: Edit, #[case] expected: Option<DriftReason>) {
        let mut changed = instance();
        edit(&mut changed);
        assert_eq!(of_instance(&changed, &status(), Some("ami-1"), None), Ok(expected));
    }

    #[test]
    fn unknown_values_are_not_drift() {
        for empty in [
            Ec2NodeClassStatus { amis: Vec::new(), ..status() },
            Ec2NodeClassStatus { subnets: Vec::new(), ..status() },
            Ec2NodeClassStatus { security_groups: Vec::new(), ..status() },
        ] {
            assert!(of_instance(&instance(), &empty, Some("ami-1"), None).is_err());
        }
        assert!(of_instance(&instance(), &status(), None, None).is_err(), "the image is still selected");
        assert!(of_instance(&InstanceInfo::default(), &status(), Some("ami-1"), None).is_err());
    }

    /// The class had images for arm64 and has none any more: its nodes would keep an old image for ever.
    #[test]
    fn an_image_that_is_not_selected_is_drift_even_if_none_follows_it() {
        let old = InstanceInfo { image: "ami-arm64".to_owned(), ..instance() };
        assert_eq!(of_instance(&old, &status(), None, None), Ok(Some(DriftReason::Ami)));
    }

    #[test]
    fn hashes_of_one_version_are_compared() {
        let spec = Ec2NodeClassSpec::default();
        let hash = spec.drift_hash("ca");
        let of = |hash: &str, version: &str| -> Labels {
            [(labels::HASH.into(), hash.into()), (labels::HASH_VERSION.into(), version.into())].into()
        };
        assert_eq!(of_hash(&of(&hash, "v6"), &spec, "ca"), None);
        assert_eq!(of_hash(&of("1", "v6"), &spec, "ca"), Some(DriftReason::NodeClass));
        assert_eq!(of_hash(&of("1", "v5"), &spec, "ca"), None);
        assert_eq!(of_hash(&Labels::new(), &spec, "ca"), None);
    }
}
