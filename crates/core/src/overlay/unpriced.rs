//! What the provider knows no price of: an overlay that names a price puts it up for sale.

use std::{collections::BTreeMap, sync::Arc};

use super::{NodeOverlay, PriceChange, Verdict, described, means, means_offering, of_pool};
use crate::model::{Catalog, InstanceType, NodePool, Offering, PoolName, Price, Str};

/// The catalogues with what overlays put up for sale.
pub(super) struct Supplied<'a> {
    /// By pool; a catalogue that gains nothing is shared.
    pub(super) catalogs: BTreeMap<PoolName, Arc<Catalog>>,
    /// By pool and type: how many offerings the provider has priced, and who has priced each of those behind them.
    givers: BTreeMap<(PoolName, Str), (usize, Vec<&'a NodeOverlay>)>,
}

/// Puts up for sale what any of `ordered` gives a price to; the first of them counts.
pub(super) fn supply<'a>(
    pools: &[Arc<NodePool>],
    catalogs: &BTreeMap<PoolName, Arc<Catalog>>,
    ordered: &[&'a NodeOverlay],
) -> Supplied<'a> {
    let mut supplied = Supplied { catalogs: catalogs.clone(), givers: BTreeMap::new() };
    for pool in pools {
        let Some(catalog) = catalogs.get(&pool.name) else { continue };
        let mut types: BTreeMap<&Str, Arc<InstanceType>> =
            catalog.instance_types.iter().map(|known| (&known.name, Arc::clone(known))).collect();
        for unpriced in &catalog.unpriced {
            let (offerings, givers): (Vec<Offering>, Vec<&NodeOverlay>) =
                priced(pool, unpriced, ordered).into_iter().unzip();
            if offerings.is_empty() {
                continue;
            }
            let own = types.get(&unpriced.name).map_or(&[][..], |known| &known.offerings).to_vec();
            let key = (pool.name.clone(), unpriced.name.clone());
            supplied.givers.insert(key, (own.len(), givers));
            let offerings = own.into_iter().chain(offerings).collect();
            types.insert(&unpriced.name, Arc::new(InstanceType { offerings, ..(**unpriced).clone() }));
        }
        if supplied.givers.keys().any(|(name, _)| *name == pool.name) {
            let whole =
                Catalog { overlaid: catalog.overlaid.clone(), ..Catalog::new(types.into_values().collect()) };
            supplied.catalogs.insert(pool.name.clone(), Arc::new(whole));
        }
    }
    supplied
}

/// The offerings of a type that get a price, each with who gives it.
fn priced<'a>(
    pool: &NodePool,
    unpriced: &InstanceType,
    ordered: &[&'a NodeOverlay],
) -> Vec<(Offering, &'a NodeOverlay)> {
    let described = described(&of_pool(pool), unpriced);
    let absolute = |overlay: &&'a NodeOverlay| -> Option<(Price, &'a NodeOverlay)> {
        match overlay.price {
            Some(PriceChange::To(price)) if means(overlay, &described) => Some((price, *overlay)),
            _ => None,
        }
    };
    let givers: Vec<(Price, &NodeOverlay)> = ordered.iter().filter_map(absolute).collect();
    let of = |offering: &Offering| {
        let (price, giver) = givers.iter().find(|(_, overlay)| means_offering(overlay, offering))?;
        Some((Offering { price: *price, ..offering.clone() }, *giver))
    };
    unpriced.offerings.iter().filter_map(of).collect()
}

impl Supplied<'_> {
    /// Takes off sale what has its price from an overlay that has no effect, as it is in conflict.
    pub(super) fn withdraw(
        &self,
        pool: &PoolName,
        catalog: &mut Arc<Catalog>,
        verdicts: &BTreeMap<Str, Verdict>,
    ) {
        let lost = |giver: &NodeOverlay| matches!(verdicts.get(&giver.name), Some(Verdict::Conflict(_)));
        let of_pool = self.givers.iter().filter(|((name, _), _)| name == pool);
        let losers: BTreeMap<&Str, &(usize, Vec<&NodeOverlay>)> = of_pool
            .filter(|(_, (_, givers))| givers.iter().any(|giver| lost(giver)))
            .map(|((_, name), givers)| (name, givers))
            .collect();
        if losers.is_empty() {
            return;
        }
        let kept = |known: &Arc<InstanceType>| {
            let Some((own, givers)) = losers.get(&known.name) else { return Some(Arc::clone(known)) };
            let mut left = (**known).clone();
            let mut at = 0;
            left.offerings.retain(|_| {
                let giver = usize::checked_sub(at, *own).and_then(|behind| givers.get(behind));
                at += 1;
                giver.is_none_or(|giver| !lost(giver))
            });
            (!left.offerings.is_empty()).then(|| Arc::new(left))
        };
        let instance_types = catalog.instance_types.iter().filter_map(kept).collect();
        *catalog = Arc::new(Catalog { instance_types, ..(**catalog).clone() });
    }
}
