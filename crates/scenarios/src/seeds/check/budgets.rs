//! S7: when a voluntary disruption starts, no more nodes of its pool are down than its budget allows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// Budgets are not judged so soon after somebody changed something: what was decided before still counts.
const GRACE: Duration = Duration::from_secs(20);
/// Nodes whose condition changed so recently may not have been counted.
const FRESH: Duration = Duration::from_secs(20);

/// S7.
#[derive(Default)]
pub(super) struct Budgets {
    /// Claims that a command had taken at the last look.
    taken: BTreeSet<String>,
    /// Since when each initialized claim has been down for another reason than a command.
    down: BTreeMap<String, Duration>,
}

impl Check for Budgets {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let ready: BTreeSet<&str> =
            look.nodes.iter().filter(|node| is(node, "Ready")).map(|node| name(node)).collect();
        // The Node is told first: where the answer is late, its claim does not say yet that one more instance counts.
        let told: BTreeSet<&str> = look
            .nodes
            .iter()
            .filter(|node| label(node, "karpenter.sh/initialized") == "true")
            .map(|node| name(node))
            .collect();
        let initialized =
            |claim: &Value| is(claim, "Initialized") || told.contains(text(claim, "/status/nodeName"));
        let counted: Vec<&Arc<Value>> = look
            .claims
            .iter()
            .filter(|claim| initialized(claim) && !is(claim, "InstanceTerminating"))
            .collect();
        let taken: BTreeSet<String> =
            look.claims.iter().filter(|c| is(c, "DisruptionReason")).map(|c| name(c).to_owned()).collect();
        let started: BTreeSet<&str> = counted
            .iter()
            .filter(|claim| taken.contains(name(claim)) && !self.taken.contains(name(claim)))
            .map(|claim| pool(claim))
            .collect();
        let hurt = |claim: &Value| is_deleting(claim) || !ready.contains(text(claim, "/status/nodeName"));
        let mut down = BTreeMap::new();
        for claim in counted.iter().filter(|claim| hurt(claim)) {
            let since = self.down.get(name(claim)).copied().unwrap_or(look.at);
            down.insert(name(claim).to_owned(), since);
        }
        self.down = down;
        self.taken = taken;
        if look.since_hands() < GRACE {
            return;
        }
        for object in look.pools.iter().filter(|object| started.contains(name(object))) {
            let of_pool: Vec<_> = counted.iter().filter(|claim| pool(claim) == name(object)).collect();
            let long = |claim: &Value| {
                self.down.get(name(claim)).is_some_and(|since| look.at.saturating_sub(*since) >= FRESH)
            };
            let gone = of_pool.iter().filter(|claim| is(claim, "DisruptionReason") || long(claim)).count();
            let allowed = allowed(object, of_pool.len());
            if gone > allowed {
                let what = format!(
                    "{gone} of {} nodes of pool {} are down where {allowed} may be",
                    of_pool.len(),
                    name(object)
                );
                found.add("S7", what, [&**object]);
            }
        }
    }
}

/// How many of `count` nodes may be down: percentages are rounded up, the strictest budget counts. Runs have no schedules.
fn allowed(pool: &Value, count: usize) -> usize {
    let budgets = field(pool, "/spec/disruption/budgets").and_then(Value::as_array);
    let each = budgets.into_iter().flatten().map(|budget| {
        let nodes = text(budget, "/nodes");
        match nodes.strip_suffix('%') {
            Some(percent) => percent.parse::<usize>().unwrap_or(0).saturating_mul(count).div_ceil(100),
            None => nodes.parse().unwrap_or(0),
        }
    });
    each.min().unwrap_or(count)
}

#[cfg(test)]
mod tests {
    //! Which instances count.
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::seeds::script::Ledger;

    fn claim(number: usize, initialized: bool, taken: bool) -> Arc<Value> {
        let condition =
            |name: &str, holds: bool| json!({"type": name, "status": if holds { "True" } else { "Unknown" }});
        Arc::new(json!({
            "metadata": {"name": format!("c{number}"), "labels": {"karpenter.sh/nodepool": "default"}},
            "status": {
                "nodeName": format!("n{number}"),
                "conditions": [condition("Initialized", initialized), condition("DisruptionReason", taken)],
            },
        }))
    }

    fn node(number: usize, initialized: bool) -> Arc<Value> {
        let labels = if initialized { json!({"karpenter.sh/initialized": "true"}) } else { json!({}) };
        Arc::new(json!({
            "metadata": {"name": format!("n{number}"), "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
    }

    /// Nine instances of a pool that lets 34% go, the last of which `says` on Node and claim that it is initialized; then as
    /// many as `taken` go at once.
    #[rstest]
    #[case::a_late_answer((true, false), 4, &[])]
    #[case::too_many_all_the_same((true, false), 5, &["5 of 9 nodes of pool default are down where 4 may be"])]
    #[case::not_yet_initialized((false, false), 4, &["4 of 8 nodes of pool default are down where 3 may be"])]
    fn an_instance_counts_once_its_node_says_that_it_is_initialized(
        #[case] says: (bool, bool),
        #[case] taken: usize,
        #[case] expected: &[&str],
    ) {
        let pool = Arc::new(json!({
            "metadata": {"name": "default"}, "spec": {"disruption": {"budgets": [{"nodes": "34%"}]}},
        }));
        let (mut check, mut found, ledger) = (Budgets::default(), Findings::default(), Ledger::default());
        for (seconds, taken) in [(100, 0), (101, taken)] {
            let look = Look {
                at: Duration::from_secs(seconds),
                now: Timestamp::UNIX_EPOCH,
                claims: (0..9).map(|n| claim(n, n < 8 || says.1, n < taken)).collect(),
                nodes: (0..9).map(|n| node(n, n < 8 || says.0)).collect(),
                pods: Vec::new(),
                pools: vec![pool.clone()],
                server: None,
                instances: Vec::new(),
                leader: None,
                log: &[],
                ledger: &ledger,
            };
            check.step(&look, &mut found);
        }
        let told: Vec<&str> = found.0.iter().map(|(_, what, _)| what.as_str()).collect();
        assert_eq!(told, expected);
    }
}
