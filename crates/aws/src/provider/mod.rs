//! The provider: what is known of the region, and AWS behind core's seam.

mod classes;
mod cluster;
mod dry_run;
mod features;
mod instance;
mod launching;
mod memory;
mod open;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, NodeClassKind,
        ProviderInfo, ProviderStep, RepairPolicy, Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ProviderId, Str},
};
use jiff::Timestamp;

pub use classes::{Classes, Known};
pub use instance::{instance_id, is_ending, provider_id};

use crate::cache::Cache;
use crate::calls::{AwsApi, AwsError, ClusterInfo, Filter, InstanceInfo, PlacementGroup};
use crate::drift;
use crate::figures::{self, Ledger};
use crate::foreign::{ForeignResources, ResourceType, UnstampedInstance, namesake};
use crate::images::Parameters;
use crate::instancetype::{self, ClassCatalog, InstanceTypeCatalogue, Market, View};
use crate::interruption::TakenBack;
use crate::launch::Addresses;
use crate::nodeclass::placement::Resolved;
use crate::nodeclass::reservations::Room;
use crate::observed::Observed;
use crate::prices::Prices;
use crate::schema::schema;
use crate::settings::Settings;
use crate::shift::Shifts;
use crate::tags::{Ownership, ownership};
use crate::unavailable::Unavailable;
use features::Troubles;
use memory::Dealt;
use open::{SENT_MAX, Sent};

/// Most classes whose catalogues are kept; one of another class is made again each time.
const CATALOGS_MAX: u64 = 1000;

/// AWS as a cloud. Clones share everything.
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
    state: Arc<Mutex<State>>,
}

/// What is known of the region, and remembered of what was done.
///
/// The maps among it are state, and whoever fills one says when an entry goes. What can be had again is in a [`Cache`].
#[derive(Default)]
struct State {
    instance_types: Arc<InstanceTypeCatalogue>,
    instance_types_version: u64,
    prices: Prices,
    observed: Observed,
    unavailable: Unavailable,
    /// Instances whose capacity was taken back, by what said so: it is taken note of once.
    taken_back: TakenBack,
    addresses: Addresses,
    reservations: Room,
    /// Placement groups by class, as launches go by them; they go with their class.
    groups: BTreeMap<String, Resolved>,
    groups_version: u64,
    shifts: Shifts,
    /// Catalogues by class, each as long as what it was made from.
    catalogs: Cache<String, (Versions, Arc<ClassCatalog>), CATALOGS_MAX>,
    dealt: Dealt,
    /// Requests of fleets whose outcome is open, by token.
    sent: Cache<String, Arc<Sent>, SENT_MAX>,
    /// Tokens of fleets, and when a call by them was last left without an answer, in steady time. State: an attempt is ended by it.
    unanswered: BTreeMap<String, Timestamp>,
    /// Tokens that EC2 has seen with another request, and since when this is known. State, as the one before.
    repeated: BTreeMap<String, Timestamp>,
    /// Tokens of fleets that EC2 throttled until nothing was left of them, and when: what one says was said for good. State, as the
    /// one before.
    throttled: BTreeMap<String, Timestamp>,
    /// When this process was first asked to launch, in steady time: the calls of the one before it are older, or under way.
    began: Option<Timestamp>,
    /// Instances that claims name, once claims have been seen.
    named: Option<BTreeSet<ProviderId>>,
    /// Launch templates that are known to be there, and when each was last used, which says when one is deleted: those that EC2
    /// lists, and those of launches since.
    templates: BTreeMap<String, Timestamp>,
    cluster: Option<ClusterInfo>,
    cluster_read: Option<Timestamp>,
    cluster_dns: Option<String>,
    kubernetes: Option<String>,
    /// Why EKS tells nothing of the cluster.
    cluster_missing: Option<AwsError>,
    /// What does not work at the moment.
    troubles: Troubles,
    foreign: ForeignResources,
    /// Instances of the last list that carry our name and no UID.
    unstamped: Vec<UnstampedInstance>,
    /// Whether the configured cluster is the one behind the API server, once that was asked.
    identity: Option<Identity>,
}

/// What a class's catalogue was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    class: u64,
    instance_types: u64,
    prices: u64,
    observed: u64,
    unavailable: u64,
    reservations: u64,
    groups: u64,
    shifts: u64,
}

fn repair_policies() -> Vec<RepairPolicy> {
    let policy = |condition: &str, status: &str, minutes: u64| RepairPolicy {
        condition: condition.into(),
        status: status.into(),
        toleration: Duration::from_secs(minutes * 60),
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

/// Instances that are known by their ids. One whose zone is not told would be known by another id than its claim names, and would
/// pass for nobody's: such an answer is none.
fn placed(instances: Vec<InstanceInfo>) -> Result<Vec<InstanceInfo>, CloudError> {
    match instances.iter().find(|info| info.zone.is_empty()) {
        Some(info) => Err(unplaced(info)),
        None => Ok(instances),
    }
}

fn unplaced(info: &InstanceInfo) -> CloudError {
    CloudError::Unavailable(format!("ec2 tells no zone of instance {}", info.id).into())
}

impl AwsProvider {
    /// The provider of a region, with what the region sells.
    ///
    /// # Errors
    /// Where EC2 does not tell what it sells.
    pub async fn new(
        api: Arc<dyn AwsApi>,
        classes: Classes,
        settings: Settings,
        clock: SharedClock,
    ) -> Result<Self, CloudError> {
        let class = NodeClassKind::new(labels::GROUP, "v1", labels::NODE_CLASS_KIND, "ec2nodeclasses");
        let info = ProviderInfo {
            name: "aws".into(),
            node_classes: vec![class],
            schema: Arc::new(schema()),
            repair_policies: repair_policies(),
            bootstraps_startup_taints: true,
        };
        let state = State { prices: Prices::of_region(&settings.region), ..State::default() };
        let provider = Self {
            api,
            clock,
            settings,
            classes,
            info,
            cluster_uid: Arc::default(),
            parameters: Arc::default(),
            ledger: Arc::default(),
            state: Arc::new(Mutex::new(state)),
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

    /// The classes that launches and catalogues go by.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Refuses to mutate anything where the cloud's cluster is another than the API server's.
    fn may_mutate(&self) -> Result<Str, CloudError> {
        let uid = self.cluster_uid()?;
        let mutated = |why| CloudError::Unavailable(format!("nothing is mutated: {why}").into());
        self.mismatch().map_or(Ok(uid), |why| Err(mutated(why)))
    }

    /// Reads instance types and where they are sold, and keeps what is known where EC2 tells nothing.
    ///
    /// # Errors
    /// Where EC2 does not answer, or answers with nothing.
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
        let mut state = self.state();
        if *state.instance_types != instance_types {
            state.instance_types = Arc::new(instance_types);
            state.instance_types_version += 1;
        }
        Ok(())
    }

    fn read_of_region<T>(&self, action: &'static str, answer: Result<T, AwsError>) -> Result<T, CloudError> {
        let denied = || CloudError::Unauthorized { action: action.into() };
        self.permitted(action, answer, self.clock.now())?.map_err(|_| denied())
    }

    /// Lays prices over what is known; see [`Prices`].
    pub fn with_prices<T>(&self, change: impl FnOnce(&mut Prices) -> T) -> T {
        change(&mut self.state().prices)
    }

    /// Takes note of what nodes report; see [`Observed`].
    pub fn with_observed<T>(&self, change: impl FnOnce(&mut Observed) -> T) -> T {
        change(&mut self.state().observed)
    }

    /// What the last lists had of our cluster's name that is another cluster's.
    #[must_use]
    pub fn foreign(&self) -> ForeignResources {
        self.state().foreign.clone()
    }

    /// Takes the free addresses of subnets as EC2 tells them.
    pub fn refresh_addresses(&self, told: impl IntoIterator<Item = (String, i64)>) {
        self.state().addresses.refresh(told);
    }

    /// A class's catalogue; the same `Arc` while nothing changes.
    fn class_catalog(&self, known: &Known) -> Arc<ClassCatalog> {
        let mut state = self.state();
        state.unavailable.sweep(self.clock.now());
        let versions = Versions {
            class: known.version,
            instance_types: state.instance_types_version,
            prices: state.prices.version(),
            observed: state.observed.version(),
            unavailable: state.unavailable.version(),
            reservations: state.reservations.version(),
            groups: state.groups_version,
            shifts: state.shifts.version(),
        };
        let name = known.class.metadata.name.clone().unwrap_or_default();
        if let Some((made_from, catalog)) = state.catalogs.peek(&name)
            && made_from == versions
        {
            return catalog;
        }
        let made = Arc::new(self.make_catalog(&state, known));
        // The same content under another version is the same catalogue to those who compare pointers.
        let kept = match state.catalogs.peek(&name) {
            Some((_, old)) if old.catalog == made.catalog && old.shaped == made.shaped => old,
            _ => made,
        };
        state.catalogs.keep(name, (versions, kept.clone()));
        kept
    }

    fn make_catalog(&self, state: &State, known: &Known) -> ClassCatalog {
        let name = known.class.metadata.name.as_deref().unwrap_or_default();
        let status = known.class.status.clone().unwrap_or_default();
        let view = View {
            settings: &self.settings,
            spec: &known.class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: state.groups.get(name).map(|resolved| &resolved.group),
        };
        let market = Market {
            prices: &state.prices,
            unavailable: &state.unavailable,
            shifted_zones: &|zone_id| state.shifts.is_away(zone_id),
            reservation_capacity: &|id| state.reservations.left(id),
        };
        instancetype::catalog(&state.instance_types, &view, &state.observed, &market)
    }

    /// The placement group of a class, where it has one that is known.
    fn group(&self, class: &str) -> Option<PlacementGroup> {
        self.state().groups.get(class).map(|resolved| resolved.group.clone())
    }

    fn known_class(&self, name: &str) -> Result<Known, CloudError> {
        let missing = || CloudError::NodeClassNotReady(format!("EC2NodeClass/{name} does not exist").into());
        self.classes.get(name).ok_or_else(missing)
    }

    /// An instance with its reservation, where those are managed. An instance that EC2 has put into an open one by itself is on
    /// demand: as a reserved one it would be replaced again and again.
    fn managed(&self, mut info: InstanceInfo) -> InstanceInfo {
        if !self.settings.reserved_capacity {
            info.reservation = None;
        }
        info
    }

    /// An instance as EC2 has it now.
    async fn read(&self, id: &ProviderId) -> Result<InstanceInfo, CloudError> {
        let gone = || CloudError::NotFound(format!("no instance {id}").into());
        let ec2_id = instance_id(id).ok_or_else(gone)?;
        let found = match self.api.instances(&[ec2_id.to_owned()], &[]).await {
            Err(error) if error.is_not_found() => Vec::new(),
            answer => answer.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?,
        };
        let found = found.into_iter().find(|info| info.id == ec2_id && info.state != "terminated");
        match found {
            Some(info) if info.zone.is_empty() => Err(unplaced(&info)),
            Some(info) => Ok(self.managed(info)),
            None if self.is_in_zone_away(id) => Err(CloudError::Unavailable(
                format!("no instance {id}, which proves nothing: traffic is shifted away from its zone")
                    .into(),
            )),
            None => match instance::zone(id).filter(|zone| !zone.starts_with(&*self.settings.region)) {
                Some(zone) => Err(self.elsewhere(id, zone)),
                None => Err(gone()),
            },
        }
    }

    /// An instance was looked for where it cannot be: with a wrong region all instances would look as if they were gone.
    fn elsewhere(&self, id: &ProviderId, zone: &str) -> CloudError {
        let region = &self.settings.region;
        let text = format!(
            "no instance {id} in {region}, which proves nothing: {zone} is no zone of that region; set AWS_REGION to the \
             region of the cluster"
        );
        CloudError::Unavailable(text.into())
    }

    /// Ends an instance that is ours: by its UID, or by the NodeClaim that names it where it has none.
    async fn end(&self, id: &ProviderId, named: bool) -> Result<Termination, CloudError> {
        let uid = self.may_mutate()?;
        let info = match self.read(id).await {
            Err(CloudError::NotFound(_)) => return Ok(Termination::Gone),
            read => read?,
        };
        let owner = ownership(&info.tags, &self.settings.cluster_name, &uid);
        if owner == Ownership::Foreign || (owner == Ownership::Unstamped && !named) {
            let why = "its tags do not say that this cluster launched it".into();
            return Err(CloudError::NotOwned { id: id.as_str().into(), why });
        }
        if is_ending(&info) {
            return Ok(Termination::Accepted);
        }
        self.not_away(&info.zone_id)?;
        match self.api.terminate(std::slice::from_ref(&info.id)).await {
            Ok(()) => Ok(Termination::Accepted),
            Err(error) if error.is_not_found() => Ok(Termination::Gone),
            Err(error) => {
                self.ledger.note(&figures::TERMINATION_FAILURES, &[&info.zone, &info.zone_id], 1.0);
                Err(error.to_cloud_error("ec2:TerminateInstances"))
            }
        }
    }

    /// Whether an instance's zone is one that traffic is shifted away from: what EC2 tells of such a zone may be wrong.
    fn is_in_zone_away(&self, id: &ProviderId) -> bool {
        let Some(zone) = instance::zone(id) else { return false };
        let of_classes = self.classes.all();
        let statuses = of_classes.iter().filter_map(|known| known.class.status.as_ref());
        let mut subnets = statuses.flat_map(|status| &status.subnets).filter(|subnet| subnet.zone == zone);
        let state = self.state();
        subnets.any(|subnet| state.shifts.is_away(&subnet.zone_id))
    }

    /// Refuses to change anything in a zone that traffic is shifted away from: its instances may be needed in an hour.
    fn not_away(&self, zone_id: &str) -> Result<(), CloudError> {
        match self.state().shifts.is_away(zone_id) {
            true => Err(CloudError::Unavailable(
                format!("traffic is shifted away from zone {zone_id}: nothing is changed there").into(),
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
        let identity = self.compare_with_eks().await;
        let identity = identity.map_err(|error| error.to_cloud_error(cluster::DESCRIBE))?;
        self.state().identity = Some(identity.clone());
        Ok(identity)
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let known = self.known_class(&pool.template.class.name)?;
        Ok(self.class_catalog(&known).catalog.clone())
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        self.launch_all(requests).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        let ended = self.end(id, claim.provider_id.as_ref() == Some(id)).await?;
        if let (Termination::Gone, Some(reservation)) =
            (ended, claim.labels.get(labels::CAPACITY_RESERVATION_ID))
        {
            self.state().reservations.ended(reservation);
        }
        Ok(ended)
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.end(id, false).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let info = self.read(id).await?;
        Ok(self.seen(&info))
    }

    /// Instances with our cluster's UID, and those of our cluster's name without any: Karpenter launched them, and they are
    /// ours where a NodeClaim names them.
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
            let mut state = self.state();
            let others = alive.iter().filter_map(|info| namesake(&info.id, &info.tags, cluster, &uid));
            state.foreign.replace(ResourceType::Instance, others);
            state.unstamped =
                alive.iter().filter(unstamped).filter(|info| !is_ending(info)).map(known).collect();
        }
        let owned =
            alive.into_iter().filter(|info| ownership(&info.tags, cluster, &uid) != Ownership::Foreign);
        let mut all: Vec<Instance> = owned.map(|info| self.seen(&self.managed(info))).collect();
        all.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
        all.dedup_by(|a, b| a.provider_id == b.provider_id);
        Ok(all)
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        // A class that is gone is not drift: its claims are deleted with it.
        let Some(known) = self.classes.get(&claim.class.name) else { return Ok(None) };
        let told = |reason: drift::Reason| Some(Drift(reason.as_str().into()));
        if let Some(reason) = drift::of_hash(&claim.annotations, &known.class.spec, &self.settings.ca_bundle)
        {
            return Ok(told(reason));
        }
        let Some(id) = &claim.provider_id else { return Ok(None) };
        let info = self.read(id).await?;
        let catalog = self.class_catalog(&known);
        let image = catalog.shaped.get(&info.instance_type).and_then(|shaped| shaped.image.as_deref());
        let status = known.class.status.clone().unwrap_or_default();
        let group = self.group(&claim.class.name);
        let group = group.as_ref().map(|group| group.id.as_str());
        if group.is_none() && known.class.spec.placement_group_selector.is_some() {
            return Err(CloudError::Unavailable("the class's placement group is not known".into()));
        }
        let found = drift::of_instance(&info, &status, image, group);
        let found = found.map_err(|unclear| CloudError::Unavailable(unclear.to_string().into()))?;
        Ok(found.and_then(told))
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.state().prices.as_of()
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        steps::all(self)
    }
}

#[cfg(test)]
mod tests;
