//! Disruption budgets, as written; the core evaluates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::NillableDuration;
use crate::text::words;

words! {
    /// What a budget can be about.
    DisruptionReason {
        /// The node is used too little.
        Underutilized = "Underutilized",
        /// Nothing would have to move.
        Empty = "Empty",
        /// The node is not what its pool or class asks for.
        Drifted = "Drifted",
    }
}

/// How many nodes of the pool may be on their way out at once, for some reasons, at some times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// How long the budget stays active after each hit of the schedule, in hours and minutes. Required with a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<NillableDuration>,
    /// A number of nodes, or a percentage of the pool's nodes, rounded up.
    #[schemars(extend("x-crd-default" = "10%", "pattern" = r"^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// The reasons that the budget is about; all of them when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When the budget becomes active: five cron fields or a shorthand such as @daily, in UTC. Always, when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { duration: None, nodes: "10%".to_owned(), reasons: None, schedule: None }
    }
}
