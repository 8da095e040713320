//! Classes that restrict zones and drift, which a KWOKNodeClass does not.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudLayer, CloudProvider, Drift, Instance, LaunchError, LaunchRequest},
    model::{Catalog, NodeClaim, NodePool, ProviderId, Requirement, Str, labels::ZONE},
};

pub(crate) const CLASS: &str = "default";
pub(crate) const SECOND_CLASS: &str = "second";

/// What the rules know, also after a restart.
pub(crate) struct Revisions {
    /// The zones of the second class.
    pub(crate) zones: Vec<Str>,
    /// How often the first class was changed.
    revision: Mutex<u32>,
    /// The revision that instances of the first class were launched by.
    launched: Mutex<BTreeMap<ProviderId, u32>>,
}

impl Revisions {
    pub(crate) fn new(zones: Vec<Str>) -> Self {
        Self { zones, revision: Mutex::default(), launched: Mutex::default() }
    }

    pub(crate) fn change(&self) -> bool {
        *self.revision.lock().unwrap() += 1;
        true
    }
}

/// All zones except the last.
pub(crate) fn restricted_zones(catalog: &Catalog) -> Vec<Str> {
    let offerings = catalog.instance_types.iter().flat_map(|t| &t.offerings);
    let mut zones: Vec<Str> = offerings.filter_map(|offering| offering.zone().cloned()).collect();
    zones.sort();
    zones.dedup();
    zones.pop();
    zones
}

pub(crate) struct ClassRules {
    pub(crate) inner: Arc<dyn CloudProvider>,
    pub(crate) revisions: Arc<Revisions>,
}

#[async_trait]
impl CloudLayer for ClassRules {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let catalog = self.inner.catalog(pool).await?;
        if &*pool.template.class.name != SECOND_CLASS {
            return Ok(catalog);
        }
        let allowed = |zone: Option<&Str>| zone.is_some_and(|zone| self.revisions.zones.contains(zone));
        let types = catalog.instance_types.iter().map(|instance_type| {
            let mut restricted = (**instance_type).clone();
            restricted.offerings.retain(|offering| allowed(offering.zone()));
            Arc::new(restricted)
        });
        Ok(Arc::new(Catalog::new(types.collect())))
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let restrict = |request: &LaunchRequest| {
            let mut claim = (*request.claim).clone();
            if &*claim.class.name == SECOND_CLASS {
                claim.requirements.add(Requirement::is_in(ZONE, self.revisions.zones.clone()));
            }
            request.clone().for_claim(claim)
        };
        let restricted: Vec<LaunchRequest> = requests.iter().map(restrict).collect();
        let answers = self.inner.launch(&restricted).await;
        let revision = *self.revisions.revision.lock().unwrap();
        for instance in answers.iter().flatten() {
            let mut launched = self.revisions.launched.lock().unwrap();
            launched.entry(instance.provider_id.clone()).or_insert(revision);
        }
        answers
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        let Some(id) = claim.provider_id.as_ref().filter(|_| &*claim.class.name == CLASS) else {
            return Ok(None);
        };
        self.inner.get(id).await?;
        let launched = self.revisions.launched.lock().unwrap().get(id).copied();
        let drifted = launched.is_some_and(|launched| launched < *self.revisions.revision.lock().unwrap());
        Ok(drifted.then(|| Drift("ClassDrift".into())))
    }
}
