//! The calls between the provider and the cloud: they yield, may hang, and may carry a bug.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use fleetwright_fake::{
    Catalogue,
    api::{
        ApiError, CloudApi, CloudInstance, InstancePage, InterruptionNotice, Launch, LaunchOutcome,
        LaunchReply, Lifecycle, SpotPrices, TagClaim, Terminate,
    },
};

use crate::bugs::Bug;

/// The cloud behind its wire.
pub(crate) struct Wire {
    api: Arc<dyn CloudApi>,
    bug: Option<Bug>,
    /// How many mutating calls answer until one hangs.
    hangs_after: Mutex<Option<u32>>,
    /// The instance types that a buggy launch pretends to have launched, by instance.
    pretended: Mutex<BTreeMap<String, String>>,
}

const TYPE: &str = "node.kubernetes.io/instance-type";

impl Wire {
    pub(crate) fn new(api: Arc<dyn CloudApi>, bug: Option<Bug>) -> Self {
        Self { api, bug, hangs_after: Mutex::default(), pretended: Mutex::default() }
    }

    /// Lets a mutating call hang after its effect: the one after `after` others.
    pub(crate) fn hang(&self, after: u32) {
        *self.hangs_after.lock().unwrap() = Some(after);
    }

    pub(crate) fn heal(&self) {
        *self.hangs_after.lock().unwrap() = None;
    }

    /// The answer of a mutating call, if it comes.
    async fn answer<T>(&self, answer: T) -> T {
        let hangs = {
            let mut after = self.hangs_after.lock().unwrap();
            let left = after.take();
            *after = left.and_then(|left| left.checked_sub(1));
            left == Some(0)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        answer
    }

    /// The bugs of what nodes are born with and of the type that is launched.
    fn corrupted(&self, call: &Launch) -> Launch {
        let mut call = call.clone();
        for item in &mut call.items {
            let born = &mut item.bootstrap;
            match self.bug {
                Some(Bug::NoUnregisteredTaint) => born.taints.retain(|t| !t.key.contains("unregistered")),
                Some(Bug::NoTaintsOfTheClaim) => born.taints.retain(|t| t.key.contains("unregistered")),
                Some(Bug::NoLabelsOfTheClaim) => born.labels.clear(),
                Some(Bug::AnotherType) => {
                    let Some(planned) = item.offerings.first().cloned() else { continue };
                    item.offerings.retain(|choice| {
                        (&choice.zone, &choice.capacity_type) == (&planned.zone, &planned.capacity_type)
                    });
                    if let Some(other) =
                        item.offerings.iter().position(|c| c.instance_type != planned.instance_type)
                    {
                        item.offerings = vec![item.offerings.swap_remove(other)];
                        let claim = format!("{}/{}/{}", call.batch, call.attempt, item.claim);
                        self.pretended.lock().unwrap().insert(claim, planned.instance_type.to_string());
                    }
                }
                _ => {}
            }
        }
        call
    }

    /// An instance as the buggy provider reads it.
    fn read(&self, mut instance: CloudInstance) -> CloudInstance {
        let tags = &instance.tags;
        let batch = tags.batch.as_deref().unwrap_or_default();
        let claim = format!("{batch}/{}/{}", tags.attempt, tags.claim.as_deref().unwrap_or_default());
        if let Some(planned) = self.pretended.lock().unwrap().get(&claim) {
            instance.labels.insert(TYPE.to_owned(), planned.clone());
        }
        instance
    }
}

#[async_trait]
impl CloudApi for Wire {
    async fn catalogue(&self) -> Result<Catalogue, ApiError> {
        self.api.catalogue().await
    }

    async fn launch(&self, call: &Launch) -> Result<LaunchReply, ApiError> {
        tokio::task::yield_now().await;
        let mut answer = self.api.launch(&self.corrupted(call)).await;
        for outcome in answer.iter_mut().flat_map(|reply| &mut reply.outcomes) {
            if let LaunchOutcome::Launched(instance) = outcome {
                **instance = self.read((**instance).clone());
            }
        }
        self.answer(answer).await
    }

    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError> {
        tokio::task::yield_now().await;
        let answer = self.api.tag(call).await;
        self.answer(answer).await
    }

    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError> {
        tokio::task::yield_now().await;
        let answer = self.api.terminate(call).await;
        self.answer(answer).await
    }

    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError> {
        tokio::task::yield_now().await;
        Ok(self.read(self.api.get(id).await?))
    }

    async fn list(&self, cluster_uid: &str, after: Option<&str>) -> Result<InstancePage, ApiError> {
        tokio::task::yield_now().await;
        let page = self.api.list(cluster_uid, after).await;
        let mut page = match (page, after) {
            (Err(_), Some(_)) if self.bug == Some(Bug::BrokenPageIsTheLast) => InstancePage::default(),
            (page, _) => page?,
        };
        if self.bug == Some(Bug::FirstPageOnly) {
            page.next = None;
        }
        page.instances = page.instances.into_iter().map(|instance| self.read(instance)).collect();
        Ok(page)
    }

    async fn spot_prices(&self) -> Result<SpotPrices, ApiError> {
        self.api.spot_prices().await
    }

    async fn notices(&self, cluster_uid: &str) -> Result<Vec<InterruptionNotice>, ApiError> {
        self.api.notices(cluster_uid).await
    }
}
