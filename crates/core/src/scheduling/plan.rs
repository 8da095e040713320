//! The result of scheduling.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{
    model::{
        DeviceId, InstanceType, Labels, NamespacedName, NodePool, Objective, Pod, PodUid, Price, Prices,
        Requirements, Resources, StateNode, Str, Taint,
    },
    scheduling::{obstacle::NodeObstacles, reason::Unplaced},
};

/// A decision, complete: carrying it out leaves no choices but the name of each claim.
#[derive(Clone, Debug, Default)]
#[must_use = "a plan that nobody carries out or reports is lost"]
pub struct Plan {
    /// NodeClaims to create, in a fixed order.
    pub new_claims: Vec<NewClaim>,
    /// Pods on existing and in-flight nodes, by node.
    pub existing: Vec<Placement>,
    /// Unschedulable pods, each with its reason, by namespace and name.
    pub unplaced: Vec<(Arc<Pod>, Unplaced)>,
    /// Obstacles on existing nodes of pods that no NodePool fits; equal pods share them. Not for simulations.
    pub nodes: HashMap<PodUid, Arc<NodeObstacles>>,
    /// The price of the new NodeClaims.
    pub cost: Cost,
    /// Whether a bound on the work cut the search short; the pods that were not reached say so in `unplaced`.
    pub partial: bool,
}

/// A NodeClaim to create.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// Its pool.
    pub pool: Arc<NodePool>,
    /// The requirements of pool, pods and topology together, with the remaining instance types.
    pub requirements: Requirements,
    /// Instance types that can hold the pods, cheapest first, as many as a claim may name. Shared: claims of one kind have
    /// one list, of hundreds.
    pub instance_types: Arc<[Arc<InstanceType>]>,
    /// The expected offering: the available one of the lowest effective price.
    pub chosen: Chosen,
    /// What the plan minimizes.
    pub objective: Objective,
    /// Sum of its pods' and daemons' requests.
    pub requests: Resources,
    /// Its pods.
    pub pods: Vec<Arc<Pod>>,
    /// Labels of the node: the pool's, and custom keys that the pods fix.
    pub labels: Labels,
    /// Annotations that scheduling adds (minValues relaxed, overlays applied).
    pub annotations: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Startup taints.
    pub startup_taints: Vec<Taint>,
    /// Devices for the resource claims of its pods, by what it may become.
    pub claims: Vec<PlannedClaim>,
}

/// An offering that a claim is expected to become.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Instance type.
    pub instance_type: Str,
    /// Zone.
    pub zone: Str,
    /// Capacity type.
    pub capacity_type: Str,
    /// List price per hour.
    pub price: Price,
    /// What it counts as in decisions, per hour ([`Objective`]).
    pub effective: Price,
}

impl Chosen {
    /// Both prices.
    #[must_use]
    pub fn prices(&self) -> Prices {
        Prices { list: self.price, effective: self.effective }
    }
}

/// Pods on an existing or in-flight node.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The node, of the snapshot that was planned on.
    pub node: Arc<StateNode>,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// Devices for the resource claims of these pods that have none yet.
    pub claims: Vec<PlannedClaim>,
}

/// Devices that a resource claim is expected to get. kube-scheduler chooses for itself; that it can is what counts.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedClaim {
    /// The claim. One that is not made from its template yet is called by its pod's name and its own.
    pub claim: NamespacedName,
    /// On what instance types of a new NodeClaim.
    pub instance_types: Vec<Str>,
    /// The devices.
    pub devices: Vec<PlannedDevice>,
}

/// A device of a planned allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedDevice {
    /// `request` or `request/subrequest`.
    pub request: Str,
    /// The device.
    pub id: DeviceId,
    /// Whether it comes with the node, and is called so in the instance type's template.
    pub template: bool,
}

/// The price of a plan's new NodeClaims per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// List prices of the new NodeClaims' chosen offerings in sum.
    pub hourly: Price,
    /// Their effective prices in sum, which is what plans minimize.
    pub effective: Price,
    /// No plan for these pods can have a lower effective price.
    pub lower_bound: Price,
}
