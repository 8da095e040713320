//! Claims of devices (Dynamic Resource Allocation): the requests of a pod, and their allocation.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    device::{Device, DeviceId, DeviceToleration, Nodes, ResourceSlice},
    ids::{NamespacedName, PodUid, Str},
    quantity::Quantity,
};

/// A claim in a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodClaim {
    /// Its name within the pod.
    pub name: Str,
    /// Its source.
    pub source: ClaimSource,
}

/// The source of a pod's claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimSource {
    /// A ResourceClaim, shared by all pods that name it.
    Claim(Str),
    /// A ResourceClaimTemplate, of which each pod gets a claim of its own.
    Template(Str),
}

/// A claim that the cluster has made for a pod (`status.resourceClaimStatuses`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GeneratedClaim {
    /// The claim's name within the pod.
    pub name: Str,
    /// The ResourceClaim; `None` if the pod needs none.
    pub claim: Option<Str>,
}

/// A ResourceClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceClaim {
    /// Namespace and name.
    pub id: NamespacedName,
    /// What is asked for.
    pub spec: Arc<ClaimSpec>,
    /// What it was given.
    pub allocation: Option<Allocation>,
    /// The pods that may use it.
    pub reserved_for: Vec<PodUid>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What a claim was given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// The devices.
    pub devices: Vec<GivenDevice>,
    /// Which nodes can use them.
    pub nodes: Nodes,
}

/// A device of an allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenDevice {
    /// The device.
    pub id: DeviceId,
    /// Whether it was given for administration: others may have it too.
    pub admin: bool,
    /// What is taken of a shared device.
    pub consumed: BTreeMap<Str, Quantity>,
    /// Whether the device is shared with others.
    pub shared: bool,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimSpec {
    /// All of these.
    pub requests: Vec<DeviceRequest>,
    /// What must hold between the devices.
    pub constraints: Vec<DeviceConstraint>,
}

/// A request of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRequest {
    /// Its name.
    pub name: Str,
    /// The alternatives; the first one that can be allocated is used. A request without alternatives has one, without a name.
    pub options: Vec<RequestOption>,
}

/// One way to satisfy a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOption {
    /// The name of the subrequest; empty for a request without alternatives.
    pub name: Str,
    /// The DeviceClass.
    pub class: Str,
    /// Selectors of devices, besides those of the class.
    pub selectors: Vec<Selector>,
    /// How many devices.
    pub count: DeviceCount,
    /// Whether devices are requested for administrative access, regardless of their allocations.
    pub admin: bool,
    /// Capacity that each device must have, and that is consumed of a shared one.
    pub capacity: BTreeMap<Str, Quantity>,
    /// Tolerated taints.
    pub tolerations: Vec<DeviceToleration>,
}

/// How many devices are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCount {
    /// This many.
    Exactly(u32),
    /// All that match, at least one.
    All,
}

impl Default for DeviceCount {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

/// What must hold between devices of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceConstraint {
    /// All have the same value of an attribute.
    Match {
        /// The attribute, with its domain.
        attribute: Str,
        /// Names of requests, or `request/subrequest`; none is all.
        requests: Vec<Str>,
    },
    /// Something else, named as the field is.
    Unsupported(Str),
}

/// A DeviceClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceClass {
    /// The name.
    pub name: Str,
    /// What its devices are: all of these.
    pub selectors: Vec<Selector>,
}

/// A selector of devices: an expression, compiled once.
#[derive(Clone)]
pub struct Selector {
    /// The expression as written. Equal texts are equal selectors.
    pub expression: Str,
    /// What it compiles to, or why it does not.
    pub predicate: Result<Arc<dyn DevicePredicate>, Str>,
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({:?})", &*self.expression)
    }
}

/// A compiled condition on devices. Pure: the same device gets the same answer.
pub trait DevicePredicate: Send + Sync {
    /// Whether a device of a driver is meant.
    ///
    /// # Errors
    /// If the expression cannot be evaluated for that device; the device is then not selected.
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, Str>;
}

/// A function is a predicate that cannot fail.
impl<F: Fn(&str, &Device) -> bool + Send + Sync> DevicePredicate for F {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, Str> {
        Ok(self(driver, device))
    }
}

/// All that the cluster has for Dynamic Resource Allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// ResourceClaims.
    pub claims: BTreeMap<NamespacedName, Arc<ResourceClaim>>,
    /// What the claims of ResourceClaimTemplates ask for.
    pub templates: BTreeMap<NamespacedName, Arc<ClaimSpec>>,
    /// DeviceClasses by name.
    pub classes: BTreeMap<Str, Arc<DeviceClass>>,
    /// ResourceSlices by name.
    pub slices: BTreeMap<Str, Arc<ResourceSlice>>,
    /// Why the API server refuses some of these kinds. Without all of them a claim cannot be decided: devices that exist would
    /// be taken for missing.
    pub refused: Option<Str>,
}
