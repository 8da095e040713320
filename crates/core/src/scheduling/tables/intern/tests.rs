//! Compiled requirements mean what the model's mean.

use proptest::prelude::*;

use super::*;
use crate::model::{Operator, labels::ZONE};

/// Keys: one that claims may leave undefined, two that they may not.
const KEYS: [&str; 3] = [ZONE, "team", "size"];
const VALUES: [&str; 5] = ["a", "b", "3", "4", "7"];

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = proptest::collection::btree_set(0..VALUES.len(), 0..4);
    (0..KEYS.len(), 0..8_u8, values, 0..8_i64).prop_map(|(key, operator, values, bound)| {
        let texts = values.into_iter().map(|at| VALUES[at]);
        let numeric = |operator| Requirement::new(KEYS[key], operator, [bound.to_string()]).unwrap();
        match operator {
            0..3 => Requirement::is_in(KEYS[key], texts),
            3 => Requirement::not_in(KEYS[key], texts),
            4 => Requirement::exists(KEYS[key]),
            5 => Requirement::does_not_exist(KEYS[key]),
            6 => numeric(Operator::Gte),
            _ => numeric(Operator::Lt),
        }
    })
}

fn requirements() -> impl Strategy<Value = Requirements> {
    proptest::collection::vec(requirement(), 0..4).prop_map(|all| all.into_iter().collect())
}

proptest! {
    #[test]
    fn meets_agree_with_the_model(a in requirements(), b in requirements()) {
        let schema = Arc::new(LabelSchema::default());
        let mut universe = Universe::new(Arc::clone(&schema));
        let (x, y) = (universe.req(a.iter()), universe.req(b.iter()));
        prop_assert_eq!(universe.requirements(x), a.clone());
        prop_assert_eq!(universe.meet(x, y, Side::Claim).is_some(), a.compatible_claim(&b, &schema).is_ok());
        prop_assert_eq!(universe.meet(x, y, Side::Plain).is_some(), a.overlaps(&b));
        if let Some(both) = universe.meet(x, y, Side::Claim) {
            let mut expected = a.clone();
            expected.add_all(&b);
            prop_assert_eq!(universe.requirements(both), expected);
        }
        prop_assert_eq!(universe.meet(x, x, Side::Claim), Some(x));
    }

    #[test]
    fn unnamed_values_stay_elements(a in requirement(), text in "[a-c0-9]{1,2}") {
        let mut universe = Universe::new(Arc::new(LabelSchema::default()));
        let (key, set) = universe.set(&a);
        let value = universe.value(key, &text.as_str().into());
        prop_assert_eq!(universe.has(key, &set, value), a.has(&text));
        prop_assert_eq!(set.allows_missing(), a.allows_missing());
        prop_assert_eq!(universe.is_empty(key, &set), a.is_empty());
    }
}
