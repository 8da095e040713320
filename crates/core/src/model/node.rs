//! Nodes: Kubernetes' view, and the union of a Node with its NodeClaim that decisions work on.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    ids::{ClaimName, NodeName, PoolName, ProviderId, Str},
    labels::{self, DISRUPTED_TAINT, Labels},
    nodeclaim::{ConditionType, NodeClaim},
    nomination::Nomination,
    pod::Pod,
    requirements::Requirements,
    resources::Resources,
    taint::Taint,
};

/// A Node object.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: Str,
    /// `spec.providerID`.
    pub provider_id: Option<ProviderId>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Whether the `Ready` condition is True, and since when it is what it is.
    pub ready: bool,
    /// When `ready` last changed.
    pub ready_since: Option<Timestamp>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// Whether it has Karpenter's finalizer.
    pub has_finalizer: bool,
}

impl Node {
    /// A ready Node without labels and taints.
    #[must_use]
    pub fn new(name: impl Into<NodeName>, created: Timestamp) -> Self {
        Self {
            name: name.into(),
            uid: "".into(),
            provider_id: None,
            labels: Labels::new(),
            annotations: Labels::new(),
            taints: Vec::new(),
            cordoned: false,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            ready: true,
            ready_since: Some(created),
            created,
            deleting: None,
            has_finalizer: false,
        }
    }

    /// Whether it carries the taint of a disruption command or of a termination: its pods need another node.
    #[must_use]
    pub fn is_disrupted(&self) -> bool {
        self.taints.iter().any(|taint| &*taint.key == DISRUPTED_TAINT)
    }
}

/// A node as decisions see it: a NodeClaim, its Node, or one of them alone, with its pods.
///
/// Build with [`StateNode::new`]; the derived fields follow from the parts.
#[derive(Clone, Debug, PartialEq)]
pub struct StateNode {
    /// The NodeClaim, if it is ours.
    pub claim: Option<Arc<NodeClaim>>,
    /// The Node, if it has joined.
    pub node: Option<Arc<Node>>,
    /// Pods bound to it that have not ended, by namespace and name.
    pub pods: Vec<Arc<Pod>>,
    /// Pods that are expected on it.
    pub nominations: Vec<Nomination>,
    /// Whether a disruption command has taken it (an intent, visible before the API shows it).
    pub marked_for_deletion: bool,
    /// How many chunks of capacity buffers the last scheduling pass found room for here.
    pub buffered: u32,
    /// Attach limits by CSI driver, from CSINode.
    pub volume_limits: Vec<(Str, u32)>,
    /// Driver and handle of volumes that are attached, or being attached or detached (VolumeAttachments), sorted.
    pub attached: Vec<(Str, Str)>,
    /// The largest of its possible instance types, if it is not launched.
    pub at_most: Option<Resources>,
    /// Sum of its pods' requests.
    pub requested: Resources,
    /// Sum of the requests of its pods of DaemonSets.
    pub requested_by_daemons: Resources,
}

impl StateNode {
    /// Joins the parts and derives the sums. Ended pods are left out.
    #[must_use]
    pub fn new(claim: Option<Arc<NodeClaim>>, node: Option<Arc<Node>>, pods: Vec<Arc<Pod>>) -> Self {
        let mut this = Self {
            claim,
            node,
            pods: Vec::new(),
            nominations: Vec::new(),
            marked_for_deletion: false,
            buffered: 0,
            volume_limits: Vec::new(),
            attached: Vec::new(),
            at_most: None,
            requested: Resources::new(),
            requested_by_daemons: Resources::new(),
        };
        this.set_pods(pods);
        this
    }

    /// Replaces the pods.
    pub fn set_pods(&mut self, mut pods: Vec<Arc<Pod>>) {
        pods.retain(|pod| !pod.is_terminal());
        pods.sort_by(|a, b| a.id.cmp(&b.id));
        (self.requested, self.requested_by_daemons) = (Resources::new(), Resources::new());
        for pod in &pods {
            self.requested.add_assign(pod.requests());
            // Only these are part of the daemon overhead that is expected of a node.
            if pod.owned_by("DaemonSet") {
                self.requested_by_daemons.add_assign(pod.requests());
            }
        }
        self.pods = pods;
    }

    /// Whether Fleetwright looks after it.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    /// When it was created: its NodeClaim, or the Node of one that is not managed.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        let of_claim = self.claim.as_ref().map(|claim| claim.created);
        of_claim.or_else(|| self.node.as_ref().map(|node| node.created))
    }

    /// Whether its Node carries the registered label. Unmanaged nodes count as registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        !self.is_managed() || self.node_label(labels::REGISTERED) == Some("true")
    }

    /// Whether its Node carries the initialized label. Unmanaged nodes count as initialized.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        !self.is_managed() || self.node_label(labels::INITIALIZED) == Some("true")
    }

    fn node_label(&self, key: &str) -> Option<&str> {
        self.node.as_ref()?.labels.get(key).map(|value| &**value)
    }

    /// The Node, once its labels and taints are to be believed (registered).
    fn registered_node(&self) -> Option<&Node> {
        self.node.as_deref().filter(|_| self.is_registered())
    }

    /// Name for messages and for ordering: the Node's once registered, before that the NodeClaim's.
    #[must_use]
    pub fn name(&self) -> &str {
        match (self.registered_node(), &self.claim, &self.node) {
            (Some(node), _, _) => &node.name,
            (None, Some(claim), _) => &claim.name,
            (None, None, Some(node)) => &node.name,
            (None, None, None) => "",
        }
    }

    /// Value of `kubernetes.io/hostname` or, without the label, its name.
    #[must_use]
    pub fn hostname(&self) -> &str {
        self.labels().get(labels::HOSTNAME).map_or_else(|| self.name(), |value| &**value)
    }

    /// The NodeClaim's name.
    #[must_use]
    pub fn claim_name(&self) -> Option<&ClaimName> {
        self.claim.as_ref().map(|claim| &claim.name)
    }

    /// The Node's name, if it has joined.
    #[must_use]
    pub fn node_name(&self) -> Option<&NodeName> {
        self.node.as_ref().map(|node| &node.name)
    }

    /// The NodePool that it belongs to.
    #[must_use]
    pub fn pool(&self) -> Option<PoolName> {
        self.labels().get(labels::NODEPOOL).map(|name| PoolName::from(name.clone()))
    }

    /// Labels: the claim's until the Node is registered.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        static NONE: Labels = Labels::new();
        match (self.registered_node(), &self.claim, &self.node) {
            (Some(node), _, _) => &node.labels,
            (None, Some(claim), _) => &claim.labels,
            (None, None, Some(node)) => &node.labels,
            (None, None, None) => &NONE,
        }
    }

    /// The requirements of the node: its labels and, until it is launched, the requirements of its NodeClaim, so that
    /// an open choice (zone, instance type) stays a set of values.
    #[must_use]
    pub fn requirements(&self) -> Requirements {
        let mut known = Requirements::from_labels(self.labels());
        if let (Some(claim), false) = (&self.claim, self.is_launched()) {
            known.add_all(&claim.requirements);
        }
        known
    }

    /// Whether the instance exists, as far as is known. Unmanaged nodes do.
    #[must_use]
    pub fn is_launched(&self) -> bool {
        self.claim.as_ref().is_none_or(|claim| claim.provider_id.is_some())
    }

    /// A label's value.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(|value| &**value)
    }

    /// Annotations, of the same source as the labels.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = match (self.registered_node(), &self.claim) {
            (Some(node), _) => &node.annotations,
            (None, claim) => &claim.as_ref()?.annotations,
        };
        annotations.get(key).map(|value| &**value)
    }

    /// Taints that count for scheduling: the claim's until the Node is registered; before initialization without
    /// ephemeral and startup taints, which their owners remove.
    #[must_use]
    pub fn taints(&self) -> Vec<Taint> {
        let (own, claim): (&[Taint], _) = match (self.registered_node(), &self.claim) {
            (Some(node), claim) => (&node.taints, claim.as_deref()),
            (None, Some(claim)) => (&claim.taints, Some(&**claim)),
            (None, None) => (&[], None),
        };
        if self.is_initialized() {
            return own.to_vec();
        }
        let startup: &[Taint] = claim.map_or(&[], |claim| &claim.startup_taints);
        let passing =
            |taint: &&Taint| !taint.is_ephemeral() && !startup.iter().any(|known| known.matches(taint));
        own.iter().filter(passing).cloned().collect()
    }

    /// What the node has; before initialization, what the Node does not show yet is taken from the claim.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        self.reported(|node| &node.capacity, |claim| &claim.capacity)
    }

    /// The resources that count against a limit: its capacity or, before the launch, the largest possible one.
    #[must_use]
    pub fn charge(&self) -> Resources {
        self.at_most.clone().unwrap_or_else(|| self.capacity())
    }

    /// What pods can have, of the same sources as [`Self::capacity`].
    #[must_use]
    pub fn allocatable(&self) -> Resources {
        self.reported(|node| &node.allocatable, |claim| &claim.allocatable)
    }

    fn reported(
        &self,
        of_node: fn(&Node) -> &Resources,
        of_claim: fn(&NodeClaim) -> &Resources,
    ) -> Resources {
        match (&self.node, &self.claim) {
            (Some(node), _) if self.is_initialized() => of_node(node).clone(),
            (None, None) => Resources::new(),
            (Some(node), None) => of_node(node).clone(),
            (None, Some(claim)) => of_claim(claim).clone(),
            (Some(node), Some(claim)) => {
                let mut shown = of_node(node).clone();
                for (name, promised) in of_claim(claim).iter() {
                    if shown.get(&name) == 0 {
                        shown.set(&name, promised);
                    }
                }
                shown
            }
        }
    }

    /// What is left for further pods; may be negative on an overcommitted node.
    #[must_use]
    pub fn available(&self) -> Resources {
        self.allocatable().minus(&self.requested)
    }

    /// Whether it is going away: taken by a command, deleted, or its instance is being ended.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.marked_for_deletion
            || match (&self.claim, &self.node) {
                (Some(claim), _) => claim.deleting.is_some() || claim.is(ConditionType::InstanceTerminating),
                (None, Some(node)) => node.deleting.is_some(),
                (None, None) => false,
            }
    }

    /// The nomination that lasts longest after `now`.
    #[must_use]
    pub fn nominated(&self, now: Timestamp) -> Option<&Nomination> {
        self.nominations
            .iter()
            .filter(|nomination| nomination.until > now)
            .max_by_key(|nomination| nomination.until)
    }
}
