//! A cloud whose zones are hosts: each holds a number of instances, whatever their types.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudLayer, CloudProvider},
    model::{Catalog, NodePool, Str},
};
use fleetwright_fake::{Cloud, api::Lifecycle};

use crate::bugs::Bug;

/// Instances that a host holds: more than the suite launches.
const ROOM: u32 = 10_000;

/// Running instances by zone.
type Used = BTreeMap<String, u32>;

/// What was made of which catalogue.
type Made = (Arc<Catalog>, Used, Arc<Catalog>);

pub(crate) struct Hosts {
    inner: Arc<dyn CloudProvider>,
    cloud: Arc<Cloud>,
    bug: Option<Bug>,
    made: Mutex<Vec<Made>>,
}

impl Hosts {
    pub(crate) fn new(inner: Arc<dyn CloudProvider>, cloud: Arc<Cloud>, bug: Option<Bug>) -> Self {
        Self { inner, cloud, bug, made: Mutex::default() }
    }

    fn used(&self) -> Used {
        let mut used = Used::new();
        if self.bug == Some(Bug::CountsNoLaunches) {
            return used;
        }
        for instance in self.cloud.instances() {
            if instance.state != Lifecycle::Terminated
                && let Some(offering) = &instance.offering
            {
                *used.entry(offering.zone.to_string()).or_default() += 1;
            }
        }
        used
    }

    fn count(&self, catalog: &Catalog, used: &Used) -> Catalog {
        let types = catalog.instance_types.iter().enumerate().map(|(number, instance_type)| {
            let mut counted = (**instance_type).clone();
            for offering in &mut counted.offerings {
                let zone = offering.zone().cloned().unwrap_or_else(|| Str::from(""));
                let left = ROOM - used.get(&*zone).copied().unwrap_or(0);
                let own = u32::try_from(number % 2).unwrap_or(0);
                let left = if self.bug == Some(Bug::CountsByType) { left - own } else { left };
                *offering = offering.clone().with_shared_capacity(zone, left);
            }
            Arc::new(counted)
        });
        Catalog::new(types.collect())
    }
}

#[async_trait]
impl CloudLayer for Hosts {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let (catalog, used) = (self.inner.catalog(pool).await?, self.used());
        let mut made = self.made.lock().unwrap();
        let known = made.iter().find(|(of, at, _)| Arc::ptr_eq(of, &catalog) && *at == used);
        if let Some((.., known)) = known {
            return Ok(known.clone());
        }
        let counted = Arc::new(self.count(&catalog, &used));
        made.push((catalog, used, counted.clone()));
        Ok(counted)
    }
}
