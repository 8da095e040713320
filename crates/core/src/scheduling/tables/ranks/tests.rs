//! The result is that of looking at every row.
use proptest::prelude::*;

use super::{super::amounts::fits, *};

proptest! {
    #[test]
    fn agrees_with_every_row(
        rows in prop::collection::vec(prop::collection::vec(-2..40_i64, 0..4), 0..70),
        used in prop::collection::vec(0..20_i64, 0..5),
        more in prop::collection::vec(-1..20_i64, 0..5),
        out in prop::collection::vec(0..70_usize, 0..9),
    ) {
        let rows: Vec<Amounts> = rows.into_iter().map(Amounts::from).collect();
        let ranks = Ranks::new(&rows.iter().collect::<Vec<_>>());
        let (used, more) = (Amounts::from(used), Amounts::from(more));
        let mut start = Bits::<InstanceTypeId>::full(rows.len());
        out.into_iter().for_each(|row| start.remove(Id::new(row)));
        let mut kept = start.clone();
        ranks.keep(&used, &more, &mut kept);
        let expected: Vec<InstanceTypeId> =
            start.iter().filter(|row| fits(&used, &more, &rows[row.position()])).collect();
        prop_assert_eq!(&kept.iter().collect::<Vec<_>>(), &expected);
        let (most, least) = ranks.bounds(&kept);
        for resource in 0..4 {
            let amounts = expected.iter().map(|row| get(&rows[row.position()], resource));
            prop_assert_eq!(get(&most, resource), amounts.clone().max().unwrap_or(0));
            prop_assert_eq!(get(&least, resource), amounts.min().unwrap_or(0));
        }
    }
}

#[test]
fn one_device_that_is_asked_for_needs_a_type_that_has_one() {
    let thresholds = Thresholds::new([0, 1, 4].into_iter().enumerate());
    let having = |wanted: i64| {
        let mut all = Bits::full(3);
        thresholds.keep(wanted, &mut all);
        all.iter().collect::<Vec<usize>>()
    };
    assert_eq!(having(0), [0, 1, 2], "what is not asked for, all have");
    assert_eq!(having(1), [1, 2]);
    assert_eq!(having(2), [2]);
    assert!(having(5).is_empty());
}
