//! Metrics of shadow mode.

use crate::metrics::Family;

/// Batches by agreement.
pub(crate) const BATCHES: Family = Family::counter(
    "fleetwright_shadow_batches_total",
    &["agreement"],
    "Shadow mode: number of compared batches of pending pods, by agreement",
);
/// Batches in progress.
pub(crate) const OPEN_BATCHES: Family = Family::gauge(
    "fleetwright_shadow_open_batches",
    &[],
    "Shadow mode: number of batches whose pods are not all bound yet",
);
/// Reasons for differences.
pub(crate) const DIFFERENCES: Family = Family::counter(
    "fleetwright_shadow_differences_total",
    &["reason"],
    "Shadow mode: number of compared batches with this reason for a difference",
);
/// NodeClaims of compared batches.
pub(crate) const CLAIMS: Family = Family::counter(
    "fleetwright_shadow_nodeclaims_total",
    &["by", "nodepool"],
    "Shadow mode: number of NodeClaims of compared batches, of Karpenter and of our plans",
);
/// Price of compared batches.
pub(crate) const PRICE: Family = Family::counter(
    "fleetwright_shadow_hourly_price_total",
    &["by"],
    "Shadow mode: sum of the hourly prices of the NodeClaims of compared batches with known prices, of Karpenter and of our \
     plans",
);
/// Disruption commands by agreement.
pub(crate) const DISRUPTIONS: Family = Family::counter(
    "fleetwright_shadow_disruptions_total",
    &["agreement"],
    "Shadow mode: number of compared disruption commands, by agreement",
);
/// Savings of what we propose.
pub(crate) const STANDING_SAVINGS: Family = Family::gauge(
    "fleetwright_shadow_proposed_savings_hourly",
    &[],
    "Shadow mode: amount per hour, in the currency of the cloud, that the disruption commands would save which Fleetwright proposes now",
);
