//! What `/decisions` returns. `docs/decisions.schema.json` is made from these types.

use std::sync::Arc;

use fleetwright_controllers::runtime::decisions::{DecisionQuery, DecisionRing};
use fleetwright_core::decisions::{DecisionRecord, record::VERSION};
use schemars::JsonSchema;
use serde::Serialize;

/// The last decisions of a controller.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecisionList {
    /// Version of this form. Fields and kinds are added without a new version: readers ignore what they do not know.
    pub(super) version: u32,
    /// The process that decided. Another process begins again with an empty list.
    pub(super) process: String,
    /// The last change, for the header `Last-Event-ID` of a stream that continues from here.
    pub(super) last_event_id: String,
    /// How many records of this process were dropped because there was no room.
    pub(super) dropped: u64,
    /// The decisions, oldest first.
    pub(super) decisions: Vec<Arc<DecisionRecord>>,
}

impl DecisionList {
    /// The records that `query` selects.
    pub(super) fn new(ring: &DecisionRing, query: &DecisionQuery) -> Self {
        Self {
            version: VERSION,
            process: ring.process().to_owned(),
            last_event_id: event_id(ring.process(), ring.revision()),
            dropped: ring.dropped(),
            decisions: ring.read(query),
        }
    }
}

/// The id of an event of the stream.
pub(super) fn event_id(process: &str, revision: u64) -> String {
    format!("{process}-{revision}")
}
