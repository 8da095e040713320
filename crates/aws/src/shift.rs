//! Zonal shift: zones that traffic is shifted away from, each until the shift expires.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::calls::ZonalShift;

/// The zones by id that traffic is shifted away from, with the end of each shift.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shifts {
    away: BTreeMap<String, Timestamp>,
    version: u64,
}

/// What changed between two answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Zones that traffic is shifted away from now.
    pub begun: Vec<String>,
    /// Zones that are used again.
    pub cleared: Vec<String>,
}

impl Shifts {
    /// Replaces the shifts by those that AWS reports now: an unreported one has ended, whatever its expiry was.
    pub fn refresh(&mut self, reported: &[ZonalShift], now: Timestamp) -> Changed {
        let active = reported.iter().filter(|shift| shift.status == "APPLIED" && !shift.zone_id.is_empty());
        let mut away: BTreeMap<String, Timestamp> = BTreeMap::new();
        for shift in active {
            // An autoshift lasts until AWS does not report it any more.
            let expires = shift.expires.unwrap_or(Timestamp::MAX);
            if expires > now {
                let known = away.entry(shift.zone_id.clone()).or_insert(expires);
                *known = expires.max(*known);
            }
        }
        self.replace(away)
    }

    /// Drops expired shifts while AWS does not answer.
    pub fn sweep(&mut self, now: Timestamp) -> Changed {
        let mut away = self.away.clone();
        away.retain(|_, expires| *expires > now);
        self.replace(away)
    }

    fn replace(&mut self, away: BTreeMap<String, Timestamp>) -> Changed {
        let new = |zone: &&String| !self.away.contains_key(*zone);
        let old = |zone: &&String| !away.contains_key(*zone);
        let changed = Changed {
            begun: away.keys().filter(new).cloned().collect(),
            cleared: self.away.keys().filter(old).cloned().collect(),
        };
        self.version += u64::from(changed != Changed::default());
        self.away = away;
        changed
    }

    /// Whether traffic is shifted away from a zone.
    #[must_use]
    pub fn is_away(&self, zone_id: &str) -> bool {
        self.away.contains_key(zone_id)
    }

    /// A version that changes whenever a zone's state changes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

#[cfg(test)]
mod tests {
    //! Shifts expire.
    use jiff::SignedDuration;

    use super::*;

    fn shift(zone_id: &str, status: &str, minutes: i64) -> ZonalShift {
        let expires = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        ZonalShift { zone_id: zone_id.to_owned(), status: status.to_owned(), expires: Some(expires) }
    }

    #[test]
    fn one_of_several_that_is_cancelled_is_over() {
        let now = Timestamp::UNIX_EPOCH;
        let mut shifts = Shifts::default();
        let (a, b) = (shift("az1", "APPLIED", 10), shift("az2", "APPLIED", 20));
        let pending = [shift("az3", "NOT_APPLIED", 5), shift("az4", "APPLIED", 0), shift("", "APPLIED", 5)];
        let reported: Vec<ZonalShift> = [a, b.clone()].into_iter().chain(pending).collect();
        let changed = shifts.refresh(&reported, now);
        assert_eq!(changed.begun, ["az1", "az2"]);
        assert!(shifts.is_away("az1") && !shifts.is_away("az3") && !shifts.is_away("az4"));
        let version = shifts.version();
        assert_eq!(shifts.refresh(&reported, now), Changed::default());
        assert_eq!(shifts.version(), version);
        assert_eq!(shifts.refresh(&[b], now).cleared, ["az1"]);
        assert_eq!(shifts.sweep(now + SignedDuration::from_mins(19)), Changed::default());
        assert_eq!(shifts.sweep(now + SignedDuration::from_mins(20)).cleared, ["az2"]);
    }

    #[test]
    fn an_autoshift_lasts_until_it_is_not_reported_any_more() {
        let mut shifts = Shifts::default();
        let autoshift = ZonalShift { expires: None, ..shift("az1", "APPLIED", 0) };
        let later = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1000);
        assert_eq!(shifts.refresh(&[autoshift], Timestamp::UNIX_EPOCH).begun, ["az1"]);
        assert_eq!(shifts.sweep(later), Changed::default());
        assert_eq!(shifts.refresh(&[], later).cleared, ["az1"]);
    }
}
