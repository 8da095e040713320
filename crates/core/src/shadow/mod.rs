//! Shadow mode: what this planner would have decided beside what another controller (Karpenter) did, on the same cluster.
//!
//! - [`BatchTracker`] follows the batches of pending pods: it gets our [`PlannedBatch`] when the batch window closes, observes
//!   the NodeClaims that appear afterwards, and returns a [`BatchComparison`] once all pods have an outcome.
//! - [`compare`] judges a batch: agreement, and the reasons for a difference.
//! - [`DisruptionTracker`] follows the nodes that are disrupted beside those that we propose.
//!
//! Our plans are never carried out: every decision starts from the nodes and NodeClaims of the cluster.

mod batches;
mod claims;
mod compare;
mod disruptions;
#[cfg(test)]
mod tests;

pub use batches::{BatchComparison, BatchTracker, PlannedBatch};
pub use claims::{ClaimGroup, LaunchedClaim, PodOutcomes, hourly};
pub use compare::{Agreement, BatchSides, DifferenceReason, compare};
pub use disruptions::{CommandSummary, DisruptionAgreement, DisruptionComparison, DisruptionTracker};
