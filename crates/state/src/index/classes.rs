//! NodeClasses: objects of the kinds that the provider declares. Each kind has a watch of its own, and all share one table.

use fleetwright_core::model::NodeClassRef;
use jiff::Timestamp;

use super::Index;
use crate::{
    change::Change,
    kind::{Key, Kind},
    tracked::Tracked,
};

/// The key of a NodeClass in the index: `<kind>.<group>` takes the place of a namespace, since names are unique per kind only.
pub(crate) fn key(group: &str, kind: &str, name: &str) -> Key {
    Key::new(format!("{kind}.{group}"), name)
}

/// The NodeClass of a key.
pub(crate) fn of_key(key: &Key) -> NodeClassRef {
    let (kind, group) = key.namespace.split_once('.').unwrap_or((&key.namespace, ""));
    NodeClassRef { group: group.into(), kind: kind.into(), name: key.name.clone() }
}

/// The key of a changed object as others see it: that of a NodeClass is its name.
pub(crate) fn changed(kind: Kind, key: Key) -> Key {
    if kind == Kind::NodeClass { Key::cluster(key.name) } else { key }
}

impl Index {
    /// Takes in a complete list of one kind of NodeClass, as [`Self::reset`] does.
    pub fn reset_class<T: Tracked>(
        &mut self,
        class: &NodeClassRef,
        objects: Vec<T>,
        version: &str,
        now: Timestamp,
    ) -> Vec<Change> {
        let part = key(&class.group, &class.kind, "").namespace;
        let changes = self.replace(objects, version, |key| key.namespace == part);
        self.class_progress(class, now);
        changes
    }

    /// Records a sign of life of the watch of one kind of NodeClass.
    pub fn class_progress(&mut self, class: &NodeClassRef, now: Timestamp) {
        let kind = NodeClassRef { name: "".into(), ..class.clone() };
        self.watches.class_progressed(kind, now);
    }

    /// The oldest of the last signs of life of these watches; `None` until each kind was listed.
    pub(super) fn last_classes_progress(&self) -> Option<Timestamp> {
        let kinds = self.objects.class_kinds().iter();
        let last: Option<Vec<Timestamp>> =
            kinds.map(|class| self.watches.last_class_progress(class)).collect();
        last?.into_iter().min()
    }

    /// Records a sign of life of the watches of all kinds of NodeClass.
    pub(super) fn classes_progress(&mut self, now: Timestamp) {
        for class in self.objects.class_kinds().to_vec() {
            self.class_progress(&class, now);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Two kinds with objects of one name.
    use fleetwright_api as api;
    use serde_json::json;

    use super::*;

    fn class(kind: &str, ready: &str) -> api::NodeClassView {
        serde_json::from_value(json!({
            "apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "default", "resourceVersion": "5"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn kinds_are_listed_one_by_one() {
        let named = |kind: &str| NodeClassRef {
            group: "example.com".into(),
            kind: kind.into(),
            name: "default".into(),
        };
        let (one, two) = (named("OneNodeClass"), named("TwoNodeClass"));
        let bare = |class: &NodeClassRef| NodeClassRef { name: "".into(), ..class.clone() };
        let mut index = Index::new(std::sync::Arc::default(), vec![bare(&one), bare(&two)]);
        let at = |second: i64| Timestamp::from_second(second).unwrap();

        let changes = index.reset_class(&one, vec![class("OneNodeClass", "True")], "5", at(1));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].key, Key::cluster("default"));
        assert!(!index.synced(Kind::NodeClass), "the second kind was not listed yet");

        index.reset_class(&two, vec![class("TwoNodeClass", "False")], "6", at(2));
        assert_eq!(index.last_progress(Kind::NodeClass), Some(at(1)), "the older sign of life counts");
        assert_eq!(index.node_class(&one).and_then(|class| class.ready), Some(true));
        assert_eq!(index.node_class(&two).and_then(|class| class.ready), Some(false));

        index.reset_class::<api::NodeClassView>(&two, Vec::new(), "7", at(3));
        assert!(index.node_class(&two).is_none());
        assert!(index.node_class(&one).is_some(), "the list of one kind says nothing of the other");
    }
}
