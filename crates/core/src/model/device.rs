//! Devices of Dynamic Resource Allocation: what drivers publish in ResourceSlices, and what an instance type will have.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{Quantity, ids::Str, requirement::Requirement};

/// A device as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Device {
    /// Unique within its pool.
    pub name: Str,
    /// Attributes by name as published: `domain/name`, or `name` in the driver's own domain.
    pub attributes: BTreeMap<Str, Attribute>,
    /// Capacities by name as published.
    pub capacity: BTreeMap<Str, DeviceCapacity>,
    /// What it takes from counters that devices of its pool share.
    pub consumes: Vec<CounterUse>,
    /// Whether it can be given to several claims (`allowMultipleAllocations`), as long as its capacity lasts.
    pub shared: bool,
    /// Taints: only requests that tolerate those with NoSchedule or NoExecute may have it.
    pub taints: Vec<DeviceTaint>,
    /// Whether a claim that has it stays on the node that it was allocated for (`bindsToNode`).
    pub binds_to_node: bool,
    /// The nodes that can use it, if its slice defines that per device.
    pub nodes: Option<Nodes>,
}

impl Device {
    /// A device of which only the name is known.
    #[must_use]
    pub fn new(name: impl Into<Str>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text.
    String(Str),
    /// A semantic version.
    Version(Str),
}

/// One capacity of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceCapacity {
    /// How much there is.
    pub value: Quantity,
    /// How a claim may use a part of a shared device.
    pub policy: Option<RequestPolicy>,
}

/// How parts of a capacity are requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestPolicy {
    /// The amount for a claim that requests none.
    pub default: Option<Quantity>,
    /// Amounts that may be taken.
    pub allowed: Option<AllowedAmounts>,
}

/// Amounts that may be taken of a capacity. What is asked for is rounded up to the next of them.
#[derive(Clone, Debug, PartialEq)]
pub enum AllowedAmounts {
    /// These, ascending.
    Values(Vec<Quantity>),
    /// A range, in steps from its start.
    Range {
        /// The least.
        min: Quantity,
        /// The most; without it, all that there is.
        max: Option<Quantity>,
        /// The step.
        step: Option<Quantity>,
    },
}

/// What a device takes from one counter set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterUse {
    /// The set's name.
    pub set: Str,
    /// Amounts by counter.
    pub counters: BTreeMap<Str, Quantity>,
}

/// Counters that devices of a pool share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSet {
    /// Unique within the pool.
    pub name: Str,
    /// Amounts by counter.
    pub counters: BTreeMap<Str, Quantity>,
}

/// A taint of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTaint {
    /// Key.
    pub key: Str,
    /// Value; may be empty.
    pub value: Str,
    /// Whether it excludes claims (NoSchedule, NoExecute); otherwise it is informational.
    pub repels: bool,
    /// The effect as written.
    pub effect: Str,
}

impl DeviceTaint {
    /// Whether a toleration tolerates it. Effects of tolerations of devices are compared as text.
    #[must_use]
    pub fn is_tolerated_by(&self, toleration: &DeviceToleration) -> bool {
        let DeviceToleration { key, value, exists, effect } = toleration;
        (effect.is_empty() || *effect == self.effect)
            && (if key.is_empty() { *exists } else { *key == self.key })
            && (*exists || *value == self.value)
    }
}

/// A toleration of taints of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceToleration {
    /// Key; empty with `exists` tolerates every key.
    pub key: Str,
    /// Value, where not `exists`.
    pub value: Str,
    /// Whether any value is tolerated.
    pub exists: bool,
    /// The effect; empty is all.
    pub effect: Str,
}

/// Which nodes can use a device or an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nodes {
    /// Every node.
    All,
    /// The node called so.
    Named(Str),
    /// Nodes that one of these terms selects.
    Selected(Vec<NodeTerm>),
    /// No node.
    #[default]
    None,
}

/// A term of a node selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// What the labels must be.
    pub labels: Vec<Requirement>,
    /// What `metadata.name` must be (`matchFields`).
    pub names: Vec<Requirement>,
}

/// A ResourceSlice: devices that a driver publishes.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub struct ResourceSlice {
    /// `metadata.name`.
    pub name: Str,
    /// The driver.
    pub driver: Str,
    /// The pool's name, unique for the driver.
    pub pool: Str,
    /// Only slices of the highest generation count.
    pub generation: i64,
    /// How many slices the pool has in all.
    pub slices: i64,
    /// Which nodes can use its devices, unless each device has its own selection.
    pub nodes: Nodes,
    /// The Node that owns it: a part of what the driver publishes for this node, whatever `nodes` is.
    pub owner: Option<Str>,
    /// The devices, in the driver's order.
    pub devices: Vec<Arc<Device>>,
    /// Counters that devices of the pool share.
    pub counters: Vec<CounterSet>,
}

/// The devices that nodes of an instance type will have once their drivers run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DeviceTemplates {
    /// What drivers will publish for the node alone.
    pub slices: Vec<SliceTemplate>,
    /// Attributes that devices will share, whose values are not known yet.
    pub bindings: Vec<AttributeBinding>,
}

impl DeviceTemplates {
    /// The devices of these slices, which share no attribute beyond those that they name.
    #[must_use]
    pub fn new(slices: Vec<SliceTemplate>) -> Self {
        Self { slices, ..Self::default() }
    }

    /// The same devices with attributes that some of them share.
    #[must_use]
    pub fn with_bindings(self, bindings: Vec<AttributeBinding>) -> Self {
        Self { bindings, ..self }
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }
}

/// What a driver will publish for a node.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SliceTemplate {
    /// The driver.
    pub driver: Str,
    /// The pool's name. Real pools are called otherwise, mostly after the node.
    pub pool: Str,
    /// The devices.
    pub devices: Vec<Arc<Device>>,
    /// Counters that devices of the pool share.
    pub counters: Vec<CounterSet>,
}

impl SliceTemplate {
    /// Devices that share no counters.
    #[must_use]
    pub fn new(driver: impl Into<Str>, pool: impl Into<Str>, devices: Vec<Arc<Device>>) -> Self {
        Self { driver: driver.into(), pool: pool.into(), devices, counters: Vec::new() }
    }

    /// The same with counters that its devices share.
    #[must_use]
    pub fn with_counters(self, counters: Vec<CounterSet>) -> Self {
        Self { counters, ..self }
    }
}

/// Devices that will share the value of an attribute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttributeBinding {
    /// The attribute, with its domain.
    pub attribute: Str,
    /// The devices.
    pub devices: Vec<DeviceId>,
}

/// Names a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The driver.
    pub driver: Str,
    /// The pool.
    pub pool: Str,
    /// The device.
    pub device: Str,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl Device {
    /// An attribute by its full name; those without a domain are in the driver's.
    #[must_use]
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&Attribute> {
        let own = || {
            let (domain, id) = name.split_once('/')?;
            if domain == driver { self.attributes.get(id) } else { None }
        };
        self.attributes.get(name).or_else(own)
    }

    /// Whether all taints that keep claims away are tolerated.
    #[must_use]
    pub fn is_tolerated(&self, tolerations: &[DeviceToleration]) -> bool {
        let repelling = self.taints.iter().filter(|taint| taint.repels);
        repelling.into_iter().all(|taint| tolerations.iter().any(|one| taint.is_tolerated_by(one)))
    }
}
