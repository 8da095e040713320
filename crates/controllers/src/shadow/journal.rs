//! The last comparisons, and the totals of all.

use std::collections::{BTreeMap, VecDeque};

use fleetwright_core::{
    model::Price,
    shadow::{Agreement, BatchComparison, ClaimGroup, DisruptionAgreement, DisruptionComparison, hourly},
};
use jiff::Timestamp;

/// Comparisons that are kept; a comparison has a few groups of NodeClaims, so that all take some hundred KiB.
const KEPT: usize = 500;

/// Totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Compared batches by agreement.
    pub batches: BTreeMap<Agreement, u64>,
    /// Their pods.
    pub pods: u64,
    /// NodeClaims of Karpenter.
    pub karpenter_claims: u64,
    /// NodeClaims of our plans.
    pub our_claims: u64,
    /// The hourly price of Karpenter's NodeClaims, of batches in which both prices are known.
    pub karpenter_price: Price,
    /// The hourly price of ours, of the same batches.
    pub our_price: Price,
    /// Batches without a known price.
    pub unpriced: u64,
    /// Batches by reason for a difference.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Compared disruption commands by agreement.
    pub disruptions: BTreeMap<DisruptionAgreement, u64>,
}

/// A comparison.
#[derive(Clone, Debug)]
pub enum ShadowRecord {
    /// Of a batch.
    Batch(BatchComparison),
    /// Of a disruption command.
    Disruption(DisruptionComparison),
}

/// The comparisons of a shadow.
#[derive(Debug)]
pub struct Journal {
    since: Timestamp,
    totals: Totals,
    records: VecDeque<ShadowRecord>,
}

impl Journal {
    /// An empty journal.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Self { since, totals: Totals::default(), records: VecDeque::new() }
    }

    /// When it began.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// The totals of all comparisons, also of those that are not kept any more.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The last comparisons, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &ShadowRecord> {
        self.records.iter()
    }

    /// Adds the comparison of a batch.
    pub fn add_batch(&mut self, batch: BatchComparison) {
        let totals = &mut self.totals;
        *totals.batches.entry(batch.agreement).or_default() += 1;
        totals.pods += count(batch.pods);
        totals.karpenter_claims += claims(&batch.karpenter);
        totals.our_claims += claims(&batch.ours);
        match (hourly(&batch.karpenter), hourly(&batch.ours)) {
            (Some(karpenter), Some(ours)) => {
                totals.karpenter_price = totals.karpenter_price + karpenter;
                totals.our_price = totals.our_price + ours;
            }
            _ => totals.unpriced += 1,
        }
        for reason in &batch.reasons {
            *totals.reasons.entry(reason.as_str()).or_default() += 1;
        }
        self.push(ShadowRecord::Batch(batch));
    }

    /// Adds the comparison of a disruption command.
    pub fn add_disruption(&mut self, comparison: DisruptionComparison) {
        *self.totals.disruptions.entry(comparison.agreement).or_default() += 1;
        self.push(ShadowRecord::Disruption(comparison));
    }

    fn push(&mut self, record: ShadowRecord) {
        if self.records.len() >= KEPT {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }
}

fn claims(groups: &[ClaimGroup]) -> u64 {
    groups.iter().map(|group| count(group.count)).sum()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Bounds and totals.
    use fleetwright_core::shadow::PodOutcomes;

    use super::*;

    fn batch(number: u64, price: Option<Price>) -> BatchComparison {
        let group = |price| ClaimGroup {
            pool: "default".into(),
            instance_type: "m".into(),
            zone: "a".into(),
            capacity_type: "spot".into(),
            price,
            count: 2,
            pods: 2,
        };
        BatchComparison {
            number,
            opened: Timestamp::UNIX_EPOCH,
            closed: Timestamp::UNIX_EPOCH,
            pods: 2,
            karpenter: vec![group(price)],
            karpenter_pods: PodOutcomes::default(),
            ours: vec![group(Some(Price::from_nanos(5)))],
            our_pods: PodOutcomes::default(),
            agreement: Agreement::Same,
            reasons: Vec::new(),
        }
    }

    #[test]
    fn old_comparisons_leave_and_stay_in_the_totals() {
        let mut journal = Journal::new(Timestamp::UNIX_EPOCH);
        for number in 1..=600 {
            journal.add_batch(batch(number, Some(Price::from_nanos(7))));
        }
        journal.add_batch(batch(601, None));
        let Some(ShadowRecord::Batch(oldest)) = journal.records().next() else { panic!("no batch") };
        assert_eq!((oldest.number, journal.records().count()), (102, 500));
        let Totals { pods, karpenter_claims, our_claims, unpriced, .. } = *journal.totals();
        assert_eq!((pods, karpenter_claims, our_claims, unpriced), (1202, 1202, 1202, 1));
        let Totals { karpenter_price, our_price, .. } = journal.totals();
        assert_eq!((karpenter_price.nanos(), our_price.nanos()), (600 * 14, 600 * 10));
    }
}
