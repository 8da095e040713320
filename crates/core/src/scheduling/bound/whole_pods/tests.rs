//! Against the cheapest of all ways to divide a few pods.
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::scheduling::bound::lower_bound;

/// Prices and rooms of types; amounts and counts of kinds.
type Scene = (Vec<(i64, Vec<i64>)>, Vec<(Vec<i64>, i64)>);

fn bounds((types, kinds): &Scene) -> (i64, i64) {
    let dims = types[0].1.len();
    let mut columns = Columns::new(dims);
    for (price, room) in types {
        columns.push(Price::from_nanos(*price), room.iter().copied());
    }
    let kind = |(amounts, count): &(Vec<i64>, i64)| {
        let fits = |room: &Vec<i64>| amounts.iter().zip(room).all(|(amount, room)| amount <= room);
        let allowed = types.iter().map(|(_, room)| fits(room)).collect();
        PodKind { amounts: amounts.clone(), count: *count, allowed }
    };
    let kinds: Vec<PodKind> = kinds.iter().map(kind).collect();
    let sum = |dim: usize| kinds.iter().map(|kind| kind.amounts[dim] * kind.count).sum();
    let demand: Vec<i64> = (0..dims).map(sum).collect();
    (whole_pods_bound(&kinds, &columns).nanos(), lower_bound(&demand, &columns).nanos())
}

/// The least price of nodes for what is left of each kind: the first pod goes on a node with every set of others.
fn cheapest(types: &[(i64, Vec<i64>)], kinds: &[(Vec<i64>, i64)], left: &mut Vec<i64>) -> Option<i64> {
    let Some(first) = left.iter().position(|count| *count > 0) else { return Some(0) };
    let mut best = None;
    let mut node = vec![0; left.len()];
    node[first] = 1;
    loop {
        if node.iter().zip(left.iter()).all(|(on, left)| on <= left) {
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

fn scene() -> impl Strategy<Value = Scene> {
    let types = prop::collection::vec((1..2_000_000_000_i64, prop::collection::vec(1..12_i64, 2)), 1..4);
    let kinds = prop::collection::vec((prop::collection::vec(1..7_i64, 2), 1..4_i64), 1..4);
    (types, kinds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_plan_costs_less((types, kinds) in scene()) {
        let mut left: Vec<i64> = kinds.iter().map(|(_, count)| *count).collect();
        if let Some(least) = cheapest(&types, &kinds, &mut left) {
            let (bound, _) = bounds(&(types.clone(), kinds.clone()));
            prop_assert!(bound <= least, "{bound} > {least}");
        }
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
    let kinds = kinds.iter().map(|(amounts, count)| (amounts.to_vec(), *count)).collect();
    let (found, resources) = bounds(&(types, kinds));
    let least = least * 1_000_000;
    assert!(found <= least && found >= least - least / 500, "{found} is not just below {least}");
    assert!(resources < least - least / 100, "the resource bound is {resources}: the case shows nothing");
}
