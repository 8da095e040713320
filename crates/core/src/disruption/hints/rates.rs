//! The cost of CPU and memory at the best rates of a NodePool: a lower bound on the price of any packing.

use crate::{
    model::{InstanceType, Price, Requirements, Snapshot, labels::INSTANCE_TYPE},
    scheduling::{Columns, lower_bound},
};

/// The Pareto-optimal instance types of a NodePool.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(Vec<(Price, [i64; 2])>);

impl Rates {
    /// The rates of NodePool `pool`.
    pub(super) fn of(snapshot: &Snapshot, pool: &str) -> Self {
        let model = snapshot.pools.iter().find(|known| *known.name == *pool);
        let (Some(catalog), Some(pool)) = (snapshot.catalog(pool), model) else { return Self::default() };
        let mut requirements: Requirements = pool.template.requirements.clone();
        requirements.add_all(&Requirements::from_labels(&pool.template.labels));
        let offered = |known: &InstanceType| {
            let allowed =
                requirements.allows(INSTANCE_TYPE, &known.name) && requirements.overlaps(&known.requirements);
            let list = allowed.then(|| known.cheapest(&requirements))?.map(|offering| offering.price)?;
            let price = snapshot.objective.effective(pool, known, list);
            let room = known.allocatable();
            (list > Price::ZERO).then(|| (price, [room.cpu().max(0), room.memory().max(0)]))
        };
        Self(frontier(catalog.instance_types.iter().filter_map(|known| offered(known)).collect()))
    }

    /// The minimum cost of `demand` (CPU and memory) at any of these rates.
    pub(super) fn least<'a>(rates: impl Iterator<Item = &'a Self>, demand: [i64; 2]) -> Price {
        let mut columns = Columns::new(2);
        for (price, room) in rates.flat_map(|rates| &rates.0) {
            columns.push(*price, *room);
        }
        lower_bound(&demand, &columns)
    }
}

/// The Pareto frontier of CPU and memory per price. The others are
/// never the better choice.
fn frontier(mut offered: Vec<(Price, [i64; 2])>) -> Vec<(Price, [i64; 2])> {
    // More of a resource for the price: compared crosswise.
    let more = |at: usize, a: &(Price, [i64; 2]), b: &(Price, [i64; 2])| {
        let of = |one: &(Price, [i64; 2]), other: &(Price, [i64; 2])| {
            i128::from(one.1[at]) * i128::from(other.0.nanos())
        };
        of(a, b).cmp(&of(b, a))
    };
    offered.sort_by(|a, b| more(0, b, a).then_with(|| more(1, b, a)).then_with(|| a.cmp(b)));
    let mut optimal: Vec<(Price, [i64; 2])> = Vec::new();
    for one in offered {
        if optimal.last().is_none_or(|last| more(1, &one, last).is_gt()) {
            optimal.push(one);
        }
    }
    optimal
}

#[cfg(test)]
mod tests {
    //! The bound is that of the best mix, without dominated types.
    use super::*;

    const GIB: i64 = 1 << 30;

    fn offered(dollars_thousandths: i64, cpu: i64, gib: i64) -> (Price, [i64; 2]) {
        (Price::from_nanos(dollars_thousandths * 1_000_000), [cpu * 1000, gib * GIB])
    }

    #[test]
    fn dominated_types_are_left_out() {
        let (compute, general, memory) = (offered(80, 2, 4), offered(100, 2, 8), offered(150, 2, 16));
        let double = offered(200, 4, 16);
        let expensive = offered(160, 2, 8);
        let optimal = frontier(vec![expensive, memory, general, double, compute]);
        assert_eq!(optimal, [compute, general, memory]);
    }

    #[test]
    fn the_bound_is_the_price_of_the_best_mix() {
        let rates = Rates(frontier(vec![offered(80, 2, 4), offered(100, 2, 8), offered(150, 2, 16)]));
        let near = |price: Price, dollars: f64| (price.dollars() - dollars).abs() < 1e-6;
        let least = |cpu: i64, gib: i64| Rates::least([&rates].into_iter(), [cpu * 1000, gib * GIB]);
        assert!(near(least(2, 4), 0.08));
        assert!(near(least(4, 16), 0.2), "{}", least(4, 16));
        // Three of four by one type, one by another.
        assert!(near(least(8, 20), 0.34), "{}", least(8, 20));
        assert_eq!(Rates::least([].into_iter(), [1000, GIB]), Price::ZERO);
    }
}
