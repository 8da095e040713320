//! ResourceSlices, DeviceClasses, ResourceClaims and their templates; devices of instance types.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use fleetwright_core::model::{
    Device, DeviceId, LabelSchema, NamespacedName, Quantity, Selector, Str,
    device::{
        self, AllowedAmounts, Attribute, CounterUse, DeviceCapacity, DeviceTaint, DeviceToleration, NodeTerm,
        Nodes, RequestPolicy,
    },
    resource_claim::{
        self, Allocation, ClaimSpec, DeviceConstraint, DeviceCount, DeviceRequest, GivenDevice, RequestOption,
    },
};
use k8s_openapi::{
    api::{core::v1::NodeSelector, resource::v1 as k8s},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use super::{Invalid, affinity, cel, filled, quantity, text};

/// The number of cached expressions that triggers the removal of unused ones.
const MAX_SELECTORS: usize = 1_000;

/// Compiled expressions, each once.
#[derive(Debug, Default)]
pub struct Selectors {
    known: BTreeMap<Str, Compiled>,
    sweep_at: usize,
}

/// Alive as long as a selector holds it; a refusal is kept, it is small.
#[derive(Debug)]
enum Compiled {
    Program(Weak<cel::Predicate>),
    Refused(Str),
}

impl Selectors {
    /// The selector of an expression.
    pub fn compile(&mut self, expression: &str) -> Selector {
        let name = text(expression);
        match self.known.get(&name) {
            Some(Compiled::Refused(why)) => {
                return Selector { expression: name, predicate: Err(why.clone()) };
            }
            Some(Compiled::Program(program)) => {
                if let Some(program) = program.upgrade() {
                    return Selector { expression: name, predicate: Ok(program) };
                }
            }
            None => {}
        }
        if self.known.len() >= self.sweep_at.max(MAX_SELECTORS) {
            self.known.retain(|_, known| matches!(known, Compiled::Program(held) if held.strong_count() > 0));
            self.sweep_at = self.known.len() * 2;
        }
        match cel::Predicate::compile(expression) {
            Ok(program) => {
                let program = Arc::new(program);
                self.known.insert(name.clone(), Compiled::Program(Arc::downgrade(&program)));
                Selector { expression: name, predicate: Ok(program) }
            }
            Err(refusal) => {
                let why = text(&refusal.to_string());
                self.known.insert(name.clone(), Compiled::Refused(why.clone()));
                Selector { expression: name, predicate: Err(why) }
            }
        }
    }

    fn all(&mut self, list: Option<&Vec<k8s::DeviceSelector>>) -> Vec<Selector> {
        let each = list.into_iter().flatten().map(|selector| match &selector.cel {
            Some(cel) => self.compile(&cel.expression),
            None => Selector { expression: "".into(), predicate: Err("it has no CEL expression".into()) },
        });
        each.collect()
    }
}

/// A DeviceClass.
#[must_use]
pub fn class(class: &k8s::DeviceClass, selectors: &mut Selectors) -> resource_claim::DeviceClass {
    resource_claim::DeviceClass {
        name: text(class.metadata.name.as_deref().unwrap_or_default()),
        selectors: selectors.all(class.spec.selectors.as_ref()),
    }
}

/// A ResourceSlice.
///
/// # Errors
/// If a quantity or a node selector is invalid.
pub fn slice(slice: &k8s::ResourceSlice, schema: &LabelSchema) -> Result<device::ResourceSlice, Invalid> {
    let spec = &slice.spec;
    let devices = spec.devices.iter().flatten().map(|one| {
        let mut lowered = device(one, "spec.devices")?;
        if spec.per_device_node_selection == Some(true) {
            let (name, selector) = (one.node_name.as_ref(), one.node_selector.as_ref());
            lowered.nodes = Some(nodes(name, selector, one.all_nodes, schema)?);
        }
        Ok(Arc::new(lowered))
    });
    let mut owners = slice.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "Node" && owner.api_version == "v1");
    Ok(device::ResourceSlice {
        owner: owner.map(|owner| text(&owner.name)),
        name: text(slice.metadata.name.as_deref().unwrap_or_default()),
        driver: text(&spec.driver),
        pool: text(&spec.pool.name),
        generation: spec.pool.generation,
        slices: spec.pool.resource_slice_count,
        nodes: nodes(spec.node_name.as_ref(), spec.node_selector.as_ref(), spec.all_nodes, schema)?,
        devices: devices.collect::<Result<_, Invalid>>()?,
        counters: counters(spec.shared_counters.as_ref(), "spec.sharedCounters")?,
    })
}

/// What drivers will publish on nodes of an instance type: slices as they stand in ResourceSlices, nodes aside.
///
/// # Errors
/// If a quantity is invalid.
pub fn template(slice: &k8s::ResourceSliceSpec) -> Result<device::SliceTemplate, Invalid> {
    let devices = slice.devices.iter().flatten().map(|one| Ok(Arc::new(device(one, "devices")?)));
    let devices = devices.collect::<Result<_, Invalid>>()?;
    let template = device::SliceTemplate::new(text(&slice.driver), text(&slice.pool.name), devices);
    Ok(template.with_counters(counters(slice.shared_counters.as_ref(), "sharedCounters")?))
}

fn nodes(
    name: Option<&String>,
    selector: Option<&NodeSelector>,
    all: Option<bool>,
    schema: &LabelSchema,
) -> Result<Nodes, Invalid> {
    match (filled(name), selector) {
        (Some(name), _) => Ok(Nodes::Named(name)),
        (None, Some(selector)) => selected(selector, schema),
        (None, None) if all == Some(true) => Ok(Nodes::All),
        (None, None) => Ok(Nodes::None),
    }
}

fn selected(selector: &NodeSelector, schema: &LabelSchema) -> Result<Nodes, Invalid> {
    let terms = selector.node_selector_terms.iter().map(|term| {
        let (mut labels, mut names) = (term.clone(), term.clone());
        (labels.match_fields, names.match_expressions) = (None, None);
        Ok(NodeTerm {
            labels: affinity::node_term(&labels, schema, "nodeSelector")?,
            names: affinity::node_term(&names, schema, "nodeSelector")?,
        })
    });
    Ok(Nodes::Selected(terms.collect::<Result<_, Invalid>>()?))
}

fn device(device: &k8s::Device, field: &str) -> Result<Device, Invalid> {
    let field = format!("{field}[{}]", device.name);
    let attributes = device.attributes.iter().flatten();
    let attributes = attributes.filter_map(|(name, value)| Some((text(name), attribute(value)?)));
    let mut capacity = BTreeMap::new();
    for (name, has) in device.capacity.iter().flatten() {
        let field = format!("{field}.capacity[{name}]");
        let policy = has.request_policy.as_ref().map(|policy| self::policy(policy, &field)).transpose()?;
        let value = quantity(&field, &has.value)?;
        capacity.insert(text(name), DeviceCapacity { value, policy });
    }
    let mut consumes = Vec::new();
    for used in device.consumes_counters.iter().flatten() {
        let amounts = used.counters.iter().map(|(name, counter)| (name, &counter.value));
        let counters = amounts_of(amounts, &format!("{field}.consumesCounters"))?;
        consumes.push(CounterUse { set: text(&used.counter_set), counters });
    }
    let mut lowered = Device::new(text(&device.name));
    lowered.attributes = attributes.collect();
    lowered.capacity = capacity;
    lowered.consumes = consumes;
    lowered.shared = device.allow_multiple_allocations == Some(true);
    lowered.taints = device.taints.iter().flatten().map(taint).collect();
    lowered.binds_to_node = device.binds_to_node == Some(true);
    Ok(lowered)
}

fn attribute(value: &k8s::DeviceAttribute) -> Option<Attribute> {
    let k8s::DeviceAttribute { bool, int, string, version } = value;
    int.map(Attribute::Int)
        .or_else(|| bool.map(Attribute::Bool))
        .or_else(|| string.as_deref().map(|value| Attribute::String(text(value))))
        .or_else(|| version.as_deref().map(|value| Attribute::Version(text(value))))
}

fn policy(policy: &k8s::CapacityRequestPolicy, field: &str) -> Result<RequestPolicy, Invalid> {
    let amount = |value: &Text| quantity(field, value);
    let allowed = match (&policy.valid_values, &policy.valid_range) {
        (Some(values), _) if !values.is_empty() => {
            let mut values = values.iter().map(amount).collect::<Result<Vec<Quantity>, Invalid>>()?;
            values.sort();
            Some(AllowedAmounts::Values(values))
        }
        (_, Some(range)) => Some(AllowedAmounts::Range {
            min: amount(&range.min)?,
            max: range.max.as_ref().map(amount).transpose()?,
            step: range.step.as_ref().map(amount).transpose()?,
        }),
        _ => None,
    };
    Ok(RequestPolicy { default: policy.default.as_ref().map(amount).transpose()?, allowed })
}

fn amounts_of<'a>(
    amounts: impl Iterator<Item = (&'a String, &'a Text)>,
    field: &str,
) -> Result<BTreeMap<Str, Quantity>, Invalid> {
    amounts.map(|(name, value)| Ok((text(name), quantity(&format!("{field}[{name}]"), value)?))).collect()
}

fn counters(sets: Option<&Vec<k8s::CounterSet>>, field: &str) -> Result<Vec<device::CounterSet>, Invalid> {
    let sets = sets.into_iter().flatten().map(|set| {
        let amounts = set.counters.iter().map(|(name, counter)| (name, &counter.value));
        let counters = amounts_of(amounts, &format!("{field}[{}]", set.name))?;
        Ok(device::CounterSet { name: text(&set.name), counters })
    });
    sets.collect()
}

fn taint(taint: &k8s::DeviceTaint) -> DeviceTaint {
    DeviceTaint {
        key: text(&taint.key),
        value: text(taint.value.as_deref().unwrap_or_default()),
        repels: matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"),
        effect: text(&taint.effect),
    }
}

/// A ResourceClaim.
///
/// # Errors
/// If a quantity or a node selector is invalid.
pub fn claim(
    claim: &k8s::ResourceClaim,
    schema: &LabelSchema,
    selectors: &mut Selectors,
) -> Result<resource_claim::ResourceClaim, Invalid> {
    let status = claim.status.as_ref();
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let reserved = status.into_iter().flat_map(|status| status.reserved_for.iter().flatten());
    let meta = &claim.metadata;
    Ok(resource_claim::ResourceClaim {
        id: NamespacedName::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        ),
        spec: Arc::new(claim_spec(&claim.spec.devices, selectors)?),
        allocation: allocation.map(|allocation| self::allocation(allocation, schema)).transpose()?,
        reserved_for: reserved.map(|consumer| consumer.uid.clone().into()).collect(),
        deleting: meta.deletion_timestamp.is_some(),
    })
}

fn allocation(allocation: &k8s::AllocationResult, schema: &LabelSchema) -> Result<Allocation, Invalid> {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    let devices = results.map(|given| {
        let consumed = amounts_of(given.consumed_capacity.iter().flatten(), "status.allocation.devices")?;
        Ok(GivenDevice {
            id: DeviceId {
                driver: text(&given.driver),
                pool: text(&given.pool),
                device: text(&given.device),
            },
            admin: given.admin_access == Some(true),
            shared: given.share_id.is_some() || !consumed.is_empty(),
            consumed,
        })
    });
    let nodes = allocation.node_selector.as_ref().map(|selector| selected(selector, schema));
    Ok(Allocation {
        devices: devices.collect::<Result<_, Invalid>>()?,
        nodes: nodes.transpose()?.unwrap_or(Nodes::All),
    })
}

/// What a claim asks for.
///
/// # Errors
/// If a quantity is invalid.
pub fn claim_spec(claim: &Option<k8s::DeviceClaim>, selectors: &mut Selectors) -> Result<ClaimSpec, Invalid> {
    let Some(claim) = claim else { return Ok(ClaimSpec::default()) };
    let mut requests = Vec::new();
    for request in claim.requests.iter().flatten() {
        let mut options = Vec::new();
        if let Some(exact) = &request.exactly {
            options.push(exactly(exact, selectors)?);
        }
        for sub in request.first_available.iter().flatten() {
            options.push(sub_request(sub, selectors)?);
        }
        requests.push(DeviceRequest { name: text(&request.name), options });
    }
    let constraints = claim.constraints.iter().flatten().map(|constraint| {
        let requests = constraint.requests.iter().flatten().map(|name| text(name)).collect();
        match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => DeviceConstraint::Match { attribute: text(attribute), requests },
            (None, Some(_)) => DeviceConstraint::Unsupported("distinctAttribute".into()),
            (None, None) => DeviceConstraint::Unsupported("without matchAttribute".into()),
        }
    });
    Ok(ClaimSpec { requests, constraints: constraints.collect() })
}

fn exactly(request: &k8s::ExactDeviceRequest, selectors: &mut Selectors) -> Result<RequestOption, Invalid> {
    Ok(RequestOption {
        name: "".into(),
        class: text(&request.device_class_name),
        selectors: selectors.all(request.selectors.as_ref()),
        count: count(request.allocation_mode.as_deref(), request.count),
        admin: request.admin_access == Some(true),
        capacity: wanted_capacity(request.capacity.as_ref())?,
        tolerations: request.tolerations.iter().flatten().map(toleration).collect(),
    })
}

fn sub_request(request: &k8s::DeviceSubRequest, selectors: &mut Selectors) -> Result<RequestOption, Invalid> {
    Ok(RequestOption {
        name: text(&request.name),
        class: text(&request.device_class_name),
        selectors: selectors.all(request.selectors.as_ref()),
        count: count(request.allocation_mode.as_deref(), request.count),
        admin: false,
        capacity: wanted_capacity(request.capacity.as_ref())?,
        tolerations: request.tolerations.iter().flatten().map(toleration).collect(),
    })
}

fn wanted_capacity(wanted: Option<&k8s::CapacityRequirements>) -> Result<BTreeMap<Str, Quantity>, Invalid> {
    let wanted = wanted.into_iter().flat_map(|wanted| wanted.requests.iter().flatten());
    amounts_of(wanted, "spec.devices.requests.capacity")
}

fn count(mode: Option<&str>, count: Option<i64>) -> DeviceCount {
    match mode {
        Some("All") => DeviceCount::All,
        // An invalid number of devices exceeds the maximum and is rejected as such.
        _ => DeviceCount::Exactly(u32::try_from(count.unwrap_or(1).max(1)).unwrap_or(u32::MAX)),
    }
}

fn toleration(toleration: &k8s::DeviceToleration) -> DeviceToleration {
    DeviceToleration {
        key: text(toleration.key.as_deref().unwrap_or_default()),
        value: text(toleration.value.as_deref().unwrap_or_default()),
        exists: toleration.operator.as_deref() == Some("Exists"),
        effect: text(toleration.effect.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
