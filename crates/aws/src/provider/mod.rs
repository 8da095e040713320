//! The provider: core's `CloudProvider` over the AWS calls.
//!
//! State that outlives a call is in types of its own: what the region sells ([`catalogs`]), launch calls and assigned instances
//! ([`in_flight`]), launch templates ([`template_use`]), the cluster ([`cluster`]), and features that do not work ([`problems`]).

mod catalogs;
mod classes;
mod cluster;
mod dry_run;
mod in_flight;
mod instance;
mod launching;
mod prepared;
mod problems;
mod recovery;
mod steps;
mod template_use;
mod templates;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, ProviderInfo,
        ProviderStep, RepairPolicy, Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ObservedCapacity, ProviderId, Str},
};
use jiff::Timestamp;

pub use classes::{Classes, KnownClass, node_classes, set_class};
pub use instance::{instance_id, is_ending, provider_id};

use crate::calls::{AwsApi, AwsError, Filter, InstanceInfo};
use crate::drift;
use crate::figures::{self, Ledger};
use crate::foreign::{ForeignResources, ResourceType, UnstampedInstance, namesake};
use crate::images::Parameters;
use crate::instancetype::{ClassCatalog, InstanceTypeCatalogue};
use crate::launch::Addresses;
use crate::prices::{Prices, currency};
use crate::schema::schema;
use crate::settings::Settings;
use crate::tags::{Ownership, ownership};
use catalogs::Catalogs;
use cluster::ClusterDescription;
use in_flight::LaunchesInFlight;
use problems::Problems;
use template_use::TemplateUse;

/// AWS as a cloud provider. Clones share their state.
#[derive(Clone)]
pub struct AwsProvider {
    api: Arc<dyn AwsApi>,
    clock: SharedClock,
    settings: Settings,
    classes: Classes,
    info: ProviderInfo,
    cluster_uid: Arc<OnceLock<Str>>,
    parameters: Arc<Parameters>,
    ledger: Arc<Ledger>,
    catalogs: Arc<Catalogs>,
    addresses: Arc<Mutex<Addresses>>,
    launches: Arc<LaunchesInFlight>,
    templates: Arc<TemplateUse>,
    cluster: Arc<ClusterDescription>,
    problems: Arc<Problems>,
    unowned: Arc<Mutex<UnownedResources>>,
}

/// Resources with our cluster's name that are not ours, as of the last lists.
#[derive(Debug, Default)]
struct UnownedResources {
    foreign: ForeignResources,
    unstamped: Vec<UnstampedInstance>,
}

fn repair_policies() -> Vec<RepairPolicy> {
    let policy = |condition: &str, status: &str, minutes: u64| {
        RepairPolicy::new(condition, status, Duration::from_secs(minutes * 60))
    };
    vec![
        policy("Ready", "False", 30),
        policy("Ready", "Unknown", 30),
        policy("AcceleratedHardwareReady", "False", 10),
        policy("StorageReady", "False", 30),
        policy("NetworkingReady", "False", 30),
        policy("KernelReady", "False", 30),
        policy("ContainerRuntimeReady", "False", 30),
    ]
}

/// Checks that all instances have a zone. An instance without one would get another provider id than its NodeClaim has, and count as
/// unowned.
fn placed(instances: Vec<InstanceInfo>) -> Result<Vec<InstanceInfo>, CloudError> {
    match instances.iter().find(|info| info.zone.is_empty()) {
        Some(info) => Err(unplaced(info)),
        None => Ok(instances),
    }
}

/// The error for an instance that was launched moments ago and that EC2 does not know yet. As a missing one it would be left behind.
fn unseen(id: &ProviderId) -> CloudError {
    CloudError::Unavailable(
        format!("EC2 does not show instance {id} yet, which was launched within the last minute").into(),
    )
}

fn unplaced(info: &InstanceInfo) -> CloudError {
    CloudError::Unavailable(format!("EC2 returned no zone for instance {}", info.id).into())
}

impl AwsProvider {
    /// The provider of a region, with what the region sells.
    ///
    /// # Errors
    /// If EC2 does not list its instance types.
    pub async fn new(
        api: Arc<dyn AwsApi>,
        classes: Classes,
        settings: Settings,
        clock: SharedClock,
    ) -> Result<Self, CloudError> {
        let mut info = ProviderInfo::new("aws", [classes.kind().clone()]);
        info.schema = Arc::new(schema());
        info.repair_policies = repair_policies();
        info.currency = Some(currency(&settings.region));
        let provider = Self {
            catalogs: Arc::new(Catalogs::new(&settings)),
            addresses: Arc::default(),
            launches: Arc::new(LaunchesInFlight::new(clock.clone())),
            templates: Arc::default(),
            cluster: Arc::new(ClusterDescription::new(&settings)),
            problems: Arc::new(Problems::new(classes.clone())),
            unowned: Arc::default(),
            api,
            clock,
            settings,
            classes,
            info,
            cluster_uid: Arc::default(),
            parameters: Arc::default(),
            ledger: Arc::default(),
        };
        provider.refresh_instance_types().await?;
        Ok(provider)
    }

    /// The calls to AWS.
    #[must_use]
    pub fn api(&self) -> &dyn AwsApi {
        &*self.api
    }

    /// The settings of the controller.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The classes that launches and catalogues use.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unowned(&self) -> MutexGuard<'_, UnownedResources> {
        self.unowned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalogue of a class; the same `Arc` while no input changes.
    fn class_catalog(&self, known: &Arc<KnownClass>) -> Arc<ClassCatalog> {
        self.catalogs.of_class(known, self.clock.now())
    }

    /// Sets the address of the cluster's DNS, which nodes get unless their class names one.
    pub fn set_cluster_dns(&self, address: Option<String>) {
        self.cluster.set_dns(address);
    }

    /// Sets the version of the control plane that the API server reports.
    pub fn set_kubernetes_version(&self, version: &str) {
        self.cluster.set_server_version(version);
    }

    /// The actions that IAM denies while everything else works, with the time of the last denial.
    #[must_use]
    pub fn features_off(&self) -> BTreeMap<&'static str, Timestamp> {
        self.problems.denials()
    }

    /// The UID of the cluster.
    ///
    /// # Errors
    /// If the provider has not been identified yet.
    pub fn cluster_uid(&self) -> Result<Str, CloudError> {
        let unknown =
            || CloudError::Unavailable("the cluster UID is not known yet: call identify first".into());
        self.cluster_uid.get().cloned().ok_or_else(unknown)
    }

    /// Returns the cluster UID, unless EKS knows another cluster by the configured name.
    fn may_mutate(&self) -> Result<Str, CloudError> {
        let uid = self.cluster_uid()?;
        let mutated = |why| CloudError::Unavailable(format!("nothing is mutated: {why}").into());
        self.cluster.mismatch().map_or(Ok(uid), |why| Err(mutated(why)))
    }

    /// Reads the instance types and their zones. After an error the known ones are kept.
    ///
    /// # Errors
    /// If EC2 does not answer, or the answer is empty.
    pub async fn refresh_instance_types(&self) -> Result<(), CloudError> {
        let types = self.read_of_region("ec2:DescribeInstanceTypes", self.api.instance_types().await)?;
        let sold = self.read_of_region("ec2:DescribeInstanceTypeOfferings", self.api.sold_in().await)?;
        if types.is_empty() || sold.is_empty() {
            return Err(CloudError::Unavailable("ec2 describes no instance types".into()));
        }
        let mut instance_types = InstanceTypeCatalogue::default();
        for info in types {
            instance_types.types.insert(info.name.clone(), info);
        }
        for place in sold {
            instance_types.sold_in.entry(place.instance_type).or_default().insert(place.zone);
        }
        self.catalogs.set_instance_types(instance_types);
        Ok(())
    }

    fn read_of_region<T>(&self, action: &'static str, answer: Result<T, AwsError>) -> Result<T, CloudError> {
        let denied = || CloudError::Unauthorized { action: action.into() };
        self.problems.permitted(action, answer, self.clock.now())?.map_err(|_| denied())
    }

    /// Changes or reads the prices.
    pub fn with_prices<T>(&self, change: impl FnOnce(&mut Prices) -> T) -> T {
        self.catalogs.with_prices(change)
    }

    /// The resources of other clusters with our cluster's name, as of the last lists.
    #[must_use]
    pub fn foreign(&self) -> ForeignResources {
        self.unowned().foreign.clone()
    }

    /// Sets the free addresses of subnets, as EC2 lists them.
    pub fn refresh_addresses(&self, subnets: impl IntoIterator<Item = (String, i64)>) {
        self.addresses().refresh(subnets);
    }

    /// An instance with its reservation if those are managed. Otherwise an instance that EC2 placed into an open reservation is on
    /// demand: as a reserved one it would be replaced repeatedly.
    fn managed(&self, mut info: InstanceInfo) -> InstanceInfo {
        if !self.settings.reserved_capacity {
            info.reservation = None;
        }
        info
    }

    /// Reads an instance from EC2.
    async fn read(&self, id: &ProviderId) -> Result<InstanceInfo, CloudError> {
        let gone = || CloudError::NotFound(format!("no instance {id}").into());
        let ec2_id = instance_id(id).ok_or_else(gone)?;
        let found = match self.api.instances(&[ec2_id.to_owned()], &[]).await {
            Err(error) if error.is_not_found() && self.launches.is_young(ec2_id) => return Err(unseen(id)),
            Err(error) if error.is_not_found() => Vec::new(),
            answer => answer.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?,
        };
        let found = found.into_iter().find(|info| info.id == ec2_id && info.state != "terminated");
        match found {
            Some(info) if info.zone.is_empty() => Err(unplaced(&info)),
            Some(info) => Ok(self.managed(info)),
            None if self.is_in_zone_away(id) => Err(CloudError::Unavailable(
                format!("no instance {id}, but traffic is shifted away from its zone, so its absence proves nothing")
                    .into(),
            )),
            None => match instance::zone(id).filter(|zone| !zone.starts_with(&*self.settings.region)) {
                Some(zone) => Err(self.elsewhere(id, zone)),
                None => Err(gone()),
            },
        }
    }

    /// The error for an instance of another region: with a wrong region every instance would seem terminated.
    fn elsewhere(&self, id: &ProviderId, zone: &str) -> CloudError {
        let region = &self.settings.region;
        let text = format!(
            "no instance {id} in {region}, but {zone} is not a zone of that region; set AWS_REGION to the region of the cluster"
        );
        CloudError::Unavailable(text.into())
    }

    /// Terminates an instance that is ours: it carries our UID, or none and a NodeClaim names it.
    async fn terminate_owned(&self, id: &ProviderId, named: bool) -> Result<Termination, CloudError> {
        let uid = self.may_mutate()?;
        let info = match self.read(id).await {
            Err(CloudError::NotFound(_)) => return Ok(Termination::Gone),
            read => read?,
        };
        let owner = ownership(&info.tags, &self.settings.cluster_name, &uid);
        if owner == Ownership::Foreign || (owner == Ownership::Unstamped && !named) {
            let why = "its tags do not identify this cluster as the owner".into();
            return Err(CloudError::NotOwned { id: id.as_str().into(), why });
        }
        if is_ending(&info) {
            return Ok(Termination::Accepted);
        }
        self.not_away(&info.zone_id)?;
        match self.api.terminate(std::slice::from_ref(&info.id)).await {
            Ok(()) => Ok(Termination::Accepted),
            Err(error) if error.is_not_found() && self.launches.is_young(&info.id) => Err(unseen(id)),
            Err(error) if error.is_not_found() => Ok(Termination::Gone),
            Err(error) => {
                self.ledger.note(&figures::TERMINATION_FAILURES, &[&info.zone, &info.zone_id], 1.0);
                Err(error.to_cloud_error("ec2:TerminateInstances"))
            }
        }
    }

    /// Whether traffic is shifted away from an instance's zone: answers of EC2 about such a zone may be wrong.
    fn is_in_zone_away(&self, id: &ProviderId) -> bool {
        let Some(zone) = instance::zone(id) else { return false };
        let of_classes = self.classes.all().unwrap_or_default();
        let statuses = of_classes.values().filter_map(|known| known.class.status.as_ref());
        let mut subnets = statuses.flat_map(|status| &status.subnets).filter(|subnet| subnet.zone == zone);
        subnets.any(|subnet| self.catalogs.is_away(&subnet.zone_id))
    }

    /// Refuses mutations in a zone that traffic is shifted away from: its instances may be needed again soon.
    fn not_away(&self, zone_id: &str) -> Result<(), CloudError> {
        match self.catalogs.is_away(zone_id) {
            true => Err(CloudError::Unavailable(
                format!("traffic is shifted away from zone {zone_id}: mutations there are suspended").into(),
            )),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl CloudProvider for AwsProvider {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        if cluster_uid.is_empty() {
            let message = "is empty: give the UID of the kube-system namespace".into();
            return Err(CloudError::Invalid { field: "cluster UID".into(), message });
        }
        let known = self.cluster_uid.get_or_init(|| cluster_uid.into());
        if **known != *cluster_uid {
            let why = format!("identified as cluster {known} before, as {cluster_uid} now");
            return Ok(Identity::Mismatch(why.into()));
        }
        let identity = self.cluster.compare_with_eks(&*self.api).await;
        let identity = identity.map_err(|error| error.to_cloud_error(cluster::DESCRIBE))?;
        self.cluster.set_identity(identity.clone());
        Ok(identity)
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let known = self.classes.get(&pool.template.class.name)?;
        Ok(self.class_catalog(&known).catalog.clone())
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        self.launch_all(requests).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        let termination = self.terminate_owned(id, claim.provider_id.as_ref() == Some(id)).await?;
        if let (Termination::Gone, Some(reservation)) =
            (termination, claim.labels.get(labels::CAPACITY_RESERVATION_ID))
        {
            self.catalogs.with_reservations(|counts| counts.terminated(reservation));
        }
        Ok(termination)
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.terminate_owned(id, false).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let info = self.read(id).await?;
        Ok(self.describe(&info))
    }

    /// Instances with our cluster's UID, and those with our cluster's name and no UID: Karpenter launched them, and they are ours if
    /// a NodeClaim names them.
    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let uid = self.cluster_uid()?;
        let filters = [
            Filter::new("tag-key", [labels::TAG_NODEPOOL]),
            Filter::new("tag-key", [labels::NODE_CLASS]),
            Filter::new(format!("tag:{}", labels::TAG_CLUSTER_NAME), [&*self.settings.cluster_name]),
        ];
        let found = self.api.instances(&[], &filters).await;
        let found = found.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?;
        let alive = placed(found)?.into_iter().filter(|info| info.state != "terminated");
        let cluster = &self.settings.cluster_name;
        let alive: Vec<InstanceInfo> = alive.collect();
        let unstamped = |info: &&InstanceInfo| ownership(&info.tags, cluster, &uid) == Ownership::Unstamped;
        let known = |info: &InstanceInfo| UnstampedInstance {
            id: provider_id(&info.zone, &info.id),
            launched: info.launched,
        };
        {
            let mut unowned = self.unowned();
            let others = alive.iter().filter_map(|info| namesake(&info.id, &info.tags, cluster, &uid));
            unowned.foreign.replace(ResourceType::Instance, others);
            unowned.unstamped =
                alive.iter().filter(unstamped).filter(|info| !is_ending(info)).map(known).collect();
        }
        let owned =
            alive.into_iter().filter(|info| ownership(&info.tags, cluster, &uid) != Ownership::Foreign);
        let mut all: Vec<Instance> = owned.map(|info| self.describe(&self.managed(info))).collect();
        all.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
        all.dedup_by(|a, b| a.provider_id == b.provider_id);
        Ok(all)
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        // A deleted class is not drift: its NodeClaims are deleted with it.
        let Ok(known) = self.classes.get(&claim.class.name) else { return Ok(None) };
        let drift = |reason: drift::DriftReason| Some(Drift(reason.as_str().into()));
        if let Some(reason) = drift::of_hash(&claim.annotations, &known.class.spec, &self.settings.ca_bundle)
        {
            return Ok(drift(reason));
        }
        let Some(id) = &claim.provider_id else { return Ok(None) };
        let info = self.read(id).await?;
        let catalog = self.class_catalog(&known);
        let Some(resolved) = catalog.resolved.get(&info.instance_type) else {
            return Err(CloudError::Unavailable(
                format!("the class has no instance type {}", info.instance_type).into(),
            ));
        };
        let status = known.class.status.clone().unwrap_or_default();
        let group = self.catalogs.group(&claim.class.name);
        let group = group.as_ref().map(|group| group.id.as_str());
        if group.is_none() && known.class.spec.placement_group_selector.is_some() {
            return Err(CloudError::Unavailable("the class's placement group is not known".into()));
        }
        let found = drift::of_instance(&info, &status, resolved.image.as_deref(), group);
        let found = found.map_err(|unclear| CloudError::Unavailable(unclear.to_string().into()))?;
        Ok(found.and_then(drift))
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.catalogs.with_prices(|prices| prices.as_of())
    }

    fn use_observed_capacity(&self, observed: &Arc<ObservedCapacity>) {
        self.catalogs.set_observed(observed);
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        steps::all(self)
    }
}

#[cfg(test)]
mod tests;
