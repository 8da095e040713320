//! A cluster in this process: the provider as the operator composes it, over the real SDK, and the objects that its loops
//! write.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use fleetwright_aws::batch::Batched;
use fleetwright_aws::calls::AwsApi;
use fleetwright_aws::{AwsProvider, Classes, Settings, node_classes, set_class};
use fleetwright_aws_api::{Ec2NodeClass, HasConditions};
use fleetwright_aws_client::{Endpoint, SdkClient};
use fleetwright_core::clock::{Clock as _, SharedClock};
use fleetwright_core::cloud::{
    CloudProvider as _, Identity, Instance, LaunchError, LaunchRequest, Object, Outlook, ProviderStep, Round,
    Write,
};
use fleetwright_core::model::{
    Catalog, NodeClaim, NodeClassRef, NodePool, Requirement, Requirements, Resources, Str,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::account::REGION;
use crate::clock::Forward;

/// The name of every cluster.
pub(crate) const NAME: &str = "prod";
/// The UID of the cluster that most cases are about.
pub(crate) const UID: &str = "7f1c0a52-our-cluster";
/// How many rounds a class may take until it is ready.
const ROUNDS: usize = 12;
/// How many rounds a class may outlast, of a second each.
const LASTS: usize = 300;

/// Who a cluster is.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// UID of its `kube-system` namespace.
    pub(crate) uid: &'static str,
    /// The access key of its controller, by which the proxy distinguishes clusters.
    pub(crate) access_key: &'static str,
    /// The controller's settings.
    pub(crate) settings: Settings,
}

impl Seat {
    /// The cluster of most cases, with its certificate authority.
    pub(crate) fn ours(authority: &str) -> Self {
        let settings = Settings {
            cluster_endpoint: "https://api.example.com".to_owned(),
            ca_bundle: authority.to_owned(),
            ..Settings::new(NAME, REGION)
        };
        Self { uid: UID, access_key: "OURS", settings }
    }

    /// Another cluster of the same name in the same account.
    pub(crate) fn theirs(authority: &str) -> Self {
        Self { uid: "0b5e7d11-their-cluster", access_key: "THEIRS", ..Self::ours(authority) }
    }
}

/// A cluster with its provider.
pub(crate) struct Cluster {
    pub(crate) provider: AwsProvider,
    pub(crate) api: Arc<dyn AwsApi>,
    pub(crate) identity: Identity,
    pub(crate) outlook: Outlook,
    classes: Classes,
    steps: Vec<Arc<dyn ProviderStep>>,
    clock: Arc<Forward>,
    seat: Seat,
    endpoint: Endpoint,
}

impl Cluster {
    /// Starts a controller's provider that finds AWS at `url`, with a clock of its own.
    pub(crate) async fn start(url: &str, seat: Seat) -> anyhow::Result<Self> {
        Self::timed(url, seat, Arc::default()).await
    }

    /// The same by a clock that others go by too.
    pub(crate) async fn timed(url: &str, seat: Seat, clock: Arc<Forward>) -> anyhow::Result<Self> {
        let endpoint = Endpoint {
            url: url.to_owned(),
            region: REGION.to_owned(),
            access_key: seat.access_key.to_owned(),
            secret_key: "secret".to_owned(),
        };
        let classes = node_classes();
        set_class(&classes, class(&format!("{}-class", seat.uid))?);
        Self::with(endpoint, seat, classes, clock).await
    }

    async fn with(
        endpoint: Endpoint,
        seat: Seat,
        classes: Classes,
        clock: Arc<Forward>,
    ) -> anyhow::Result<Self> {
        let shared: SharedClock = clock.clone();
        let sdk = SdkClient::at(&endpoint, shared.clone()).await?;
        let api: Arc<dyn AwsApi> = Arc::new(Batched::new(Arc::new(sdk), shared.clone()));
        let provider = AwsProvider::new(api.clone(), classes.clone(), seat.settings.clone(), shared).await?;
        let identity = provider.identify(seat.uid).await?;
        let steps = provider.steps();
        let outlook = Outlook::at(clock.now()).with_pools(vec![Arc::new(pool())]);
        let mut cluster = Self { provider, api, identity, outlook, classes, steps, clock, seat, endpoint };
        if !matches!(cluster.identity, Identity::Mismatch(_)) {
            // The steps run at process start; this one tags instances with their claims.
            cluster.round("nodeclaim.tagging").await?;
        }
        Ok(cluster)
    }

    /// The same cluster with a new process, which remembers only what objects contain.
    pub(crate) async fn restarted(self) -> anyhow::Result<Self> {
        let Self { outlook, classes, clock, seat, endpoint, .. } = self;
        let mut fresh = Self::with(endpoint, seat, classes, clock).await?;
        fresh.outlook.nodes = outlook.nodes;
        fresh.round("nodeclaim.tagging").await?;
        Ok(fresh)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, by: SignedDuration) {
        self.clock.pass(by);
    }

    /// One round of a loop, and those that follow at once for a class that outlasts it; their writes are made.
    pub(crate) async fn round(&mut self, name: &str) -> anyhow::Result<Round> {
        let step = self.steps.iter().find(|step| step.name() == name);
        let step = step.with_context(|| format!("there is no loop {name}"))?.clone();
        let mut round = self.once(&*step).await?;
        for _ in 0..LASTS {
            if name != "nodeclass" || !round.again.is_zero() {
                break;
            }
            let next = self.once(&*step).await?;
            round.again = next.again;
            round.writes.extend(next.writes);
            round.notices.extend(next.notices);
        }
        Ok(round)
    }

    async fn once(&mut self, step: &dyn ProviderStep) -> anyhow::Result<Round> {
        self.outlook.now = self.clock.now();
        let round = step.run(&self.outlook).await?;
        for write in &round.writes {
            self.apply(write)?;
        }
        Ok(round)
    }

    /// Runs rounds of the class's step until it is ready; the error has its conditions.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..ROUNDS {
            self.round("nodeclass").await?;
            if self.condition("Ready") == "True Ready" {
                return Ok(());
            }
            self.pass(SignedDuration::from_secs(6));
        }
        bail!("the class is not ready: {:#?}", self.class()?.conditions())
    }

    /// The current class.
    pub(crate) fn class(&self) -> anyhow::Result<Ec2NodeClass> {
        Ok(self.classes.get("default").context("the class is gone")?.class.clone())
    }

    /// Changes the class as a user would.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Ec2NodeClass)) -> anyhow::Result<()> {
        let mut class = self.class()?;
        change(&mut class);
        class.metadata.generation = class.metadata.generation.map(|generation| generation + 1);
        set_class(&self.classes, class);
        Ok(())
    }

    /// Status and reason of a condition of the class.
    pub(crate) fn condition(&self, name: &str) -> String {
        let Ok(class) = self.class() else { return "gone".to_owned() };
        let known = class.conditions().iter().find(|known| known.type_ == name);
        known.map_or_else(|| "none".to_owned(), |known| format!("{} {}", known.status, known.reason))
    }

    /// What the pool may launch.
    pub(crate) async fn catalog(&self) -> anyhow::Result<Arc<Catalog>> {
        Ok(self.provider.catalog(&pool()).await?)
    }

    /// Launches a batch of claims of one shape, as the lifecycle would.
    pub(crate) async fn launch(
        &self,
        batch: &str,
        attempt: u32,
        claims: &[NodeClaim],
    ) -> Vec<Result<Instance, LaunchError>> {
        let request = |(rank, claim): (usize, &NodeClaim)| {
            let claim = NodeClaim { batch: batch.into(), attempt, ..claim.clone() };
            LaunchRequest::new(claim).of_attempt(attempt).at(rank, claims.len())
        };
        let requests: Vec<LaunchRequest> = claims.iter().enumerate().map(request).collect();
        self.provider.launch(&requests).await
    }

    /// Takes a claim into the cluster, with the instance that it was given.
    pub(crate) fn adopt(&mut self, claim: &NodeClaim, instance: &Instance) {
        let claim = NodeClaim {
            provider_id: Some(instance.provider_id.clone()),
            image_id: instance.image_id.clone(),
            node_name: Some(format!("node-of-{}", claim.name).as_str().into()),
            ..claim.clone()
        };
        self.outlook.nodes.push((Arc::new(claim), None));
    }

    fn apply(&mut self, write: &Write) -> anyhow::Result<()> {
        match &write.object {
            Object::NodeClass { .. } => {
                let mut class = self.class()?;
                if let Some(patch) = &write.status {
                    let mut status = serde_json::to_value(class.status.unwrap_or_default())?;
                    merge(&mut status, &serde_json::from_str(patch)?);
                    class.status = Some(serde_json::from_value(status)?);
                }
                let annotations = class.metadata.annotations.get_or_insert_default();
                for (key, value) in &write.annotations {
                    match value {
                        Some(value) => annotations.insert(key.to_string(), value.to_string()),
                        None => annotations.remove(&**key),
                    };
                }
                if let Some(finalizers) = &write.finalizers {
                    class.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
                }
                set_class(&self.classes, class);
            }
            Object::NodeClaim(name) => {
                for (claim, _) in &mut self.outlook.nodes {
                    if claim.name == *name {
                        set(&mut Arc::make_mut(claim).annotations, &write.annotations);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A merge patch of the first level: null takes away.
fn merge(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        into[key.as_str()] = value.clone();
    }
    if let Some(fields) = into.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn set(into: &mut BTreeMap<Str, Str>, from: &BTreeMap<Str, Option<Str>>) {
    for (key, value) in from {
        match value {
            Some(value) => into.insert(key.clone(), value.clone()),
            None => into.remove(key),
        };
    }
}

/// The spec of every class: what is found by the cluster's tag, and an alias.
pub(crate) fn class_spec() -> Value {
    let found = json!([{"tags": {"karpenter.sh/discovery": NAME}}]);
    json!({
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "nodes",
        "subnetSelectorTerms": found,
        "securityGroupSelectorTerms": found,
        "tags": {"team": "a"},
    })
}

/// A class as a user writes it.
fn class(uid: &str) -> anyhow::Result<Ec2NodeClass> {
    let mut class = Ec2NodeClass::new("default", serde_json::from_value(class_spec())?);
    class.metadata.uid = Some(uid.to_owned());
    class.metadata.generation = Some(1);
    Ok(class)
}

fn class_ref() -> NodeClassRef {
    NodeClassRef { group: "karpenter.k8s.aws".into(), kind: "EC2NodeClass".into(), name: "default".into() }
}

/// A NodePool that allows everything.
fn pool() -> NodePool {
    NodePool::new("general", class_ref(), Timestamp::UNIX_EPOCH)
}

/// A claim of the pool with `requirements`: a label and its values each.
pub(crate) fn claim(name: &str, requirements: &[(&str, &[&str])]) -> NodeClaim {
    let mut allowed = Requirements::new();
    for (key, values) in requirements {
        allowed.add(Requirement::is_in(*key, values.iter().copied()));
    }
    NodeClaim {
        uid: format!("{name}-uid").into(),
        pool: Some("general".into()),
        requirements: allowed,
        requests: Resources::of(1000, 0),
        attempt: 1,
        ..NodeClaim::new(name, class_ref(), Timestamp::UNIX_EPOCH)
    }
}
