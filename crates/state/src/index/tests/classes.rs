//! NodeClasses: two kinds with objects of one name.
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
    let named =
        |kind: &str| NodeClassRef { group: "example.com".into(), kind: kind.into(), name: "default".into() };
    let (one, two) = (named("OneNodeClass"), named("TwoNodeClass"));
    let bare = |class: &NodeClassRef| NodeClassRef { name: "".into(), ..class.clone() };
    let mut index = Index::new(Arc::default(), vec![bare(&one), bare(&two)]);
    let at = |second: i64| Timestamp::from_second(second).unwrap();

    let changes = index.reset_class(&one, vec![class("OneNodeClass", "True")], "5", at(1));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].key, Key::cluster("default"));
    assert!(!index.synced(WatchedKind::NodeClass), "the second kind was not listed yet");

    index.reset_class(&two, vec![class("TwoNodeClass", "False")], "6", at(2));
    assert_eq!(index.last_progress(WatchedKind::NodeClass), Some(at(1)), "the older sign of life counts");
    assert_eq!(index.node_class(&one).and_then(|class| class.ready), Some(true));
    assert_eq!(index.node_class(&two).and_then(|class| class.ready), Some(false));

    index.reset_class::<api::NodeClassView>(&two, Vec::new(), "7", at(3));
    assert!(index.node_class(&two).is_none());
    assert!(index.node_class(&one).is_some(), "the list of one kind says nothing of the other");
}

#[test]
fn the_status_of_a_nodeclass_may_come_from_elsewhere_than_its_watch() {
    let class =
        NodeClassRef { group: "example.com".into(), kind: "OneNodeClass".into(), name: "default".into() };
    let mut index = Index::new(Arc::default(), vec![NodeClassRef { name: "".into(), ..class.clone() }]);
    let (why, conditions) = (("Ready".into(), "".into()), Vec::new());
    let status = NodeClassStatus { ready: Some(true), why, generation: 1, deleting: None, conditions };
    index.put_class(class.clone(), Some(status));
    assert_eq!(index.node_class(&class).and_then(|class| class.ready), Some(true));
    index.put_class(class.clone(), None);
    assert!(index.node_class(&class).is_none());
}
