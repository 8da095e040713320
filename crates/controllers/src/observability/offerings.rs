//! `metrics.offering`: the offerings of the cloud, their prices and their availability.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::model::{Catalog, InstanceType, Offering, ResourceName};
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
    /// The exposed series.
    exposed: Mutex<Vec<Arc<Catalog>>>,
}

impl OfferingMetrics {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), metrics: ctx.metrics.clone(), exposed: Mutex::default() }
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
            update_gauges(&self.metrics, &catalogs);
        }
        Ok(Requeue::After(INTERVAL))
    }
}

fn update_gauges(metrics: &Metrics, catalogs: &[Arc<Catalog>]) {
    // NodePools with one NodeClass share their catalogue.
    let mut seen = BTreeSet::new();
    let mut types: BTreeMap<&str, &InstanceType> = BTreeMap::new();
    for catalog in catalogs.iter().filter(|catalog| seen.insert(Arc::as_ptr(catalog))) {
        for kind in &catalog.instance_types {
            types.entry(&*kind.name).or_insert(kind);
        }
    }
    let of_type = |name: ResourceName| -> Series {
        let amount = |kind: &InstanceType| value(&name, kind.capacity.get(&name));
        types.iter().map(|(label, kind)| (vec![(*label).to_owned()], amount(kind))).collect()
    };
    metrics.replace(&families::TYPE_CPU, of_type(ResourceName::Cpu));
    metrics.replace(&families::TYPE_MEMORY, of_type(ResourceName::Memory));
    let of_offering = |figure: fn(&Offering) -> f64| -> Series {
        let offerings = types.iter().flat_map(|(name, kind)| {
            kind.offerings.iter().map(move |offering| (offering_labels(name, offering), figure(offering)))
        });
        offerings.collect()
    };
    metrics.replace(&families::OFFERING_PRICE, of_offering(|offering| offering.price.dollars()));
    let available = of_offering(|offering| if offering.available { 1.0 } else { 0.0 });
    metrics.replace(&families::OFFERING_AVAILABLE, available);
}

fn offering_labels(name: &str, offering: &Offering) -> Vec<String> {
    let text =
        |value: Option<&fleetwright_core::model::Str>| value.map(ToString::to_string).unwrap_or_default();
    vec![name.to_owned(), text(offering.capacity_type()), text(offering.zone())]
}
