//! `metrics.offering`: the offerings of the cloud, their prices and their availability.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::model::{Catalog, InstanceType, Offering, Price, ResourceName, labels::RESERVED};
use fleetwright_state::Key;

use super::{Series, value};
use crate::{
    metrics::{Metrics, cluster as families},
    runtime::{Cluster, Controller, Ctx, ReconcileError, Requeue},
};

/// Interval between reads of the catalogues.
const INTERVAL: Duration = Duration::from_secs(60);

/// Gauges by instance type and offering.
pub(super) struct OfferingMetrics {
    cluster: Cluster,
    metrics: Arc<Metrics>,
    /// Whether reserved capacity is used.
    reserves: bool,
    /// The exposed series.
    exposed: Mutex<Vec<Arc<Catalog>>>,
}

impl OfferingMetrics {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            metrics: ctx.metrics.clone(),
            reserves: ctx.settings.gates.reserved_capacity,
            exposed: Mutex::default(),
        }
    }
}

#[async_trait]
impl Controller for OfferingMetrics {
    fn name(&self) -> &'static str {
        "metrics.offering"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _key: &Key) -> Result<Requeue, ReconcileError> {
        let catalogs: Vec<Arc<Catalog>> = {
            let index = self.cluster.index();
            let names = index.pools().filter_map(|pool| pool.metadata.name.as_deref());
            names.filter_map(|name| index.catalog(name).cloned()).collect()
        };
        // A panic leaves no partial state.
        let before = std::mem::replace(
            &mut *self.exposed.lock().unwrap_or_else(PoisonError::into_inner),
            catalogs.clone(),
        );
        let same = before.len() == catalogs.len()
            && before.iter().zip(&catalogs).all(|(before, now)| Arc::ptr_eq(before, now));
        if !same {
            update_gauges(&self.metrics, &catalogs, self.reserves);
        }
        Ok(Requeue::After(INTERVAL))
    }
}

fn update_gauges(metrics: &Metrics, catalogs: &[Arc<Catalog>], reserves: bool) {
    // NodePools with one NodeClass share their catalogue.
    let mut seen = BTreeSet::new();
    let mut types: BTreeMap<&str, &InstanceType> = BTreeMap::new();
    for catalog in catalogs.iter().filter(|catalog| seen.insert(Arc::as_ptr(catalog))) {
        for kind in &catalog.instance_types {
            types.entry(&*kind.name).or_insert(kind);
        }
    }
    let of_type = |name: ResourceName| -> Series {
        let amount = |kind: &InstanceType| {
            value(&name, kind.advertised.as_deref().unwrap_or(&kind.capacity).get(&name))
        };
        types.iter().map(|(label, kind)| (vec![(*label).to_owned()], amount(kind))).collect()
    };
    metrics.replace(&families::TYPE_CPU, of_type(ResourceName::Cpu));
    metrics.replace(&families::TYPE_MEMORY, of_type(ResourceName::Memory));
    let mut offerings = by_labels(catalogs);
    if reserves {
        without_reservation(&mut offerings);
    }
    let price: Series =
        offerings.iter().map(|(labels, (_, price))| (labels.clone(), price.dollars())).collect();
    metrics.replace(&families::OFFERING_PRICE, price);
    let available: Series = offerings
        .into_iter()
        .map(|(labels, (available, _))| (labels, if available { 1.0 } else { 0.0 }))
        .collect();
    metrics.replace(&families::OFFERING_AVAILABLE, available);
}

/// Availability and price of each series. NodePools differ in zones, and reservations and partitions share labels: the offering is available
/// if any of them is, at the lowest price of those that are available, or else of all.
fn by_labels(catalogs: &[Arc<Catalog>]) -> BTreeMap<Vec<String>, (bool, Price)> {
    let mut all: BTreeMap<Vec<String>, (bool, Price)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let distinct = catalogs.iter().filter(|catalog| seen.insert(Arc::as_ptr(catalog)));
    for kind in distinct.flat_map(|catalog| &catalog.instance_types) {
        for offering in &kind.offerings {
            let found = (offering.available, offering.price);
            let entry = all.entry(offering_labels(&kind.name, offering)).or_insert(found);
            if (!found.0, found.1) < (!entry.0, entry.1) {
                *entry = found;
            }
        }
    }
    all
}

/// Adds reserved capacity of every type in its zones without a reservation: it is not available, at price zero, as in Karpenter.
fn without_reservation(offerings: &mut BTreeMap<Vec<String>, (bool, Price)>) {
    let places: Vec<Vec<String>> = offerings.keys().cloned().collect();
    for mut labels in places {
        if let Some(capacity_type) = labels.get_mut(1) {
            RESERVED.clone_into(capacity_type);
            offerings.entry(labels).or_insert((false, Price::ZERO));
        }
    }
}

fn offering_labels(name: &str, offering: &Offering) -> Vec<String> {
    let text =
        |value: Option<&fleetwright_core::model::Str>| value.map(ToString::to_string).unwrap_or_default();
    vec![name.to_owned(), text(offering.capacity_type()), text(offering.zone())]
}

#[cfg(test)]
mod tests {
    use fleetwright_core::model::{
        Requirement, Requirements, Resources,
        labels::{CAPACITY_TYPE, ZONE},
    };

    use super::*;

    fn catalog(offerings: &[(&str, &str, i64, bool)]) -> Arc<Catalog> {
        let offering = |(capacity_type, zone, nanos, available): &(&str, &str, i64, bool)| {
            let requirements: Requirements =
                [Requirement::is_in(CAPACITY_TYPE, [*capacity_type]), Requirement::is_in(ZONE, [*zone])]
                    .into_iter()
                    .collect();
            Offering::of(requirements, Price::from_nanos(*nanos)).available(*available)
        };
        let mut kind = InstanceType::new("m5.large", Resources::of(2000, 0));
        kind.offerings = offerings.iter().map(offering).collect();
        Arc::new(Catalog::new(vec![Arc::new(kind)]))
    }

    /// NodePools with classes in other zones, and two reservations in one zone.
    #[test]
    fn an_offering_is_available_if_any_node_pool_can_use_it() {
        let first =
            catalog(&[("spot", "a", 5, true), ("reserved", "a", 1, false), ("reserved", "a", 2, true)]);
        let second = catalog(&[("spot", "a", 4, false), ("spot", "b", 3, true)]);
        let found: Vec<String> = by_labels(&[first, second])
            .into_iter()
            .map(|(labels, (available, price))| format!("{} {available} {}", labels.join("/"), price.nanos()))
            .collect();
        assert_eq!(found, ["m5.large/reserved/a true 2", "m5.large/spot/a true 5", "m5.large/spot/b true 3"]);
    }

    #[test]
    fn zones_without_a_reservation_have_a_series_of_reserved_capacity() {
        let mut found = by_labels(&[catalog(&[
            ("spot", "a", 5, true),
            ("reserved", "a", 1, true),
            ("spot", "b", 3, true),
        ])]);
        without_reservation(&mut found);
        let of = |zone: &str| found[&["m5.large", "reserved", zone].map(str::to_owned).to_vec()];
        assert_eq!((of("a"), of("b")), ((true, Price::from_nanos(1)), (false, Price::ZERO)));
    }

    #[test]
    fn the_size_of_a_type_is_the_advertised_one() {
        let metrics = Metrics::default();
        let mut kind = InstanceType::new("m5.large", Resources::of(1900, 7 << 30));
        kind.advertised = Some(Arc::new(Resources::of(2000, 8 << 30)));
        let other = InstanceType::new("m5.xlarge", Resources::of(4000, 15 << 30));
        let catalog = Arc::new(Catalog::new(vec![Arc::new(kind), Arc::new(other)]));
        update_gauges(&metrics, &[catalog], true);
        let of = |name: &str| {
            (metrics.value(&families::TYPE_CPU, &[name]), metrics.value(&families::TYPE_MEMORY, &[name]))
        };
        assert_eq!(of("m5.large"), (2.0, f64::from(1 << 13) * f64::from(1 << 20)));
        assert_eq!(of("m5.xlarge"), (4.0, f64::from(15 << 10) * f64::from(1 << 20)));
    }
}
