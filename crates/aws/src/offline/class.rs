//! The catalogue of an EC2NodeClass from a table, by the same code that the provider runs.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_api::ec2nodeclass::Subnet;
use fleetwright_core::model::ObservedCapacity;

use super::Table;
use crate::instancetype::{self, ClassCatalog, ClassView, OfferingInputs};
use crate::prices::Prices;
use crate::provider::KnownClass;
use crate::settings::Settings;
use crate::unavailable::Unavailable;

/// What a catalogue is made from besides the table.
#[derive(Clone, Copy)]
pub struct OfflineClass<'a> {
    /// The class.
    pub class: &'a KnownClass,
    /// The region, and what of the provider's settings its figures depend on.
    pub settings: &'a Settings,
    /// The prices of the region; none are filled in.
    pub prices: &'a Prices,
    /// How many more instances each reservation of its status can hold; one without an entry offers nothing.
    pub reservations: &'a BTreeMap<String, u32>,
    /// The zones of its subnets where its status has none.
    pub zones: &'a BTreeSet<String>,
}

/// The catalogue of a class. Offerings without a price are listed apart.
#[must_use]
pub fn catalog(table: &Table, offline: &OfflineClass<'_>) -> ClassCatalog {
    let OfflineClass { class, settings, prices, reservations, zones } = *offline;
    let mut status = class.class.status.clone().unwrap_or_default();
    if status.subnets.is_empty() {
        let subnet = |zone: &String| Subnet { zone: zone.clone(), ..Subnet::default() };
        status.subnets = zones.iter().map(subnet).collect();
    }
    let zones = status.subnets.iter().map(|subnet| subnet.zone.clone()).collect();
    let sold = |instance_type: &str| !prices.has_on_demand() || prices.on_demand(instance_type).is_some();
    let view = ClassView {
        settings,
        spec: &class.class.spec,
        status: &status,
        kubelet: &class.kubelet,
        // A placement group is looked up by the provider; the class alone does not say how many partitions it has.
        group: None,
    };
    let inputs = OfferingInputs {
        prices,
        unavailable: &Unavailable::default(),
        shifted_zones: &|_| false,
        reservation_capacity: &|id| reservations.get(id).copied().unwrap_or_default(),
        scheduled: &|_| None,
    };
    let types = table.in_region(&settings.region, &zones, sold);
    instancetype::catalog(&types, &view, &ObservedCapacity::default(), &inputs)
}
