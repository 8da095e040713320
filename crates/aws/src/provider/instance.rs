//! EC2 instances in the terms of the provider API.

use fleetwright_aws_api::ec2nodeclass::{CapacityReservation, Ec2NodeClassStatus};
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::Instance;
use fleetwright_core::model::{
    BatchId, Labels, ProviderId, Resources, Str,
    labels::{AWAITS_LABEL, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, REGION, RESERVED, SPOT, ZONE},
};

use super::AwsProvider;
use crate::calls::InstanceInfo;
use crate::instancetype::ResolvedInstanceType;

/// `aws:///<zone>/<id>`.
#[must_use]
pub fn provider_id(zone: &str, id: &str) -> ProviderId {
    format!("aws:///{zone}/{id}").into()
}

/// The instance's id in a provider id; `None` for another cloud's.
#[must_use]
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let id = provider_id.strip_prefix("aws:///")?.split_once('/')?.1;
    (id.starts_with("i-") && !id.contains('/')).then_some(id)
}

/// The zone in a provider id; `None` for another cloud's.
pub(super) fn zone(provider_id: &str) -> Option<&str> {
    Some(provider_id.strip_prefix("aws:///")?.split_once('/')?.0)
}

/// Whether an instance is terminating or terminated.
#[must_use]
pub fn is_ending(info: &InstanceInfo) -> bool {
    info.state == "shutting-down" || info.state == "terminated"
}

/// The class of an instance, as far as it is known.
#[derive(Clone, Copy)]
struct OfClass<'a> {
    /// The instance type by the class.
    resolved: Option<&'a ResolvedInstanceType>,
    /// The status of the class.
    status: Option<&'a Ec2NodeClassStatus>,
}

impl<'a> OfClass<'a> {
    /// The reservation that an instance uses, if the class selects it.
    fn reservation(self, info: &InstanceInfo) -> Option<&'a CapacityReservation> {
        let id = info.reservation.as_ref()?;
        self.status?.capacity_reservations.iter().find(|known| known.id == *id)
    }
}

/// Converts an instance, with the details of its class.
fn instance(info: &InstanceInfo, class: OfClass<'_>, region: &str) -> Instance {
    let tag = |key: &str| {
        info.tags.get(key).filter(|value| !value.is_empty()).map(|value| Str::from(value.as_str()))
    };
    let attempt = tag(labels::TAG_ATTEMPT).and_then(|attempt| attempt.parse().ok());
    let launched_by = tag(labels::TAG_BATCH).map(BatchId::from).zip(attempt);
    let (capacity, allocatable) = match class.resolved {
        Some(resolved) => {
            let with_efa = |mut resources: Resources| {
                resources.set(&labels::RESOURCE_EFA.into(), info.efa_interfaces);
                resources
            };
            let instance_type = &resolved.instance_type;
            (with_efa(instance_type.capacity.clone()), with_efa(instance_type.allocatable()))
        }
        None => (Resources::new(), Resources::new()),
    };
    let mut instance = Instance::new(provider_id(&info.zone, &info.id)).with_resources(capacity, allocatable);
    instance.claim = tag(labels::TAG_NODECLAIM).map(Into::into);
    instance.launched_by = launched_by;
    instance.cluster_uid = tag(labels::TAG_CLUSTER_UID);
    instance.labels = node_labels(info, class, region);
    instance.annotations = annotations(info);
    instance.image_id = (!info.image.is_empty()).then(|| info.image.as_str().into());
    instance.created = info.launched;
    instance.terminating = is_ending(info);
    instance
}

impl AwsProvider {
    /// Describes an instance in the terms of the provider API, with the details of its class.
    pub(super) fn describe(&self, info: &InstanceInfo) -> Instance {
        let class = info.tags.get(labels::NODE_CLASS).and_then(|name| self.classes.get(name).ok());
        let catalog = class.as_ref().map(|known| self.class_catalog(known));
        let of_class = OfClass {
            resolved: catalog.as_ref().and_then(|catalog| catalog.resolved.get(&info.instance_type)),
            status: class.as_ref().and_then(|known| known.class.status.as_ref()),
        };
        let mut described = instance(info, of_class, &self.settings.region);
        let parted = info.tags.get(labels::NODE_CLASS).and_then(|name| self.catalogs.group(name));
        if parted.is_some_and(|group| group.partitions > 0)
            && !described.labels.contains_key(labels::PLACEMENT_GROUP_PARTITION)
        {
            // EC2 chooses the partition and shows it later; pods may require one.
            described.annotations.insert(AWAITS_LABEL.into(), labels::PLACEMENT_GROUP_PARTITION.into());
        }
        described
    }
}

/// The annotations of the NodeClaim: the class hash at launch, and the instance profile.
fn annotations(info: &InstanceInfo) -> Labels {
    let mut all = Labels::new();
    if let Some(hash) = info.tags.get(labels::TAG_CLASS_HASH).filter(|hash| !hash.is_empty()) {
        all.insert(labels::HASH.into(), hash.as_str().into());
        all.insert(labels::HASH_VERSION.into(), labels::CURRENT_HASH_VERSION.into());
    }
    if let Some(profile) = info.profile.as_deref().filter(|profile| !profile.is_empty()) {
        all.insert(labels::INSTANCE_PROFILE_NAME.into(), profile.into());
    }
    all
}

/// The labels of the node: those of the instance type, and those of this instance.
///
/// An instance type may have several reservations: the labels follow from the one of the instance. A reservation that the class does not
/// select contributes only its id.
fn node_labels(info: &InstanceInfo, class: OfClass<'_>, region: &str) -> Labels {
    let mut all =
        class.resolved.map(|resolved| resolved.instance_type.requirements.labels()).unwrap_or_default();
    for key in [
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ] {
        all.remove(key);
    }
    let reservation = class.reservation(info);
    let interruptible = reservation.map(|known| known.interruptible.to_string()).unwrap_or_default();
    let capacity_type = match (&info.reservation, info.spot) {
        (Some(_), _) => RESERVED,
        (None, true) => SPOT,
        (None, false) => ON_DEMAND,
    };
    let partition = info.placement.as_ref().and_then(|(_, part)| *part).map(|part| part.to_string());
    let fixed = [
        (INSTANCE_TYPE, info.instance_type.as_str()),
        (ZONE, info.zone.as_str()),
        (REGION, region),
        (CAPACITY_TYPE, capacity_type),
        (labels::ZONE_ID, info.zone_id.as_str()),
        (labels::INSTANCE_TENANCY, if info.tenancy.is_empty() { "default" } else { &info.tenancy }),
        (labels::CAPACITY_RESERVATION_ID, info.reservation.as_deref().unwrap_or_default()),
        (labels::CAPACITY_RESERVATION_TYPE, reservation.map_or("", |known| &known.reservation_type)),
        (labels::CAPACITY_RESERVATION_INTERRUPTIBLE, &interruptible),
        (labels::PLACEMENT_GROUP_ID, info.placement.as_ref().map_or("", |(id, _)| id)),
        (labels::PLACEMENT_GROUP_PARTITION, partition.as_deref().unwrap_or_default()),
        (NODEPOOL, info.tags.get(labels::TAG_NODEPOOL).map_or("", String::as_str)),
    ];
    for (key, value) in fixed.into_iter().filter(|(_, value)| !value.is_empty()) {
        all.insert(key.into(), value.into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_ids() {
        assert_eq!(instance_id(provider_id("us-west-2a", "i-1").as_str()), Some("i-1"));
        for other in
            ["fake:///none/i-0", "aws:///us-west-2a/x-1", "aws:///us-west-2a", "i-1", "aws:///a/i-1/b"]
        {
            assert_eq!(instance_id(other), None, "{other}");
        }
    }
}
