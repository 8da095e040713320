//! L105: a `consolidateAfter` that the pods of a NodePool never let pass, from the pods of a dump or a cluster.
//!
//! Each pod that a node gets begins `consolidateAfter` again. The pods of nodes say when they came; those that are gone are not known, and would have made
//! the times between arrivals shorter still.

use std::collections::BTreeMap;

use fleetwright_api::duration;
use fleetwright_core::clock::written;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::LintReport;
use crate::{figures, input::Item};

/// Arrivals after another one on the same node, without which nothing is said.
const LEAST: usize = 10;
/// The time that is seen, in multiples of `consolidateAfter`, without which nothing is said.
const LEAST_SEEN: i32 = 3;

/// Adds the findings.
pub(super) fn check(items: &[Item], report: &mut LintReport) {
    let arrivals = arrivals(items);
    let Some(last) = arrivals.values().flatten().flat_map(|(_, times)| times).max().copied() else { return };
    for item in items.iter().filter(|item| item.value["kind"] == "NodePool") {
        let after = item.value.pointer("/spec/disruption/consolidateAfter").and_then(Value::as_str);
        let Some(after) = after.and_then(|text| duration::parse(text).ok()) else { continue };
        let name = item.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let Some(gaps) = arrivals.get(name).and_then(|nodes| gaps(nodes, last, after)) else { continue };
        let (count, nodes) = (gaps.len(), arrivals.get(name).map_or(0, Vec::len));
        let ninth = gaps.get(count * 9 / 10).copied().unwrap_or_default();
        report.add(
            "L105",
            item,
            "spec.disruption.consolidateAfter",
            format!(
                "no node of {} was without a new pod for {}: of {count} pods 90 % came within {} of the one before on their node, so that none is consolidatable",
                figures::count(nodes, "node"),
                written(after.unsigned_abs()),
                written(ninth.unsigned_abs()),
            ),
            format!("set it below {}, or to 0s", written(ninth.unsigned_abs())),
        );
    }
}

/// A node, and when its pods came, in order.
type NodeArrivals = (String, Vec<Timestamp>);

/// When pods came to nodes, by NodePool. Pods of DaemonSets and of nodes themselves do not begin the time again.
fn arrivals(items: &[Item]) -> BTreeMap<String, Vec<NodeArrivals>> {
    let mut by_node: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for Item { value, .. } in items.iter().filter(|item| item.value["kind"] == "Pod") {
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let owners = value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let of_node = |owner: &Value| owner["kind"] == "DaemonSet" || owner["kind"] == "Node";
        if owners.into_iter().flatten().any(of_node) {
            continue;
        }
        let came = [text("/status/startTime"), text("/metadata/creationTimestamp")];
        if let Some(came) = came.into_iter().find_map(|time| time.parse().ok()) {
            by_node.entry(text("/spec/nodeName")).or_default().push(came);
        }
    }
    let mut by_pool: BTreeMap<String, Vec<NodeArrivals>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.value["kind"] == "Node") {
        let name = item.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let pool =
            item.value.pointer("/metadata/labels").and_then(|all| all["karpenter.sh/nodepool"].as_str());
        if let Some(pool) = pool {
            let mut times = by_node.remove(name).unwrap_or_default();
            times.sort_unstable();
            by_pool.entry(pool.to_owned()).or_default().push((name.to_owned(), times));
        }
    }
    by_pool
}

/// The times between arrivals on the same node, in order of size; `None` if too few are known, or one of them is as long as `after`. The time from the last
/// arrival on a node to the `last` of all is one, too.
fn gaps(nodes: &[NodeArrivals], last: Timestamp, after: SignedDuration) -> Option<Vec<SignedDuration>> {
    let mut found = Vec::new();
    for (_, times) in nodes {
        // Of a node without pods nothing is known, but that it may be empty.
        let open = last.duration_since(*times.last()?);
        if open >= after {
            return None;
        }
        found.extend(times.iter().zip(times.iter().skip(1)).map(|(one, next)| next.duration_since(*one)));
    }
    found.sort_unstable();
    let first = nodes.iter().filter_map(|(_, times)| times.first()).min()?;
    let is_seen = last.duration_since(*first) >= after.checked_mul(LEAST_SEEN)?;
    let is_known = found.len() >= LEAST && found.last().is_some_and(|longest| *longest < after);
    (is_seen && is_known).then_some(found)
}
