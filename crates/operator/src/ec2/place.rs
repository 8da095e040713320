//! The region and the zones of a NodeClass, derived from the input.

use std::collections::BTreeSet;

use fleetwright_aws::{
    offline::{Table, region_of_zone},
    provider::KnownClass,
};
use fleetwright_core::model::labels::{REGION, ZONE};
use serde_json::Value;

use crate::catalogue::{ClassOffer, ClassRequest};

/// The region: that of the command line, otherwise of a subnet of the NodeClass, of a node, of a zone of a NodePool, or of the account.
pub(super) fn region(request: &ClassRequest<'_>, class: &KnownClass, live: &str) -> Option<String> {
    if let Some(region) = &request.options.region {
        return Some(region.clone());
    }
    let subnets = class.class.status.iter().flat_map(|status| &status.subnets);
    let of_subnets = subnets.filter_map(|subnet| region_of_zone(&subnet.zone)).map(str::to_owned);
    let of_labels = request.nodes.iter().filter_map(|node| label(node, REGION));
    let of_label_zones = request.nodes.iter().filter_map(|node| region_of_zone(label(node, ZONE)?));
    let asked_zones = request.pools.iter().flat_map(|pool| values(pool, ZONE));
    let of_pools = request.pools.iter().flat_map(|pool| values(pool, REGION));
    of_subnets
        .chain(of_labels.map(str::to_owned))
        .chain(of_label_zones.map(str::to_owned))
        .chain(of_pools.map(str::to_owned))
        .chain(asked_zones.filter_map(region_of_zone).map(str::to_owned))
        .chain(Some(live.to_owned()).filter(|region| !region.is_empty()))
        .next()
}

/// The zones of the assumed subnets if the status of the NodeClass has none: those of nodes, otherwise those of the NodePools if each of
/// them names some, otherwise all of the region.
pub(super) fn zones(
    request: &ClassRequest<'_>,
    class: &KnownClass,
    region: &str,
    table: &Table,
    offer: &mut ClassOffer,
) -> BTreeSet<String> {
    if class.class.status.as_ref().is_some_and(|status| !status.subnets.is_empty()) {
        return BTreeSet::new();
    }
    let here = |zone: &&str| region_of_zone(zone) == Some(region);
    let of_nodes: BTreeSet<String> =
        request.nodes.iter().filter_map(|node| label(node, ZONE)).filter(here).map(str::to_owned).collect();
    let asked = request.pools.iter().flat_map(|pool| values(pool, ZONE));
    let asked: BTreeSet<String> = asked.filter(here).map(str::to_owned).collect();
    // A NodePool of one zone says nothing about the zones of another NodePool.
    let is_open = request.pools.iter().any(|pool| values(pool, ZONE).next().is_none());
    let all = table.zones(region);
    let of_pools = if is_open && !all.is_empty() { all.clone() } else { asked };
    let found = [of_nodes, of_pools, all].into_iter().find(|zones| !zones.is_empty());
    let Some(zones) = found else {
        offer.gaps.push(format!(
            "{}: its status has no subnets, and the zones of {region} are unknown: use a dump with the status",
            request.class
        ));
        return BTreeSet::new();
    };
    let listed = zones.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    offer
        .notes
        .push(format!("{}: its status has no subnets; one in each of {listed} is assumed", request.class));
    zones
}

/// The label of a node.
pub(super) fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
}

/// The values of a label that a NodePool requires, by an `In` requirement or as a label of its nodes.
pub(super) fn values<'a>(pool: &'a Value, key: &'a str) -> impl Iterator<Item = &'a str> {
    let demanded = pool.pointer("/spec/template/spec/requirements").and_then(Value::as_array);
    let of_key = move |wanted: &&Value| wanted["key"] == key && wanted["operator"] == "In";
    let values =
        demanded.into_iter().flatten().filter(of_key).filter_map(|wanted| wanted["values"].as_array());
    let labelled = pool.pointer("/spec/template/metadata/labels").and_then(|labels| labels[key].as_str());
    values.flatten().filter_map(Value::as_str).chain(labelled)
}
