//! The region's instance types, and the catalogues of EC2NodeClasses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_aws_api::{Ec2NodeClass, ec2nodeclass::PlacementGroupSelector};
use fleetwright_core::model::{ObservedCapacity, Str};
use jiff::Timestamp;

use super::classes::KnownClass;
use crate::cache::Cache;
use crate::calls::{AwsError, FleetAnswer, InstanceInfo, PlacementGroup, ReservationInfo, ZonalShift};
use crate::instancetype::{self, ClassCatalog, ClassView, InstanceTypeCatalogue, OfferingInputs};
use crate::interruption::{MessageKind, Offering, ReclaimedCapacity};
use crate::launch::{Addresses, Effect, FleetPlan, effects};
use crate::nodeclass::ConditionResult;
use crate::nodeclass::placement::{self, Resolved};
use crate::nodeclass::reservations::{self, ReservationCounts, ScheduledReservation};
use crate::prices::Prices;
use crate::settings::Settings;
use crate::shift::{Changed, Shifts};
use crate::unavailable::{Shortage, Unavailable};

/// Most classes whose catalogues are cached; the catalogue of any other class is made again each time.
const CATALOGS_MAX: u64 = 1000;

/// The region's offers. Clones of the provider share them.
pub(super) struct Catalogs {
    settings: Settings,
    region: Mutex<RegionOffers>,
}

/// The inputs of catalogues, and the catalogues made from them.
#[derive(Default)]
struct RegionOffers {
    instance_types: Arc<InstanceTypeCatalogue>,
    instance_types_version: u64,
    prices: Prices,
    observed: Arc<ObservedCapacity>,
    observed_version: u64,
    unavailable: Unavailable,
    /// Interruptions by instance whose effect on capacity was recorded already.
    reclaimed: ReclaimedCapacity,
    reservations: ReservationCounts,
    /// Reservations that start later by class name, removed with their class.
    scheduled: BTreeMap<String, Vec<ScheduledReservation>>,
    scheduled_version: u64,
    /// Placement groups by class name, removed with their class.
    groups: BTreeMap<String, Resolved>,
    groups_version: u64,
    shifts: Shifts,
    /// Catalogues by class name, each with its class and the versions of its other inputs.
    catalogs: Cache<String, (Arc<KnownClass>, Versions, Arc<ClassCatalog>), CATALOGS_MAX>,
}

/// The versions of the inputs that a catalogue was made from, beside its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    instance_types: u64,
    prices: u64,
    observed: u64,
    unavailable: u64,
    reservations: u64,
    scheduled: u64,
    groups: u64,
    shifts: u64,
}

impl Catalogs {
    /// The catalogues of a region without instance types, at list prices.
    pub(super) fn new(settings: &Settings) -> Self {
        let region = RegionOffers { prices: Prices::of_region(&settings.region), ..RegionOffers::default() };
        Self { settings: settings.clone(), region: Mutex::new(region) }
    }

    fn lock(&self) -> MutexGuard<'_, RegionOffers> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the instance types of the region.
    pub(super) fn set_instance_types(&self, instance_types: InstanceTypeCatalogue) {
        let mut region = self.lock();
        if *region.instance_types != instance_types {
            region.instance_types = Arc::new(instance_types);
            region.instance_types_version += 1;
        }
    }

    pub(super) fn instance_types(&self) -> Arc<InstanceTypeCatalogue> {
        self.lock().instance_types.clone()
    }

    pub(super) fn with_prices<T>(&self, change: impl FnOnce(&mut Prices) -> T) -> T {
        change(&mut self.lock().prices)
    }

    /// Replaces the capacity observed on nodes.
    pub(super) fn set_observed(&self, observed: &Arc<ObservedCapacity>) {
        let mut region = self.lock();
        region.observed = observed.clone();
        region.observed_version += 1;
    }

    pub(super) fn with_reservations<T>(&self, change: impl FnOnce(&mut ReservationCounts) -> T) -> T {
        change(&mut self.lock().reservations)
    }

    /// Takes the answer to a look-up of a class's reservations: the counts of those that have started, and those that start later, which it
    /// returns. Without an answer both stay.
    pub(super) fn set_reservations(
        &self,
        class: &Ec2NodeClass,
        found: &Result<Vec<ReservationInfo>, AwsError>,
        now: Timestamp,
    ) -> Vec<ScheduledReservation> {
        let mut region = self.lock();
        let name = class.metadata.name.clone().unwrap_or_default();
        let known = region.scheduled.get(&name).cloned().unwrap_or_default();
        let Ok(found) = found else { return known };
        let started = found.iter().filter(|info| info.starts.is_none());
        region.reservations.sync(started.map(|info| (info.id.clone(), info.available)), now);
        let scheduled = reservations::scheduled(found, now);
        if scheduled != known {
            region.scheduled.insert(name, scheduled.clone());
            region.scheduled_version += 1;
        }
        scheduled
    }

    /// The catalogue of a class; the same `Arc` while no input changes.
    pub(super) fn of_class(&self, known: &Arc<KnownClass>, now: Timestamp) -> Arc<ClassCatalog> {
        let mut region = self.lock();
        region.unavailable.sweep(now);
        let versions = region.versions();
        let name = known.class.metadata.name.clone().unwrap_or_default();
        if let Some((class, made_from, catalog)) = region.catalogs.peek(&name)
            && Arc::ptr_eq(&class, known)
            && made_from == versions
        {
            return catalog;
        }
        let made = Arc::new(region.make(&self.settings, known));
        // Equal content keeps its `Arc`: the scheduler compares catalogues by pointer.
        let kept = match region.catalogs.peek(&name) {
            Some((.., old)) if old.catalog == made.catalog && old.resolved == made.resolved => old,
            _ => made,
        };
        region.catalogs.keep(name, (known.clone(), versions, kept.clone()));
        kept
    }

    /// The catalogue of a class that is not stored in the API server in this form.
    pub(super) fn of_draft(&self, known: &KnownClass) -> ClassCatalog {
        self.lock().make(&self.settings, known)
    }

    /// The placement group of a class, if it has one and it was found.
    pub(super) fn group(&self, class: &str) -> Option<PlacementGroup> {
        self.lock().groups.get(class).map(|resolved| resolved.group.clone())
    }

    /// Takes the answer to a look-up of a class's placement group.
    pub(super) fn resolve_group(
        &self,
        class: String,
        selector: Option<&PlacementGroupSelector>,
        found: Result<Option<PlacementGroup>, AwsError>,
        now: Timestamp,
    ) -> ConditionResult {
        let mut region = self.lock();
        let known = region.groups.get(&class).cloned().filter(|known| {
            // A selector that changed asks for another group.
            selector.is_some_and(|s| s.id.as_deref().is_none_or(|id| id == known.group.id))
                && selector.is_some_and(|s| s.name.as_deref().is_none_or(|name| name == known.group.name))
        });
        let (resolved, finding) = placement::resolve(selector, found, known, now);
        let before = region.groups.get(&class).map(|known| &known.group);
        if before != resolved.as_ref().map(|known| &known.group) {
            region.groups_version += 1;
        }
        match resolved {
            Some(resolved) => region.groups.insert(class, resolved),
            None => region.groups.remove(&class),
        };
        finding
    }

    /// Drops what is stored for deleted classes.
    pub(super) fn retain_classes(&self, existing: &BTreeMap<Str, Arc<KnownClass>>) {
        let mut region = self.lock();
        let before = region.groups.len();
        region.groups.retain(|name, _| existing.contains_key(name.as_str()));
        region.groups_version += u64::from(region.groups.len() != before);
        region.scheduled.retain(|name, _| existing.contains_key(name.as_str()));
        region.catalogs.retain_if(|name, _| existing.contains_key(name.as_str()));
    }

    /// Whether traffic is shifted away from a zone.
    pub(super) fn is_away(&self, zone_id: &str) -> bool {
        self.lock().shifts.is_away(zone_id)
    }

    /// Replaces the zonal shifts by those of a new answer.
    pub(super) fn refresh_shifts(&self, shifts: &[ZonalShift], now: Timestamp) -> Changed {
        self.lock().shifts.refresh(shifts, now)
    }

    /// Drops zonal shifts that have expired.
    pub(super) fn sweep_shifts(&self, now: Timestamp) -> Changed {
        self.lock().shifts.sweep(now)
    }

    /// Records the capacity that a fleet took, and the capacity that it found missing.
    pub(super) fn record_fleet(
        &self,
        answer: &FleetAnswer,
        plan: &FleetPlan,
        addresses: &Mutex<Addresses>,
        now: Timestamp,
    ) {
        let mut region = self.lock();
        for instance in &answer.instances {
            let group = plan.group_of(&instance.instance_type, &instance.zone);
            if let Some((id, ..)) = group.and_then(|group| group.reservation.as_ref()) {
                region.reservations.launched(id, 1);
            }
        }
        let group = plan.placement.as_ref().map(|(id, part)| (id.as_str(), *part));
        for error in &answer.errors {
            for effect in effects(error, plan.capacity_type, group) {
                match effect {
                    Effect::Unavailable(what) => region.unavailable.mark(what, now),
                    Effect::NoAddresses(subnet) => {
                        addresses.lock().unwrap_or_else(PoisonError::into_inner).exhausted(&subnet);
                    }
                    Effect::ReservationFull => {
                        let group = plan.group_of(&error.instance_type, &error.zone);
                        if let Some((id, ..)) = group.and_then(|group| group.reservation.clone()) {
                            region.reservations.full(&id, now);
                        }
                    }
                }
            }
        }
    }

    /// Records the capacity that an interruption takes back, once per instance and message kind: a message is delivered again until
    /// its instance is terminating, and later answers of EC2 are newer.
    pub(super) fn record_interruption(&self, info: &InstanceInfo, kind: MessageKind, now: Timestamp) {
        let offering = kind.offering();
        let mut region = self.lock();
        if offering == Offering::AsIs || !region.reclaimed.keep((info.id.clone(), kind), ()) {
            return;
        }
        match offering {
            Offering::AsIs => {}
            Offering::SpotUnavailable => region.unavailable.mark(
                Shortage::Offering {
                    instance_type: info.instance_type.clone(),
                    zone: info.zone.clone(),
                    capacity_type: "spot".to_owned(),
                    group: None,
                },
                now,
            ),
            Offering::ReservationFull => {
                if let Some(id) = &info.reservation {
                    region.reservations.full(id, now);
                }
            }
        }
    }

    /// The number of cached catalogues.
    #[cfg(test)]
    pub(super) fn cached(&self) -> u64 {
        self.lock().catalogs.len()
    }
}

impl RegionOffers {
    fn versions(&self) -> Versions {
        Versions {
            instance_types: self.instance_types_version,
            prices: self.prices.version(),
            observed: self.observed_version,
            unavailable: self.unavailable.version(),
            reservations: self.reservations.version(),
            scheduled: self.scheduled_version,
            groups: self.groups_version,
            shifts: self.shifts.version(),
        }
    }

    fn make(&self, settings: &Settings, known: &KnownClass) -> ClassCatalog {
        let name = known.class.metadata.name.as_deref().unwrap_or_default();
        let scheduled = self.scheduled.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut status = known.class.status.clone().unwrap_or_default();
        status.capacity_reservations.extend(scheduled.iter().map(|own| own.reservation.clone()));
        let view = ClassView {
            settings,
            spec: &known.class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: self.groups.get(name).map(|resolved| &resolved.group),
        };
        let market = OfferingInputs {
            prices: &self.prices,
            unavailable: &self.unavailable,
            shifted_zones: &|zone_id| self.shifts.is_away(zone_id),
            reservation_capacity: &|id| self.reservations.left(id),
            scheduled: &|id| scheduled.iter().find(|own| own.reservation.id == id),
        };
        instancetype::catalog(&self.instance_types, &view, &self.observed, &market)
    }
}
