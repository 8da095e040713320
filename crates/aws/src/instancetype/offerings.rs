//! The offerings of an instance type with an EC2NodeClass.

use fleetwright_aws_api::ec2nodeclass::CapacityReservation;
use fleetwright_aws_api::labels;
use fleetwright_core::model::{
    Offering, Price, Requirement, Requirements,
    labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE},
};

use super::compatible::compatible;
use super::{ClassView, ResolvedInstanceType};
use crate::calls::InstanceTypeDescription;
use crate::nodeclass::reservations::ScheduledReservation;
use crate::prices::Prices;
use crate::unavailable::{OfferingQuery, Unavailable};

/// The inputs of offerings besides the type and the EC2NodeClass.
#[derive(Clone, Copy)]
pub struct OfferingInputs<'a> {
    /// Prices.
    pub prices: &'a Prices,
    /// Offerings that failed recently, without expired ones.
    pub unavailable: &'a Unavailable,
    /// Whether traffic is shifted away from a zone, by zone id.
    pub shifted_zones: &'a dyn Fn(&str) -> bool,
    /// How many more instances a reservation can hold.
    pub reservation_capacity: &'a dyn Fn(&str) -> u32,
    /// The reservation of an id, if it starts later.
    pub scheduled: &'a dyn Fn(&str) -> Option<&'a ScheduledReservation>,
}

/// The offerings of a type.
#[derive(Clone, Debug, Default)]
pub(super) struct PricedOfferings {
    /// Those with a price.
    pub(super) priced: Vec<Offering>,
    /// Those without a known price, at price zero.
    pub(super) unpriced: Vec<Offering>,
}

/// Returns all offerings of the type in the zones that it and the EC2NodeClass share; offerings without a price are not available. A type
/// that none of the images supports has no offering: it would displace more expensive types in plans and launches that could never start.
#[must_use]
pub(super) fn offerings(
    info: &InstanceTypeDescription,
    resolved: &ResolvedInstanceType,
    view: &ClassView<'_>,
    inputs: &OfferingInputs<'_>,
) -> PricedOfferings {
    let served = resolved.image.is_some() || view.status.amis.is_empty();
    let can = served && compatible(info, view.spec, view.group);
    let resolved = &resolved.instance_type;
    let mut all = PricedOfferings::default();
    let zones = resolved.requirements.get(ZONE).map(|zones| zones.values().clone()).unwrap_or_default();
    for zone in &zones {
        for capacity_type in [ON_DEMAND, SPOT] {
            if !resolved.requirements.allows(CAPACITY_TYPE, capacity_type) {
                continue;
            }
            let price = match capacity_type {
                ON_DEMAND => inputs.prices.on_demand(&info.name),
                _ => inputs.prices.spot(&info.name, zone),
            };
            let base = Base { zone, capacity_type, price: price.unwrap_or(Price::ZERO), reservation: None };
            let into = if price.is_some() { &mut all.priced } else { &mut all.unpriced };
            into.extend(base.offerings(info, view, inputs, can));
        }
        let here = |reservation: &&CapacityReservation| {
            reservation.instance_type == info.name && reservation.availability_zone == **zone
        };
        for reservation in view.reservations().filter(here) {
            let price = inputs.prices.reserved(&info.name);
            let base = Base { zone, capacity_type: RESERVED, price, reservation: Some(reservation) };
            all.priced.extend(base.offerings(info, view, inputs, can));
        }
    }
    all
}

/// An offering before placement groups divide it by partitions.
struct Base<'a> {
    zone: &'a str,
    capacity_type: &'static str,
    price: Price,
    reservation: Option<&'a CapacityReservation>,
}

impl Base<'_> {
    fn offerings(
        &self,
        info: &InstanceTypeDescription,
        view: &ClassView<'_>,
        inputs: &OfferingInputs<'_>,
        can: bool,
    ) -> Vec<Offering> {
        let parts = view.group.map_or(0, |group| group.partitions);
        let one_each = (1..=parts).map(|part| Some(part.to_string()));
        let whole = (parts == 0).then_some(None);
        one_each.chain(whole).map(|part| self.offering(info, view, inputs, can, part.as_deref())).collect()
    }

    fn offering(
        &self,
        info: &InstanceTypeDescription,
        view: &ClassView<'_>,
        inputs: &OfferingInputs<'_>,
        can: bool,
        part: Option<&str>,
    ) -> Offering {
        let subnets: Vec<&str> = view.subnets_in(self.zone).map(|subnet| subnet.id.as_str()).collect();
        let zone_id =
            view.subnets_in(self.zone).map(|subnet| subnet.zone_id.as_str()).find(|id| !id.is_empty());
        let asked = OfferingQuery {
            instance_type: &info.name,
            zone: self.zone,
            capacity_type: self.capacity_type,
            subnets: &subnets,
            group: view.group.map(|group| (group.id.as_str(), part)),
        };
        let left = self.reservation.map(|reservation| (inputs.reservation_capacity)(&reservation.id));
        let ending = self.reservation.is_some_and(|reservation| reservation.state == "expiring");
        let is_full = |id: &str| inputs.unavailable.covers_group(id, self.zone);
        // Reserved capacity is counted; insufficient capacity elsewhere does not affect it, but no placement group takes more than it may.
        let dry = if self.reservation.is_some() {
            left == Some(0) || ending || view.group.is_some_and(|group| is_full(&group.id))
        } else {
            inputs.unavailable.covers(&asked)
        };
        let shifted = zone_id.is_some_and(|id| (inputs.shifted_zones)(id));
        let requirements = self.requirements(zone_id, view.group.map(|group| group.id.as_str()), part);
        let mut offering = Offering::of(requirements, self.price).available(can && !dry && !shifted);
        offering.reservation_capacity = left;
        match self.reservation.and_then(|reservation| (inputs.scheduled)(&reservation.id)) {
            Some(scheduled) => offering.starting(scheduled.name(), scheduled.starts),
            None => offering,
        }
    }

    fn requirements(&self, zone_id: Option<&str>, group: Option<&str>, part: Option<&str>) -> Requirements {
        let of = |value: fn(&CapacityReservation) -> String| self.reservation.map(value);
        let mut all: Requirements = [
            Requirement::is_in(CAPACITY_TYPE, [self.capacity_type]),
            Requirement::is_in(ZONE, [self.zone]),
            Requirement::is_in(labels::CAPACITY_RESERVATION_ID, of(|reservation| reservation.id.clone())),
            Requirement::is_in(
                labels::CAPACITY_RESERVATION_TYPE,
                of(|reservation| reservation.reservation_type.clone()),
            ),
            Requirement::is_in(
                labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
                of(|reservation| reservation.interruptible.to_string()),
            ),
        ]
        .into_iter()
        .collect();
        let labelled = [
            (labels::ZONE_ID, zone_id),
            (labels::PLACEMENT_GROUP_ID, group),
            (labels::PLACEMENT_GROUP_PARTITION, part),
        ];
        for (key, value) in labelled {
            if let Some(value) = value {
                all.replace(Requirement::is_in(key, [value]));
            }
        }
        all
    }
}
