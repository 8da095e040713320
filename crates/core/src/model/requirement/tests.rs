//! The algebra against a brute-force model over a small universe.

use proptest::prelude::*;

use super::*;
use crate::model::Requirements;

/// Values that a label may have in the model, among them ones that no requirement names.
const UNIVERSE: [&str; 9] = ["a", "b", "c", "-1", "0", "1", "2", "3", "x9"];

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = proptest::collection::btree_set(proptest::sample::select(&UNIVERSE[..8]), 0..4);
    let number = -2_i64..5;
    (0..8_usize, values, number).prop_map(|(operator, values, number)| {
        let number = [number.to_string()];
        let built = match operator {
            0 => Requirement::new("k", Operator::In, values),
            1 => Requirement::new("k", Operator::NotIn, values),
            2 => Requirement::new("k", Operator::Exists, Vec::<Str>::new()),
            3 => Requirement::new("k", Operator::DoesNotExist, Vec::<Str>::new()),
            4 => Requirement::new("k", Operator::Gt, number),
            5 => Requirement::new("k", Operator::Lt, number),
            6 => Requirement::new("k", Operator::Gte, number),
            _ => Requirement::new("k", Operator::Lte, number),
        };
        built.unwrap()
    })
}

proptest! {
    #[test]
    fn intersection_is_conjunction(a in requirement(), b in requirement(), c in requirement()) {
        let both = a.intersection(&b);
        for value in UNIVERSE {
            prop_assert_eq!(both.has(value), a.has(value) && b.has(value), "{} in {} and {}", value, a, b);
        }
        // Applied once more, so that bounds and complements meet in every combination.
        let all = both.intersection(&c);
        for value in UNIVERSE {
            prop_assert_eq!(all.has(value), a.has(value) && b.has(value) && c.has(value));
        }
        prop_assert_eq!(&b.intersection(&a), &both);
    }

    #[test]
    fn emptiness_is_exact_on_integers(a in requirement(), b in requirement()) {
        let both = a.intersection(&b);
        let witness = (-20..20).map(|n| n.to_string()).chain(UNIVERSE.map(String::from)).any(|value| both.has(&value));
        prop_assert_eq!(!both.is_empty(), witness, "{}", both);
        prop_assert_eq!(a.intersects(&b), witness, "{} {}", a, b);
    }

    /// What a node may carry under the key decides: one of the values, or no such label.
    #[test]
    fn compatible_is_a_label_that_suits_both(
        offered in proptest::collection::vec(requirement(), 0..3),
        wanted in proptest::collection::vec(requirement(), 1..3),
        open: bool,
    ) {
        let suits = |all: &[Requirement], label: Option<&str>| {
            all.iter().all(|r| label.map_or_else(|| r.allows_missing(), |value| r.has(value)))
        };
        let numbers: Vec<String> = (-20..20).map(|n| n.to_string()).collect();
        let values = UNIVERSE.into_iter().chain(numbers.iter().map(String::as_str)).map(Some);
        let labels: Vec<Option<&str>> = std::iter::once(None).chain(values).collect();
        // A contradiction on one side means that there is no label, which another test covers.
        prop_assume!([&offered, &wanted].iter().all(|side| labels.iter().any(|label| suits(side, *label))));
        let sets: [Requirements; 2] = [&offered, &wanted].map(|side| side.iter().cloned().collect());
        // A label that the node does not define is missing, unless it may be left open.
        let possible = |label: &Option<&str>| !offered.is_empty() || open || label.is_none();
        let model = labels.iter().filter(|label| possible(label)).any(|label| {
            suits(&offered, *label) && suits(&wanted, *label)
        });
        prop_assert_eq!(sets[0].compatible(&sets[1], |_| open).is_ok(), model, "{} and {}", sets[0], sets[1]);
    }

    #[test]
    fn the_larger_of_min_values_holds(a in requirement(), b in requirement(), few in 1..9_u32, many in 1..9_u32) {
        let (a, b) = (a.with_min_values(Some(few)), b.with_min_values(Some(many)));
        prop_assert_eq!(a.intersection(&b).min_values(), Some(few.max(many)));
        prop_assert_eq!(b.with_min_values(None).intersection(&a).min_values(), Some(few));
    }

    #[test]
    fn any_satisfies(a in requirement(), b in requirement()) {
        let both = a.intersection(&b);
        if let Some(value) = both.any() {
            prop_assert!(both.has(&value), "{} is not in {}", value, both);
        }
        // Without bounds, what is open always has a value.
        let open = both.is_complement() && both.gte().is_none() && both.lte().is_none();
        prop_assert!(!open || both.unnamed().is_some_and(|value| both.has(&value)), "{}", both);
    }
}

#[test]
fn written_form() {
    let gt = Requirement::new("k", Operator::Gt, ["9223372036854775807"]).unwrap();
    assert_eq!(gt.operator(), Operator::DoesNotExist);
    assert!(Requirement::new("k", Operator::Gt, ["1", "2"]).is_err());
    assert!(Requirement::new("k", Operator::Lt, ["x"]).is_err());
    let many = Requirement::is_in("k", (0..9).map(|n| n.to_string())).with_min_values(Some(2));
    assert_eq!(many.to_string(), "k In [0 1 2 3 4 and 4 others] minValues 2");
    assert!(Requirement::not_in("k", ["a"]).allows_missing());
    assert!(!Requirement::exists("k").allows_missing());
    assert!(!Requirement::is_in("k", ["1"]).has("2"));
}
