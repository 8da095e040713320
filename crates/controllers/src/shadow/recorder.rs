//! Records comparisons: journal, metrics and log.

use std::sync::Arc;

use fleetwright_core::shadow::{
    Agreement, BatchComparison, ClaimGroup, CommandSummary, DisruptionAgreement, DisruptionComparison, hourly,
};

use super::{families, journal::Journal};
use crate::{
    metrics::Metrics,
    runtime::{Ctx, Shared},
};

/// The values of the label `by`.
const KARPENTER: &str = "karpenter";
const OURS: &str = "fleetwright";

/// Records comparisons. Clones share journal and metrics.
#[derive(Clone)]
pub(super) struct Recorder {
    metrics: Arc<Metrics>,
    journal: Shared<Journal>,
}

impl Recorder {
    /// A recorder, with the series that begin at zero.
    pub(super) fn new(ctx: &Ctx, journal: Shared<Journal>) -> Self {
        for agreement in Agreement::ALL {
            ctx.metrics.add(&families::BATCHES, &[agreement.as_str()], 0.0);
        }
        for agreement in DisruptionAgreement::ALL {
            ctx.metrics.add(&families::DISRUPTIONS, &[agreement.as_str()], 0.0);
        }
        for by in [KARPENTER, OURS] {
            ctx.metrics.add(&families::PRICE, &[by], 0.0);
        }
        Self { metrics: ctx.metrics.clone(), journal }
    }

    /// Records a batch.
    pub(super) fn batch(&self, batch: BatchComparison) {
        self.metrics.inc(&families::BATCHES, &[batch.agreement.as_str()]);
        for reason in &batch.reasons {
            self.metrics.inc(&families::DIFFERENCES, &[reason.as_str()]);
        }
        for (by, groups) in [(KARPENTER, &batch.karpenter), (OURS, &batch.ours)] {
            for group in groups {
                self.metrics.add(&families::CLAIMS, &[by, &group.pool], figure(group.count));
            }
        }
        if let (Some(karpenter), Some(ours)) = (hourly(&batch.karpenter), hourly(&batch.ours)) {
            self.metrics.add(&families::PRICE, &[KARPENTER], karpenter.dollars());
            self.metrics.add(&families::PRICE, &[OURS], ours.dollars());
        }
        let price = |groups: &[ClaimGroup]| hourly(groups).map(|price| price.to_string());
        let reasons: Vec<String> = batch.reasons.iter().map(ToString::to_string).collect();
        tracing::info!(
            batch = batch.number,
            pods = batch.pods,
            agreement = batch.agreement.as_str(),
            karpenter = price(&batch.karpenter),
            ours = price(&batch.ours),
            reasons = reasons.join("; "),
            "compared batch"
        );
        self.journal.lock().add_batch(batch);
    }

    /// Records a disruption command.
    pub(super) fn disruption(&self, comparison: DisruptionComparison) {
        self.metrics.inc(&families::DISRUPTIONS, &[comparison.agreement.as_str()]);
        let reasons: Vec<String> =
            comparison.reasons.iter().map(|(claim, why)| format!("{claim}: {why}")).collect();
        tracing::info!(
            agreement = comparison.agreement.as_str(),
            karpenter = comparison.karpenter.as_ref().and_then(saving),
            ours = comparison.ours.iter().filter_map(saving).sum::<f64>(),
            reasons = reasons.join("; "),
            "compared disruption"
        );
        self.journal.lock().add_disruption(comparison);
    }
}

/// What a command saves, in dollars per hour; `None` where a price is unknown.
pub(super) fn saving(command: &CommandSummary) -> Option<f64> {
    let (before, after) = (hourly(&command.nodes)?, hourly(&command.replacements)?);
    Some(before.dollars() - after.dollars())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a metric")]
pub(super) fn figure(number: usize) -> f64 {
    number as f64
}
