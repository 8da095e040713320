//! Pebble as a [`CloudProvider`]: one server for each NodeClaim.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest,
        ProviderInfo, ProviderStep, RepairPolicy, Termination, async_trait, bootstrap, is_label_of_kubelet,
        jiff::Timestamp, taint_flag,
    },
    model::{Catalog, NodeClaim, NodeClassRef, NodePool, ProviderId, labels},
};

use crate::{
    api::{ApiError, PebbleApi, Server},
    catalogue::{Catalogue, EVERY},
    class::{Classes, PebbleNodeClass},
    steps::{ClassStatus, Prices},
};

/// Labels of the API: cluster, NodeClaim, batch and attempt of a server.
const CLUSTER: &str = "fleetwright-cluster";
const CLAIM: &str = "fleetwright-nodeclaim";
const BATCH: &str = "fleetwright-batch";
const ATTEMPT: &str = "fleetwright-attempt";
/// When to ask again for a server that the cloud builds.
const BUILDING: Duration = Duration::from_secs(5);
/// The form of a provider id: `pebble:///ZONE/ID`.
const SCHEME: &str = "pebble:///";

/// The provider.
pub struct PebbleProvider {
    api: PebbleApi,
    classes: Classes,
    catalogue: Arc<Catalogue>,
    clock: SharedClock,
    info: ProviderInfo,
    cluster_uid: OnceLock<String>,
}

impl PebbleProvider {
    /// The provider of an account. Reads what is sold.
    ///
    /// # Errors
    /// If the API does not answer.
    pub async fn connect(api: PebbleApi, classes: Classes, clock: SharedClock) -> Result<Self, CloudError> {
        let mut info = ProviderInfo::new("pebble", [classes.kind().clone()]);
        info.repair_policies =
            ["False", "Unknown"].map(|status| RepairPolicy::new("Ready", status, EVERY)).into();
        // The API creates one server per call.
        info.launches_one_by_one = true;
        info.launch_concurrency = 50;
        let catalogue = Arc::new(Catalogue::default());
        catalogue
            .update(api.types().await.map_err(|error| error.into_cloud_error("list types"))?, clock.now());
        Ok(Self { api, classes, catalogue, clock, info, cluster_uid: OnceLock::new() })
    }

    fn uid(&self) -> &str {
        self.cluster_uid.get().map_or("", |uid| uid)
    }

    /// The class of a NodeClaim that is to be launched.
    fn ready(&self, of: &NodeClassRef) -> Result<Arc<PebbleNodeClass>, LaunchError> {
        let class = self.classes.get(&of.name)?;
        if class.readiness() != Some(true) {
            return Err(LaunchError::NodeClassNotReady(format!("{of} is not ready").into()));
        }
        Ok(class)
    }

    /// The cloud's server as an instance.
    fn instance(&self, server: &Server) -> Instance {
        let catalog = self.catalogue.of_zones(&[], self.clock.now());
        let sold = catalog.get(&server.server_type);
        let label = |key: &str| server.labels.get(key).map(String::as_str);
        let (capacity, allocatable) =
            sold.map(|sold| (sold.capacity.clone(), sold.allocatable())).unwrap_or_default();
        let mut instance = Instance::new(format!("{SCHEME}{}/{}", server.zone, server.id))
            .with_resources(capacity, allocatable)
            .with_image(server.image.as_str())
            .with_label(labels::INSTANCE_TYPE, server.server_type.as_str())
            .with_label(labels::ZONE, server.zone.as_str())
            .with_label(labels::CAPACITY_TYPE, labels::ON_DEMAND)
            .with_label(labels::ARCH, "amd64")
            .with_label(labels::OS, "linux");
        instance.claim = label(CLAIM).map(Into::into);
        instance.cluster_uid = label(CLUSTER).map(Into::into);
        instance.launched_by = label(BATCH).map(Into::into).zip(label(ATTEMPT).and_then(|n| n.parse().ok()));
        instance.terminating = server.deleting;
        instance
    }

    /// The answer for a server that was created: it is asked for again while the cloud builds it.
    fn launched(&self, server: &Server) -> Result<Instance, LaunchError> {
        if server.building {
            let message = format!("Pebble builds server {}", server.id).into();
            return Err(LaunchError::Pending { message, after: BUILDING });
        }
        Ok(self.instance(server))
    }

    /// Reads the server of an id.
    async fn server(&self, id: &ProviderId) -> Result<Server, CloudError> {
        let message = "give an id such as pebble:///zone/srv-1";
        let invalid = || CloudError::Invalid { field: "provider id".into(), message: message.into() };
        let (_, id) = id.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(invalid)?;
        let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if id.is_empty() || !plain {
            return Err(invalid());
        }
        self.api.get(id).await.map_err(|error| error.into_cloud_error("get server"))
    }

    /// Deletes a server of this cluster. One without an owner is deleted only if a NodeClaim names it.
    async fn end(&self, id: &ProviderId, named_by_claim: bool) -> Result<Termination, CloudError> {
        let server = match self.server(id).await {
            Err(CloudError::NotFound(_)) => return Ok(Termination::Gone),
            server => server?,
        };
        match server.labels.get(CLUSTER) {
            Some(owner) if owner == self.uid() => {}
            None if named_by_claim => {}
            owner => {
                let why = format!("its label {CLUSTER} is {owner:?}").into();
                return Err(CloudError::NotOwned { id: id.as_str().into(), why });
            }
        }
        if server.deleting {
            return Ok(Termination::Accepted);
        }
        match self.api.delete(&server.id).await {
            Ok(()) => Ok(Termination::Accepted),
            Err(ApiError::NotFound) => Ok(Termination::Gone),
            Err(error) => Err(error.into_cloud_error("delete server")),
        }
    }

    /// The server to create for a request, in the cheapest offering that is allowed and fits; none if there is none.
    fn order(&self, request: &LaunchRequest, name: &str, class: &PebbleNodeClass) -> Option<Server> {
        let claim = &request.claim;
        let catalog = self.catalogue.of_zones(&class.spec.zones, self.clock.now());
        let fitting = catalog.instance_types.iter().filter(|sold| {
            sold.requirements.intersects(&claim.requirements).is_ok()
                && claim.requests.fits(&sold.allocatable())
        });
        let offers = fitting.filter_map(|sold| Some((sold, sold.cheapest(&claim.requirements)?)));
        let (sold, offering) = offers.min_by_key(|(_, offering)| offering.price)?;
        let attempt = request.attempt.to_string();
        let labels = [
            (CLUSTER, self.uid()),
            (CLAIM, &*claim.name),
            (BATCH, request.batch.as_str()),
            (ATTEMPT, attempt.as_str()),
        ];
        Some(Server {
            name: name.to_owned(),
            server_type: sold.name.to_string(),
            zone: offering.zone()?.to_string(),
            image: class.spec.image.clone(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            user_data: user_data(claim),
            ..Server::default()
        })
    }
}

/// What a server runs at its first boot: the kubelet, with what its node is born with.
fn user_data(claim: &NodeClaim) -> String {
    let born = bootstrap(claim);
    // The admission plugin NodeRestriction refuses the others; the controllers write them at registration.
    let labels = born.labels.iter().filter(|(key, _)| is_label_of_kubelet(key));
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    let taints: Vec<String> = born.taints.iter().map(taint_flag).collect();
    format!(
        "#!/bin/sh\nexec kubelet --node-labels={} --register-with-taints={}\n",
        labels.join(","),
        taints.join(",")
    )
}

fn launch_error(error: ApiError) -> LaunchError {
    match error {
        ApiError::Throttled(after) => LaunchError::RateLimited { after },
        ApiError::Denied => LaunchError::Failed {
            reason: "Unauthorized".into(),
            message: "the token may not create servers: allow it".into(),
        },
        ApiError::Quota => {
            LaunchError::QuotaExceeded { quota: "servers".into(), message: "ask for a higher one".into() }
        }
        other => LaunchError::Unknown(format!("{other:?}").into()),
    }
}

#[async_trait]
impl CloudProvider for PebbleProvider {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        let known = self.cluster_uid.get_or_init(|| cluster_uid.to_owned());
        if known != cluster_uid {
            return Ok(Identity::Mismatch(format!("identified as cluster {known} before").into()));
        }
        Ok(Identity::Unproven("Pebble has no clusters".into()))
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let class = self.classes.get(&pool.template.class.name)?;
        Ok(self.catalogue.of_zones(&class.spec.zones, self.clock.now()))
    }

    async fn launch_one(&self, request: &LaunchRequest) -> Result<Instance, LaunchError> {
        // 1 Look for the server of an earlier call: it is found whatever has happened to class and capacity since.
        // 2 Create it, under a name that is used once. A crash after this step leaves a server that step 1 finds.
        let name = format!("{}-{}-{}-{}", self.uid(), request.batch, request.attempt, request.rank);
        if !request.first_call
            && let Some(server) = self.api.named(&name).await.map_err(launch_error)?
        {
            return self.launched(&server);
        }
        let class = self.ready(&request.claim.class)?;
        while let Some(order) = self.order(request, &name, &class) {
            match self.api.create(&order).await {
                Ok(server) => return self.launched(&server),
                Err(ApiError::NoCapacity) => {
                    self.catalogue.mark_unavailable((order.server_type, order.zone), self.clock.now());
                }
                Err(ApiError::Exists) => {
                    let server = self.api.named(&name).await.map_err(launch_error)?;
                    let gone =
                        || LaunchError::Unknown(format!("server {name} exists and is not found").into());
                    return self.launched(&server.ok_or_else(gone)?);
                }
                Err(error) => return Err(launch_error(error)),
            }
        }
        let message = format!("no available offering satisfies {}", request.claim.requirements);
        Err(LaunchError::InsufficientCapacity(message.into()))
    }

    async fn terminate(&self, _claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.end(id, true).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.end(id, false).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        Ok(self.instance(&self.server(id).await?))
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let servers = self.api.list(CLUSTER, self.uid()).await;
        let servers = servers.map_err(|error| error.into_cloud_error("list servers"))?;
        Ok(servers.iter().map(|server| self.instance(server)).collect())
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        let (Some(id), Ok(class)) = (&claim.provider_id, self.classes.get(&claim.class.name)) else {
            return Ok(None);
        };
        let server = match self.server(id).await {
            Err(CloudError::NotFound(_)) => return Ok(None),
            server => server?,
        };
        if server.image != class.spec.image {
            return Ok(Some(Drift("ImageDrift".into())));
        }
        let allowed = class.spec.zones.is_empty() || class.spec.zones.contains(&server.zone);
        Ok((!allowed).then(|| Drift("ZoneDrift".into())))
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.catalogue.as_of()
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        let prices = Prices { api: self.api.clone(), catalogue: self.catalogue.clone() };
        vec![Arc::new(prices), Arc::new(ClassStatus { classes: self.classes.clone() })]
    }
}
