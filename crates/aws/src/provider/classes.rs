//! The EC2NodeClasses of the cluster, as their watch reports them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{Ec2NodeClass, KubeletConfig, ParsedKubelet, labels};
use fleetwright_core::cloud::Object;
use fleetwright_core::model::{NodeClassRef, Str};

/// A class with its parsed kubelet block.
#[derive(Clone, Debug)]
pub struct KnownClass {
    /// The object.
    pub class: Arc<Ec2NodeClass>,
    /// Its kubelet block, read once.
    pub kubelet: Arc<ParsedKubelet>,
    /// Changes whenever the object changes.
    pub version: u64,
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

/// The classes by name.
#[derive(Clone, Debug, Default)]
pub struct Classes(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    classes: BTreeMap<String, KnownClass>,
    changes: u64,
}

impl Classes {
    /// Adds or replaces a class.
    pub fn set(&self, class: Ec2NodeClass) {
        let name = class.metadata.name.clone().unwrap_or_default();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.changes += 1;
        let known = KnownClass::new(class, inner.changes);
        inner.classes.insert(name, known);
    }

    /// Replaces all classes. A class that did not change keeps its version.
    pub fn replace(&self, classes: Vec<Ec2NodeClass>) {
        let name = |class: &Ec2NodeClass| class.metadata.name.clone().unwrap_or_default();
        let there: BTreeSet<String> = classes.iter().map(name).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).classes.retain(|name, _| there.contains(name));
        for class in classes {
            let version = class.metadata.resource_version.clone();
            let known = self.get(&name(&class)).map(|known| known.class.metadata.resource_version.clone());
            if version.is_none() || known != Some(version) {
                self.set(class);
            }
        }
    }

    /// Forgets a class.
    pub fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).classes.remove(name);
    }

    /// All classes by name.
    #[must_use]
    pub fn all(&self) -> Vec<KnownClass> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).classes.values().cloned().collect()
    }

    /// The name of a zone in which a class has a subnet, by the id of the zone.
    pub(super) fn zone_name(&self, class: &str, zone_id: &str) -> Option<Str> {
        let known = self.get(class)?;
        let mut subnets = known.class.status.as_ref()?.subnets.iter();
        subnets.find(|subnet| subnet.zone_id == zone_id).map(|subnet| subnet.zone.as_str().into())
    }

    /// A class by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<KnownClass> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).classes.get(name).cloned()
    }
}

impl KnownClass {
    /// An EC2NodeClass with its parsed kubelet block; an unreadable block counts as empty, and the EC2NodeClass is not ready.
    #[must_use]
    pub fn new(class: Ec2NodeClass, version: u64) -> Self {
        let kubelet = class.spec.kubelet.as_ref().and_then(|block: &KubeletConfig| block.parse().ok());
        Self { class: Arc::new(class), kubelet: Arc::new(kubelet.unwrap_or_default()), version }
    }

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
    //! Readiness, and what a new list changes.
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
        let readiness = |class: Ec2NodeClass| KnownClass::new(class, 1).readiness();
        assert_eq!(readiness(of("True", 2)), Readiness::Yes);
        assert!(matches!(readiness(of("True", 1)), Readiness::No(_)));
        assert!(matches!(readiness(of("False", 2)), Readiness::No(_)));
        assert_eq!(readiness(of("Unknown", 2)), Readiness::Unknown("R: M".to_owned()));
        assert!(matches!(readiness(Ec2NodeClass::new("a", Default::default())), Readiness::Unknown(_)));
        let mut going = of("True", 2);
        going.metadata.deletion_timestamp = Some(fleetwright_aws_api::Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(matches!(readiness(going), Readiness::No(_)));
    }

    #[test]
    fn a_list_replaces_the_known_classes() {
        let class = |name: &str, version: &str| {
            let mut class = Ec2NodeClass::new(name, Default::default());
            class.metadata.resource_version = Some(version.to_owned());
            class
        };
        let classes = Classes::default();
        classes.replace(vec![class("a", "1"), class("b", "2")]);
        let version = |name: &str| classes.get(name).map(|known| known.version);
        let before = (version("a"), version("b"));
        classes.replace(vec![class("b", "2"), class("c", "3")]);
        assert_eq!((version("a"), version("b")), (None, before.1));
        classes.replace(vec![class("b", "4")]);
        assert!(version("b") > before.1 && version("c").is_none());
    }
}
