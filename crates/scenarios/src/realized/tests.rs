//! The figures of a run, and their limits. The runs themselves are too slow without optimisation: `cargo xtask realized --check`.

use fleetwright_core::model::Price;

use super::*;

fn figures() -> RealizedFigures {
    let dollars = |tenths: i64| Price::from_nanos(tenths * 100_000_000);
    RealizedFigures {
        pods: 100,
        planned: dollars(100),
        planned_bound: Some(dollars(101)),
        bound: (dollars(110), Duration::from_secs(60)),
        rest: (dollars(102), Duration::from_secs(90)),
        nodes: 10,
        claims: 13,
        moved: 16,
        waits: (0..100).map(Duration::from_secs).collect(),
        rested: true,
    }
}

const LIMITS: RealizedLimits =
    RealizedLimits { bound: 100, rest: 20, rest_after: Duration::from_secs(90), claims: 13, moved: 16 };

#[test]
fn figures_are_relative_to_the_plan() {
    let found = figures();
    assert_eq!((found.above_plan(found.bound.0), found.above_plan(found.rest.0)), (100, 20));
    assert_eq!(found.above_plan(Price::from_nanos(9_500_000_000)), -50);
    assert_eq!(found.saved_per_moved_pod(), Price::from_nanos(50_000_000));
    assert_eq!((found.wait(50), found.wait(100)), (Duration::from_secs(50), Duration::from_secs(99)));
}

#[test]
fn each_figure_has_its_limit() {
    assert_eq!(LIMITS.exceeded_by_medians(&[figures()]), Vec::<String>::new());
    let changes: [fn(&mut RealizedFigures); 5] = [
        |found| found.bound.0 = Price::from_nanos(11_010_000_000),
        |found| found.rest.0 = Price::from_nanos(10_210_000_000),
        |found| found.rest.1 = Duration::from_secs(91),
        |found| found.claims = 14,
        |found| found.moved = 17,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut found = figures();
        change(&mut found);
        let of = |runs: &[RealizedFigures]| LIMITS.exceeded_by_medians(runs).len();
        assert_eq!(of(&[found.clone()]), 1, "change {at}");
        assert_eq!(of(&[figures(), found.clone(), figures()]), 0, "change {at}: one of three");
        assert_eq!(of(&[found.clone(), figures(), found]), 1, "change {at}: two of three");
    }
}
