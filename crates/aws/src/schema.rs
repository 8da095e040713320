//! The label schema of AWS.

use fleetwright_aws_api::labels;
use fleetwright_core::model::{LabelSchema, Str, labels::ZONE};

/// Karpenter's schema with AWS' labels.
#[must_use]
pub fn schema() -> LabelSchema {
    let mut schema = LabelSchema::default();
    schema.well_known.extend(labels::WELL_KNOWN.iter().map(|key| (*key).into()));
    let tenancies = ["default", "dedicated"].map(Str::from).into();
    schema.known_values.insert(labels::INSTANCE_TENANCY.into(), tenancies);
    schema.restricted_domains.insert(labels::GROUP.into());
    schema.normalized.insert(labels::EBS_CSI_ZONE.into(), ZONE.into());
    schema.reservation_id = Some(labels::CAPACITY_RESERVATION_ID.into());
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_closed_except_for_known_labels() {
        let schema = schema();
        for (key, restricted) in [
            ("karpenter.k8s.aws/instance-family", false),
            ("karpenter.k8s.aws/colour", true),
            ("sub.karpenter.k8s.aws/colour", true),
            ("topology.k8s.aws/zone-id", false),
            ("team", false),
        ] {
            assert_eq!(schema.is_restricted(key), restricted, "{key}");
        }
        assert_eq!(schema.normalize(labels::EBS_CSI_ZONE), ZONE);
        assert_eq!(schema.known_values[labels::INSTANCE_TENANCY].len(), 2);
    }
}
