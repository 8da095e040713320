//! The fake cloud as a [`CloudProvider`], over [`CloudApi`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, NodeClasses,
        ProviderInfo, ProviderStep, RepairPolicy, Termination, bootstrap,
    },
    model::{Catalog, NodeClaim, NodePool, Price, ProviderId, Requirements, Resources, Str, Taint},
};

use crate::{
    api::{
        ApiError, Bootstrap, CloudApi, CloudInstance, Launch, LaunchItem, LaunchOutcome, Lifecycle, TagClaim,
        Terminate, WireTaint,
    },
    catalogue::{Catalogue, OfferingKey},
    classes::NodeClass,
    labels,
    quantities::{from_quantities, to_wire},
    shared::{PublishedCatalog, Shared, cloud_error},
    steps::{Notices, Pricing},
};

/// Maximum number of offerings per launch, cheapest first.
const MAX_CHOICES: usize = 60;
/// Maximum number of pages of a list: the cloud's 20,000 instances, on pages of two.
const MAX_PAGES: usize = 10_000;

/// The provider of the fake cloud.
pub struct FakeProvider {
    shared: Shared,
    catalogue: Catalogue,
    classes: NodeClasses<NodeClass>,
    info: ProviderInfo,
    notices: Arc<Notices>,
}

impl FakeProvider {
    /// The provider of the cloud behind `api`. Reads the catalogue once.
    ///
    /// # Errors
    /// If the cloud does not return its catalogue.
    pub async fn new(
        api: Arc<dyn CloudApi>,
        classes: NodeClasses<NodeClass>,
        clock: SharedClock,
    ) -> Result<Self, ApiError> {
        let catalogue = api.catalogue().await?;
        let policy = |status: &str| RepairPolicy::new("Ready", status, Duration::from_secs(600));
        let mut info = ProviderInfo::new("fake", [classes.kind().clone()]);
        info.schema = catalogue.schema.clone();
        info.repair_policies = vec![policy("False"), policy("Unknown")];
        let published = PublishedCatalog {
            catalog: catalogue.types.clone(),
            unavailable: BTreeMap::new(),
            reflected: BTreeSet::new(),
            prices: BTreeMap::new(),
            repriced: false,
        };
        let shared =
            Shared { api, clock, cluster_uid: Arc::default(), published: Arc::new(Mutex::new(published)) };
        let notices = Arc::new(Notices { shared: shared.clone(), seen: Mutex::default() });
        Ok(Self { shared, catalogue, classes, info, notices })
    }

    /// The catalogue without offerings that recently had no capacity; the same `Arc` while nothing changes.
    fn available(&self) -> Arc<Catalog> {
        let now = self.shared.clock.now();
        let mut published = self.shared.published();
        published.unavailable.retain(|_, until| *until > now);
        if published.repriced || !published.unavailable.keys().eq(published.reflected.iter()) {
            published.reflected = published.unavailable.keys().cloned().collect();
            published.repriced = false;
            published.catalog = changed(&self.catalogue.types, &published.reflected, &published.prices);
        }
        published.catalog.clone()
    }

    /// The registration delay of a claim's class, or why the class prevents a launch.
    fn class_of(&self, claim: &NodeClaim) -> Result<Duration, LaunchError> {
        let class = self.classes.get(&claim.class.name)?;
        if !class.ready {
            let message = format!("{} is not ready: {}", claim.class, class.message);
            return Err(LaunchError::NodeClassNotReady(message.into()));
        }
        Ok(class.registration_delay)
    }

    /// The item of a claim in a launch call, and the error if it launches nothing. A claim that may not launch is sent without offerings:
    /// an earlier call with this token may have launched an instance although its answer was lost.
    fn item(
        &self,
        request: &LaunchRequest,
        choices: &mut Choices<'_>,
    ) -> Result<(LaunchItem, LaunchError), LaunchError> {
        let claim = &request.claim;
        let (choices, delay, otherwise) = match self.class_of(claim) {
            Err(error @ LaunchError::RateLimited { .. }) => return Err(error),
            Err(error) => (Vec::new(), Duration::ZERO, error),
            Ok(delay) => {
                let message = format!("no available offering satisfies {}", claim.requirements);
                (choices.of(claim), delay, LaunchError::InsufficientCapacity(message.into()))
            }
        };
        let item = LaunchItem {
            claim: claim.name.to_string(),
            position: request.rank,
            node_pool: claim.pool.as_ref().map(ToString::to_string),
            offerings: choices,
            requirements: to_wire(&claim.requirements),
            bootstrap: wire_bootstrap(claim),
            registration_delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        };
        Ok((item, otherwise))
    }

    async fn end(&self, id: &ProviderId, has_node_claim: bool) -> Result<Termination, CloudError> {
        let call =
            Terminate { cluster_uid: self.shared.uid()?.to_string(), id: id.to_string(), has_node_claim };
        match self.shared.api.terminate(&call).await {
            Ok(Lifecycle::Terminated) => Ok(Termination::Gone),
            Ok(_) => Ok(Termination::Accepted),
            Err(error) => Err(cloud_error(error)),
        }
    }

    /// Assigns the instances of a fleet, sorted by id, to the items of its call by position, and tags those without a NodeClaim. An item
    /// whose instance cannot be tagged has an unknown outcome.
    async fn assign(&self, call: &Launch, fleet: Vec<LaunchOutcome>) -> Vec<LaunchOutcome> {
        let mut outcomes = Vec::with_capacity(call.items.len());
        for item in &call.items {
            outcomes.push(match fleet.get(item.position) {
                Some(LaunchOutcome::Launched(instance)) => match &instance.tags.claim {
                    None => self.name(call, instance.clone(), &item.claim).await,
                    Some(claim) if *claim == item.claim => LaunchOutcome::Launched(instance.clone()),
                    Some(claim) => {
                        let message = format!("instance {} belongs to {claim}", instance.id);
                        LaunchOutcome::Rejected("LaunchFailed".to_owned(), message)
                    }
                },
                Some(failure) => failure.clone(),
                None => LaunchOutcome::Rejected("LaunchFailed".to_owned(), "the fleet is smaller".to_owned()),
            });
        }
        outcomes
    }

    async fn name(&self, call: &Launch, mut instance: Box<CloudInstance>, claim: &str) -> LaunchOutcome {
        let (cluster_uid, id) = (call.cluster_uid.clone(), instance.id.clone());
        match self.shared.api.tag(&TagClaim { cluster_uid, id, claim: claim.to_owned() }).await {
            Ok(()) => {
                instance.tags.claim = Some(claim.to_owned());
                LaunchOutcome::Launched(instance)
            }
            Err(error) => LaunchOutcome::Untagged(error.to_string()),
        }
    }

    /// Sends a call and assigns its outcomes to the requests.
    async fn send(
        &self,
        call: Launch,
        asked: Vec<(usize, LaunchError)>,
        results: &mut [Option<Result<Instance, LaunchError>>],
    ) {
        match self.shared.api.launch(&call).await {
            Ok(reply) => {
                self.shared.mark_unavailable(reply.unavailable);
                let outcomes =
                    if reply.fleet { self.assign(&call, reply.outcomes).await } else { reply.outcomes };
                for (((at, otherwise), outcome), item) in asked.into_iter().zip(outcomes).zip(&call.items) {
                    results[at] = Some(match outcome_of(outcome) {
                        Err(LaunchError::InsufficientCapacity(_)) if item.offerings.is_empty() => {
                            Err(otherwise)
                        }
                        result => result,
                    });
                }
            }
            Err(error) => {
                for (at, _) in asked {
                    results[at] = Some(Err(launch_error(&error)));
                }
            }
        }
    }
}

/// The catalogue with unavailable offerings and other prices; unchanged types are shared.
fn changed(
    catalog: &Catalog,
    dry: &BTreeSet<OfferingKey>,
    prices: &BTreeMap<OfferingKey, Price>,
) -> Arc<Catalog> {
    let types = catalog.instance_types.iter().map(|instance_type| {
        let mut changed = (**instance_type).clone();
        let mut differs = false;
        for offering in &mut changed.offerings {
            let Some(key) = OfferingKey::of(instance_type, offering) else { continue };
            let price = prices.get(&key).copied().unwrap_or(offering.price);
            let available = offering.available && !dry.contains(&key);
            differs |= (price, available) != (offering.price, offering.available);
            (offering.price, offering.available) = (price, available);
        }
        if differs { Arc::new(changed) } else { instance_type.clone() }
    });
    Arc::new(Catalog::new(types.collect()))
}

/// The choices of a call's claims, computed once for equal claims.
struct Choices<'a> {
    catalog: &'a Catalog,
    known: BTreeMap<(Requirements, Resources), Vec<OfferingKey>>,
}

impl Choices<'_> {
    fn of(&mut self, claim: &NodeClaim) -> Vec<OfferingKey> {
        let key = (claim.requirements.clone(), claim.requests.clone());
        self.known.entry(key).or_insert_with(|| choices(claim, self.catalog)).clone()
    }
}

/// The available offerings that a claim allows and whose instances fit its requests: cheapest first, ties by type, zone and capacity
/// type.
fn choices(claim: &NodeClaim, catalog: &Catalog) -> Vec<OfferingKey> {
    let mut found: Vec<(Price, OfferingKey)> = Vec::new();
    for instance_type in &catalog.instance_types {
        if !instance_type.requirements.overlaps(&claim.requirements) {
            continue;
        }
        for offering in &instance_type.offerings {
            let fits = offering.available
                && offering.requirements.overlaps(&claim.requirements)
                && claim.requests.fits(&instance_type.allocatable_of(offering));
            if fits && let Some(key) = OfferingKey::of(instance_type, offering) {
                found.push((offering.price, key));
            }
        }
    }
    found.sort();
    found.into_iter().take(MAX_CHOICES).map(|(_, key)| key).collect()
}

/// What a claim's node is born with, for the wire. The fake cloud creates Nodes itself, with annotations and every label.
fn wire_bootstrap(claim: &NodeClaim) -> Bootstrap {
    let born = bootstrap(claim);
    let text = |(key, value): (&Str, &Str)| (key.to_string(), value.to_string());
    let wire = |taint: &Taint| WireTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    Bootstrap {
        labels: born.labels.iter().map(text).collect(),
        annotations: born.annotations.iter().map(text).collect(),
        taints: born.taints.iter().map(wire).collect(),
    }
}

fn lower_instance(instance: &CloudInstance) -> Result<Instance, String> {
    let read = |map| {
        from_quantities(map).map_err(|(key, message)| format!("instance {}: {key}: {message}", instance.id))
    };
    let text = |value: &Option<String>| value.as_deref().map(Str::from);
    let mut described = Instance::new(instance.id.as_str())
        .with_resources(read(&instance.capacity)?, read(&instance.allocatable)?)
        .with_image(labels::IMAGE_ID);
    described.claim = text(&instance.tags.claim).map(Into::into);
    described.launched_by = instance.tags.batch.as_deref().map(|batch| (batch.into(), instance.tags.attempt));
    described.cluster_uid = text(&instance.tags.cluster_uid);
    let labels = instance.labels.iter();
    described.labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    described.created = Some(instance.launched_at);
    described.terminating = instance.state >= Lifecycle::Terminating;
    Ok(described)
}

fn launch_error(error: &ApiError) -> LaunchError {
    let failed =
        |reason: &str| LaunchError::Failed { reason: reason.into(), message: error.to_string().into() };
    match error {
        ApiError::Throttled { after_ms } => {
            LaunchError::RateLimited { after: Duration::from_millis(*after_ms) }
        }
        ApiError::Unauthorized { .. } => failed("Unauthorized"),
        ApiError::Invalid { .. } => failed("InvalidLaunch"),
        // A failure with another meaning may have taken effect.
        ApiError::Failed { .. } | ApiError::NotFound { .. } | ApiError::NotOwned { .. } => {
            LaunchError::Unknown(error.to_string().into())
        }
    }
}

#[async_trait]
impl CloudProvider for FakeProvider {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        if cluster_uid.is_empty() {
            let message = "is empty: give the UID of the kube-system namespace".into();
            return Err(CloudError::Invalid { field: "cluster UID".into(), message });
        }
        let known = self.shared.cluster_uid.get_or_init(|| cluster_uid.into());
        if **known == *cluster_uid {
            return Ok(Identity::Proven);
        }
        Ok(Identity::Mismatch(format!("identified as cluster {known} before, as {cluster_uid} now").into()))
    }

    async fn catalog(&self, _pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        Ok(self.available())
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let Some(first) = requests.first() else { return Vec::new() };
        let uid = match self.shared.uid() {
            Ok(uid) => uid,
            Err(error) => {
                let error = LaunchError::Failed {
                    reason: "ClusterUnknown".into(),
                    message: error.to_string().into(),
                };
                return requests.iter().map(|_| Err(error.clone())).collect();
            }
        };
        let catalog = self.available();
        let mut choices = Choices { catalog: &catalog, known: BTreeMap::new() };
        let mut results: Vec<Option<Result<Instance, LaunchError>>> = vec![None; requests.len()];
        let (mut items, mut asked) = (Vec::new(), Vec::new());
        for (at, request) in requests.iter().enumerate() {
            if (&request.batch, request.attempt) != (&first.batch, first.attempt) {
                let message = "differs within one call: launch each batch and attempt in its own call".into();
                results[at] = Some(Err(LaunchError::Failed { reason: "MixedBatch".into(), message }));
                continue;
            }
            match self.item(request, &mut choices) {
                Ok((item, otherwise)) => {
                    items.push(item);
                    asked.push((at, otherwise));
                }
                Err(error) => results[at] = Some(Err(error)),
            }
        }
        if !items.is_empty() {
            let batch = first.batch.to_string();
            let (cluster_uid, size) = (uid.to_string(), first.size);
            let call = Launch { cluster_uid, batch, attempt: first.attempt, items, size };
            self.send(call, asked, &mut results).await;
        }
        let short = || Err(LaunchError::Unknown("the cloud returned fewer outcomes than requested".into()));
        results.into_iter().map(|result| result.unwrap_or_else(short)).collect()
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.end(id, claim.provider_id.as_ref() == Some(id)).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.end(id, false).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let instance = self.shared.api.get(id).await.map_err(cloud_error)?;
        lower_instance(&instance).map_err(|message| CloudError::Unavailable(message.into()))
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let uid = self.shared.uid()?;
        let (mut listed, mut after) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = self.shared.api.list(&uid, after.as_deref()).await.map_err(cloud_error)?;
            for instance in &page.instances {
                let read = lower_instance(instance);
                listed.push(read.map_err(|message| CloudError::Unavailable(message.into()))?);
            }
            after = page.next;
            if after.is_none() {
                return Ok(listed);
            }
        }
        let message = format!("the list of instances has more than {MAX_PAGES} pages");
        Err(CloudError::Unavailable(message.into()))
    }

    async fn drift(&self, _claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        // A KWOKNodeClass has no field that a running instance could differ from.
        Ok(None)
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        vec![Arc::new(Pricing(self.shared.clone())), self.notices.clone()]
    }
}

fn outcome_of(outcome: LaunchOutcome) -> Result<Instance, LaunchError> {
    match outcome {
        LaunchOutcome::Launched(instance) => {
            lower_instance(&instance).map_err(|message| LaunchError::Unknown(message.into()))
        }
        LaunchOutcome::Untagged(message) => Err(LaunchError::Unknown(message.into())),
        LaunchOutcome::InsufficientCapacity(message) => {
            Err(LaunchError::InsufficientCapacity(message.into()))
        }
        LaunchOutcome::Rejected(reason, message) => {
            Err(LaunchError::Failed { reason: reason.into(), message: message.into() })
        }
    }
}
