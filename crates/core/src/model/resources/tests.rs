//! Resource vectors against a model of plain maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn resources() -> impl Strategy<Value = Resources> {
    proptest::collection::btree_map(
        prop_oneof![
            Just("cpu"),
            Just("memory"),
            Just("pods"),
            Just("ephemeral-storage"),
            Just("gpu"),
            Just("a/b"),
            Just("z")
        ],
        -50_i64..50,
        0..6,
    )
    .prop_map(|map| map.into_iter().map(|(name, amount)| (ResourceName::from(name), amount)).collect())
}

fn map(resources: &Resources) -> BTreeMap<ResourceName, i64> {
    resources.iter().collect()
}

proptest! {
    #[test]
    fn arithmetic_is_per_name(a in resources(), b in resources()) {
        let names: Vec<ResourceName> = map(&a).into_keys().chain(map(&b).into_keys()).collect();
        let (mut added, mut taken) = (a.clone(), a.clone());
        added.add_assign(&b);
        taken.sub_assign(&b);
        prop_assert_eq!(&added, &a.plus(&b));
        prop_assert_eq!(&taken, &a.minus(&b));
        for name in names {
            let (x, y) = (a.get(&name), b.get(&name));
            prop_assert_eq!(a.plus(&b).get(&name), x + y);
            prop_assert_eq!(a.minus(&b).get(&name), x - y);
            prop_assert_eq!(a.component_max(&b).get(&name), x.max(y));
            prop_assert_eq!(a.component_min(&b).get(&name), x.min(y));
        }
    }

    #[test]
    fn fits_agrees_with_its_explanation(a in resources(), b in resources()) {
        prop_assert_eq!(a.fits(&b), a.first_exceeding(&b).is_none());
        prop_assert_eq!(a.fits(&b), map(&a).iter().all(|(name, want)| *want <= 0 || *want <= b.get(name)));
    }
}

#[test]
fn saturates_instead_of_wrapping() {
    let huge = Resources::of(i64::MAX, 0).with("x", i64::MAX);
    assert_eq!(huge.plus(&huge), huge);
    assert!(!huge.plus(&Resources::of(1, 0)).fits(&Resources::of(i64::MAX - 1, 0)));
}

#[test]
fn reads_as_kubernetes_writes() {
    let text = Resources::of(1500, 1 << 30).with("pods", 3).with("nvidia.com/gpu", 2).to_string();
    assert_eq!(text, "cpu: 1500m, memory: 1Gi, pods: 3, nvidia.com/gpu: 2");
}
