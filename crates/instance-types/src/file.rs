//! The instance-type file of Karpenter's kwok provider: a JSON list of types.
//!
//! Keys are case-insensitive, as in Go. Offerings are read in the current form (a list of
//! requirements) and in the earlier one (`CapacityType` and `Zone`). Three fields are additions: `requirements` (further
//! labels and constraints of the instance type), `overhead` (resources that are not allocatable) and `baseline` (the share of its
//! CPUs that a burstable type may use all the time, such as 0.2). An invalid instance type is skipped and
//! reported; an invalid file is an error.

use std::collections::BTreeSet;

use fleetwright_core::model::{
    Baseline, InstanceType, Offering, Price, Quantity, Requirement, Requirements, Resources,
    labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, RESERVED, SPOT, ZONE},
};
use serde_json::{Map, Value, json};

use crate::{
    Catalogue, TypeSpec, Vocabulary, default_overhead, labels,
    quantities::{QuantityMap, WireRequirement, from_quantities, from_wire, to_quantities, to_wire},
};

/// The number of pods per node if the file does not state it.
const DEFAULT_PODS: i64 = 110;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Not JSON.
    #[error("instance types are not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but not a list.
    #[error(
        "instance types are no list: write [{{\"name\": ..., \"offerings\": [...], \"resources\": {{...}}}}, ...]"
    )]
    NotAList,
    /// No instance type is valid.
    #[error("no usable instance type: {}", first(.0))]
    Nothing(Vec<Skipped>),
}

fn first(skipped: &[Skipped]) -> String {
    skipped.first().map_or_else(|| "the list is empty".to_owned(), Skipped::to_string)
}

/// An instance type that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instance type {name:?} (number {number}): {error}")]
pub struct Skipped {
    /// The name of the instance type; empty if it has none.
    pub name: String,
    /// Its position in the list, from 1.
    pub number: usize,
    /// Why.
    pub error: TypeError,
}

/// What is wrong with an instance type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct TypeError {
    /// The field, as a path.
    pub field: String,
    /// What is wrong and how to fix it.
    pub message: String,
}

fn wrong(field: impl Into<String>, message: impl Into<String>) -> TypeError {
    TypeError { field: field.into(), message: message.into() }
}

/// The instance types of a file.
#[derive(Debug)]
pub struct Loaded {
    /// The valid instance types.
    pub catalogue: Catalogue,
    /// The skipped ones, to be reported.
    pub skipped: Vec<Skipped>,
}

/// Reads the instance-type file of Karpenter's kwok provider.
///
/// # Errors
/// If the text is not a list of instance types, or none of them is valid.
pub fn load(text: &str, vocabulary: Vocabulary) -> Result<Loaded, CatalogueError> {
    let Value::Array(items) = serde_json::from_str(text)? else {
        return Err(CatalogueError::NotAList);
    };
    let (mut types, mut skipped) = (Vec::with_capacity(items.len()), Vec::new());
    let mut names = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let name = field(item, "name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let read = read_type(item).and_then(|read| {
            let fresh = names.insert(name.clone());
            let twice = || wrong("name", "stands in the list twice: the first one is used, rename this one");
            if fresh { Ok(read) } else { Err(twice()) }
        });
        match read {
            Ok(read) => types.push(read),
            Err(error) => skipped.push(Skipped { name, number: at + 1, error }),
        }
    }
    if types.is_empty() {
        return Err(CatalogueError::Nothing(skipped));
    }
    Ok(Loaded { catalogue: Catalogue::new(vocabulary, types), skipped })
}

/// A field of an object; the key is case-insensitive.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let object: &Map<String, Value> = value.as_object()?;
    let exact = object.get(name);
    exact.or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn read_type(item: &Value) -> Result<InstanceType, TypeError> {
    let name = field(item, "name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong("name", "is missing: give the instance type a name"))?;
    let architecture = match field(item, "architecture") {
        None | Some(Value::Null) => "amd64",
        Some(Value::String(text)) if !text.is_empty() => text,
        Some(_) => return Err(wrong("architecture", "is no architecture: write \"amd64\" or \"arm64\"")),
    };
    let mut resources = read_resources(field(item, "resources"), "resources")?
        .ok_or_else(|| wrong("resources", "is missing: give at least cpu and memory"))?;
    for (resource, amount) in [("cpu", resources.cpu()), ("memory", resources.memory())] {
        if amount <= 0 {
            return Err(wrong(
                format!("resources.{resource}"),
                "is missing or zero: give what the instance has",
            ));
        }
    }
    if !has_pods(item) {
        resources.set(&"pods".into(), DEFAULT_PODS);
    }
    let offerings = read_offerings(field(item, "offerings"))?;
    let extra: Vec<WireRequirement> = read_requirements(field(item, "requirements"), "requirements")?;
    let extra = from_wire(&extra).map_err(|(key, message)| wrong(format!("requirements[{key}]"), message))?;
    let spec = TypeSpec {
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        operating_systems: read_operating_systems(field(item, "operatingSystems"))?,
        region: None,
        texts: (text_of(item, "cpu"), text_of(item, "memory")),
        resources,
        overhead: read_resources(field(item, "overhead"), "overhead")?.unwrap_or_else(default_overhead),
        offerings,
        extra,
        baseline: read_baseline(field(item, "baseline"))?,
    };
    spec.build().map_err(|key| {
        let message = "contradicts what the other fields say: leave it out, or make them agree";
        wrong(format!("requirements[{key}]"), message)
    })
}

/// Label keys by which NodePools name families and categories.
const NAMES_OF_FAMILIES: &[&str] =
    &[labels::INSTANCE_FAMILY, "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-category"];

/// The share of its CPUs that a burstable type may use all the time, in the precision of thousandths.
fn read_baseline(value: Option<&Value>) -> Result<Option<Baseline>, TypeError> {
    let share = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_f64(),
    };
    let permille = share.map(|share| share * 1000.0).filter(|permille| (1.0..=1000.0).contains(permille));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    let permille = permille.map(|permille| permille.round() as u16);
    let baseline = permille.and_then(|permille| Baseline::new(permille, NAMES_OF_FAMILIES));
    baseline.map(Some).ok_or_else(|| {
        wrong(
            "baseline",
            "is no share of a CPU: write 0.2 for a type that may use 20 % of its CPUs all the time",
        )
    })
}

fn has_pods(item: &Value) -> bool {
    field(item, "resources").is_some_and(|resources| resources.get("pods").is_some())
}

/// A resource in the notation of the file, in canonical form: the value of its label.
fn text_of(item: &Value, resource: &str) -> String {
    let written = field(item, "resources").and_then(|resources| resources.get(resource)).map(quantity_text);
    written
        .and_then(|text| text.parse::<Quantity>().ok())
        .map(|quantity| quantity.to_string())
        .unwrap_or_default()
}

fn quantity_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn read_resources(value: Option<&Value>, path: &str) -> Result<Option<Resources>, TypeError> {
    let object = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(wrong(path, "is no map: write {\"cpu\": \"4\", \"memory\": \"16Gi\"}")),
    };
    let quantities: QuantityMap =
        object.iter().map(|(key, value)| (key.clone(), quantity_text(value))).collect();
    let read = from_quantities(&quantities);
    read.map(Some).map_err(|(resource, message)| wrong(format!("{path}.{resource}"), message))
}

/// A list of names, or a map whose keys are names; absent means Linux.
fn read_operating_systems(value: Option<&Value>) -> Result<Vec<String>, TypeError> {
    let broken = || wrong("operatingSystems", "is no list of names: write [\"linux\"]");
    let names: Vec<String> = match value {
        None | Some(Value::Null) => vec!["linux".to_owned()],
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(broken)?,
        Some(_) => return Err(broken()),
    };
    if names.is_empty() { Err(broken()) } else { Ok(names) }
}

fn read_requirements(value: Option<&Value>, path: &str) -> Result<Vec<WireRequirement>, TypeError> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => {
            return Err(wrong(
                path,
                "is no list: write [{\"key\": ..., \"operator\": \"In\", \"values\": [...]}]",
            ));
        }
    };
    let read = items.iter().enumerate().map(|(at, item)| {
        let text = |name: &str| {
            let found = field(item, name).and_then(Value::as_str).filter(|text| !text.is_empty());
            found.ok_or_else(|| wrong(format!("{path}[{at}].{name}"), "is missing: give a string"))
        };
        let values = match field(item, "values") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => {
                values.iter().map(|value| value.as_str().map(Into::into)).collect::<Option<_>>().ok_or_else(
                    || wrong(format!("{path}[{at}].values"), "holds something else than strings: quote it"),
                )?
            }
            Some(_) => return Err(wrong(format!("{path}[{at}].values"), "is no list: write [\"value\"]")),
        };
        Ok(WireRequirement { key: text("key")?.into(), operator: text("operator")?.to_owned(), values })
    });
    read.collect()
}

fn read_offerings(value: Option<&Value>) -> Result<Vec<Offering>, TypeError> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return Err(wrong(
            "offerings",
            "is missing or empty: give at least one with price, zone and capacity type",
        ));
    }
    items.iter().enumerate().map(|(at, item)| read_offering(item, &format!("offerings[{at}]"))).collect()
}

fn read_offering(item: &Value, path: &str) -> Result<Offering, TypeError> {
    let price_path = format!("{path}.Price");
    let price = match field(item, "Price") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.parse().ok(),
        _ => None,
    };
    let price = price
        .ok_or_else(|| wrong(&price_path, "is missing or no number: give a price per hour, such as 0.096"))
        .and_then(|dollars| {
            Price::from_dollars(dollars).map_err(|error| wrong(&price_path, error.to_string()))
        })?;
    let requirements_path = format!("{path}.Requirements");
    let wire = read_requirements(field(item, "Requirements"), &requirements_path)?;
    let mut requirements =
        from_wire(&wire).map_err(|(key, message)| wrong(format!("{requirements_path}[{key}]"), message))?;
    for (name, key) in [("CapacityType", CAPACITY_TYPE), ("Zone", ZONE)] {
        if let Some(value) = field(item, name).and_then(Value::as_str) {
            requirements.add(Requirement::is_in(key, [value]));
        }
        if requirements.get(key).and_then(Requirement::single).is_none() {
            let message =
                "must be exactly one value: add {\"key\": ..., \"operator\": \"In\", \"values\": [one]}";
            return Err(wrong(format!("{requirements_path}[{key}]"), message));
        }
    }
    let capacity_type = requirements.get(CAPACITY_TYPE).and_then(Requirement::single).cloned();
    let known = [SPOT, ON_DEMAND, RESERVED];
    let capacity_type = capacity_type.filter(|value| known.contains(&&**value)).ok_or_else(|| {
        let message = "is no capacity type: use spot, on-demand or reserved";
        wrong(format!("{requirements_path}[{CAPACITY_TYPE}]"), message)
    })?;
    let reservation_capacity = match field(item, "ReservationCapacity") {
        _ if &*capacity_type != RESERVED => None,
        None | Some(Value::Null) => Some(0),
        Some(value) => Some(value.as_u64().and_then(|count| u32::try_from(count).ok()).ok_or_else(|| {
            let message = "is no number of instances: give a whole number, zero or more";
            wrong(format!("{path}.ReservationCapacity"), message)
        })?),
    };
    let available = match field(item, "Available") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(available)) => *available,
        Some(_) => return Err(wrong(format!("{path}.Available"), "is neither true nor false")),
    };
    let mut offering = Offering::of(requirements, price).available(available);
    offering.reservation_capacity = reservation_capacity;
    Ok(offering)
}

/// Writes a catalogue in the format of the file; reading it gives the same catalogue.
#[must_use]
pub fn dump(catalogue: &Catalogue) -> Value {
    Value::Array(
        catalogue.types.instance_types.iter().map(|instance_type| dump_type(instance_type)).collect(),
    )
}

fn dump_type(instance_type: &InstanceType) -> Value {
    let values = |key: &str| -> Vec<&str> {
        let found = instance_type.requirements.get(key).map(|requirement| requirement.values());
        found.into_iter().flatten().map(|value| &**value).collect()
    };
    let derived = [
        INSTANCE_TYPE,
        ARCH,
        OS,
        ZONE,
        CAPACITY_TYPE,
        labels::INSTANCE_SIZE,
        labels::INSTANCE_FAMILY,
        labels::INSTANCE_CPU,
        labels::INSTANCE_MEMORY,
    ];
    let extra: Requirements =
        instance_type.requirements.iter().filter(|r| !derived.contains(&&**r.key())).cloned().collect();
    let offerings: Vec<Value> = instance_type.offerings.iter().map(dump_offering).collect();
    let mut resources = to_quantities(&instance_type.capacity);
    for (name, key) in [("cpu", labels::INSTANCE_CPU), ("memory", labels::INSTANCE_MEMORY)] {
        // The label keeps the notation that the file was written in.
        if let Some(text) = values(key).first() {
            resources.insert(name.to_owned(), (*text).to_owned());
        }
    }
    let mut dumped = json!({
        "name": &*instance_type.name,
        "offerings": offerings,
        "architecture": values(ARCH).first(),
        "operatingSystems": values(OS),
        "resources": resources,
        "requirements": to_wire(&extra),
        "overhead": to_quantities(&instance_type.overhead.total()),
    });
    if let (Some(baseline), Some(fields)) = (instance_type.baseline, dumped.as_object_mut()) {
        fields.insert("baseline".to_owned(), json!(f64::from(baseline.permille()) / 1000.0));
    }
    dumped
}

fn dump_offering(offering: &Offering) -> Value {
    json!({
        "Price": offering.price.dollars(),
        "Available": offering.available,
        "ReservationCapacity": offering.reservation_capacity.unwrap_or(0),
        "Requirements": to_wire(&offering.requirements),
    })
}
