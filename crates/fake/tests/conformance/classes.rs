//! What the fake cloud does not have: classes that restrict zones and drift, an account with a quota, slow launches, and launches one by
//! one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudLayer, CloudProvider, Drift, Instance, LaunchError, LaunchRequest, ProviderInfo,
    },
    model::{BatchId, Catalog, NodeClaim, NodePool, ProviderId, Requirement, Str, labels::ZONE},
};

use jiff::{SignedDuration, Timestamp};

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
    /// Whether the account may not have more instances.
    pub(crate) is_full: AtomicBool,
    /// Whether the next launch is slow.
    pub(crate) is_slow: AtomicBool,
    /// When slow launches are over, by batch and attempt.
    slow: Mutex<BTreeMap<(BatchId, u32), Timestamp>>,
}

/// How long a slow launch takes.
const SLOW: SignedDuration = SignedDuration::from_secs(30);

impl Revisions {
    pub(crate) fn new(zones: Vec<Str>) -> Self {
        Self {
            zones,
            revision: Mutex::default(),
            launched: Mutex::default(),
            is_full: AtomicBool::default(),
            is_slow: AtomicBool::default(),
            slow: Mutex::default(),
        }
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
    inner: Arc<dyn CloudProvider>,
    info: ProviderInfo,
    revisions: Arc<Revisions>,
    clock: SharedClock,
}

impl ClassRules {
    pub(crate) fn new(inner: Arc<dyn CloudProvider>, revisions: Arc<Revisions>, clock: SharedClock) -> Self {
        let mut info = inner.info().clone();
        info.launches_one_by_one = true;
        Self { inner, info, revisions, clock }
    }

    /// How long a launch is still under way.
    fn left(&self, request: &LaunchRequest) -> Option<Duration> {
        let (key, now) = ((request.batch.clone(), request.attempt), self.clock.now());
        let mut slow = self.revisions.slow.lock().unwrap();
        if self.revisions.is_slow.swap(false, Ordering::SeqCst) {
            slow.insert(key.clone(), now + SLOW);
        }
        let left = slow.get(&key)?.duration_since(now);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }
}

#[async_trait]
impl CloudLayer for ClassRules {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn info(&self) -> &ProviderInfo {
        &self.info
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
        if self.revisions.is_full.load(Ordering::SeqCst) {
            let refused =
                || LaunchError::QuotaExceeded { quota: "instances".into(), message: "ask for more".into() };
            return requests.iter().map(|_| Err(refused())).collect();
        }
        let restrict = |request: &LaunchRequest| {
            let mut claim = (*request.claim).clone();
            if &*claim.class.name == SECOND_CLASS {
                claim.requirements.add(Requirement::is_in(ZONE, self.revisions.zones.clone()));
            }
            request.clone().for_claim(claim)
        };
        let restricted: Vec<LaunchRequest> = requests.iter().map(restrict).collect();
        let left = requests.first().and_then(|request| self.left(request));
        let answers = self.inner.launch(&restricted).await;
        let revision = *self.revisions.revision.lock().unwrap();
        for instance in answers.iter().flatten() {
            let mut launched = self.revisions.launched.lock().unwrap();
            launched.entry(instance.provider_id.clone()).or_insert(revision);
        }
        let under_way = |after| LaunchError::Pending { message: "instances start".into(), after };
        match left {
            Some(left) => {
                answers.into_iter().map(|answer| answer.and_then(|_| Err(under_way(left)))).collect()
            }
            None => answers,
        }
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
