//! Devices for resource claims in the file of instance types: the field `dynamicResources` of a type.
//!
//! ```json
//! {"dynamicResources": {
//!   "resourceSliceTemplates": [{"driver": "gpu.example.com", "pool": {"name": "node"}, "devices": [{"name": "gpu-0"}]}],
//!   "attributeBindings": [{"attribute": "example.com/root", "devices": [{"driver": "…", "pool": "…", "device": "…"}]}]
//! }}
//! ```
//!
//! A template has the form of the `spec` of a ResourceSlice; its nodes and the size of the pool are ignored.
//! Karpenter's types have the two lists under these names; it has no file format for them.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{
    Catalog, DeviceId, DeviceTemplates, InstanceType, Str, device::AttributeBinding,
};
use fleetwright_instance_types::{Catalogue, Skipped, TypeError};
use fleetwright_state::lower;
use k8s_openapi::api::resource::v1::ResourceSliceSpec;
use serde::Deserialize;
use serde_json::Value;

/// The field's content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DynamicResources {
    #[serde(default)]
    resource_slice_templates: Vec<ResourceSliceSpec>,
    #[serde(default)]
    attribute_bindings: Vec<Binding>,
}

/// Devices that share an attribute.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    attribute: Str,
    devices: Vec<BoundDevice>,
}

/// A reference to a device of the templates.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundDevice {
    driver: Str,
    pool: Str,
    device: Str,
}

/// Adds the devices of the file to the types of a catalogue. Types with invalid devices get none, and are
/// returned.
pub(crate) fn attach(text: &str, catalogue: &mut Catalogue) -> Vec<Skipped> {
    let items: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let mut broken = Vec::new();
    let mut found: BTreeMap<String, Arc<DeviceTemplates>> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let of = |name: &str| {
            let object = item.as_object()?;
            object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let name = of("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(written) = of("dynamicResources").filter(|value| !value.is_null()) else { continue };
        match read(written) {
            Ok(devices) => {
                found.entry(name).or_insert_with(|| Arc::new(devices));
            }
            Err(error) => broken.push(Skipped { name, number: at + 1, error }),
        }
    }
    if !found.is_empty() {
        let with = |known: &Arc<InstanceType>| match found.get(&*known.name) {
            Some(devices) => {
                let mut equipped = (**known).clone();
                equipped.devices = Arc::clone(devices);
                Arc::new(equipped)
            }
            None => Arc::clone(known),
        };
        let types = catalogue.types.instance_types.iter().map(with).collect();
        catalogue.types = Arc::new(Catalog::new(types));
    }
    broken
}

fn read(written: &Value) -> Result<DeviceTemplates, TypeError> {
    let wrong = |field: String, message: String| TypeError { field, message };
    let resources: DynamicResources = serde_path_to_error::deserialize(written)
        .map_err(|error| wrong(format!("dynamicResources.{}", error.path()), error.inner().to_string()))?;
    let slices = resources.resource_slice_templates.iter().enumerate().map(|(at, slice)| {
        let field = format!("dynamicResources.resourceSliceTemplates[{at}]");
        lower::device::template(slice).map_err(|error| wrong(field, error.to_string()))
    });
    let bindings = resources.attribute_bindings.into_iter().map(|binding| AttributeBinding {
        attribute: binding.attribute,
        devices: binding
            .devices
            .into_iter()
            .map(|BoundDevice { driver, pool, device }| DeviceId { driver, pool, device })
            .collect(),
    });
    Ok(DeviceTemplates::new(slices.collect::<Result<_, _>>()?).with_bindings(bindings.collect()))
}
