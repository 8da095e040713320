//! Offerings that recently could not be launched, so that they are not retried at once.

use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;

/// How long an offering is unavailable after a failure.
pub const UNAVAILABLE_FOR: SignedDuration = SignedDuration::from_secs(180);
/// Most entries: more than all types in all zones of a region as spot and on-demand.
const ENTRIES_MAX: u64 = 100_000;

/// What can be unavailable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shortage {
    /// An offering, optionally within a placement group or one of its partitions only.
    Offering {
        /// The instance type.
        instance_type: String,
        /// The zone.
        zone: String,
        /// The capacity type.
        capacity_type: String,
        /// The placement group, if only that is full.
        group: Option<(String, Option<String>)>,
    },
    /// A whole capacity type.
    CapacityType(String),
    /// A subnet without free addresses.
    Subnet(String),
    /// A spread placement group that is full in a zone, for every type.
    Group {
        /// The placement group's id.
        id: String,
        /// The zone.
        zone: String,
    },
}

/// The offering to check.
#[derive(Clone, Copy, Debug)]
pub struct OfferingQuery<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// The zone.
    pub zone: &'a str,
    /// The capacity type.
    pub capacity_type: &'a str,
    /// The class's subnets in the zone.
    pub subnets: &'a [&'a str],
    /// The placement group and partition of the launch.
    pub group: Option<(&'a str, Option<&'a str>)>,
}

/// Recent failures.
#[derive(Debug, Default)]
pub struct Unavailable {
    entries: Cache<Shortage, (), ENTRIES_MAX>,
    version: u64,
}

impl Unavailable {
    /// Records a failure.
    pub fn mark(&mut self, what: Shortage, now: Timestamp) {
        let new = self.entries.insert(what, (), now, UNAVAILABLE_FOR);
        self.version += u64::from(new);
    }

    /// Drops expired entries.
    pub fn sweep(&mut self, now: Timestamp) {
        self.version += u64::from(self.entries.sweep(now) > 0);
    }

    /// A version that changes whenever an answer may change; call `sweep` first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether a spread placement group is full in a zone.
    #[must_use]
    pub fn covers_group(&self, id: &str, zone: &str) -> bool {
        let full = Shortage::Group { id: id.to_owned(), zone: zone.to_owned() };
        self.entries.peek(&full).is_some()
    }

    /// Whether an offering is unavailable.
    #[must_use]
    pub fn covers(&self, asked: &OfferingQuery<'_>) -> bool {
        let offering = |group: Option<(String, Option<String>)>| Shortage::Offering {
            instance_type: asked.instance_type.to_owned(),
            zone: asked.zone.to_owned(),
            capacity_type: asked.capacity_type.to_owned(),
            group,
        };
        if self.entries.is_empty() {
            return false;
        }
        let has = |what: Shortage| self.entries.peek(&what).is_some();
        let in_group = asked.group.is_some_and(|(id, partition)| {
            let whole = offering(Some((id.to_owned(), None)));
            let part = partition.map(|part| offering(Some((id.to_owned(), Some(part.to_owned())))));
            has(whole) || part.is_some_and(has) || self.covers_group(id, asked.zone)
        });
        let dry_subnets = !asked.subnets.is_empty()
            && asked.subnets.iter().all(|subnet| has(Shortage::Subnet((*subnet).to_owned())));
        has(offering(None))
            || in_group
            || dry_subnets
            || has(Shortage::CapacityType(asked.capacity_type.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    //! The scope and duration of failures.
    use super::*;

    fn asked<'a>(
        zone: &'a str,
        subnets: &'a [&'a str],
        group: Option<(&'a str, Option<&'a str>)>,
    ) -> OfferingQuery<'a> {
        OfferingQuery { instance_type: "m5.large", zone, capacity_type: "spot", subnets, group }
    }

    fn offering(group: Option<(&str, Option<&str>)>) -> Shortage {
        let group = group.map(|(id, partition)| (id.to_owned(), partition.map(str::to_owned)));
        let [instance_type, zone, capacity_type] = ["m5.large", "a", "spot"].map(str::to_owned);
        Shortage::Offering { instance_type, zone, capacity_type, group }
    }

    #[test]
    fn a_failure_has_a_scope() {
        let now = Timestamp::UNIX_EPOCH;
        let of = |what: Shortage| {
            let mut memory = Unavailable::default();
            memory.mark(what, now);
            memory
        };
        let general = of(offering(None));
        assert!(
            general.covers(&asked("a", &[], None)) && general.covers(&asked("a", &[], Some(("pg", None))))
        );
        assert!(!general.covers(&asked("b", &[], None)));
        let group = of(offering(Some(("pg", None))));
        assert!(
            group.covers(&asked("a", &[], Some(("pg", Some("2"))))) && !group.covers(&asked("a", &[], None))
        );
        let partition = of(offering(Some(("pg", Some("1")))));
        assert!(partition.covers(&asked("a", &[], Some(("pg", Some("1"))))));
        assert!(!partition.covers(&asked("a", &[], Some(("pg", Some("2"))))));
        assert!(of(Shortage::CapacityType("spot".to_owned())).covers(&asked("b", &[], None)));
        let full = of(Shortage::Group { id: "pg".to_owned(), zone: "a".to_owned() });
        assert!(full.covers(&asked("a", &[], Some(("pg", None)))));
        assert!(
            full.covers(&OfferingQuery { instance_type: "c5.large", ..asked("a", &[], Some(("pg", None))) })
        );
        assert!(!full.covers(&asked("b", &[], Some(("pg", None)))) && !full.covers(&asked("a", &[], None)));
        assert!(!full.covers(&asked("a", &[], Some(("other", None)))));
        let subnet = of(Shortage::Subnet("subnet-1".to_owned()));
        assert!(subnet.covers(&asked("b", &["subnet-1"], None)));
        assert!(
            !subnet.covers(&asked("b", &["subnet-1", "subnet-2"], None))
                && !subnet.covers(&asked("b", &[], None))
        );
    }

    #[test]
    fn it_is_forgotten_after_three_minutes() {
        let mut memory = Unavailable::default();
        let now = Timestamp::UNIX_EPOCH;
        memory.mark(offering(None), now);
        let version = memory.version();
        memory.mark(offering(None), now);
        assert_eq!(memory.version(), version, "no change");
        memory.sweep(now + UNAVAILABLE_FOR - SignedDuration::from_secs(1));
        assert!(memory.covers(&asked("a", &[], None)));
        memory.sweep(now + UNAVAILABLE_FOR);
        assert!(!memory.covers(&asked("a", &[], None)) && memory.version() > version);
    }
}
