//! Devices, slices, classes and claims of Dynamic Resource Allocation.

use std::sync::Arc;

use super::ClusterBuilder;
use crate::model::{
    Device, DeviceTemplates, NamespacedName, PodClaim, PodUid, Quantity, Requirement, ResourceClaim,
    ResourceSlice, Selector,
    device::{
        Attribute, CounterSet, CounterUse, DeviceCapacity, DeviceTaint, NodeTerm, Nodes, SliceTemplate,
    },
    labels::ZONE,
    resource_claim::{
        Allocation, ClaimSource, ClaimSpec, DeviceClass, DeviceConstraint, DeviceCount, DeviceRequest,
        GivenDevice, RequestOption,
    },
};

/// The driver of test devices.
pub const DRIVER: &str = "gpu.example.com";

/// A device under construction.
#[derive(Clone, Debug, Default)]
pub struct DeviceBuilder(Device);

/// A device without anything.
#[must_use]
pub fn device(name: &str) -> DeviceBuilder {
    DeviceBuilder(Device { name: name.into(), ..Device::default() })
}

/// A quantity; zero where the text is none.
fn amount(text: &str) -> Quantity {
    text.parse().unwrap_or_default()
}

impl DeviceBuilder {
    /// Changes the device.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Device)) -> Self {
        change(&mut self.0);
        self
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attribute(self, name: &str, value: &str) -> Self {
        self.with(|device| {
            device.attributes.insert(name.into(), Attribute::String(value.into()));
        })
    }

    /// Sets a capacity.
    #[must_use]
    pub fn capacity(self, name: &str, value: &str) -> Self {
        let value = DeviceCapacity { value: amount(value), policy: None };
        self.with(|device| {
            device.capacity.insert(name.into(), value);
        })
    }

    /// Lets several claims have it.
    #[must_use]
    pub fn shared(self) -> Self {
        self.with(|device| device.shared = true)
    }

    /// Lets it take of a counter.
    #[must_use]
    pub fn uses(self, set: &str, counter: &str, value: &str) -> Self {
        let counters = [(counter.into(), amount(value))].into();
        self.with(|device| device.consumes.push(CounterUse { set: set.into(), counters }))
    }

    /// Adds a NoSchedule taint.
    #[must_use]
    pub fn taint(self, key: &str) -> Self {
        let (key, effect) = (key.into(), "NoSchedule".into());
        self.with(|device| device.taints.push(DeviceTaint { key, value: "".into(), repels: true, effect }))
    }

    /// Says which nodes can use it.
    #[must_use]
    pub fn on(self, nodes: Nodes) -> Self {
        self.with(|device| device.nodes = Some(nodes))
    }

    /// The device.
    #[must_use]
    pub fn build(self) -> Arc<Device> {
        Arc::new(self.0)
    }
}

/// Nodes of a zone.
#[must_use]
pub fn in_zone(zone: &str) -> Nodes {
    let labels = vec![Requirement::is_in(ZONE, [zone])];
    Nodes::Selected(vec![NodeTerm { labels, names: Vec::new() }])
}

/// The whole of a pool of [`DRIVER`].
#[must_use]
pub fn slice(pool: &str, nodes: Nodes, devices: &[DeviceBuilder]) -> ResourceSlice {
    ResourceSlice {
        name: format!("slice-{pool}").into(),
        driver: DRIVER.into(),
        pool: pool.into(),
        generation: 1,
        slices: 1,
        nodes,
        owner: None,
        devices: devices.iter().map(|device| device.clone().build()).collect(),
        counters: Vec::new(),
    }
}

/// One counter set with one counter.
#[must_use]
pub fn counters(set: &str, counter: &str, value: &str) -> CounterSet {
    CounterSet { name: set.into(), counters: [(counter.into(), amount(value))].into() }
}

/// What nodes of an instance type will have of [`DRIVER`].
#[must_use]
pub fn templates(devices: &[DeviceBuilder]) -> DeviceTemplates {
    let slice = SliceTemplate {
        driver: DRIVER.into(),
        pool: "node".into(),
        devices: devices.iter().map(|device| device.clone().build()).collect(),
        counters: Vec::new(),
    };
    DeviceTemplates { slices: vec![slice], bindings: Vec::new() }
}

/// A selector of devices with an attribute.
#[must_use]
pub fn having(attribute: &str, value: &str) -> Selector {
    let (name, wanted) = (attribute.to_owned(), Attribute::String(value.into()));
    let has = move |driver: &str, device: &Device| device.attribute(driver, &name) == Some(&wanted);
    Selector { expression: format!("{attribute}={value}").into(), predicate: Ok(Arc::new(has)) }
}

/// A request for a number of devices of class `gpu`.
#[must_use]
pub fn option(count: u32) -> RequestOption {
    RequestOption { class: "gpu".into(), count: DeviceCount::Exactly(count), ..RequestOption::default() }
}

/// An exact request.
#[must_use]
pub fn exactly(name: &str, option: RequestOption) -> DeviceRequest {
    DeviceRequest { name: name.into(), options: vec![option] }
}

/// A claim of some requests.
#[must_use]
pub fn claim_spec(requests: &[DeviceRequest]) -> ClaimSpec {
    ClaimSpec { requests: requests.to_vec(), constraints: Vec::new() }
}

/// Demands the same value of an attribute of all devices.
#[must_use]
pub fn matching(mut spec: ClaimSpec, attribute: &str) -> ClaimSpec {
    spec.constraints.push(DeviceConstraint::Match { attribute: attribute.into(), requests: Vec::new() });
    spec
}

/// A pod's reference to a ResourceClaim.
#[must_use]
pub fn uses_claim(claim: &str) -> PodClaim {
    PodClaim { name: claim.into(), source: ClaimSource::Claim(claim.into()) }
}

/// A pod's reference to a ResourceClaimTemplate.
#[must_use]
pub fn uses_template(template: &str) -> PodClaim {
    PodClaim { name: template.into(), source: ClaimSource::Template(template.into()) }
}

impl ClusterBuilder {
    /// Adds the DeviceClass `gpu`, which has all devices of [`DRIVER`].
    #[must_use]
    pub fn gpu_class(self) -> Self {
        let is = |driver: &str, _: &Device| driver == DRIVER;
        let selector = Selector { expression: "gpu".into(), predicate: Ok(Arc::new(is)) };
        self.device_class("gpu", vec![selector])
    }

    /// Adds a DeviceClass.
    #[must_use]
    pub fn device_class(mut self, name: &str, selectors: Vec<Selector>) -> Self {
        let class = DeviceClass { name: name.into(), selectors };
        self.devices_mut().classes.insert(name.into(), Arc::new(class));
        self
    }

    /// Adds a ResourceSlice.
    #[must_use]
    pub fn resource_slice(mut self, slice: ResourceSlice) -> Self {
        self.devices_mut().slices.insert(slice.name.clone(), Arc::new(slice));
        self
    }

    /// Adds a ResourceClaim of namespace `default` without an allocation.
    #[must_use]
    pub fn resource_claim(self, name: &str, spec: ClaimSpec) -> Self {
        self.claim(name, spec, None, &[])
    }

    /// Adds a ResourceClaim that has devices of [`DRIVER`], as pool and name, reserved for pods by their UIDs.
    #[must_use]
    pub fn allocated_claim(self, name: &str, given: &[(&str, &str)], nodes: Nodes, pods: &[&str]) -> Self {
        let id = |pool: &str, device: &str| crate::model::DeviceId {
            driver: DRIVER.into(),
            pool: pool.into(),
            device: device.into(),
        };
        let given =
            given.iter().map(|(pool, device)| GivenDevice { id: id(pool, device), ..GivenDevice::default() });
        let allocation = Allocation { devices: given.collect(), nodes };
        self.claim(name, claim_spec(&[exactly("gpu", option(1))]), Some(allocation), pods)
    }

    fn claim(mut self, name: &str, spec: ClaimSpec, allocation: Option<Allocation>, pods: &[&str]) -> Self {
        let id = NamespacedName::new("default", name);
        let reserved_for = pods.iter().map(|pod| PodUid::from(super::uid_of("default", pod))).collect();
        let spec = Arc::new(spec);
        let claim = ResourceClaim { id: id.clone(), spec, allocation, reserved_for, deleting: false };
        self.devices_mut().claims.insert(id, Arc::new(claim));
        self
    }

    /// Adds a ResourceClaimTemplate of namespace `default`.
    #[must_use]
    pub fn claim_template(mut self, name: &str, spec: ClaimSpec) -> Self {
        let id = NamespacedName::new("default", name);
        self.devices_mut().templates.insert(id, Arc::new(spec));
        self
    }
}
