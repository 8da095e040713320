//! Which resources are reported, and in which messages.

use super::*;

fn tags(name: &str, uid: &str) -> TagSet {
    [(labels::TAG_CLUSTER_NAME, name), (labels::TAG_CLUSTER_UID, uid)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[test]
fn every_cluster_of_our_name_is_named() {
    let all: Vec<(String, TagSet)> = [("i-1", "b"), ("i-2", "a"), ("i-3", "ours"), ("i-4", "a")]
        .into_iter()
        .map(|(id, uid)| (id.to_owned(), tags("prod", uid)))
        .chain([("i-5".to_owned(), tags("test", "c")), ("i-6".to_owned(), TagSet::new())])
        .collect();
    let mut foreign = ForeignResources::default();
    let others = || all.iter().filter_map(|(id, tags)| namesake(id, tags, "prod", "ours"));
    foreign.replace(ResourceType::Instance, others());
    foreign.replace(ResourceType::LaunchTemplate, others().take(1));
    foreign.replace(ResourceType::InstanceProfile, []);
    assert_eq!(ResourceType::ALL.map(|resource| foreign.count(resource)), [3, 1, 0]);
    let messages = foreign.messages("prod");
    assert_eq!(
        messages.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(),
        ["ForeignInstances", "ForeignLaunchTemplates"]
    );
    assert!(messages[0].1.starts_with(
        "3 instances carry the name prod and the UID of another cluster (a: i-2, i-4; b: i-1) "
    ));
    foreign.replace(ResourceType::Instance, []);
    assert_eq!(foreign.messages("prod").len(), 1, "the last list counts");
}

#[test]
fn messages_are_short_however_much_there_is() {
    let mut foreign = ForeignResources::default();
    foreign.replace(
        ResourceType::Instance,
        (0..1000).map(|n| (format!("i-{n:017x}"), format!("uid-{:03}", n % 100))),
    );
    let (_, message) = foreign.messages("prod").remove(0);
    assert!(message.contains("uid-000: ") && message.contains(", ...; and 95 more clusters"), "{message}");
    assert!(message.len() < 700, "{}", message.len());
}

#[test]
fn an_instance_is_unowned_if_no_claim_names_it_for_a_minute() {
    let now = Timestamp::UNIX_EPOCH;
    let of = |id: &str, age: Option<i64>| UnstampedInstance {
        id: id.into(),
        launched: age.map(|age| now - SignedDuration::from_secs(age)),
    };
    let all = [of("a", Some(60)), of("b", Some(59)), of("c", Some(3600)), of("d", None)];
    let found = unowned(&all, &BTreeSet::from(["c".into()]), now);
    assert_eq!(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["a", "d"]);
}
