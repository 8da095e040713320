//! Instance types from a file, in the format of Karpenter's kwok provider.
//!
//! - [`mod@file`]: reads and writes the file.
//! - [`labels`]: the labels of these instance types, and their schema.
//! - [`quantities`]: resources and requirements as JSON.

pub mod file;
pub mod labels;
pub mod quantities;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use fleetwright_core::model::{
    Baseline, Catalog, InstanceType, LabelSchema, Offering, Overhead, Price, Requirement, Requirements,
    ResourceName, Resources, Str,
    labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, ZONE},
};

pub use file::{CatalogueError, Loaded, Skipped, TypeError, dump, load};

/// The naming of instances and their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// As in Karpenter's kwok provider: `kwok://<node>`, with the name of the NodeClaim as hostname.
    Kwok,
    /// As in a cloud: `fake://<zone>/<id>`, with a private DNS name as node name and hostname.
    Cloud,
}

impl Vocabulary {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kwok => "kwok",
            Self::Cloud => "cloud",
        }
    }

    /// Parses the name on the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Kwok, Self::Cloud].into_iter().find(|vocabulary| vocabulary.as_str() == text)
    }
}

/// Instance types and the schema of their labels.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The naming of instances.
    pub vocabulary: Vocabulary,
    /// The instance types, by name.
    pub types: Arc<Catalog>,
    /// The schema of the label keys.
    pub schema: Arc<LabelSchema>,
}

impl Catalogue {
    /// Returns a catalogue of `types`. Every label key of an instance type or an offering becomes well known.
    #[must_use]
    pub fn new(vocabulary: Vocabulary, mut types: Vec<InstanceType>) -> Self {
        let mut keys = BTreeSet::new();
        for instance_type in &types {
            let offered = instance_type.offerings.iter().flat_map(|offering| offering.requirements.iter());
            keys.extend(instance_type.requirements.iter().chain(offered).map(|r| r.key().clone()));
        }
        let schema = labels::schema(keys);
        if let Some(id) = &schema.reservation_id {
            let offerings = types.iter_mut().flat_map(|instance_type| &mut instance_type.offerings);
            // An offering without a reservation has no reservation id.
            for offering in offerings.filter(|offering| !offering.is_reserved()) {
                offering.requirements.add(Requirement::does_not_exist(id.clone()));
            }
        }
        let types = Arc::new(Catalog::new(types.into_iter().map(Arc::new).collect()));
        Self { vocabulary, types, schema }
    }

    /// The instance type and offering of `key`.
    #[must_use]
    pub fn find(&self, key: &OfferingKey) -> Option<(&Arc<InstanceType>, &Offering)> {
        let found = self.types.get(&key.instance_type)?;
        let offering = found.offerings.iter().find(|offering| {
            offering.zone() == Some(&key.zone) && offering.capacity_type() == Some(&key.capacity_type)
        })?;
        Some((found, offering))
    }
}

/// The key of an offering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: Str,
    /// The zone.
    pub zone: Str,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Str,
}

impl OfferingKey {
    /// The key of an offering of an instance type; `None` if the offering has no zone or no capacity type.
    #[must_use]
    pub fn of(instance_type: &InstanceType, offering: &Offering) -> Option<Self> {
        Some(Self {
            instance_type: instance_type.name.clone(),
            zone: offering.zone()?.clone(),
            capacity_type: offering.capacity_type()?.clone(),
        })
    }
}

impl std::fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.instance_type, self.zone, self.capacity_type)
    }
}

/// The figures from which an [`InstanceType`] is built.
#[derive(Clone, Debug)]
pub struct TypeSpec {
    /// The name of the instance type.
    pub name: String,
    /// The value of `kubernetes.io/arch`.
    pub architecture: String,
    /// The values of `kubernetes.io/os`.
    pub operating_systems: Vec<String>,
    /// The value of `topology.kubernetes.io/region`, if any.
    pub region: Option<&'static str>,
    /// The capacity.
    pub resources: Resources,
    /// CPUs and memory in the notation of the labels.
    pub texts: (String, String),
    /// Resources that are not allocatable.
    pub overhead: Resources,
    /// The offerings.
    pub offerings: Vec<Offering>,
    /// Further labels and constraints.
    pub extra: Requirements,
    /// What a burstable type may use of its CPUs all the time.
    pub baseline: Option<Baseline>,
}

impl TypeSpec {
    /// Returns the instance type with the labels of the kwok provider.
    ///
    /// # Errors
    /// The key of `extra` that contradicts those labels.
    pub fn build(self) -> Result<InstanceType, Str> {
        let (cpu, memory) = &self.texts;
        let union = |of: fn(&Offering) -> Option<&Str>| -> Vec<Str> {
            self.offerings.iter().filter_map(of).cloned().collect()
        };
        let mut requirements: Requirements = [
            Requirement::is_in(INSTANCE_TYPE, [self.name.as_str()]),
            Requirement::is_in(ARCH, [self.architecture.as_str()]),
            Requirement::is_in(OS, self.operating_systems.iter().map(String::as_str)),
            Requirement::is_in(ZONE, union(Offering::zone)),
            Requirement::is_in(CAPACITY_TYPE, union(Offering::capacity_type)),
            Requirement::is_in(labels::INSTANCE_SIZE, [labels::size_of(&self.name, cpu)]),
            Requirement::is_in(labels::INSTANCE_FAMILY, [labels::family_of(&self.name)]),
            Requirement::is_in(labels::INSTANCE_CPU, [cpu.as_str()]),
            Requirement::is_in(labels::INSTANCE_MEMORY, [memory.as_str()]),
        ]
        .into_iter()
        .collect();
        if let Some(region) = self.region {
            requirements.add(Requirement::is_in(REGION, [region]));
        }
        for requirement in self.extra.iter() {
            let key = requirement.key();
            let before = requirements.get(key).cloned();
            requirements.add(requirement.clone());
            let emptied = requirements.get(key).is_some_and(Requirement::is_empty);
            if before.is_some_and(|present| !present.is_empty()) && emptied {
                return Err(key.clone());
            }
        }
        let overhead = Overhead::new(self.overhead);
        let mut built = InstanceType::new(self.name, self.resources).with_overhead(overhead);
        built.requirements = requirements;
        built.offerings = self.offerings;
        built.baseline = self.baseline;
        Ok(built)
    }
}

/// An available offering of one zone and capacity type.
#[must_use]
pub fn offering(zone: &str, capacity_type: &str, price: Price) -> Offering {
    Offering::new(zone, capacity_type, price)
}

/// CPUs and memory of `resources` as label values.
#[must_use]
pub fn texts(resources: &Resources) -> (String, String) {
    (
        ResourceName::Cpu.quantity(resources.cpu()).to_string(),
        ResourceName::Memory.quantity(resources.memory()).to_string(),
    )
}

/// The overhead of an instance type without `overhead`: 100m CPU and 10Mi memory.
#[must_use]
pub fn default_overhead() -> Resources {
    Resources::of(100, 10 << 20)
}
