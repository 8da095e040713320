//! What the cloud sells, as instance types; what ran dry of it is unavailable for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    cloud::jiff::{SignedDuration, Timestamp},
    model::{Catalog, InstanceType, Offering, Overhead, Price, Requirement, Resources, labels},
};

use crate::api::ServerType;

/// How long an offering is unavailable after the cloud had no capacity.
const UNAVAILABLE_FOR: SignedDuration = SignedDuration::from_secs(180);

/// An offering: type and zone.
pub type Offer = (String, String);

/// The catalogue of every class.
#[derive(Default)]
pub struct Catalogue(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    types: Vec<ServerType>,
    as_of: Option<Timestamp>,
    unavailable: BTreeMap<Offer, Timestamp>,
    /// What was made, by the zones of a class: the same `Arc` while nothing changes.
    made: BTreeMap<Vec<String>, (BTreeSet<Offer>, Arc<Catalog>)>,
}

impl Catalogue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what is sold.
    pub fn update(&self, types: Vec<ServerType>, now: Timestamp) {
        let mut inner = self.inner();
        inner.as_of = Some(now);
        if inner.types != types {
            inner.types = types;
            inner.made.clear();
        }
    }

    /// When prices were read last.
    pub fn as_of(&self) -> Option<Timestamp> {
        self.inner().as_of
    }

    /// The cloud had no capacity for an offering.
    pub fn mark_unavailable(&self, offer: Offer, now: Timestamp) {
        self.inner().unavailable.insert(offer, now.checked_add(UNAVAILABLE_FOR).unwrap_or(now));
    }

    /// The instance types in these zones; in all of them if there are none.
    pub fn of_zones(&self, zones: &[String], now: Timestamp) -> Arc<Catalog> {
        let mut inner = self.inner();
        inner.unavailable.retain(|_, until| *until > now);
        let dry: BTreeSet<Offer> = inner.unavailable.keys().cloned().collect();
        if let Some((_, made)) = inner.made.get(zones).filter(|(of, _)| *of == dry) {
            return made.clone();
        }
        let types = inner.types.iter().filter_map(|sold| instance_type(sold, zones, &dry));
        let made = Arc::new(Catalog::new(types.map(Arc::new).collect()));
        inner.made.insert(zones.to_vec(), (dry, made.clone()));
        made
    }
}

/// An instance type; `None` if no zone sells it.
fn instance_type(sold: &ServerType, zones: &[String], dry: &BTreeSet<Offer>) -> Option<InstanceType> {
    let offering = |(zone, price): (&String, &f64)| {
        let is_dry = dry.contains(&(sold.name.clone(), zone.clone()));
        Some(Offering::new(zone, labels::ON_DEMAND, Price::from_dollars(*price).ok()?).available(!is_dry))
    };
    let in_zones = sold.prices.iter().filter(|(zone, _)| zones.is_empty() || zones.contains(zone));
    let offerings: Vec<Offering> = in_zones.filter_map(offering).collect();
    // Half a GiB is the operating system's, and 100 millicores the kubelet's.
    let kube_reserved = Resources::of(100, 512 << 20);
    let capacity = Resources::of(sold.cpus * 1000, sold.memory_gib << 30).with("pods", 110);
    (!offerings.is_empty()).then(|| {
        InstanceType::new(sold.name.as_str(), capacity)
            .with_requirement(Requirement::is_in(labels::ARCH, ["amd64"]))
            .with_requirement(Requirement::is_in(labels::OS, ["linux"]))
            .with_overhead(Overhead::new(kube_reserved))
            .with_offerings(offerings)
    })
}

/// How often prices are read.
pub const EVERY: Duration = Duration::from_secs(600);
