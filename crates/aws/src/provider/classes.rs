//! The EC2NodeClasses of the cluster, as their watch reports them.

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{Ec2NodeClass, KubeletConfig, ParsedKubelet, labels};
use fleetwright_core::cloud::{NodeClassKind, NodeClasses, Object};
use fleetwright_core::model::{NodeClassRef, Str};
use serde::Deserialize;

/// A class with its parsed kubelet block.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Ec2NodeClass")]
pub struct KnownClass {
    /// The object.
    pub class: Ec2NodeClass,
    /// Its kubelet block, read once.
    pub kubelet: ParsedKubelet,
}

/// The EC2NodeClasses of a cluster, by name.
pub type Classes = NodeClasses<KnownClass>;

/// The EC2NodeClasses of a cluster, not listed yet: launches wait.
#[must_use]
pub fn node_classes() -> Classes {
    NodeClasses::new(NodeClassKind::new(labels::GROUP, "v1", labels::NODE_CLASS_KIND, "ec2nodeclasses"))
}

/// Adds or replaces an EC2NodeClass, as its watch does.
pub fn set_class(classes: &Classes, class: Ec2NodeClass) {
    classes.set(&class.metadata.name.clone().unwrap_or_default(), class.into());
}

/// The name of a zone in which a class has a subnet, by the id of the zone.
pub(super) fn zone_name(known: &KnownClass, zone_id: &str) -> Option<Str> {
    let mut subnets = known.class.status.as_ref()?.subnets.iter();
    subnets.find(|subnet| subnet.zone_id == zone_id).map(|subnet| subnet.zone.as_str().into())
}

impl From<Ec2NodeClass> for KnownClass {
    /// Reads the kubelet block. An unreadable one counts as empty, and the EC2NodeClass is not ready.
    fn from(class: Ec2NodeClass) -> Self {
        let kubelet = class.spec.kubelet.as_ref().and_then(|block: &KubeletConfig| block.parse().ok());
        Self { class, kubelet: kubelet.unwrap_or_default() }
    }
}

/// Whether an EC2NodeClass can be used for launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can be used.
    Yes,
    /// Unknown at the moment: the same launch may work later.
    Unknown(String),
    /// It cannot be used, for this reason.
    No(String),
}

impl KnownClass {
    /// Whether instances may be launched with the class. A condition of an older generation does not count.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        if self.class.metadata.deletion_timestamp.is_some() {
            return Readiness::No("it is being deleted".to_owned());
        }
        let status = self.class.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let generation = self.class.metadata.generation.unwrap_or(0);
        match ready {
            Some(ready) if ready.is_true() && ready.observed_generation == generation => Readiness::Yes,
            Some(ready) if ready.is_true() => Readiness::No("its status is older than its spec".to_owned()),
            Some(ready) if ready.is_false() => Readiness::No(format!("{}: {}", ready.reason, ready.message)),
            Some(ready) => Readiness::Unknown(format!("{}: {}", ready.reason, ready.message)),
            None => Readiness::Unknown(format!("{} and others are not known yet", condition::AMIS_READY)),
        }
    }
}

/// A class as the object of a write or an event.
pub(super) fn object(class: &Ec2NodeClass) -> Object {
    let text = |value: &Option<String>| Str::from(value.as_deref().unwrap_or_default());
    let class_ref = NodeClassRef {
        group: labels::GROUP.into(),
        kind: labels::NODE_CLASS_KIND.into(),
        name: text(&class.metadata.name),
    };
    Object::NodeClass { class: class_ref, version: "v1".into(), uid: text(&class.metadata.uid) }
}

#[cfg(test)]
mod tests {
    //! Readiness.
    use super::*;

    #[test]
    fn an_unknown_condition_is_not_a_refusal() {
        let of = |status: &str, observed: i64| {
            let mut class = Ec2NodeClass::new("a", Default::default());
            class.metadata.generation = Some(2);
            class.status = serde_json::from_value(serde_json::json!({"conditions": [{
                "type": "Ready", "status": status, "observedGeneration": observed, "reason": "R", "message": "M",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}))
            .unwrap();
            class
        };
        let readiness = |class: Ec2NodeClass| KnownClass::from(class).readiness();
        assert_eq!(readiness(of("True", 2)), Readiness::Yes);
        assert!(matches!(readiness(of("True", 1)), Readiness::No(_)));
        assert!(matches!(readiness(of("False", 2)), Readiness::No(_)));
        assert_eq!(readiness(of("Unknown", 2)), Readiness::Unknown("R: M".to_owned()));
        assert!(matches!(readiness(Ec2NodeClass::new("a", Default::default())), Readiness::Unknown(_)));
        let mut going = of("True", 2);
        going.metadata.deletion_timestamp = Some(fleetwright_aws_api::Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(matches!(readiness(going), Readiness::No(_)));
    }
}
