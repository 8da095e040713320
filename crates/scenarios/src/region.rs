//! AWS in a simulator: the provider over an in-memory region, and its instances as nodes.
//!
//! A running instance is one of the simulator if its user data have the endpoint of the simulator's API server. Several simulators can
//! thus share a region, as clusters share an account.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fleetwright_aws::{
    AwsProvider, Classes, Settings,
    batch::Batched,
    calls::{AwsApi, AwsError, TagSet},
    node_classes,
    prices::Prices,
    provider::provider_id,
    testing::{BootedInstance, CLUSTER, Call, FakeAws, Fault, OTHER_CA, REGION, cluster},
};
use fleetwright_aws_api::labels;
use fleetwright_controllers::classes::follow;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CallFault, CloudError, CloudProvider, GroundTruth, Operation},
    model::{
        Price, ProviderId,
        labels::{ARCH, ON_DEMAND, REGION as REGION_LABEL, SPOT},
    },
};
use fleetwright_sim::simulator::{CloudFault, CloudSetup, SimulatedCloud};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::Client;
use serde_json::{Value, json};

/// The version of the control plane.
const KUBERNETES: &str = "1.35";
/// The spot price in percent of the on-demand price.
const SPOT_PERCENT: i64 = 40;

/// A cluster's view of a region.
#[derive(Clone)]
pub struct Region {
    /// The EC2NodeClasses of the cluster.
    classes: Classes,
    /// The region: instances, images, capacity; shared by its clusters.
    pub aws: Arc<FakeAws>,
    /// Settings of the provider. Instances join the cluster at its endpoint.
    pub settings: Settings,
    /// Running instances with their tags; those of the cluster with what they booted as.
    known: Arc<Mutex<BTreeMap<String, KnownInstance>>>,
}

/// What is known of a running instance.
struct KnownInstance {
    tags: TagSet,
    truth: Option<Arc<GroundTruth>>,
}

impl Region {
    /// A region with prices. EKS has its first cluster, or none.
    #[must_use]
    pub fn new(clock: SharedClock, eks: bool) -> Self {
        let aws = Arc::new(FakeAws::new(clock));
        let known = cluster();
        let settings = Settings {
            cluster_endpoint: known.endpoint.clone(),
            ca_bundle: known.ca_bundle.clone(),
            ..Settings::new(CLUSTER, REGION)
        };
        aws.set_cluster(eks.then_some(known));
        let (mut on_demand, mut spot) = (BTreeMap::new(), BTreeMap::new());
        for (kind, zone, capacity_type, price) in sold(&aws) {
            match capacity_type {
                ON_DEMAND => on_demand.insert(kind, price).map(drop),
                _ => spot.insert((kind, zone), price).map(drop),
            };
        }
        aws.set_prices(on_demand.into_iter().collect(), spot.into_iter().collect());
        Self { classes: node_classes(), aws, settings, known: Arc::default() }
    }

    /// Another cluster with the same name in the same account: it has its own endpoint and certificate authority.
    #[must_use]
    pub fn of_second_cluster(&self) -> Self {
        let mut settings = self.settings.clone();
        settings.cluster_endpoint = "https://second-cluster".to_owned();
        settings.ca_bundle = OTHER_CA.to_owned();
        Self { classes: node_classes(), aws: self.aws.clone(), settings, known: Arc::default() }
    }

    /// The running instances of this cluster, by their user data and not by tags.
    #[must_use]
    pub fn booted(&self) -> Vec<BootedInstance> {
        let mut booted = self.aws.booted();
        booted.retain(|booted_instance| booted_instance.endpoint == self.settings.cluster_endpoint);
        booted
    }
}

impl CloudSetup for Region {
    fn definitions(&self) -> Vec<Value> {
        definitions()
    }

    fn zones(&self) -> Vec<String> {
        let zones: BTreeSet<String> = sold(&self.aws).into_iter().map(|(_, zone, ..)| zone).collect();
        zones.into_iter().collect()
    }

    fn node_class(&self, revision: u32) -> Value {
        node_class(revision)
    }

    fn start(&self, _clock: SharedClock) -> Arc<dyn SimulatedCloud> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl SimulatedCloud for Region {
    fn tasks(&self, client: Client, clock: SharedClock) -> Vec<BoxFuture<'static, ()>> {
        vec![Box::pin(follow(client, self.classes.clone(), clock))]
    }

    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError> {
        let api: Arc<dyn AwsApi> = Arc::new(Batched::new(self.aws.clone(), clock.clone()));
        let provider = AwsProvider::new(api, self.classes.clone(), self.settings.clone(), clock).await?;
        provider.set_kubernetes_version(KUBERNETES);
        Ok(Arc::new(provider))
    }

    fn ground_truth(&self) -> Vec<Arc<GroundTruth>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.aws.running();
        known.retain(|id, _| now.contains(id));
        let tags: BTreeMap<String, TagSet> =
            self.aws.instances_now().into_iter().map(|instance| (instance.id, instance.tags)).collect();
        // NodeClaims are written on instances after their launch.
        let is_known = |id: &String| known.get(id).is_some_and(|known| tags.get(id) == Some(&known.tags));
        if !now.iter().all(is_known) {
            let prices = Prices::of_region(REGION);
            let booted: BTreeMap<String, Arc<GroundTruth>> = self
                .booted()
                .iter()
                .map(|booted| (booted.instance.id.clone(), Arc::new(truth(booted, &prices))))
                .collect();
            *known = now
                .into_iter()
                .map(|id| {
                    let tags = tags.get(&id).cloned().unwrap_or_default();
                    // What nobody launched stays as it was adopted.
                    let truth = booted.get(&id).cloned().or_else(|| known.get(&id)?.truth.clone());
                    (id, KnownInstance { tags, truth })
                })
                .collect();
        }
        known.values().filter_map(|known| known.truth.clone()).collect()
    }

    fn inject(&self, fault: &CloudFault) -> bool {
        let (call, fault, count) = match *fault {
            CloudFault::Calls(operation, fault, count) => match operation {
                Operation::Launch => (Call::CreateFleet, fault, count),
                Operation::Terminate => (Call::Terminate, fault, count),
                Operation::Get | Operation::List => (Call::Describe, fault, count),
                _ => return false,
            },
            CloudFault::Tagging(fault, count) => (Call::CreateTags, fault, count),
            _ => return false,
        };
        let Some(fault) = refusal(fault) else { return false };
        (0..count).for_each(|_| self.aws.inject(call, fault.clone()));
        true
    }

    fn heal(&self) {
        for call in [Call::CreateFleet, Call::Terminate, Call::Describe, Call::CreateTags] {
            self.aws.clear(call);
        }
    }

    fn lose(&self, id: &ProviderId) -> bool {
        let id = id.as_str().rsplit('/').next().unwrap_or_default();
        let is_there = self.aws.instance_now(id).is_some_and(|instance| instance.state == "running");
        self.aws.reclaim(id, SignedDuration::ZERO);
        is_there
    }

    fn adopt(&self, instance: GroundTruth) -> Option<ProviderId> {
        let name = (labels::TAG_CLUSTER_NAME, Some(self.settings.cluster_name.to_string()));
        let uid = (labels::TAG_CLUSTER_UID, instance.cluster_uid.as_ref().map(ToString::to_string));
        let claim = (labels::TAG_NODECLAIM, instance.claim.as_ref().map(ToString::to_string));
        // As every instance of a launch has them, by which those of a cluster are listed.
        let pool = (labels::TAG_NODEPOOL, Some("adopted".to_owned()));
        let class = (labels::NODE_CLASS, Some("default".to_owned()));
        let tags = [name, pool, class, uid, claim]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let tags: TagSet = tags.collect();
        let (zone, id) = self.aws.adopt(tags.clone());
        let provider_id = provider_id(&zone, &id);
        let mut truth = instance;
        (truth.provider_id, truth.zone) = (provider_id.clone(), zone.into());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, KnownInstance { tags, truth: Some(Arc::new(truth)) });
        Some(provider_id)
    }
}

/// What EC2 answers to a call that goes wrong.
fn refusal(fault: CallFault) -> Option<Fault> {
    Some(match fault {
        CallFault::Fail => Fault::Refuse(AwsError::new(AwsError::NO_ANSWER, "connection reset")),
        CallFault::Throttle => {
            Fault::Refuse(AwsError::new("RequestLimitExceeded", "Request limit exceeded."))
        }
        CallFault::Deny => Fault::Refuse(AwsError::new("UnauthorizedOperation", "You are not authorized.")),
        CallFault::LoseAnswer => Fault::Lose,
        _ => return None,
    })
}

/// A region for each simulator, for property runs.
pub struct OwnRegion;

impl CloudSetup for OwnRegion {
    fn definitions(&self) -> Vec<Value> {
        definitions()
    }

    fn zones(&self) -> Vec<String> {
        ["us-west-2a", "us-west-2b", "us-west-2c"].map(str::to_owned).into()
    }

    fn node_class(&self, revision: u32) -> Value {
        node_class(revision)
    }

    fn start(&self, clock: SharedClock) -> Arc<dyn SimulatedCloud> {
        Arc::new(Region::new(clock, true))
    }
}

fn definitions() -> Vec<Value> {
    // Generated types always serialize.
    fleetwright_aws_api::crds().iter().filter_map(|crd| serde_json::to_value(crd).ok()).collect()
}

/// Another revision has another tag, which drifts.
fn node_class(revision: u32) -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "tags": {"revision": revision.to_string()},
        },
    })
}

/// Instance type, zone, capacity type and price of all offerings.
fn sold(aws: &FakeAws) -> Vec<(String, String, &'static str, Price)> {
    let prices = Prices::of_region(REGION);
    let mut all = Vec::new();
    for place in aws.sold_now() {
        for capacity_type in [ON_DEMAND, SPOT] {
            let Some(price) = price(&prices, &place.instance_type, capacity_type) else { continue };
            all.push((place.instance_type.clone(), place.zone.clone(), capacity_type, price));
        }
    }
    all
}

/// The price of an instance type, in every zone.
fn price(prices: &Prices, instance_type: &str, capacity_type: &str) -> Option<Price> {
    let on_demand = prices.on_demand(instance_type)?;
    let spot = || Price::from_nanos(on_demand.nanos() / 100 * SPOT_PERCENT);
    Some(if capacity_type == SPOT { spot() } else { on_demand })
}

/// A booted instance, with the labels that the cloud controller of EKS sets.
fn truth(booted: &BootedInstance, prices: &Prices) -> GroundTruth {
    let instance = &booted.instance;
    let id = provider_id(&instance.zone, &instance.id);
    let mut truth = GroundTruth::new(id, instance.instance_type.as_str(), instance.zone.as_str())
        .with_resources(booted.capacity.clone(), booted.allocatable.clone());
    let number = instance.id.trim_start_matches("i-").trim_start_matches('0');
    truth.node_name = format!("ip-10-0-0-{number}.{REGION}.compute.internal").into();
    truth.capacity_type = if instance.spot { SPOT } else { ON_DEMAND }.into();
    let labels = booted.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    truth.node_labels = labels
        .chain([(REGION_LABEL, REGION), (ARCH, booted.architecture)])
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    truth.node_taints.clone_from(&booted.taints);
    let tag = |key: &str| instance.tags.get(key).map(String::as_str);
    truth.cluster_uid = tag(labels::TAG_CLUSTER_UID).map(Into::into);
    truth.claim = tag(labels::TAG_NODECLAIM).map(Into::into);
    let attempt = tag(labels::TAG_ATTEMPT).and_then(|attempt| attempt.parse().ok());
    truth.launched_by = tag(labels::TAG_BATCH).map(Into::into).zip(attempt);
    truth.launched = instance.launched;
    truth.price = price(prices, &truth.instance_type, &truth.capacity_type).unwrap_or(Price::ZERO);
    truth
}
