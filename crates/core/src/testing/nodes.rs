//! Nodes: a NodeClaim, its Node, and the pods on it.

use std::sync::Arc;

use super::{GIB, now};
use crate::model::{
    Condition, ConditionStatus, Labels, Node, NodeClaim, Pod, Requirement, Resources, StateNode, Taint,
    TaintEffect,
    labels::{
        ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, OS, REGISTERED, ZONE,
    },
    nodeclaim::ConditionType,
};

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    /// A NodeClaim without an instance.
    Created,
    /// An instance without a Node.
    Launched,
    /// A Node that is not initialized.
    Registered,
    /// All there.
    Initialized,
}

/// A node under construction; see [`node`].
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    claim: NodeClaim,
    node: Node,
    pods: Vec<Arc<Pod>>,
    life: Life,
    managed: bool,
    marked: bool,
    volume_limits: Vec<(crate::model::Str, u32)>,
}

/// An initialized `medium` of pool `default` in zone `a`, on-demand: 4 CPU, 8 GiB, 110 pods, empty. The claim is called
/// as the node.
#[must_use]
pub fn node(name: &str) -> NodeBuilder {
    let pairs = [
        (NODEPOOL, "default"),
        (INSTANCE_TYPE, "medium"),
        (ZONE, "a"),
        (CAPACITY_TYPE, ON_DEMAND),
        (ARCH, "amd64"),
        (OS, "linux"),
    ];
    let labels = super::labels_of(&pairs);
    let size = Resources::of(4000, 8 * GIB).with("pods", 110).with("ephemeral-storage", 20 * GIB);
    let class = super::kwok_class();
    let claim = NodeClaim {
        uid: format!("uid-claim-{name}").into(),
        pool: Some("default".into()),
        labels: labels.clone(),
        position: 0,
        attempt: 1,
        attempt_members: [0].into_iter().collect(),
        capacity: size.clone(),
        allocatable: size.clone(),
        ..NodeClaim::new(name, class, now())
    };
    let node = Node {
        name: name.into(),
        uid: format!("uid-node-{name}").into(),
        provider_id: Some(format!("fake:///{name}").into()),
        labels,
        annotations: Labels::new(),
        taints: Vec::new(),
        cordoned: false,
        capacity: size.clone(),
        allocatable: size,
        ready: true,
        ready_since: Some(now()),
        created: now(),
        deleting: None,
        has_finalizer: true,
    };
    NodeBuilder {
        claim,
        node,
        pods: Vec::new(),
        life: Life::Initialized,
        managed: true,
        marked: false,
        volume_limits: Vec::new(),
    }
}

impl NodeBuilder {
    /// Changes anything of the claim.
    #[must_use]
    pub fn with_claim(mut self, change: impl FnOnce(&mut NodeClaim)) -> Self {
        change(&mut self.claim);
        self
    }

    /// Changes anything of the Node.
    #[must_use]
    pub fn with_node(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(&mut self.node);
        self
    }

    /// Sets a label of both.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.claim.labels.insert(key.into(), value.into());
        self.node.labels.insert(key.into(), value.into());
        if key == NODEPOOL {
            self.claim.pool = Some(value.into());
        }
        self
    }

    /// Sets the pool.
    #[must_use]
    pub fn pool(self, name: &str) -> Self {
        self.label(NODEPOOL, name)
    }

    /// Sets the zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label(ZONE, zone)
    }

    /// Sets the capacity type.
    #[must_use]
    pub fn capacity_type(self, capacity_type: &str) -> Self {
        self.label(CAPACITY_TYPE, capacity_type)
    }

    /// Sets type and size.
    #[must_use]
    pub fn size(self, instance_type: &str, cpus: i64, gib: i64) -> Self {
        self.label(INSTANCE_TYPE, instance_type).resource("cpu", cpus * 1000).resource("memory", gib * GIB)
    }

    /// Sets capacity and allocatable of a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: i64) -> Self {
        let name = name.into();
        for size in [&mut self.claim.capacity, &mut self.claim.allocatable] {
            size.set(&name, amount);
        }
        for size in [&mut self.node.capacity, &mut self.node.allocatable] {
            size.set(&name, amount);
        }
        self
    }

    /// Adds a taint to both.
    #[must_use]
    pub fn taint(mut self, key: &str, effect: TaintEffect) -> Self {
        self.claim.taints.push(Taint::new(key, "", effect));
        self.node.taints.push(Taint::new(key, "", effect));
        self
    }

    /// Puts a pod onto it: built with [`super::PodBuilder::bound`].
    #[must_use]
    pub fn pod(mut self, pod: Arc<Pod>) -> Self {
        self.pods.push(pod);
        self
    }

    /// A claim whose instance does not exist yet: instead of labels it has requirements on `key`.
    #[must_use]
    pub fn unlaunched(mut self, open: &[(&str, &[&str])]) -> Self {
        self.life = Life::Created;
        for (key, values) in open {
            self.claim.labels.remove(*key);
            self.claim.requirements.add(Requirement::is_in(*key, values.iter().copied()));
        }
        self
    }

    /// An instance whose Node has not joined.
    #[must_use]
    pub fn launched(mut self) -> Self {
        self.life = Life::Launched;
        self
    }

    /// A Node that is registered, and not initialized.
    #[must_use]
    pub fn uninitialized(mut self) -> Self {
        self.life = Life::Registered;
        self
    }

    /// A Node without a NodeClaim.
    #[must_use]
    pub fn unmanaged(mut self) -> Self {
        self.managed = false;
        self
    }

    /// A disruption command has taken it.
    #[must_use]
    pub fn marked(mut self) -> Self {
        self.marked = true;
        self
    }

    /// Limits the volumes that a driver attaches.
    #[must_use]
    pub fn volume_limit(mut self, driver: &str, limit: u32) -> Self {
        self.volume_limits.push((driver.into(), limit));
        self
    }

    /// A condition of the claim is True since `now`.
    #[must_use]
    pub fn condition(mut self, condition: ConditionType) -> Self {
        let held = Condition {
            status: ConditionStatus::True,
            reason: condition.as_str().into(),
            message: "".into(),
            since: now(),
        };
        self.claim.conditions.insert(condition, held);
        self
    }

    /// The node.
    #[must_use]
    pub fn build(mut self) -> Arc<StateNode> {
        let reached = [
            (Life::Launched, ConditionType::Launched),
            (Life::Registered, ConditionType::Registered),
            (Life::Initialized, ConditionType::Initialized),
        ];
        let life = self.life;
        for (_, condition) in reached.into_iter().filter(|(at, _)| life >= *at) {
            // A test that says since when is believed.
            if !self.claim.conditions.contains_key(&condition) {
                self = self.condition(condition);
            }
        }
        if self.life >= Life::Launched {
            self.claim.provider_id.clone_from(&self.node.provider_id);
        }
        self.node.labels.entry(HOSTNAME.into()).or_insert_with(|| self.node.name.as_str().into());
        if self.life >= Life::Registered && self.managed {
            self.claim.node_name = Some(self.node.name.clone());
            self.node.labels.insert(REGISTERED.into(), "true".into());
        }
        if self.life == Life::Initialized && self.managed {
            self.node.labels.insert(INITIALIZED.into(), "true".into());
        }
        let joined = self.life >= Life::Registered;
        let claim = self.managed.then(|| Arc::new(self.claim));
        let mut state = StateNode::new(claim, joined.then(|| Arc::new(self.node)), self.pods);
        state.marked_for_deletion = self.marked;
        state.volume_limits = self.volume_limits;
        Arc::new(state)
    }
}

impl From<NodeBuilder> for Arc<StateNode> {
    fn from(builder: NodeBuilder) -> Self {
        builder.build()
    }
}
