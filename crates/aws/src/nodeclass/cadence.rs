//! When each part of an EC2NodeClass is looked up again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::settings::Settings;

/// The look-ups of an EC2NodeClass, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassLookup {
    /// Subnets.
    Subnets,
    /// Security groups.
    SecurityGroups,
    /// Images.
    Images,
    /// Capacity reservations.
    Reservations,
    /// The placement group.
    PlacementGroup,
    /// The instance profile.
    InstanceProfile,
    /// Whether everything can be launched.
    Validation,
}

impl ClassLookup {
    /// All parts, in the order of the look-ups.
    pub const ALL: [Self; 7] = [
        Self::Subnets,
        Self::SecurityGroups,
        Self::Images,
        Self::Reservations,
        Self::PlacementGroup,
        Self::InstanceProfile,
        Self::Validation,
    ];

    /// The interval of look-ups without errors.
    #[must_use]
    pub fn every(self, settings: &Settings) -> Duration {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        match self {
            Self::Subnets => settings.subnet_refresh,
            Self::Images => settings.ami_refresh,
            Self::Reservations | Self::PlacementGroup => minutes(1),
            Self::SecurityGroups => minutes(5),
            Self::Validation => minutes(10),
            Self::InstanceProfile => minutes(15),
        }
    }
}

/// When the parts of an EC2NodeClass are due. A new generation makes all of them due.
#[derive(Clone, Debug, Default)]
pub struct Cadence {
    generation: i64,
    /// For each part, when it was scheduled and for when.
    due: BTreeMap<ClassLookup, (Timestamp, Timestamp)>,
}

impl Cadence {
    /// Returns the due parts.
    pub fn due(&mut self, generation: i64, now: Timestamp) -> Vec<ClassLookup> {
        if self.generation != generation {
            *self = Self { generation, due: BTreeMap::new() };
        }
        // A part that was scheduled in the future was scheduled before the clock was set back.
        let due = |lookup: &ClassLookup| {
            self.due.get(lookup).is_none_or(|(since, due)| *due <= now || *since > now)
        };
        ClassLookup::ALL.into_iter().filter(due).collect()
    }

    /// Schedules the next look-up of a part.
    pub fn again(&mut self, lookup: ClassLookup, after: Duration, now: Timestamp) {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let due = now.checked_add(after).unwrap_or(Timestamp::MAX);
        self.due.insert(lookup, (now, due));
    }

    /// The time until the next part is due, at most `most`.
    #[must_use]
    pub fn next(&self, now: Timestamp, most: Duration) -> Duration {
        let soonest = self.due.values().map(|(_, due)| *due).min();
        let left =
            soonest.map_or(most, |due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        left.min(most)
    }
}

#[cfg(test)]
mod tests {
    //! When parts are due.
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn parts_become_due_again() {
        let start = Timestamp::UNIX_EPOCH;
        let settings = Settings::new("c", "r");
        let mut cadence = Cadence::default();
        let mut seen: BTreeMap<ClassLookup, usize> = BTreeMap::new();
        for minute in 0..31 {
            let now = start + SignedDuration::from_mins(minute);
            for lookup in cadence.due(1, now) {
                *seen.entry(lookup).or_default() += 1;
                cadence.again(lookup, lookup.every(&settings), now);
            }
        }
        let counts: Vec<usize> = ClassLookup::ALL.iter().map(|lookup| seen[lookup]).collect();
        assert_eq!(counts, [31, 7, 31, 31, 31, 3, 4]);
    }

    #[test]
    fn a_clock_that_jumps_back_puts_nothing_off() {
        let now = Timestamp::UNIX_EPOCH;
        let ahead = now + SignedDuration::from_hours(24 * 365);
        let mut cadence = Cadence::default();
        for lookup in cadence.due(1, ahead) {
            cadence.again(lookup, MINUTE, ahead);
        }
        assert_eq!(cadence.due(1, now), ClassLookup::ALL);
    }

    #[test]
    fn a_new_generation_makes_everything_due() {
        let now = Timestamp::UNIX_EPOCH;
        let mut cadence = Cadence::default();
        for lookup in cadence.due(1, now) {
            cadence.again(lookup, MINUTE, now);
        }
        assert!(cadence.due(1, now).is_empty());
        assert_eq!(cadence.next(now, 2 * MINUTE), MINUTE);
        assert_eq!(cadence.next(now, MINUTE / 2), MINUTE / 2);
        assert_eq!(cadence.due(2, now), ClassLookup::ALL);
        cadence.again(ClassLookup::Images, MINUTE, now);
        assert_eq!(cadence.due(2, now).len(), ClassLookup::ALL.len() - 1);
    }
}
