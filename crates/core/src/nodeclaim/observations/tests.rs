//! What is observed, kept, and dropped.

use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::{
    model::{Labels, Prediction, Resources, Taint, TaintEffect},
    testing::{instance_type, node, now, pool},
};

const GI: i64 = 1 << 30;

fn at(minutes: i64) -> Timestamp {
    now() + SignedDuration::from_mins(minutes)
}

fn taint(key: &str) -> Taint {
    Taint::new(key, "", TaintEffect::NoSchedule)
}

/// A node with 5 of the 8 GiB that its NodeClaim has by prediction.
fn small() -> Arc<StateNode> {
    let image = |claim: &mut NodeClaim| claim.image_id = Some("image-1".into());
    let less = |node: &mut Node| node.allocatable = node.allocatable.clone().with("memory", 5 * GI);
    node("n").size("medium", 4, 8).with_node(less).with_claim(image).build()
}

fn too_small() -> Misfit {
    Misfit::TooSmall { resource: "memory".into(), predicted: "8Gi".into(), allocatable: "5Gi".into() }
}

fn recorded() -> Observed {
    let mut observed = Observed::default();
    assert!(record(&mut observed, &small(), &too_small(), now()));
    assert!(record(&mut observed, &small(), &Misfit::Taint(taint("late")), now()));
    observed
}

#[test]
fn a_misfit_is_recorded_once() {
    let mut observed = recorded();
    assert!(!record(&mut observed, &small(), &too_small(), at(1)));
    assert!(!record(&mut observed, &small(), &Misfit::Taint(taint("late")), at(1)));
    for other in [Misfit::CapacityTaken, Misfit::Unhealthy(taint("agent")), Misfit::Cordoned] {
        assert!(!record(&mut observed, &small(), &other, now()), "{other}");
    }
    let known = &observed.smaller[0];
    assert_eq!((&*known.instance_type, known.image.as_deref()), ("medium", Some("image-1")));
    assert_eq!((known.allocatable.memory(), known.predicted.memory()), (5 * GI, 8 * GI));
    assert_eq!(observed.smaller.len() + observed.taints.len(), 2);
}

#[rstest]
#[case::another_image(true, 1, Some("image-2"), 10, (0, 1))]
#[case::the_same_image(true, 1, Some("image-1"), 10, (1, 1))]
#[case::not_launched_yet(true, 1, None, 10, (1, 1))]
#[case::an_older_node(true, -1, Some("image-2"), 10, (1, 1))]
#[case::six_hours_later(true, 1, None, 360, (0, 0))]
#[case::another_spec(false, 1, None, 10, (0, 0))]
fn a_misfit_ends_by_time_image_and_spec(
    #[case] same_spec: bool,
    #[case] created: i64,
    #[case] image: Option<&str>,
    #[case] minutes: i64,
    #[case] expected: (usize, usize),
) {
    let later = node("a").size("medium", 4, 8).with_claim(|claim| {
        claim.created = at(created);
        claim.image_id = image.map(Into::into);
    });
    let claims = [later.build().claim.clone().unwrap()];
    let known = Observed { capacity: "kept".into(), ..recorded() };
    let current = current(&known, same_spec, &claims, at(minutes));
    assert_eq!((current.smaller.len(), current.taints.len()), expected);
    assert_eq!(&*current.capacity, "kept", "capacity ends with its image only");
}

#[test]
fn the_condition_names_the_observations() {
    let (reason, text) = condition(&recorded());
    assert_eq!(reason, "SmallerThanExpected");
    for part in ["medium with image image-1 has", "5Gi", "nodeclaim n", "late:NoSchedule"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_condition_names_five_observations_and_counts_the_others() {
    let of = |count: usize| {
        let mut observed = Observed::default();
        for number in 0..count {
            record(&mut observed, &small(), &Misfit::Taint(taint(&format!("late-{number}"))), now());
        }
        condition(&observed).1
    };
    assert_eq!(of(5).matches("nodes come up with taint").count(), 5);
    assert!(!of(5).contains(" more"), "{}", of(5));
    assert_eq!(of(7).matches("nodes come up with taint").count(), 5);
    assert!(of(7).ends_with("; 2 more"), "{}", of(7));
}

#[test]
fn only_outdated_observations_are_dropped_from_newer_ones() {
    let observed = |keys: &[&str]| {
        let mut observed = Observed::default();
        for key in keys {
            record(&mut observed, &small(), &Misfit::Taint(taint(key)), now());
        }
        observed
    };
    let (known, current) = (observed(&["old", "kept"]), observed(&["kept"]));
    let left = without_outdated(observed(&["old", "kept", "new"]), &known, &current);
    let keys: Vec<&str> = left.taints.iter().map(|known| &*known.taint.key).collect();
    assert_eq!(keys, ["kept", "new"]);
    let (known, nothing) = (recorded(), Observed::default());
    assert_eq!(without_outdated(recorded(), &known, &nothing).smaller, []);
    assert_eq!(without_outdated(recorded(), &nothing, &nothing).smaller, known.smaller, "recorded since");
}

/// A NodePool that launches `medium` with one image, and keeps these figures.
fn keeps(name: &str, image: Option<&str>, capacity: &str) -> (Arc<NodePool>, Option<Arc<Catalog>>) {
    let medium = instance_type("medium", 4, 8).offer("a", "spot", 10).build();
    let prediction = image.map(|image| {
        let annotations: Labels = [("class-hash".into(), "1".into())].into();
        let capacity = medium.capacity.clone();
        Arc::new(Prediction { image: image.into(), capacity, annotations, uncertain: &[] })
    });
    let medium = crate::model::InstanceType { prediction, ..(*medium).clone() };
    let pool = pool(name).with(|pool| pool.observed.capacity = capacity.into());
    (pool.into(), Some(Arc::new(Catalog::new(vec![Arc::new(medium)]))))
}

/// A node of `medium`, created in this minute, that reports these GiB and pods.
fn reports(minute: i64, image: &str, hash: &str, gib: i64, pods: i64) -> (Arc<NodeClaim>, Option<Arc<Node>>) {
    let built = node(&format!("n{minute}"))
        .size("medium", 4, gib)
        .with_claim(|claim| {
            (claim.created, claim.image_id) = (at(minute), Some(image.into()));
            claim.annotations.insert("class-hash".into(), hash.into());
        })
        .with_node(|node| {
            node.labels.insert(labels::REGISTERED.into(), "true".into());
            node.labels.insert(labels::INITIALIZED.into(), "true".into());
            node.labels.insert(labels::INSTANCE_TYPE.into(), "medium".into());
            node.capacity = Resources::of(4000, gib * GI).with("pods", pods);
        })
        .build();
    (built.claim.clone().unwrap(), built.node.clone())
}

fn look(
    learner: &mut CapacityLearner,
    pools: &[(Arc<NodePool>, Option<Arc<Catalog>>)],
    nodes: &[(Arc<NodeClaim>, Option<Arc<Node>>)],
) -> Vec<String> {
    let changed = learner.look(CapacityView { pools, nodes });
    changed.into_iter().map(|(pool, text)| format!("{pool}: {text}")).collect()
}

fn memory(learner: &CapacityLearner, image: &str) -> Option<i64> {
    learner.observed().known("medium", image).map(|(_, memory)| memory / GI)
}

#[test]
fn capacity_goes_down_and_up_and_is_kept_by_every_nodepool_of_the_image() {
    let mut learner = CapacityLearner::default();
    let pools = |text: &str| [keeps("a", Some("one"), text), keeps("b", Some("one"), text)];
    let seven = format!("medium one 4000 {}\n", 7 * GI);
    let nodes = [reports(1, "one", "old", 7, 50)];
    let changed = look(&mut learner, &pools(""), &nodes);
    assert_eq!(changed, [format!("a: {seven}"), format!("b: {seven}")], "another class hash: no pods");
    assert!(look(&mut learner, &pools(&seven), &nodes).is_empty(), "no change");
    assert!(look(&mut learner, &pools(&seven), &[]).is_empty(), "kept without nodes");
    let mut restarted = CapacityLearner::default();
    assert!(look(&mut restarted, &pools(&seven), &[]).is_empty(), "kept by the next process");
    assert_eq!(memory(&restarted, "one"), Some(7));
    look(&mut restarted, &pools(&seven), &[reports(2, "one", "1", 9, 50)]);
    assert_eq!(memory(&restarted, "one"), Some(9), "a live node corrects it upwards");
}

#[test]
fn figures_end_with_their_image_or_by_hand() {
    let mut learner = CapacityLearner::default();
    let seven = format!("medium one 4000 {}\n", 7 * GI);
    let (one, two) = (keeps("a", Some("one"), &seven), keeps("b", Some("two"), ""));
    look(&mut learner, &[one.clone(), two.clone()], &[reports(1, "two", "1", 6, 110)]);
    assert_eq!((memory(&learner, "one"), memory(&learner, "two")), (Some(7), Some(6)));
    look(&mut learner, &[two.clone(), (one.0.clone(), None)], &[]);
    assert_eq!(memory(&learner, "one"), Some(7), "the images of one NodePool are unknown");
    look(&mut learner, &[one, two.clone()], &[]);
    // A user removes the annotation of the first NodePool.
    look(&mut learner, &[keeps("a", Some("one"), ""), two], &[]);
    assert_eq!((memory(&learner, "one"), memory(&learner, "two")), (None, Some(6)));
    look(&mut learner, &[keeps("b", Some("three"), "")], &[]);
    assert_eq!(memory(&learner, "two"), None, "no NodePool launches the image");
}

#[test]
fn without_a_prediction_nothing_is_kept() {
    let mut learner = CapacityLearner::default();
    assert!(look(&mut learner, &[keeps("a", None, "")], &[reports(1, "one", "1", 7, 50)]).is_empty());
}

#[test]
fn a_nodepool_that_is_deleted_or_has_no_known_images_is_not_written() {
    let (seven, nodes) = (format!("medium one 4000 {}\n", 7 * GI), [reports(1, "one", "old", 7, 50)]);
    let mut deleted = keeps("deleted", Some("one"), "");
    Arc::make_mut(&mut deleted.0).deleting = true;
    let unknown = (keeps("unknown", None, &seven).0, None);
    let pools = [keeps("a", Some("one"), ""), deleted, unknown];
    assert_eq!(look(&mut CapacityLearner::default(), &pools, &nodes), [format!("a: {seven}")]);
}
