//! Instance types of nodes or NodePools that the catalogue does not have.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws::{offline::Table, prices::Prices};
use fleetwright_core::model::labels::{INSTANCE_TYPE, NODEPOOL};
use serde_json::Value;

use super::place::{label, values};
use crate::{
    catalogue::{ClassOffer, ClassRequest},
    figures,
};

/// Reports each one once as a gap.
pub(super) fn note(request: &ClassRequest<'_>, table: &Table, prices: &Prices, offer: &mut ClassOffer) {
    let name = |pool: &'_ Value| pool.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    let pools: BTreeSet<String> = request.pools.iter().filter_map(|pool| name(pool)).collect();
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for node in
        request.nodes.iter().filter(|node| label(node, NODEPOOL).is_some_and(|own| pools.contains(own)))
    {
        if let Some(instance_type) = label(node, INSTANCE_TYPE) {
            *nodes.entry(instance_type).or_default() += 1;
        }
    }
    for (instance_type, count) in nodes {
        if !table.describes(instance_type) {
            offer.gaps.push(format!(
                "{} of instance type {instance_type}, which the catalogue does not have: the price is unknown",
                figures::count(count, "node")
            ));
        } else if prices.has_on_demand() && prices.on_demand(instance_type).is_none() {
            offer.gaps.push(format!(
                "{} of instance type {instance_type}, whose price is unknown",
                figures::count(count, "node")
            ));
        }
    }
    for pool in request.pools {
        for instance_type in values(pool, INSTANCE_TYPE).filter(|wanted| !table.describes(wanted)) {
            offer.gaps.push(format!(
                "NodePool {} asks for instance type {instance_type}, which the catalogue does not have",
                name(pool).unwrap_or_default()
            ));
        }
    }
}
