//! The instance types of a shadow: the catalogues of the tools, for the NodePools of the cluster.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use fleetwright_controllers::{runtime::ReadOnlyClient, shadow::InstanceTypeSource};
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CloudError, NodeClassKind, ProviderInfo},
    model::{Catalog, Currency, NodePool},
};
use jiff::Timestamp;

use crate::{
    catalogue::{CatalogueOptions, Catalogues, Offer, SourceRow},
    input::cluster,
    settings::Values,
};

/// How long instance types are used before NodePools, NodeClasses and Nodes are read again.
const REFRESH: Duration = Duration::from_secs(600);
/// How often they are read for a NodePool that has none.
const RETRY: Duration = Duration::from_secs(30);

/// The instance types of the cluster's NodePools.
pub(super) struct CatalogueSource {
    client: ReadOnlyClient,
    catalogues: Catalogues,
    values: Values,
    clock: SharedClock,
    info: ProviderInfo,
    /// When the offer was read, in steady time.
    offer: Mutex<(Offer, Timestamp)>,
    /// One reads at a time.
    reading: tokio::sync::Mutex<()>,
}

impl CatalogueSource {
    /// Reads the NodePools of the cluster, their NodeClasses and instance types.
    ///
    /// # Errors
    /// The cluster cannot be read, or has no NodePool.
    pub(super) async fn connect(
        client: ReadOnlyClient,
        catalogues: Catalogues,
        values: Values,
        clock: SharedClock,
    ) -> anyhow::Result<Self> {
        let (offer, classes) = read(&client, &catalogues, &values).await?;
        ensure!(
            !classes.is_empty(),
            "the cluster has no NodePool: shadow mode decides beside a Karpenter with NodePools"
        );
        for gap in &offer.gaps {
            tracing::warn!("incomplete catalogue: {gap}");
        }
        let mut info = ProviderInfo::new("shadow", classes);
        info.schema = offer.schema.clone();
        info.currency = Some(offer.currency);
        let offer = Mutex::new((offer, clock.steady()));
        Ok(Self { client, catalogues, values, clock, info, offer, reading: tokio::sync::Mutex::default() })
    }

    /// What prices are in.
    pub(super) fn currency(&self) -> Currency {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).0.currency
    }

    /// Where instance types and prices come from, and what is not known of them.
    pub(super) fn provenance(&self) -> (Vec<SourceRow>, Vec<String>) {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        (offer.0.sources.clone(), offer.0.gaps.clone())
    }

    /// The instance types of a NodePool, and whether they are to be read again.
    fn known(&self, pool: &str) -> (Option<Arc<Catalog>>, bool) {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        let found = offer.0.pools.get(pool).cloned();
        let valid_for = if found.is_some() { REFRESH } else { RETRY };
        let is_due = offer.1.checked_add(valid_for).is_ok_and(|end| end <= self.clock.steady());
        (found, is_due)
    }

    async fn refresh(&self) {
        let read = read(&self.client, &self.catalogues, &self.values).await;
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        // After an error the old instance types are used until the next attempt.
        offer.1 = self.clock.steady();
        match read {
            Ok((new, _)) => offer.0 = new,
            Err(error) => tracing::warn!(error = format!("{error:#}"), "cannot refresh instance types"),
        }
    }
}

#[async_trait]
impl InstanceTypeSource for CatalogueSource {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        if self.known(&pool.name).1 {
            let _one = self.reading.lock().await;
            if self.known(&pool.name).1 {
                self.refresh().await;
            }
        }
        let missing = || {
            CloudError::Unavailable(
                format!("no catalogue has the instance types of NodePool {}", pool.name).into(),
            )
        };
        self.known(&pool.name).0.ok_or_else(missing)
    }
}

async fn read(
    client: &ReadOnlyClient,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<(Offer, Vec<NodeClassKind>)> {
    let (items, classes) = cluster::read_pools(&client.client()).await?;
    let (catalogues, values) = (catalogues.clone(), values.clone());
    // A catalogue may be read from a file, or from EC2.
    let offer = move || catalogues.offer(&items, &CatalogueOptions::default(), &values);
    let offer = tokio::task::spawn_blocking(offer).await.context("reading the catalogue")??;
    let kind = |class: kube::core::ApiResource| {
        NodeClassKind::new(&class.group, &class.version, &class.kind, &class.plural)
    };
    Ok((offer, classes.into_iter().map(kind).collect()))
}
