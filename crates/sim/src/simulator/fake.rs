//! The fake cloud in a simulator.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use fleetwright_controllers::classes::follow;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CallFault, CloudError, CloudProvider, GroundTruth, NodeClasses, Operation},
    model::{ProviderId, labels::NODEPOOL},
};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, FakeProvider, NodeClass,
    api::{ApiError, CloudInstance, Lifecycle, Tags, WireTaint},
    cloud::{Adopted, Fault, Occasion, Op},
    node_classes,
};
use futures::future::BoxFuture;
use kube::Client;
use serde_json::{Value, json};

use super::{
    classes,
    cloud::{CloudFault, CloudSetup, SimulatedCloud},
};

/// A fake cloud that is still to be made.
#[derive(Clone)]
pub struct FakeSetup {
    /// The instance types that it sells.
    pub catalogue: Catalogue,
    /// Its behavior: latencies, capacity, interruptions.
    pub config: CloudConfig,
}

impl CloudSetup for FakeSetup {
    fn definitions(&self) -> Vec<Value> {
        static DEFINITIONS: OnceLock<Vec<Value>> = OnceLock::new();
        let made = DEFINITIONS.get_or_init(|| {
            let all = fleetwright_api::crd::kwok();
            // Generated types always serialize.
            all.iter().filter_map(|definition| serde_json::to_value(definition).ok()).collect()
        });
        made.clone()
    }

    fn zones(&self) -> Vec<String> {
        let types = self.catalogue.types.instance_types.iter();
        let zones = types.flat_map(|sold| sold.offerings.iter().filter_map(|offering| offering.zone()));
        let zones: std::collections::BTreeSet<String> = zones.map(|zone| zone.to_string()).collect();
        zones.into_iter().collect()
    }

    /// Nodes of revision N join 15·N seconds late.
    fn node_class(&self, revision: u32) -> Value {
        json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": format!("{}s", revision * 15)},
        })
    }

    fn start(&self, clock: SharedClock) -> Arc<dyn SimulatedCloud> {
        let cloud = Arc::new(Cloud::new(self.catalogue.clone(), self.config.clone(), clock));
        Arc::new(FakeCloud { cloud, classes: node_classes(), known: Mutex::default() })
    }
}

/// The fake cloud. Its instances are in memory.
struct FakeCloud {
    cloud: Arc<Cloud>,
    classes: NodeClasses<NodeClass>,
    /// By instance id.
    known: Mutex<BTreeMap<String, KnownInstance>>,
}

/// An instance, and what was made of it.
struct KnownInstance {
    instance: Arc<CloudInstance>,
    truth: Arc<GroundTruth>,
}

#[async_trait]
impl SimulatedCloud for FakeCloud {
    fn tasks(&self, client: Client, clock: SharedClock) -> Vec<BoxFuture<'static, ()>> {
        vec![
            Box::pin(follow(client.clone(), self.classes.clone(), clock.clone())),
            Box::pin(classes::run(client, clock)),
        ]
    }

    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError> {
        let made = FakeProvider::new(self.cloud.clone(), self.classes.clone(), clock).await;
        Ok(Arc::new(made.map_err(|error| CloudError::Unavailable(error.to_string().into()))?))
    }

    fn ground_truth(&self) -> Vec<Arc<GroundTruth>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        let instances = self.cloud.instances();
        let there = instances.into_iter().filter(|instance| instance.state != Lifecycle::Terminated);
        *known = there
            .map(|instance| {
                let same = before.remove(&instance.id).filter(|of| Arc::ptr_eq(&of.instance, &instance));
                let truth = same.map_or_else(|| Arc::new(instance.ground_truth()), |of| of.truth);
                (instance.id.clone(), KnownInstance { instance, truth })
            })
            .collect();
        known.values().map(|of| of.truth.clone()).collect()
    }

    fn inject(&self, fault: &CloudFault) -> bool {
        let Some(fault) = scripted(fault) else { return false };
        self.cloud.inject(fault);
        true
    }

    fn heal(&self) {
        self.cloud.heal();
    }

    fn lose(&self, id: &ProviderId) -> bool {
        self.cloud.lose(id.as_str())
    }

    fn interrupt(&self, id: &ProviderId) -> bool {
        self.cloud.interrupt(id.as_str())
    }

    fn adopt(&self, instance: GroundTruth) -> Option<ProviderId> {
        let (batch, attempt) = instance.launched_by.unzip();
        let tags = Tags {
            cluster_uid: instance.cluster_uid.map(|uid| uid.to_string()),
            node_pool: instance.node_labels.get(NODEPOOL).map(ToString::to_string),
            claim: instance.claim.map(|claim| claim.to_string()),
            batch: batch.map(|batch| batch.to_string()),
            attempt: attempt.unwrap_or_default(),
        };
        let id = instance.provider_id;
        let adopted = Adopted { provider_id: id.to_string(), tags, joined: true, ..Adopted::default() };
        self.cloud.adopt(adopted).then_some(id)
    }

    fn in_memory(&self) -> Option<Arc<Cloud>> {
        Some(self.cloud.clone())
    }
}

/// Injects a fault of the next node into the copies of another cloud's instances. `false` if it is one of the cloud itself.
pub(super) fn inject_into_copies(copies: &Cloud, fault: &CloudFault) -> bool {
    let is_of_node = matches!(
        fault,
        CloudFault::NeverJoins | CloudFault::SmallerMemory { .. } | CloudFault::LateTaint { .. }
    );
    let Some(fault) = scripted(fault).filter(|_| is_of_node) else { return false };
    copies.inject(fault);
    true
}

/// A fault of a property run as the fake cloud's.
fn scripted(fault: &CloudFault) -> Option<Fault> {
    Some(match *fault {
        CloudFault::Calls(operation, fault, count) => {
            let op = match operation {
                Operation::Launch => Op::Launch,
                Operation::Terminate => Op::Terminate,
                Operation::Get => Op::Get,
                Operation::List => Op::List,
                _ => return None,
            };
            calls(op, fault, count)?
        }
        CloudFault::Tagging(fault, count) => calls(Op::Tag, fault, count)?,
        CloudFault::SlowLaunches { count, by_ms } => {
            Fault::SlowCall { op: Op::Launch, occasion: Occasion::next(count), by_ms }
        }
        CloudFault::NoSpot { for_seconds } => Fault::InsufficientCapacity {
            instance_type: None,
            zone: None,
            capacity_type: Some("spot".to_owned()),
            for_seconds: Some(for_seconds.into()),
        },
        CloudFault::NeverJoins => Fault::NeverJoins { occasion: Occasion::next(1) },
        CloudFault::SmallerMemory { percent } => {
            Fault::SmallerMemory { occasion: Occasion::next(1), percent }
        }
        CloudFault::LateTaint { key, after_ms } => {
            let taint =
                WireTaint { key: key.to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
            Fault::LateTaint { occasion: Occasion::next(1), taint, after_ms }
        }
    })
}

fn calls(op: Op, fault: CallFault, count: u32) -> Option<Fault> {
    let failed = || ApiError::Failed { message: "internal error".to_owned() };
    let (after_effect, error) = match fault {
        CallFault::Fail => (false, failed()),
        CallFault::LoseAnswer => (true, failed()),
        CallFault::Throttle => (false, ApiError::Throttled { after_ms: 3000 }),
        CallFault::Deny => (false, ApiError::Unauthorized { action: format!("{op:?}") }),
        _ => return None,
    };
    Some(Fault::FailCall { op, occasion: Occasion::next(count), after_effect, error })
}
