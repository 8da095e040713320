//! Capacity reservations: which ones an EC2NodeClass selects, their entry in its status, and their free capacity.

use std::collections::BTreeMap;
use std::time::Duration;

use fleetwright_aws_api::Time;
use fleetwright_aws_api::ec2nodeclass::{
    CapacityReservation, CapacityReservationSelectorTerm, Ec2NodeClassStatus, condition,
};
use jiff::{SignedDuration, Timestamp};

use super::{ConditionOutcome, ConditionResult, MATCHES_MAX, counted};
use crate::calls::{AwsError, Filter, ReservationInfo};

/// How long before its end a capacity block is vacated: EC2 terminates its instances 30 minutes before the end.
pub const EXPIRING: SignedDuration = SignedDuration::from_mins(40);
/// How often a reservation that should have started is looked up.
const LATE: SignedDuration = SignedDuration::from_secs(10);
/// How long a count is used without confirmation by EC2.
pub const COUNT_VALID_FOR: SignedDuration = SignedDuration::from_hours(24);

/// One query: by id alone, or by filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The id.
    pub id: Option<String>,
    /// The filters.
    pub filters: Vec<Filter>,
}

/// The queries of an EC2NodeClass's terms. Ids are queried one by one: one that does not exist fails a whole query. A term without id,
/// tags and criteria (`tags: {}`) selects nothing: without filters it would select all reservations of the account.
#[must_use]
pub fn queries(terms: &[CapacityReservationSelectorTerm]) -> Vec<Query> {
    let query = |term: &CapacityReservationSelectorTerm| {
        if term.id.is_some() {
            return Some(Query { id: term.id.clone(), filters: Vec::new() });
        }
        let owner = term.owner_id.as_ref().map(|owner| Filter::new("owner-id", [owner]));
        let criteria = term.instance_match_criteria.as_ref();
        let criteria = criteria.map(|criteria| Filter::new("instance-match-criteria", [criteria]));
        let tags = term.tags.as_ref().map(Filter::of_tags).unwrap_or_default();
        let selects = criteria.is_some() || !tags.is_empty();
        selects.then(|| Query { id: None, filters: owner.into_iter().chain(criteria).chain(tags).collect() })
    };
    terms.iter().filter_map(query).collect()
}

/// Whether a reservation is a capacity block about to end.
#[must_use]
pub fn is_expiring(kind: &str, ends: Option<Timestamp>, now: Timestamp) -> bool {
    kind == "capacity-block" && ends.is_some_and(|ends| ends.duration_since(now) <= EXPIRING)
}

/// The status entry of a reservation; `None` for an unknown kind.
fn known(info: &ReservationInfo, now: Timestamp) -> Option<CapacityReservation> {
    let kind = match info.kind.as_str() {
        "" | "default" => "default",
        "capacity-block" => "capacity-block",
        _ => return None,
    };
    if !["open", "targeted"].contains(&info.match_criteria.as_str()) {
        return None;
    }
    Some(CapacityReservation {
        availability_zone: info.zone.clone(),
        end_time: info.ends.map(|ends| Time(whole_seconds(ends))),
        id: info.id.clone(),
        instance_match_criteria: info.match_criteria.clone(),
        instance_type: info.instance_type.clone(),
        interruptible: info.interruptible,
        owner_id: info.owner.clone(),
        reservation_type: kind.to_owned(),
        state: if is_expiring(kind, info.ends, now) { "expiring" } else { "active" }.to_owned(),
    })
}

/// A reservation that starts later. The CRD has no state for it, so that it is not part of the status.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledReservation {
    /// The reservation.
    pub reservation: CapacityReservation,
    /// When it starts.
    pub starts: Timestamp,
}

impl ScheduledReservation {
    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = match self.reservation.reservation_type.as_str() {
            "capacity-block" => "capacity block",
            _ => "capacity reservation",
        };
        format!("{kind} {}", self.reservation.id)
    }
}

/// The reservations that start later, the first ones first.
#[must_use]
pub fn scheduled(found: &[ReservationInfo], now: Timestamp) -> Vec<ScheduledReservation> {
    let ahead = |info: &ReservationInfo| {
        Some(ScheduledReservation { reservation: known(info, now)?, starts: whole_seconds(info.starts?) })
    };
    let mut all: Vec<ScheduledReservation> = found.iter().filter_map(ahead).collect();
    all.sort_by(|a, b| a.starts.cmp(&b.starts).then_with(|| a.reservation.id.cmp(&b.reservation.id)));
    all.truncate(MATCHES_MAX);
    all
}

/// The API has whole seconds; fractions would look like a change after every round trip.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Writes the reservations to the status, by id. The known ones remain while AWS does not answer; if IAM denies the look-up, the
/// EC2NodeClass continues with the known ones and reports it.
pub fn reservations(
    found: &Result<Vec<ReservationInfo>, AwsError>,
    status: &mut Ec2NodeClassStatus,
    now: Timestamp,
) -> ConditionResult {
    const CONDITION: &str = condition::CAPACITY_RESERVATIONS_READY;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let unanswered =
                ConditionResult::unanswered(CONDITION, "ec2:DescribeCapacityReservations", error);
            return match unanswered.outcome {
                ConditionOutcome::Unanswered { message, denied: true, .. } => ConditionResult {
                    condition: CONDITION,
                    outcome: ConditionOutcome::Limited { reason: super::conditions::UNAUTHORIZED, message },
                },
                outcome => ConditionResult { condition: CONDITION, outcome },
            };
        }
    };
    let current =
        found.iter().filter(|info| info.starts.is_none() && info.ends.is_none_or(|ends| ends > now));
    let (mut known_reservations, mut unknown) = (Vec::new(), Vec::new());
    for info in current {
        match known(info, now) {
            Some(reservation) => known_reservations.push(reservation),
            None => unknown.push(info.id.as_str()),
        }
    }
    known_reservations.sort_by(|a, b| a.id.cmp(&b.id));
    let count = known_reservations.len();
    known_reservations.truncate(MATCHES_MAX);
    status.capacity_reservations = known_reservations;
    if unknown.is_empty() {
        return counted(CONDITION, count, "spec.capacityReservationSelectorTerms");
    }
    unknown.sort_unstable();
    unknown.truncate(10);
    let message = format!("reservations of unknown kinds are ignored: {}", unknown.join(", "));
    ConditionResult {
        condition: CONDITION,
        outcome: ConditionOutcome::Limited { reason: "UnknownReservations", message },
    }
}

/// The delay until the next look-up: when the next reservation starts, changes its state or ends, at most `every`.
#[must_use]
pub fn again(
    status: &Ec2NodeClassStatus,
    scheduled: &[ScheduledReservation],
    every: Duration,
    now: Timestamp,
) -> Duration {
    // EC2 may show it as scheduled for a while after its start.
    let starts = scheduled.iter().map(|own| own.starts.max(now + LATE));
    let moments = status.capacity_reservations.iter().filter_map(|reservation| {
        let ends = reservation.end_time.as_ref()?.0;
        let block = reservation.reservation_type == "capacity-block" && reservation.state != "expiring";
        Some(if block { ends - EXPIRING } else { ends })
    });
    let left = moments.chain(starts).min().map_or(every, |next| {
        Duration::try_from(next.duration_since(now)).unwrap_or_default().max(Duration::from_secs(1))
    });
    left.min(every)
}

/// The free capacity of each reservation: EC2's last figure, adjusted by launches and terminations since then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationCounts {
    by_id: BTreeMap<String, ReservationCount>,
    version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReservationCount {
    left: u32,
    reported_at: Timestamp,
}

impl ReservationCounts {
    /// Replaces the figures by those that EC2 reports now.
    pub fn sync(&mut self, reported: impl IntoIterator<Item = (String, u32)>, now: Timestamp) {
        for (id, left) in reported {
            self.put(id, left, now);
        }
        let old = |count: &ReservationCount| now.duration_since(count.reported_at) < COUNT_VALID_FOR;
        let before = self.by_id.len();
        self.by_id.retain(|_, count| old(count));
        self.version += u64::from(self.by_id.len() != before);
    }

    fn put(&mut self, id: String, left: u32, reported_at: Timestamp) {
        let before = self.by_id.insert(id, ReservationCount { left, reported_at });
        self.version += u64::from(before.map(|count| count.left) != Some(left));
    }

    /// How many more instances a reservation can hold; 0 if unknown.
    #[must_use]
    pub fn left(&self, id: &str) -> u32 {
        self.by_id.get(id).map_or(0, |count| count.left)
    }

    /// Subtracts instances that were launched into a reservation.
    pub fn launched(&mut self, id: &str, count: u32) {
        self.change(id, |left| left.saturating_sub(count));
    }

    /// Adds back an instance of a reservation that was terminated.
    pub fn terminated(&mut self, id: &str) {
        self.change(id, |left| left.saturating_add(1));
    }

    /// EC2 reported that a reservation is full.
    pub fn full(&mut self, id: &str, now: Timestamp) {
        self.put(id.to_owned(), 0, now);
    }

    fn change(&mut self, id: &str, change: impl FnOnce(u32) -> u32) {
        if let Some(count) = self.by_id.get(id).copied() {
            self.put(id.to_owned(), change(count.left), count.reported_at);
        }
    }

    /// A version that changes with every count.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

#[cfg(test)]
mod tests {
    //! Selection, status entries, and counts.
    use serde_json::json;

    use super::*;

    fn info(id: &str, kind: &str, ends: Option<i64>) -> ReservationInfo {
        ReservationInfo {
            id: id.to_owned(),
            zone: "us-west-2a".to_owned(),
            instance_type: "m5.large".to_owned(),
            owner: "123456789012".to_owned(),
            match_criteria: "targeted".to_owned(),
            kind: kind.to_owned(),
            ends: ends.map(|minutes| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)),
            available: 2,
            ..ReservationInfo::default()
        }
    }

    #[test]
    fn terms_are_queried_one_by_one() {
        let terms: Vec<CapacityReservationSelectorTerm> = serde_json::from_value(json!([
            {"id": "cr-1"}, {"ownerID": "123456789012", "tags": {"a": "*"}},
            {"instanceMatchCriteria": "open"},
        ]))
        .unwrap();
        let asked = queries(&terms);
        assert_eq!(asked[0], Query { id: Some("cr-1".to_owned()), filters: Vec::new() });
        assert_eq!(
            asked[1].filters,
            [Filter::new("owner-id", ["123456789012"]), Filter::new("tag-key", ["a"])]
        );
        assert_eq!(asked[2].filters, [Filter::new("instance-match-criteria", ["open"])]);
    }

    /// `has(self.tags)` holds for an empty map, so that the API server accepts such terms.
    #[test]
    fn a_term_without_content_selects_nothing() {
        let terms: Vec<CapacityReservationSelectorTerm> =
            serde_json::from_value(json!([{"tags": {}}, {"tags": {}, "ownerID": "123456789012"}])).unwrap();
        assert_eq!(queries(&terms), []);
    }

    #[test]
    fn blocks_expire_and_unknown_kinds_are_reported() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = Ec2NodeClassStatus::default();
        let odd = ReservationInfo { match_criteria: "telepathic".to_owned(), ..info("cr-5", "", None) };
        let found = vec![
            info("cr-3", "capacity-block", Some(40)),
            info("cr-1", "", None),
            info("cr-2", "capacity-block", Some(41)),
            info("cr-0", "default", Some(0)),
            info("cr-4", "lunar", None),
            odd,
        ];
        let finding = reservations(&Ok(found), &mut status, now);
        let states: Vec<(&str, &str)> =
            status.capacity_reservations.iter().map(|r| (r.id.as_str(), r.state.as_str())).collect();
        assert_eq!(states, [("cr-1", "active"), ("cr-2", "active"), ("cr-3", "expiring")]);
        let message = match finding.outcome {
            ConditionOutcome::Limited { reason: "UnknownReservations", message } => message,
            other => panic!("{other:?}"),
        };
        assert!(message.ends_with("cr-4, cr-5"), "{message}");
        assert_eq!(again(&status, &[], Duration::from_secs(300), now), Duration::from_secs(60));
        let before = status.clone();
        let denied = Err(AwsError::new("UnauthorizedOperation", "no"));
        let finding = reservations(&denied, &mut status, now);
        assert!(
            matches!(finding.outcome, ConditionOutcome::Limited { reason: "Unauthorized", .. }),
            "{finding:?}"
        );
        assert_eq!(status, before, "the known reservations remain");
        let throttled = Err(AwsError::new("RequestLimitExceeded", "no"));
        assert!(!reservations(&throttled, &mut status, now).is_answered());
    }

    #[test]
    fn what_starts_later_is_apart_and_looked_up_at_its_start() {
        let now = Timestamp::UNIX_EPOCH;
        let ahead = |id: &str, kind: &str, seconds: i64| ReservationInfo {
            starts: Some(now + SignedDuration::from_secs(seconds)),
            ..info(id, kind, Some(600))
        };
        let found = vec![
            ahead("cr-2", "", 90),
            ahead("cr-1", "capacity-block", 30),
            ahead("cr-3", "lunar", 1),
            info("cr-4", "", None),
        ];
        let all = scheduled(&found, now);
        let names: Vec<String> = all.iter().map(ScheduledReservation::name).collect();
        assert_eq!(names, ["capacity block cr-1", "capacity reservation cr-2"]);
        let mut status = Ec2NodeClassStatus::default();
        let _ = reservations(&Ok(found), &mut status, now);
        let active: Vec<&str> = status.capacity_reservations.iter().map(|own| own.id.as_str()).collect();
        assert_eq!(active, ["cr-4"]);
        let wait = |now| again(&status, &all, Duration::from_secs(300), now).as_secs();
        assert_eq!([wait(now), wait(now + SignedDuration::from_secs(40))], [30, 10]);
    }

    #[test]
    fn counts_move_with_launches_and_ends() {
        let now = Timestamp::UNIX_EPOCH;
        let mut counts = ReservationCounts::default();
        assert_eq!(counts.left("cr-1"), 0, "an unknown reservation is full");
        counts.terminated("cr-1");
        assert_eq!(counts.left("cr-1"), 0);
        counts.sync([("cr-1".to_owned(), 3)], now);
        counts.launched("cr-1", 5);
        assert_eq!(counts.left("cr-1"), 0);
        counts.terminated("cr-1");
        assert_eq!(counts.left("cr-1"), 1);
        let version = counts.version();
        counts.sync([("cr-1".to_owned(), 1)], now);
        assert_eq!(counts.version(), version, "no change");
        counts.full("cr-1", now);
        assert!(counts.left("cr-1") == 0 && counts.version() > version);
        counts.sync([("cr-1".to_owned(), 2)], now);
        counts.sync([], now + COUNT_VALID_FOR);
        assert_eq!(counts.left("cr-1"), 0, "EC2 has not confirmed it for a day");
    }
}
