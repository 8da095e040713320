//! The contents of a seed: a few pools, a few kinds of workload, a few kinds of disturbances.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// A NodePool of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) name: &'static str,
    pub(super) capacity_types: &'static [&'static str],
    pub(super) consolidate_after: &'static str,
    pub(super) budget: String,
    /// `spec.limits.nodes`.
    pub(super) nodes: u32,
    pub(super) weight: u32,
    /// `spec.replicas`, of a static pool.
    pub(super) replicas: Option<u32>,
    /// A label of the template: a new value makes every node drift.
    pub(super) generation: u32,
    /// `spec.template.spec.terminationGracePeriod`.
    pub(super) deadline: Option<&'static str>,
}

impl Pool {
    /// The object, for nodes of a class.
    pub(super) fn object(&self, class: &Value) -> Value {
        let text = |at: &str| class.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split('/').next().unwrap_or_default();
        let mut spec = json!({
            "template": {
                "metadata": {"labels": {"generation": self.generation.to_string()}},
                "spec": {
                    "nodeClassRef": {"group": group, "kind": text("/kind"), "name": text("/metadata/name")},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": self.capacity_types},
                    ],
                    "expireAfter": "720h",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": self.consolidate_after,
                "budgets": [{"nodes": self.budget}],
            },
            "limits": {"nodes": self.nodes.to_string()},
        });
        if let Some(deadline) = self.deadline {
            spec["template"]["spec"]["terminationGracePeriod"] = deadline.into();
        }
        match self.replicas {
            Some(replicas) => spec["replicas"] = replicas.into(),
            None => spec["weight"] = self.weight.into(),
        }
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": self.name}, "spec": spec,
        })
    }
}

/// One seed in this many has protected nodes, another one outdated prices, a third one nominates pods, a fourth one (of the fresh seeds) has
/// what replaces pods.
const PROTECTIONS: u64 = 8;

/// The fixed seeds with what replaces pods: those that were run with it.
const REPLACERS: [u64; 3] = [6, 14, 414];
/// The first seed that is no fixed one.
const FRESH: u64 = 2000;

/// The contents of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The number of operators.
    pub(super) replicas: usize,
    pub(super) pools: Vec<Pool>,
    /// Workloads besides the three deployments of every run.
    pub(super) spread: bool,
    pub(super) volumes: bool,
    pub(super) daemons: bool,
    pub(super) budgets: bool,
    /// One call of an operator in this many fails; zero means none.
    pub(super) api_faults: u32,
    pub(super) cloud_faults: bool,
    pub(super) crashes: bool,
    pub(super) clocks: bool,
    /// Users change objects that operators own.
    pub(super) user_changes: bool,
    /// Users change pools.
    pub(super) edits: bool,
    /// Instances are lost, and foreign ones appear.
    pub(super) losses: bool,
    /// A part of the capacity is reserved.
    pub(super) reservations: bool,
    /// Users change prices by NodeOverlays.
    pub(super) overlays: bool,
    /// Users change, delete and recreate the node class.
    pub(super) classes: bool,
    /// Users protect nodes that already have a command.
    pub(super) protections: bool,
    /// Prices are not updated for a while.
    pub(super) feed: bool,
    /// Pods are nominated to the nodes that are launched for them.
    pub(super) nominations: bool,
    /// Pods are preempted, rolled out and fail.
    pub(super) replacers: bool,
    /// Instances carry batch and attempt from launch, and their NodeClaim only once the operator has tagged them.
    pub(super) fleets: bool,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed ^ 0x91a2);
        let mut one_in = |times: u32| dice.random_range(0..times) == 0;
        let (spot, fixed) = (one_in(3), one_in(4));
        let mut plan = Self {
            replicas: if one_in(4) { 2 } else { 1 },
            pools: Vec::new(),
            spread: one_in(3),
            volumes: one_in(4),
            daemons: one_in(3),
            budgets: one_in(3),
            api_faults: 0,
            cloud_faults: one_in(2),
            crashes: one_in(2),
            clocks: one_in(5),
            user_changes: one_in(2),
            edits: one_in(2),
            losses: one_in(2),
            reservations: one_in(4),
            overlays: one_in(4),
            classes: one_in(4),
            // Not drawn at random, so that all other seeds stay as they were.
            protections: seed % PROTECTIONS == 3,
            feed: seed % PROTECTIONS == 5,
            nominations: seed % PROTECTIONS == 7,
            replacers: REPLACERS.contains(&seed) || (seed >= FRESH && seed % PROTECTIONS == 6),
            fleets: matches!(seed % 16, 3..=7 | 10 | 14 | 15),
        };
        // With wrong clocks the end of a deadline is unknown.
        let deadline = (one_in(4) && !plan.clocks).then_some("90s");
        if one_in(2) {
            plan.api_faults = dice.random_range(12..80);
        }
        plan.pools.push(Pool {
            name: "default",
            capacity_types: &["on-demand", "reserved", "spot"],
            consolidate_after: "20s",
            budget: "34%".to_owned(),
            nodes: 12,
            weight: 1,
            replicas: None,
            generation: 0,
            deadline,
        });
        let base = plan.pools[0].clone();
        if spot {
            let (budget, weight) = ("1".to_owned(), 10);
            let name = "spot";
            plan.pools.push(Pool { name, capacity_types: &["spot"], budget, nodes: 6, weight, ..base });
        }
        if fixed {
            let capacity_types = &["on-demand"];
            plan.pools.push(Pool { name: "fixed", capacity_types, nodes: 3, replicas: Some(1), ..base });
        }
        plan
    }
}
