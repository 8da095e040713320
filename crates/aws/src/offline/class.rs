//! The catalogue of an EC2NodeClass from a table, by the same code that the provider runs.

use std::collections::BTreeSet;

use fleetwright_aws_api::ec2nodeclass::Subnet;
use fleetwright_core::model::ObservedCapacity;
use jiff::Timestamp;

use super::Table;
use crate::calls::ReservationInfo;
use crate::instancetype::{self, ClassCatalog, ClassView, OfferingInputs};
use crate::nodeclass::reservations;
use crate::prices::Prices;
use crate::provider::KnownClass;
use crate::settings::Settings;
use crate::unavailable::Unavailable;

/// The reservations that a class selects, as EC2 describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundReservations {
    /// The reservations.
    pub found: Vec<ReservationInfo>,
    /// When they were read.
    pub at: Timestamp,
}

/// What a catalogue is made from besides the table.
#[derive(Clone, Copy)]
pub struct OfflineClass<'a> {
    /// The class.
    pub class: &'a KnownClass,
    /// The region, and what of the provider's settings its figures depend on.
    pub settings: &'a Settings,
    /// The prices of the region; none are filled in.
    pub prices: &'a Prices,
    /// The reservations that it selects, in the place of those of its status, which offer nothing: it does not say how much is left.
    pub reservations: Option<&'a FoundReservations>,
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
    let (mut found, mut scheduled) = (&[][..], Vec::new());
    if let Some(known) = reservations {
        found = &known.found;
        scheduled = reservations::scheduled(found, known.at);
        reservations::reservations(&Ok(known.found.clone()), &mut status, known.at);
        status.capacity_reservations.extend(scheduled.iter().map(|own| own.reservation.clone()));
    }
    let left = |id: &str| found.iter().find(|info| info.id == id && info.starts.is_none());
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
        reservation_capacity: &|id| left(id).map_or(0, |info| info.available),
        scheduled: &|id| scheduled.iter().find(|own| own.reservation.id == id),
    };
    let types = table.in_region(&settings.region, &zones, sold);
    instancetype::catalog(&types, &view, &ObservedCapacity::default(), &inputs)
}
