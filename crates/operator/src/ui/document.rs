//! The data of the page. `docs/report.schema.json` is made from these types.

use fleetwright_core::model::Price;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{explain::funnel::Funnel, fleet::FleetReport, report::document::SavingReport};

/// Version of the document's form. Fields are added without a new version: readers ignore what they do not know.
const VERSION: u32 = 1;

/// A fleet with what explains it. Prices are per hour in the currency of the fleet, as exact decimal text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetPage {
    /// Version of this form.
    pub(crate) version: u32,
    /// The cluster or the files that were read.
    pub(crate) source: String,
    /// How prices are written: the sign of the fleet's currency, or its code.
    pub(crate) currency_sign: String,
    /// The fleet.
    pub(crate) fleet: FleetReport,
    /// Unschedulable pods with equal reasons, and what their constraints leave of the instance types.
    pub(crate) funnels: Vec<PodFunnels>,
    /// The cost over time, the oldest first; empty where one moment was read.
    pub(crate) costs: Vec<CostSample>,
    /// Where the money goes, and what could be saved; only in reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) saving: Option<SavingReport>,
}

/// What the constraints of pods leave of the instance types.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodFunnels {
    /// Why they are unschedulable, as in their rows.
    pub(crate) message: String,
    /// The pod that the solver was asked about, as `namespace/name`.
    pub(crate) pod: String,
    /// How many pods have the same reason.
    pub(crate) pods: usize,
    /// By NodePool.
    pub(crate) funnels: Vec<Funnel>,
}

/// The cost at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CostSample {
    /// The time.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// The cost per hour.
    pub(crate) hourly: String,
}

impl CostSample {
    /// The cost at a time.
    pub(crate) fn new(at: Timestamp, hourly: Price) -> Self {
        Self { at, hourly: hourly.to_string() }
    }
}

impl FleetPage {
    /// A fleet alone.
    pub(crate) fn new(source: impl Into<String>, fleet: FleetReport) -> Self {
        Self {
            version: VERSION,
            source: source.into(),
            currency_sign: fleet.currency.to_string(),
            fleet,
            funnels: Vec::new(),
            costs: Vec::new(),
            saving: None,
        }
    }
}
