//! Built-in instance types of the fake cloud: the generic types of Karpenter's kwok provider, and a catalogue modeled on EC2.

mod families;
mod kwok;
mod realistic;
#[cfg(test)]
mod tests;

pub use fleetwright_instance_types::{
    Catalogue, CatalogueError, Loaded, OfferingKey, Skipped, TypeError, TypeSpec, Vocabulary,
    default_overhead, dump, load, offering, texts,
};
pub use kwok::{ZONES as KWOK_ZONES, kwok};
pub use realistic::{REGION as REALISTIC_REGION, ZONES as REALISTIC_ZONES, realistic};
