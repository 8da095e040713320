//! A cluster around the provider's steps: objects that their writes change, and a clock.

use fleetwright_aws_api::{Ec2NodeClass, HasConditions};
use fleetwright_core::cloud::{Object, Round, Write};
use fleetwright_core::model::{Labels, Node};
use fleetwright_core::nodeclaim::observations::{CapacityLearner, CapacityView};
use serde_json::Value;

use super::*;

pub(super) struct TestCluster {
    pub(super) aws: Aws,
    pub(super) outlook: Outlook,
    pub(super) steps: Vec<Arc<dyn ProviderStep>>,
    /// Core's learner of capacity, which runs beside the provider's steps.
    pub(super) learner: CapacityLearner,
    /// Writes are rejected while this is set, as by a conflict.
    pub(super) deaf: bool,
}

/// A class as a user writes it.
pub(super) fn fresh(name: &str) -> Ec2NodeClass {
    let mut class = class(name, true);
    class.status = None;
    class.metadata.uid = Some(format!("{name}-uid"));
    class.metadata.resource_version = Some("1".to_owned());
    class
}

impl TestCluster {
    pub(super) async fn new(settings: Settings, class: Ec2NodeClass) -> Self {
        let aws = Aws::new(settings).await;
        aws.classes.remove("default");
        set_class(&aws.classes, class);
        let steps = aws.provider().steps();
        let outlook = Outlook::at(aws.now()).with_pools(vec![Arc::new(pool())]);
        Self { aws, outlook, steps, learner: CapacityLearner::default(), deaf: false }
    }

    /// Starts a new process.
    pub(super) async fn restart(&mut self) {
        self.aws.restart().await;
        self.steps = self.aws.provider().steps();
        self.learner = CapacityLearner::default();
    }

    /// Lets core learn the capacity of nodes, and the NodePools keep it. Returns how many NodePools changed.
    pub(super) async fn observe_capacity(&mut self) -> usize {
        let provider = self.aws.provider();
        let mut pools = Vec::new();
        for pool in &self.outlook.pools {
            pools.push((pool.clone(), provider.catalog(pool).await.ok()));
        }
        let changed = self.learner.look(CapacityView { pools: &pools, nodes: &self.outlook.nodes });
        provider.use_observed_capacity(&Arc::new(self.learner.observed().clone()));
        for (name, text) in &changed {
            for pool in self.outlook.pools.iter_mut().filter(|pool| pool.name == *name) {
                Arc::make_mut(pool).observed.capacity = text.clone();
            }
        }
        changed.len()
    }

    pub(super) async fn pass(&mut self, seconds: u64) {
        self.aws.advance(Duration::from_secs(seconds)).await;
        self.outlook.now = self.aws.now();
    }

    /// Runs one round of a step and applies its writes.
    pub(super) async fn try_round(&mut self, step: &str) -> Result<Round, CloudError> {
        let step = self.steps.iter().find(|known| known.name() == step).unwrap().clone();
        let round = step.run(&self.outlook).await?;
        if !self.deaf {
            for write in &round.writes {
                self.apply(write);
            }
        }
        Ok(round)
    }

    pub(super) async fn round(&mut self, step: &str) -> Round {
        self.try_round(step).await.unwrap()
    }

    pub(super) fn class(&self, name: &str) -> Ec2NodeClass {
        self.aws.classes.get(name).unwrap().class.clone()
    }

    pub(super) fn edit(&self, name: &str, change: impl FnOnce(&mut Ec2NodeClass)) {
        let mut class = self.class(name);
        change(&mut class);
        class.metadata.generation = class.metadata.generation.map(|generation| generation + 1);
        set_class(&self.aws.classes, class);
    }

    /// Status and reason of a condition.
    pub(super) fn condition(&self, name: &str, condition: &str) -> String {
        let class = self.class(name);
        let known = class.conditions().iter().find(|known| known.type_ == condition).cloned();
        known.map_or_else(|| "none".to_owned(), |known| format!("{} {}", known.status, known.reason))
    }

    pub(super) fn add(&mut self, claim: NodeClaim, node: Option<Node>) {
        self.outlook.nodes.push((Arc::new(claim), node.map(Arc::new)));
    }

    pub(super) fn claim(&self, name: &str) -> NodeClaim {
        let found = self.outlook.nodes.iter().find(|(claim, _)| *claim.name == *name);
        (*found.unwrap().0).clone()
    }

    fn apply(&mut self, write: &Write) {
        match &write.object {
            Object::NodeClass { class, .. } => {
                let mut object = self.class(&class.name);
                if write.version.is_some() {
                    assert_eq!(write.version.as_deref(), object.metadata.resource_version.as_deref());
                }
                if let Some(status) = &write.status {
                    let mut whole = serde_json::to_value(object.status.clone().unwrap_or_default()).unwrap();
                    let patch: serde_json::Map<String, Value> = serde_json::from_str(status).unwrap();
                    for (key, value) in patch {
                        whole[key.as_str()] = value;
                    }
                    whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                    object.status = Some(serde_json::from_value(whole).unwrap());
                }
                let annotations = object.metadata.annotations.get_or_insert_default();
                for (key, value) in &write.annotations {
                    match value {
                        Some(value) => annotations.insert(key.to_string(), value.to_string()),
                        None => annotations.remove(&**key),
                    };
                }
                if let Some(finalizers) = &write.finalizers {
                    object.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
                }
                set_class(&self.aws.classes, object);
            }
            Object::NodeClaim(name) => {
                for (claim, _) in &mut self.outlook.nodes {
                    if claim.name == *name {
                        let claim = Arc::make_mut(claim);
                        merge(&mut claim.annotations, &write.annotations);
                        merge(&mut claim.labels, &write.labels);
                    }
                }
            }
            Object::Node(name) => {
                for (_, node) in &mut self.outlook.nodes {
                    if let Some(node) = node.as_mut().filter(|node| node.name == *name) {
                        merge(&mut Arc::make_mut(node).labels, &write.labels);
                    }
                }
            }
            _ => {}
        }
    }
}

fn merge(into: &mut Labels, from: &BTreeMap<Str, Option<Str>>) {
    for (key, value) in from {
        match value {
            Some(value) => into.insert(key.clone(), value.clone()),
            None => into.remove(key),
        };
    }
}

pub(super) fn node(name: &str, labels: &[(&str, &str)], capacity: Resources) -> Node {
    Node {
        name: name.into(),
        uid: name.into(),
        provider_id: None,
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        cordoned: false,
        capacity,
        allocatable: Resources::new(),
        ready: true,
        ready_since: None,
        created: Timestamp::UNIX_EPOCH,
        deleting: None,
        has_finalizer: true,
    }
}
