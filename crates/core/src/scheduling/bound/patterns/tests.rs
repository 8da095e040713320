//! Against the cheapest of all ways to divide a few pods.
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::scheduling::bound::lower_bound;

/// Amounts and count of a kind, and how many of it may share a node.
type KindInput = (Vec<i64>, i64, i64);
/// Prices and rooms of types, and kinds.
type Scene = (Vec<(i64, Vec<i64>)>, Vec<KindInput>);

fn inputs((types, kinds): &Scene) -> (Vec<PodKind>, Columns) {
    let dims = types[0].1.len();
    let mut columns = Columns::new(dims);
    for (price, room) in types {
        columns.push(Price::from_nanos(*price), room.iter().copied());
    }
    let kind = |(amounts, count, per_node): &KindInput| {
        let fits = |room: &Vec<i64>| amounts.iter().zip(room).all(|(amount, room)| amount <= room);
        let allowed = types.iter().map(|(_, room)| fits(room)).collect();
        PodKind { amounts: amounts.clone(), count: *count, allowed, per_node: *per_node }
    };
    (kinds.iter().map(kind).collect(), columns)
}

fn bounds(scene: &Scene) -> (i64, i64) {
    let (kinds, columns) = inputs(scene);
    let sum = |dim: usize| kinds.iter().map(|kind| kind.amounts[dim] * kind.count).sum();
    let demand: Vec<i64> = (0..scene.0[0].1.len()).map(sum).collect();
    (whole_pods(&kinds, &columns).nanos(), lower_bound(&demand, &columns).nanos())
}

/// The least price of nodes for what is left of each kind: the first pod goes on a node with every set of others.
fn cheapest(types: &[(i64, Vec<i64>)], kinds: &[KindInput], left: &mut Vec<i64>) -> Option<i64> {
    let Some(first) = left.iter().position(|count| *count > 0) else { return Some(0) };
    let mut best = None;
    let mut node = vec![0; left.len()];
    node[first] = 1;
    loop {
        let few = node.iter().zip(kinds).all(|(on, kind)| *on <= kind.2);
        if few && node.iter().zip(left.iter()).all(|(on, left)| on <= left) {
            let used = |dim: usize| node.iter().zip(kinds).map(|(on, kind)| on * kind.0[dim]).sum::<i64>();
            let holds = |room: &[i64]| room.iter().enumerate().all(|(dim, room)| used(dim) <= *room);
            if let Some(price) = types.iter().filter(|(_, room)| holds(room)).map(|(price, _)| *price).min() {
                left.iter_mut().zip(&node).for_each(|(left, on)| *left -= on);
                let rest = cheapest(types, kinds, left);
                left.iter_mut().zip(&node).for_each(|(left, on)| *left += on);
                best = rest.map(|rest| rest + price).into_iter().chain(best).min();
            }
        }
        // The next content, as a number with a digit per kind.
        let mut digit = 0;
        loop {
            let Some(on) = node.get_mut(digit) else { return best };
            *on += 1;
            if *on <= left[digit] {
                break;
            }
            *on = i64::from(digit == first);
            digit += 1;
        }
    }
}

/// Some scenes have amounts of few units, which are counted, others of many.
fn scene() -> impl Strategy<Value = Scene> {
    prop_oneof![Just(1_i64), Just(1000)].prop_flat_map(|unit| {
        let rooms = prop::collection::vec(unit..12 * unit, 2);
        let types = prop::collection::vec((1..2_000_000_000_i64, rooms), 1..4);
        let amounts = prop::collection::vec(0..7 * unit, 2);
        (types, prop::collection::vec((amounts, 1..4_i64, 1..4_i64), 1..4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_plan_costs_less((types, kinds) in scene()) {
        let mut left: Vec<i64> = kinds.iter().map(|(_, count, _)| *count).collect();
        if let Some(least) = cheapest(&types, &kinds, &mut left) {
            let (bound, _) = bounds(&(types.clone(), kinds.clone()));
            prop_assert!(bound <= least, "{bound} > {least}");
        }
    }

    #[test]
    fn rounded_nodes_hold_all_pods((types, kinds) in scene()) {
        let (pods, columns) = inputs(&(types.clone(), kinds.clone()));
        let price_of = |column: usize, _: &[(usize, i64)]| Some(types[column].0);
        let mut program = Program::new(&pods, &columns, &price_of, WORK_BOUND).unwrap();
        let solution = program.generate(&|| true);
        let mut left: Vec<i64> = kinds.iter().map(|(_, count, _)| *count).collect();
        let least = cheapest(&types, &kinds, &mut left);
        prop_assert_eq!(solution.is_some(), least.is_some());
        let mut spent = 0;
        for (pattern, times) in solution.iter().flat_map(|solution| program.whole(solution)) {
            for (dim, room) in types[pattern.column].1.iter().enumerate() {
                prop_assert!(pattern.content.iter().map(|(kind, on)| kinds[*kind].0[dim] * on).sum::<i64>() <= *room);
            }
            for (kind, on) in pattern.content {
                prop_assert!(on <= kinds[kind].2);
                left[kind] -= on * times;
            }
            spent += types[pattern.column].0 * times;
        }
        prop_assert!(least.is_none() || left.iter().all(|left| *left == 0), "{left:?}");
        prop_assert!(least.is_none_or(|least| spent >= least));
    }
}

#[rstest]
// One pod to a node, although the node has room for one and a third.
#[case::three_of_four(&[(400, &[4, 16][..])], &[(&[3, 3][..], 9)], 3600)]
// What is cheapest per CPU holds no pod.
#[case::too_small(&[(10, &[1, 1][..]), (400, &[4, 16][..])], &[(&[2, 4][..], 8)], 1600)]
// The node is larger than all that there is.
#[case::few_pods(&[(400, &[64, 256][..])], &[(&[1, 1][..], 3)], 400)]
// Two kinds that share no node.
#[case::apart(&[(400, &[4, 16][..])], &[(&[3, 1][..], 2), (&[2, 1][..], 2)], 1200)]
fn whole_pods_cost_whole_nodes(
    #[case] types: &[(i64, &[i64])],
    #[case] kinds: &[(&[i64], i64)],
    #[case] least: i64,
) {
    let types = types.iter().map(|(price, room)| (price * 1_000_000, room.to_vec())).collect();
    let kinds = kinds.iter().map(|(amounts, count)| (amounts.to_vec(), *count, i64::MAX)).collect();
    let (found, resources) = bounds(&(types, kinds));
    let least = least * 1_000_000;
    assert!(found <= least && found >= least - least / 500, "{found} is not just below {least}");
    assert!(resources < least - least / 100, "the resource bound is {resources}: the case shows nothing");
}
