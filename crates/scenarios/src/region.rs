//! AWS in a simulator: the provider over an in-memory region, and its instances as nodes.
//!
//! A running instance becomes an instance of the simulator's cloud if its user data have the endpoint of the simulator's API server; the
//! cloud's kubelets do the rest. Several simulators can thus share a region, as clusters share an account.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_aws::{
    AwsProvider, Classes, Settings,
    batch::Batched,
    calls::AwsApi,
    prices::Prices,
    provider::provider_id,
    testing::{BootedInstance, CLUSTER, FakeAws, OTHER_CA, REGION, cluster},
};
use fleetwright_aws_api::Ec2NodeClass;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CloudError, CloudProvider},
    model::{
        InstanceType, Offering, Price, Resources,
        labels::{
            ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, OS, REGION as REGION_LABEL, SPOT, ZONE,
        },
    },
};
use fleetwright_fake::{
    Catalogue, Cloud, Vocabulary,
    api::{Bootstrap, WireTaint},
    cloud::Adopted,
    quantities::to_quantities,
};
use fleetwright_sim::simulator::CloudSetup;
use futures::{StreamExt as _, future::BoxFuture};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use serde_json::Value;

/// How often the region is polled for new and terminated instances.
const LOOK: Duration = Duration::from_secs(1);
/// Delay after a broken watch.
const RETRY: Duration = Duration::from_secs(1);
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
        Self { classes: Classes::default(), aws, settings }
    }

    /// Another cluster with the same name in the same account: it has its own endpoint and certificate authority.
    #[must_use]
    pub fn of_second_cluster(&self) -> Self {
        let mut settings = self.settings.clone();
        settings.cluster_endpoint = "https://second-cluster".to_owned();
        settings.ca_bundle = OTHER_CA.to_owned();
        Self { classes: Classes::default(), aws: self.aws.clone(), settings }
    }

    /// The region's offerings: types, zones, prices.
    #[must_use]
    pub fn catalogue(&self) -> Catalogue {
        let mut types: BTreeMap<String, Vec<Offering>> = BTreeMap::new();
        for (kind, zone, capacity_type, price) in sold(&self.aws) {
            types.entry(kind).or_default().push(Offering::new(&zone, capacity_type, price));
        }
        let instance = |(name, offerings): (String, Vec<Offering>)| {
            let mut instance_type = InstanceType::new(name, Resources::new());
            instance_type.offerings = offerings;
            instance_type
        };
        Catalogue::new(Vocabulary::Cloud, types.into_iter().map(instance).collect())
    }

    /// The running instances of this cluster, by their user data and not by tags.
    #[must_use]
    pub fn booted(&self) -> Vec<BootedInstance> {
        let mut booted = self.aws.booted();
        booted.retain(|booted_instance| booted_instance.endpoint == self.settings.cluster_endpoint);
        booted
    }

    /// Adds instances to `cloud` when they run and terminates them there, forever.
    async fn run(self, cloud: Arc<Cloud>, clock: SharedClock) {
        // Running instances; the value is the instance in `cloud` if it belongs to the cluster.
        let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
        loop {
            let now = self.aws.running();
            if now.iter().any(|id| !known.contains_key(id)) {
                let booted = self.booted();
                for id in &now {
                    known.entry(id.clone()).or_insert_with(|| {
                        let booted_instance =
                            booted.iter().find(|booted_instance| booted_instance.instance.id == *id)?;
                        let instance = provider_id(&booted_instance.instance.zone, id).to_string();
                        cloud.adopt(node_of(booted_instance, instance.clone()));
                        Some(instance)
                    });
                }
            }
            known.retain(|id, instance| {
                let runs = now.contains(id);
                if let (false, Some(instance)) = (runs, instance) {
                    cloud.lose(instance);
                }
                runs
            });
            clock.sleep(LOOK).await;
        }
    }
}

#[async_trait]
impl CloudSetup for Region {
    fn definitions(&self) -> &'static [Value] {
        static DEFINITIONS: OnceLock<Vec<Value>> = OnceLock::new();
        DEFINITIONS.get_or_init(|| {
            // Generated types always serialize.
            fleetwright_aws_api::crds().iter().filter_map(|crd| serde_json::to_value(crd).ok()).collect()
        })
    }

    fn tasks(&self, client: Client, cloud: Arc<Cloud>, clock: SharedClock) -> Vec<BoxFuture<'static, ()>> {
        vec![
            Box::pin(follow(client, self.classes.clone(), clock.clone())),
            Box::pin(self.clone().run(cloud, clock)),
        ]
    }

    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError> {
        let api: Arc<dyn AwsApi> = Arc::new(Batched::new(self.aws.clone(), clock.clone()));
        let provider = AwsProvider::new(api, self.classes.clone(), self.settings.clone(), clock).await?;
        provider.set_kubernetes_version(KUBERNETES);
        Ok(Arc::new(provider))
    }
}

/// Instance type, zone, capacity type and price of all offerings.
fn sold(aws: &FakeAws) -> Vec<(String, String, &'static str, Price)> {
    let prices = Prices::of_region(REGION);
    let mut all = Vec::new();
    for place in aws.sold_now() {
        let Some(price) = prices.on_demand(&place.instance_type) else { continue };
        let spot = Price::from_nanos(price.nanos() / 100 * SPOT_PERCENT);
        for (capacity_type, price) in [(ON_DEMAND, price), (SPOT, spot)] {
            all.push((place.instance_type.clone(), place.zone.clone(), capacity_type, price));
        }
    }
    all
}

/// A booted instance as an instance whose node has not joined yet.
fn node_of(booted_instance: &BootedInstance, id: String) -> Adopted {
    let instance = &booted_instance.instance;
    // Labels that the cloud controller of EKS and the kubelet set.
    let number = instance.id.trim_start_matches("i-").trim_start_matches('0');
    let name = format!("ip-10-0-0-{number}.{REGION}.compute.internal");
    let labels = [
        (INSTANCE_TYPE, instance.instance_type.as_str()),
        (ZONE, &instance.zone),
        (REGION_LABEL, REGION),
        (ARCH, booted_instance.architecture),
        (OS, "linux"),
        (HOSTNAME, &name),
        (CAPACITY_TYPE, if instance.spot { SPOT } else { ON_DEMAND }),
    ];
    let taint = |taint: &fleetwright_core::model::Taint| WireTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    Adopted {
        provider_id: id,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        node_name: name.clone(),
        bootstrap: Bootstrap {
            labels: booted_instance.labels.clone(),
            annotations: BTreeMap::new(),
            taints: booted_instance.taints.iter().map(taint).collect(),
        },
        capacity: to_quantities(&booted_instance.capacity),
        allocatable: to_quantities(&booted_instance.allocatable),
        launched_at: instance.launched,
        ..Adopted::default()
    }
}

/// Watches the EC2NodeClasses of a cluster forever and keeps `classes` current.
async fn follow(client: Client, classes: Classes, clock: SharedClock) {
    let mut events = pin!(watcher::watcher(Api::<Ec2NodeClass>::all(client), watcher::Config::default()));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(class)) => listed.push(class),
            Ok(Event::InitDone) => classes.replace(std::mem::take(&mut listed)),
            Ok(Event::Apply(class)) => classes.set(class),
            Ok(Event::Delete(class)) => classes.remove(class.metadata.name.as_deref().unwrap_or_default()),
            Err(_) => clock.sleep(RETRY).await,
        }
    }
}
