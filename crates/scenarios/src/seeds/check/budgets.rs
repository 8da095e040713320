//! S7: when a voluntary disruption starts, at most the budget's number of nodes of the pool are unavailable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// How long budgets are not checked after a user's change: earlier decisions are still in progress.
const GRACE: Duration = Duration::from_secs(20);
/// Nodes whose condition changed this recently may not be counted.
const FRESH: Duration = Duration::from_secs(20);

/// S7.
#[derive(Default)]
pub(super) struct Budgets {
    /// Claims with a command at the last step.
    taken: BTreeSet<String>,
    /// Since when each initialized claim has been unavailable for another reason than a command.
    down: BTreeMap<String, Duration>,
}

impl Check for Budgets {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let ready: BTreeSet<&str> =
            observation.nodes.iter().filter(|node| is(node, "Ready")).map(|node| name(node)).collect();
        // The Node is updated first: if the answer is late, its claim is not Initialized yet.
        let initialized_nodes: BTreeSet<&str> = observation
            .nodes
            .iter()
            .filter(|node| label(node, "karpenter.sh/initialized") == "true")
            .map(|node| name(node))
            .collect();
        let initialized = |claim: &Value| {
            is(claim, "Initialized") || initialized_nodes.contains(text(claim, "/status/nodeName"))
        };
        let names: BTreeSet<&str> = observation.nodes.iter().map(|node| name(node)).collect();
        // As in Karpenter: a node whose Node was finalized is replaced, whenever the condition of its claim follows.
        let over = |claim: &Value| {
            is(claim, "InstanceTerminating")
                || (is_deleting(claim) && !names.contains(text(claim, "/status/nodeName")))
        };
        let counted: Vec<&Arc<Value>> =
            observation.claims.iter().filter(|claim| initialized(claim) && !over(claim)).collect();
        let taken: BTreeSet<String> = observation
            .claims
            .iter()
            .filter(|c| is(c, "DisruptionReason"))
            .map(|c| name(c).to_owned())
            .collect();
        let started: BTreeSet<&str> = counted
            .iter()
            .filter(|claim| taken.contains(name(claim)) && !self.taken.contains(name(claim)))
            .map(|claim| pool(claim))
            .collect();
        let hurt = |claim: &Value| is_deleting(claim) || !ready.contains(text(claim, "/status/nodeName"));
        let mut down = BTreeMap::new();
        for claim in counted.iter().filter(|claim| hurt(claim)) {
            let since = self.down.get(name(claim)).copied().unwrap_or(observation.at);
            down.insert(name(claim).to_owned(), since);
        }
        self.down = down;
        self.taken = taken;
        if observation.since_user_change() < GRACE {
            return;
        }
        for object in observation.pools.iter().filter(|object| started.contains(name(object))) {
            let of_pool: Vec<_> = counted.iter().filter(|claim| pool(claim) == name(object)).collect();
            let long = |claim: &Value| {
                self.down.get(name(claim)).is_some_and(|since| observation.at.saturating_sub(*since) >= FRESH)
            };
            let gone = of_pool.iter().filter(|claim| is(claim, "DisruptionReason") || long(claim)).count();
            let allowed = allowed(object, of_pool.len());
            if gone > allowed {
                let what = format!(
                    "{gone} of {} nodes of pool {} are unavailable; the budget allows {allowed}",
                    of_pool.len(),
                    name(object)
                );
                found.add("S7", what, [&**object]);
            }
        }
    }
}

/// The number of `count` nodes that may be unavailable: percentages are rounded up, the strictest budget applies. Runs have no schedules.
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
    //! Which instances are counted.
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::seeds::script::Interventions;

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

    /// Violations of a pool with a budget of 34%, of whose instances none and then `taken` are disrupted; `claim` makes one of
    /// nine by its number and by whether it is disrupted.
    fn violations(
        taken: usize,
        nodes: &[Arc<Value>],
        claim: impl Fn(usize, bool) -> Arc<Value>,
    ) -> Vec<String> {
        let pool = Arc::new(json!({
            "metadata": {"name": "default"}, "spec": {"disruption": {"budgets": [{"nodes": "34%"}]}},
        }));
        let (mut check, mut found, interventions) =
            (Budgets::default(), Findings::default(), Interventions::default());
        for (seconds, taken) in [(100, 0), (101, taken)] {
            let observation = Observation {
                at: Duration::from_secs(seconds),
                now: Timestamp::UNIX_EPOCH,
                claims: (0..9).map(|n| claim(n, n < taken)).collect(),
                nodes: nodes.to_vec(),
                pods: Vec::new(),
                pod_changes: Vec::new(),
                pools: vec![pool.clone()],
                server: None,
                instances: Vec::new(),
                gone: Vec::new(),
                leader: None,
                log: &[],
                interventions: &interventions,
            };
            check.step(&observation, &mut found);
        }
        found.0.into_iter().map(|(_, what, _)| what).collect()
    }

    /// The last instance is initialized on Node and claim as in `says`.
    #[rstest]
    #[case::a_late_answer((true, false), 4, &[])]
    #[case::too_many_all_the_same((true, false), 5, &["5 of 9 nodes of pool default are unavailable; the budget allows 4"])]
    #[case::not_yet_initialized((false, false), 4, &["4 of 8 nodes of pool default are unavailable; the budget allows 3"])]
    fn an_instance_counts_once_its_node_says_that_it_is_initialized(
        #[case] says: (bool, bool),
        #[case] taken: usize,
        #[case] expected: &[&str],
    ) {
        let nodes: Vec<_> = (0..9).map(|n| node(n, n < 8 || says.0)).collect();
        assert_eq!(violations(taken, &nodes, |n, taken| claim(n, n < 8 || says.1, taken)), expected);
    }

    /// The last instance has a Node or none, and its claim is being deleted or not.
    #[rstest]
    #[case::with_its_node(9, true, &[])]
    #[case::without_its_node(8, true, &["4 of 8 nodes of pool default are unavailable; the budget allows 3"])]
    #[case::not_deleted(8, false, &[])]
    fn a_deleting_instance_counts_while_its_node_is_there(
        #[case] nodes: usize,
        #[case] deleting: bool,
        #[case] expected: &[&str],
    ) {
        let nodes: Vec<_> = (0..nodes).map(|n| node(n, true)).collect();
        let found = violations(4, &nodes, |n, taken| {
            let mut claim = (*claim(n, true, taken)).clone();
            if n == 8 && deleting {
                claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            Arc::new(claim)
        });
        assert_eq!(found, expected);
    }
}
