//! Disruption budgets, judged from what was seen of the fleet and nothing else.
//!
//! A budget is a rule about beginnings: when the disruption of an instance begins, it and all others that are being
//! disrupted or not ready may be no more than the budget allows of the instances that there are. Instances fail, and
//! others go, at any time later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::fleet::{is_true, name};
use super::history::{RecordedKind, Seen};

/// A decision is carried out this long after it was made, at most: what there was then counts too.
const DELAY: Duration = Duration::from_secs(2);

/// What a record shows of the disruptions of a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// NodeClaims whose disruption began, in order.
    pub(crate) begun: Vec<String>,
    /// The most that were being disrupted at a time.
    pub(crate) most: usize,
    /// Beginnings that the budget did not allow.
    pub(crate) violations: Vec<String>,
}

/// Judges the disruptions of the instances of `pool` under a budget of `percent` of its instances, rounded up.
pub(crate) fn judge(record: &[Seen], pool: &str, percent: usize) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut claims, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    let mut before: BTreeSet<String> = BTreeSet::new();
    let mut totals: Vec<(Instant, usize)> = Vec::new();
    for seen in record {
        let known: &mut BTreeMap<String, &Value> = match seen.kind {
            RecordedKind::NodeClaim => &mut claims,
            RecordedKind::Node => &mut nodes,
            RecordedKind::Pod => continue,
        };
        if seen.object["metadata"]["labels"]["karpenter.sh/nodepool"] != pool {
            continue;
        }
        let key = match seen.kind {
            // Nodes are looked up from claims, by what both have.
            RecordedKind::Node => seen.object["spec"]["providerID"].as_str().unwrap_or_default().to_owned(),
            _ => name(&seen.object),
        };
        if seen.gone {
            known.remove(&key);
        } else {
            known.insert(key, &seen.object);
        }
        let (total, disrupting, voluntary) = count(&claims, &nodes);
        totals.retain(|(at, _)| seen.at.duration_since(*at) <= DELAY);
        totals.push((seen.at, total));
        let total = totals.iter().map(|(_, total)| *total).max().unwrap_or(total);
        let allowed = (total * percent).div_ceil(100);
        verdict.most = verdict.most.max(disrupting.len());
        for begun in voluntary.difference(&before) {
            verdict.begun.push(begun.clone());
            if disrupting.len() > allowed {
                let all: Vec<&str> = disrupting.iter().map(String::as_str).collect();
                verdict.violations.push(format!(
                    "version {}: {begun} is one of {} ({}) where {allowed} of {total} are allowed",
                    seen.version,
                    all.len(),
                    all.join(", ")
                ));
            }
        }
        before.extend(voluntary);
    }
    verdict
}

/// How many instances count, which of them are being disrupted or not ready, and which of all instances were taken on
/// purpose.
fn count(
    claims: &BTreeMap<String, &Value>,
    nodes: &BTreeMap<String, &Value>,
) -> (usize, BTreeSet<String>, BTreeSet<String>) {
    let (mut total, mut disrupting, mut voluntary) = (0, BTreeSet::new(), BTreeSet::new());
    for (name, claim) in claims {
        let node = claim["status"]["providerID"].as_str().and_then(|id| nodes.get(id));
        let taken = !claim["metadata"]["deletionTimestamp"].is_null()
            || node.is_some_and(|node| !node["metadata"]["deletionTimestamp"].is_null() || is_tainted(node));
        if taken {
            voluntary.insert(name.clone());
        }
        let initialized =
            node.is_some_and(|node| node["metadata"]["labels"]["karpenter.sh/initialized"] == "true");
        if !initialized || is_true(claim, "InstanceTerminating") {
            continue;
        }
        total += 1;
        if taken || node.is_none_or(|node| !is_true(node, "Ready")) {
            disrupting.insert(name.clone());
        }
    }
    (total, disrupting, voluntary)
}

/// Whether a Node carries the taint that every disruption begins with.
pub(crate) fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Instances `0..count` of pool `p`, ready and initialized.
    fn fleet(count: usize) -> Vec<Seen> {
        (0..count).flat_map(|at| [claim(at, false, false), node(at, false, true)]).collect()
    }

    fn seen(kind: RecordedKind, object: Value) -> Seen {
        Seen { version: 1, at: Instant::now(), kind, gone: false, object }
    }

    fn claim(at: usize, deleting: bool, ending: bool) -> Seen {
        let ending = if ending { "True" } else { "False" };
        seen(
            RecordedKind::NodeClaim,
            json!({
                "metadata": {"name": format!("c{at}"), "labels": {"karpenter.sh/nodepool": "p"},
                             "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z")},
                "status": {"providerID": format!("i{at}"),
                           "conditions": [{"type": "InstanceTerminating", "status": ending}]},
            }),
        )
    }

    fn node(at: usize, tainted: bool, ready: bool) -> Seen {
        let key = if tainted { "karpenter.sh/disrupted" } else { "other" };
        let ready = if ready { "True" } else { "False" };
        seen(
            RecordedKind::Node,
            json!({
                "metadata": {"name": format!("n{at}"), "labels":
                    {"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"}},
                "spec": {"providerID": format!("i{at}"), "taints": [{"key": key}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }),
        )
    }

    #[test]
    fn two_of_twenty_are_ten_per_cent_and_three_are_not() {
        let mut record = fleet(20);
        record.extend([node(0, true, true), node(1, true, true)]);
        let verdict = judge(&record, "p", 10);
        assert_eq!((verdict.begun.len(), verdict.most), (2, 2));
        assert_eq!(verdict.violations, Vec::<String>::new());
        record.push(claim(2, true, false));
        let verdict = judge(&record, "p", 10);
        assert_eq!((verdict.begun.len(), verdict.most, verdict.violations.len()), (3, 3, 1), "{verdict:?}");
        assert_eq!(judge(&record, "other", 10), Verdict::default());
    }

    #[test]
    fn an_instance_whose_instance_ends_makes_room() {
        let mut record = fleet(20);
        record.extend([node(0, true, true), node(1, true, true), claim(0, true, true), node(2, true, true)]);
        assert_eq!(judge(&record, "p", 10).violations, Vec::<String>::new());
    }

    #[test]
    fn an_instance_that_is_not_ready_takes_room_but_is_no_violation_itself() {
        let mut record = fleet(20);
        record.extend([node(0, false, false), node(1, false, false), node(2, false, false)]);
        let verdict = judge(&record, "p", 10);
        assert_eq!((verdict.begun.len(), verdict.most, verdict.violations.len()), (0, 3, 0));
        record.push(node(3, true, true));
        assert_eq!(judge(&record, "p", 10).violations.len(), 1);
    }
}
