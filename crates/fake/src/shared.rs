//! State that the provider shares with its steps: the cluster's UID and the published catalogue.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    clock::SharedClock,
    cloud::CloudError,
    model::{Catalog, Price, Str},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{ApiError, CloudApi},
    catalogue::OfferingKey,
};

/// How long an offering without capacity is unavailable, as in Karpenter.
pub const UNAVAILABLE_FOR: Duration = Duration::from_secs(180);

/// State shared by the provider and its steps.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) api: Arc<dyn CloudApi>,
    pub(crate) clock: SharedClock,
    pub(crate) cluster_uid: Arc<OnceLock<Str>>,
    pub(crate) published: Arc<Mutex<PublishedCatalog>>,
}

/// The published catalogue: current prices, without offerings that recently had no capacity.
pub(crate) struct PublishedCatalog {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) unavailable: BTreeMap<OfferingKey, Timestamp>,
    /// The offerings that `catalog` has as unavailable.
    pub(crate) reflected: BTreeSet<OfferingKey>,
    /// Prices that differ from the catalogue's.
    pub(crate) prices: BTreeMap<OfferingKey, Price>,
    /// Whether `catalog` has outdated prices.
    pub(crate) repriced: bool,
}

impl Shared {
    pub(crate) fn published(&self) -> MutexGuard<'_, PublishedCatalog> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The UID of the identified cluster.
    pub(crate) fn uid(&self) -> Result<Str, CloudError> {
        let unknown =
            || CloudError::Unavailable("the cluster's UID is not known yet: call identify first".into());
        self.cluster_uid.get().cloned().ok_or_else(unknown)
    }

    /// Sets the spot prices.
    pub(crate) fn set_prices(&self, prices: Vec<(OfferingKey, i64)>) {
        let prices: BTreeMap<OfferingKey, Price> =
            prices.into_iter().map(|(key, nanos)| (key, Price::from_nanos(nanos))).collect();
        let mut published = self.published();
        if published.prices != prices {
            published.prices = prices;
            published.repriced = true;
        }
    }

    /// Makes offerings unavailable for a while.
    pub(crate) fn mark_unavailable(&self, offerings: Vec<OfferingKey>) {
        let span = SignedDuration::try_from(UNAVAILABLE_FOR).unwrap_or(SignedDuration::ZERO);
        let until = self.clock.now().checked_add(span).unwrap_or(Timestamp::MAX);
        self.published().unavailable.extend(offerings.into_iter().map(|key| (key, until)));
    }
}

/// The provider's error for an error of the cloud.
pub(crate) fn cloud_error(error: ApiError) -> CloudError {
    match error {
        ApiError::NotFound { id } => CloudError::NotFound(id.into()),
        ApiError::NotOwned { id, why } => CloudError::NotOwned { id: id.into(), why: why.into() },
        ApiError::Throttled { after_ms } => {
            CloudError::RateLimited { after: Duration::from_millis(after_ms) }
        }
        ApiError::Unauthorized { action } => CloudError::Unauthorized { action: action.into() },
        ApiError::Invalid { field, message } => {
            CloudError::Invalid { field: field.into(), message: message.into() }
        }
        ApiError::Failed { message } => CloudError::Unavailable(message.into()),
    }
}
