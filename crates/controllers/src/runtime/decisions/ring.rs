//! The last decisions, bounded in number and bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use fleetwright_core::{
    decisions::{Choice, DecisionDraft, DecisionRecord},
    model::Currency,
};
use jiff::Timestamp;

use crate::runtime::queue::later;

/// Records of a lane at most. A batch of 500 NodeClaims and what comes of it fits.
const RECORDS: usize = 1000;
/// Bytes of the records of a lane at most, as JSON. One has 500 to 1,000 bytes; the largest, with 20 nodes, 20 replacements and 20
/// candidates, some 12 KiB. Both lanes have 4 MiB.
const BYTES: usize = 2 << 20;
/// How long an equal refusal is not recorded again.
const SAME_FOR: Duration = Duration::from_secs(900);
/// Refusals that are remembered at most, about 100 bytes each; others may be recorded again.
const REMEMBERED: usize = 20_000;

/// A record, with its size.
struct Kept {
    record: Arc<DecisionRecord>,
    bytes: usize,
}

/// Records in the order of their decisions.
#[derive(Default)]
struct Lane {
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Lane {
    /// Removes and returns the oldest record, if the lane is too large.
    fn evict(&mut self) -> Option<Arc<DecisionRecord>> {
        if self.kept.len() <= RECORDS && self.bytes <= BYTES {
            return None;
        }
        let oldest = self.kept.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest.record)
    }
}

/// The last decisions. What is carried out and what is refused have a lane each, so that refusals, of which there may be one for each
/// reason and pass, do not displace what was done.
pub struct DecisionRing {
    process: String,
    currency: Currency,
    issued: u64,
    revision: u64,
    /// Plans, NodeClaims, commands and deletions; refusals and held acts.
    lanes: [Lane; 2],
    dropped: u64,
    /// The last change of a record that was dropped.
    dropped_revision: u64,
    /// When a refusal was recorded, in steady time.
    refused: BTreeMap<String, Timestamp>,
}

/// Which records are read.
#[derive(Clone, Debug, Default)]
pub struct DecisionQuery {
    /// Those decided at this time or later.
    pub since: Option<Timestamp>,
    /// Those of these kinds; all if it is empty.
    pub kinds: Vec<String>,
    /// The last of them.
    pub limit: Option<usize>,
}

impl DecisionQuery {
    /// Whether a record is one of those, but for the limit.
    #[must_use]
    pub fn selects(&self, record: &DecisionRecord) -> bool {
        self.since.is_none_or(|since| record.time >= since)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == record.draft.choice.kind()))
    }
}

impl DecisionRing {
    /// No decisions yet. `process` is different for each process.
    pub(super) fn new(process: String, currency: Currency) -> Self {
        Self {
            process,
            currency,
            issued: 0,
            revision: 0,
            lanes: <[Lane; 2]>::default(),
            dropped: 0,
            dropped_revision: 0,
            refused: BTreeMap::new(),
        }
    }

    /// An id that no other decision has.
    pub(super) fn issue(&mut self) -> String {
        self.issued += 1;
        format!("{}-{}", self.process, self.issued)
    }

    /// Adds a decision.
    pub(super) fn add(&mut self, id: String, draft: DecisionDraft, time: Timestamp) {
        self.revision += 1;
        let lane = match draft.choice {
            Choice::Plan(_) | Choice::NodeClaim(_) | Choice::Disruption(_) | Choice::Deletion(_) => {
                &mut self.lanes[0]
            }
            Choice::Refusal(_) | Choice::Held(_) => &mut self.lanes[1],
        };
        let record = DecisionRecord { id, revision: self.revision, time, currency: self.currency, draft };
        let bytes = size(&record);
        lane.bytes += bytes;
        lane.kept.push_back(Kept { record: Arc::new(record), bytes });
        self.shrink();
    }

    /// Changes the newest record that `is_it` selects, if it is kept and has an outcome that may change.
    pub(super) fn change(
        &mut self,
        is_it: impl Fn(&DecisionRecord) -> bool,
        change: impl FnOnce(&mut DecisionDraft),
    ) {
        let lane = &mut self.lanes[0];
        let Some(kept) = lane.kept.iter_mut().rev().find(|kept| is_it(&kept.record)) else { return };
        if kept.record.draft.outcome.as_ref().is_none_or(|outcome| outcome.status.is_final()) {
            return;
        }
        self.revision += 1;
        let record = Arc::make_mut(&mut kept.record);
        record.revision = self.revision;
        change(&mut record.draft);
        let bytes = size(record);
        lane.bytes = lane.bytes - kept.bytes + bytes;
        kept.bytes = bytes;
        self.shrink();
    }

    fn shrink(&mut self) {
        for lane in &mut self.lanes {
            while let Some(oldest) = lane.evict() {
                self.dropped += 1;
                self.dropped_revision = self.dropped_revision.max(oldest.revision);
            }
        }
    }

    /// Whether an equal refusal was not recorded for a while; remembers it.
    pub(super) fn is_new(&mut self, key: &str, steady: Timestamp) -> bool {
        if self.refused.get(key).is_some_and(|at| later(*at, SAME_FOR) > steady) {
            return false;
        }
        if self.refused.len() >= REMEMBERED {
            self.refused.retain(|_, at| later(*at, SAME_FOR) > steady);
        }
        if self.refused.len() < REMEMBERED {
            self.refused.insert(key.to_owned(), steady);
        }
        true
    }

    /// The id of the newest record of what is carried out whose choice `is_it` selects, if it is kept.
    pub(super) fn newest(&self, is_it: impl Fn(&Choice) -> bool) -> Option<String> {
        let mut records = self.lanes[0].kept.iter().rev().map(|kept| &kept.record);
        records.find(|record| is_it(&record.draft.choice)).map(|record| record.id.clone())
    }

    /// The process, which begins every id.
    #[must_use]
    pub fn process(&self) -> &str {
        &self.process
    }

    /// The last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many records were dropped because there was no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether changes after `revision` may have been dropped with their records.
    #[must_use]
    pub fn has_dropped_since(&self, revision: u64) -> bool {
        self.dropped_revision > revision
    }

    /// The records that `query` selects, in the order of their decisions.
    #[must_use]
    pub fn read(&self, query: &DecisionQuery) -> Vec<Arc<DecisionRecord>> {
        let mut found = self.selected(query, number);
        let surplus = query.limit.map_or(0, |limit| found.len().saturating_sub(limit));
        found.drain(..surplus);
        found
    }

    /// The records that `query` selects and that changed after `revision`, in the order of their last changes. Its limit does not apply.
    #[must_use]
    pub fn changes(&self, revision: u64, query: &DecisionQuery) -> Vec<Arc<DecisionRecord>> {
        let mut found = self.selected(query, |record| record.revision);
        found.retain(|record| record.revision > revision);
        found
    }

    fn selected(
        &self,
        query: &DecisionQuery,
        order: impl Fn(&DecisionRecord) -> u64,
    ) -> Vec<Arc<DecisionRecord>> {
        let all = self.lanes.iter().flat_map(|lane| &lane.kept).map(|kept| &kept.record);
        let mut found: Vec<_> = all.filter(|record| query.selects(record)).cloned().collect();
        found.sort_by_key(|record| order(record));
        found
    }
}

/// The number of a record within its process.
fn number(record: &DecisionRecord) -> u64 {
    record.id.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}

fn size(record: &DecisionRecord) -> usize {
    serde_json::to_vec(record).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    //! Bounds, order, outcomes.
    use fleetwright_core::{
        decisions::{DecisionInputs, DecisionOutcome, OutcomeStatus, of_held, of_plan},
        safety::{Act, Held},
        scheduling::Plan,
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn plan(ring: &mut DecisionRing, second: i64) -> String {
        let id = ring.issue();
        ring.add(id.clone(), of_plan(&Plan::default(), DecisionInputs::default(), at(second)), at(second));
        id
    }

    fn held(ring: &mut DecisionRing, subject: &str) {
        let held = Held::EvictionRate { left: Duration::from_secs(1) };
        let id = ring.issue();
        ring.add(id, of_held(Act::Evict, subject, &held, at(0)), at(0));
    }

    fn ids(records: &[Arc<DecisionRecord>]) -> Vec<&str> {
        records.iter().map(|record| &*record.id).collect()
    }

    #[test]
    fn the_oldest_go_first_and_refusals_do_not_displace_what_was_done() {
        let mut ring = DecisionRing::new("p".into(), Currency::USD);
        plan(&mut ring, 0);
        for _ in 0..RECORDS + 5 {
            held(&mut ring, "x");
        }
        let all = ring.read(&DecisionQuery::default());
        assert_eq!((all.len(), ring.dropped()), (RECORDS + 1, 5));
        assert_eq!(ids(&all[..2]), ["p-1", "p-7"]);
        assert!(ring.has_dropped_since(5) && !ring.has_dropped_since(6));
    }

    #[test]
    fn bytes_are_bounded() {
        let mut ring = DecisionRing::new("p".into(), Currency::USD);
        for _ in 0..300 {
            held(&mut ring, &"x".repeat(20_000));
        }
        let kept = ring.read(&DecisionQuery::default());
        let bytes: usize = kept.iter().map(|record| size(record)).sum();
        assert!(bytes <= BYTES && bytes > BYTES - 50_000, "{bytes}");
        assert_eq!(kept.last().unwrap().id, "p-300");
    }

    #[test]
    fn an_outcome_is_a_change_and_a_final_one_stays() {
        let mut ring = DecisionRing::new("p".into(), Currency::USD);
        let first = plan(&mut ring, 1);
        let second = plan(&mut ring, 2);
        let set = |ring: &mut DecisionRing, status| {
            let outcome = DecisionOutcome::new(status, at(9), None);
            ring.change(|record| record.id == first, |draft| draft.outcome = Some(outcome));
        };
        set(&mut ring, OutcomeStatus::Succeeded);
        set(&mut ring, OutcomeStatus::Failed);
        assert_eq!(ring.revision(), 3);
        let changed = ring.changes(2, &DecisionQuery::default());
        assert_eq!(ids(&changed), [&first]);
        assert_eq!(changed[0].draft.outcome.as_ref().unwrap().status, OutcomeStatus::Succeeded);
        assert_eq!(ids(&ring.changes(0, &DecisionQuery::default())), [&*second, &first]);
        assert_eq!(ids(&ring.read(&DecisionQuery::default())), [&*first, &second]);
    }

    #[test]
    fn queries_select_by_time_kind_and_number() {
        let mut ring = DecisionRing::new("p".into(), Currency::USD);
        for second in 1..=3 {
            plan(&mut ring, second);
        }
        held(&mut ring, "x");
        let read = |query| ids(&ring.read(&query)).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let all = DecisionQuery::default;
        assert_eq!(read(DecisionQuery { since: Some(at(2)), ..all() }), ["p-2", "p-3"]);
        assert_eq!(read(DecisionQuery { kinds: vec!["held".into()], ..all() }), ["p-4"]);
        assert_eq!(read(DecisionQuery { kinds: vec!["plan".into()], limit: Some(1), ..all() }), ["p-3"]);
    }

    #[test]
    fn an_equal_refusal_is_new_again_after_a_while() {
        let mut ring = DecisionRing::new("p".into(), Currency::USD);
        assert!(ring.is_new("a", at(0)) && !ring.is_new("a", at(899)) && ring.is_new("b", at(899)));
        assert!(ring.is_new("a", at(900)) && !ring.is_new("a", at(901)));
    }
}
