//! What blocks disruption, by owner: whom to ask for the saving.

use std::{cmp::Reverse, collections::BTreeMap};

use fleetwright_core::{disruption::DisruptionStatus, model::Price};
use schemars::JsonSchema;
use serde::Serialize;

use super::costs::Division;
use crate::disrupt::{BlockerRow, blockers};

/// Blockers of one type and owner.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockRow {
    /// The type of the blocker, as in the rows of nodes.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Who owns it, as `kind/name`; null where it is the cluster's or the decision's own.
    pub(super) owner: Option<String>,
    /// The message of one of them.
    pub(super) message: String,
    /// When the last of them ends without intervention; null where one has no known end.
    pub(super) until: Option<String>,
    /// The nodes that it blocks. A node with several blockers is in the row of each.
    pub(super) nodes: usize,
    /// What these nodes cost, as far as it is known.
    pub(super) hourly: String,
    /// What of it is unused.
    pub(super) unused_hourly: String,
}

/// Blockers of one type and owner, in sum.
struct Sum {
    first: BlockerRow,
    until: Option<String>,
    nodes: usize,
    price: Price,
    unused: Price,
}

/// The blockers of nodes.
pub(super) fn of(nodes: &[DisruptionStatus], division: &Division<'_>) -> Vec<BlockRow> {
    let mut sums: BTreeMap<(String, Option<String>), Sum> = BTreeMap::new();
    for status in nodes.iter().filter(|status| status.node.is_managed()) {
        let (unused, price) = division.node(status.node.name()).unwrap_or_default();
        let mut of_node: BTreeMap<(String, Option<String>), BlockerRow> = BTreeMap::new();
        for row in blockers(status) {
            of_node.entry((row.kind.clone(), row.owner.clone())).or_insert(row);
        }
        for (key, row) in of_node {
            let until = row.until.clone();
            let sum = sums.entry(key).or_insert_with(|| Sum {
                until: until.clone(),
                first: row,
                nodes: 0,
                price: Price::ZERO,
                unused: Price::ZERO,
            });
            sum.nodes += 1;
            sum.price = [sum.price, price].into_iter().sum();
            sum.unused = [sum.unused, unused].into_iter().sum();
            // Times of one form are in the order of their text.
            sum.until = sum.until.take().zip(until).map(|(known, other)| known.max(other));
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, sum)| Reverse((sum.unused, sum.nodes)));
    let row = |((kind, owner), sum): (_, Sum)| BlockRow {
        kind,
        owner,
        message: sum.first.message,
        until: sum.until,
        nodes: sum.nodes,
        hourly: sum.price.to_string(),
        unused_hourly: sum.unused.to_string(),
    };
    rows.into_iter().map(row).collect()
}
