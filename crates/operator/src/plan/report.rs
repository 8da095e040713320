//! The plan as a document: what `-o json` prints. `docs/plan.schema.json` is made from these types.

use std::sync::Arc;

use fleetwright_controllers::runtime::Names;
use fleetwright_core::{
    model::{Currency, NamespacedName, Price, Snapshot},
    scheduling::{NewClaim, NodeObstacles, Obstacle, Placement, Plan, PoolVerdict, Rules, Unplaced},
};
use fleetwright_state::raise::{self, Identity};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Solved, deletions, fail_if::Figures, fleet::Fleet, what_if::Changed};
use crate::{
    catalogue::SourceRow,
    explain::constraints,
    input::load::{Loaded, SetAside},
};

/// Version of the document's form.
const VERSION: u32 = 1;

/// A plan. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    /// Version of this form.
    pub(super) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    pub(super) currency: Currency,
    /// NodeClaims that would be created, in order.
    pub(super) node_claims: Vec<Claim>,
    /// Pods that fit on existing or in-flight nodes.
    pub(super) existing: Vec<Existing>,
    /// Unschedulable pods, with the reason.
    pub(super) unschedulable: Vec<Unschedulable>,
    /// How many NodePools have only their first constraints there, counted for each pod that differs, because the work on a report is limited.
    pub(super) constraints_in_part: usize,
    /// The cost of the new NodeClaims; null where prices are unknown.
    pub(super) cost: Option<Cost>,
    /// The fleet before the plan.
    pub(super) now: Fleet,
    /// The fleet after the plan.
    pub(super) then: Fleet,
    /// What the objects of `--what-if` change; absent without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what_if: Option<WhatIf>,
    /// How long it took; the one part that differs between equal runs.
    pub(super) timing: Timing,
    /// Parts of the input that were ignored or assumed.
    pub(super) notes: Vec<String>,
    /// Where instance types and prices come from, and of which day they are.
    pub(super) catalogues: Vec<SourceRow>,
    /// What the catalogues cannot answer; with any, the exit status is 3.
    pub(super) incomplete: Vec<String>,
}

/// The difference that the objects of `--what-if` make.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhatIf {
    /// The objects as `kind/name` that exist in the input and are replaced.
    pub(super) changed: Vec<String>,
    /// The objects as `kind/name` that are new.
    pub(super) created: Vec<String>,
    /// The objects as `kind/name` that are deleted, without what goes with them.
    pub(super) deleted: Vec<String>,
    /// The fleet without the objects, with the plan for its pending pods.
    pub(super) now: Fleet,
    /// The fleet with the objects, with the plan for its pending pods.
    pub(super) then: Fleet,
    /// Running pods that move: those of nodes that drift or are deleted, and those whose template changes.
    pub(super) moved: usize,
    /// NodeClaims that drift.
    pub(super) drifted: Vec<String>,
    /// Nodes that are deleted.
    pub(super) drained: Vec<String>,
}

/// A NodeClaim that would be created.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    /// Its NodePool.
    pub(super) node_pool: String,
    /// The whole object.
    pub(super) resource: Value,
    /// Instance types that hold its pods, cheapest first.
    pub(super) instance_types: Vec<String>,
    /// The offering that it is expected to launch; null where prices are unknown.
    pub(super) offering: Option<Offering>,
    /// Requests of its pods and daemons in sum.
    pub(super) requests: Value,
    /// Its pods as `namespace/name`.
    pub(super) pods: Vec<String>,
}

/// An offering.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offering {
    /// Instance type.
    pub(super) instance_type: String,
    /// Zone.
    pub(super) zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub(super) capacity_type: String,
    /// List price per hour.
    pub(super) price: String,
    /// What it counts as in the plan, per hour: a burstable type by its baseline, with the overhead of a node.
    pub(super) effective_price: String,
}

/// Pods on an existing node.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Existing {
    /// Name of the node, or of the claim where it has no node yet.
    pub(super) node: String,
    /// The pods as `namespace/name`.
    pub(super) pods: Vec<String>,
}

/// An unschedulable pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unschedulable {
    /// `namespace/name`.
    pub(super) pod: String,
    /// One word.
    pub(super) reason: String,
    /// The same as the controller's event says.
    pub(super) message: String,
    /// For each NodePool the first constraint that rules it out.
    pub(super) per_node_pool: Vec<Verdict>,
    /// For each NodePool all constraints that rule it out, each found with those before it lifted; empty where only one does, and no patch
    /// lifts it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) constraints: Vec<constraints::Row>,
    /// Why existing nodes cannot run it once the plan is executed; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<Refusals>,
}

/// Why existing nodes cannot run the pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusals {
    /// How many there are.
    pub(super) total: usize,
    /// All of it in one line.
    pub(super) message: String,
    /// The first obstacle of each, the most common first.
    pub(super) obstacles: Vec<Refusal>,
}

/// An obstacle that some nodes share.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    /// One word.
    pub(super) reason: String,
    /// How many nodes have it.
    pub(super) count: usize,
    /// With figures.
    pub(super) message: String,
}

/// Why one NodePool cannot run the pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    /// The NodePool.
    pub(super) node_pool: String,
    /// One word.
    pub(super) reason: String,
    /// With figures, and the nearest fix.
    pub(super) message: String,
}

/// The cost of the new NodeClaims per hour.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    /// List prices of the expected offerings in sum.
    pub(super) hourly: String,
    /// Their effective prices in sum, which is what the plan minimizes.
    pub(super) effective: String,
    /// No plan for these pods can have a lower effective price.
    pub(super) lower_bound: String,
    /// By what share the effective price is above the bound: 0.01 is one percent.
    pub(super) gap: f64,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timing {
    /// Reading the input.
    pub(super) load_ms: f64,
    /// Making it ready for the solver.
    pub(super) snapshot_ms: f64,
    /// Solving.
    pub(super) solve_ms: f64,
}

impl Timing {
    /// None was spent: for comparisons.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { load_ms: 0.0, snapshot_ms: 0.0, solve_ms: 0.0 }
    }

    pub(crate) fn new(started: Timestamp, read: Timestamp, ready: Timestamp, done: Timestamp) -> Self {
        let between = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64() * 1e3;
        Self {
            load_ms: between(started, read),
            snapshot_ms: between(read, ready),
            solve_ms: between(ready, done),
        }
    }
}

/// Input of a report beside the plan.
pub(super) struct Context<'a> {
    pub(super) loaded: &'a Loaded,
    /// The pods of the input that are not scheduled.
    pub(super) set_aside: &'a [(NamespacedName, SetAside)],
    pub(super) seed: u64,
    pub(super) timing: Timing,
    pub(super) now: &'a Fleet,
    pub(super) then: &'a Fleet,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) rules: Rules,
}

impl PlanReport {
    pub(super) fn new(plan: &Plan, context: &Context<'_>) -> Self {
        let names = Names::new(context.seed);
        let mut finder = constraints::Finder::new(context.loaded, (context.snapshot, plan), &context.rules);
        let mut unschedulable: Vec<Unschedulable> = plan
            .unplaced
            .iter()
            .map(|(pod, why)| {
                let nodes = plan.nodes.get(&pod.uid).map(AsRef::as_ref);
                let rows = finder.rows(pod, why);
                let says_more = rows.iter().any(|row| row.place > 1 || row.patch.is_some());
                unplaced(pod.id.to_string(), why, nodes, if says_more { rows } else { Vec::new() })
            })
            .collect();
        unschedulable.extend(context.set_aside.iter().map(|(id, pod)| Unschedulable {
            pod: id.to_string(),
            reason: pod.reason.to_owned(),
            message: pod.message.clone(),
            per_node_pool: Vec::new(),
            constraints: Vec::new(),
            nodes: None,
        }));
        unschedulable.sort_by(|a, b| a.pod.cmp(&b.pod));
        let constraints_in_part = finder.in_part();
        Self {
            version: VERSION,
            currency: context.snapshot.currency,
            node_claims: claims(plan, context, &names),
            existing: plan.existing.iter().map(existing).collect(),
            unschedulable,
            constraints_in_part,
            cost: context.loaded.priced.then(|| Cost {
                hourly: plan.cost.hourly.to_string(),
                effective: plan.cost.effective.to_string(),
                lower_bound: plan.cost.lower_bound.to_string(),
                gap: gap(plan.cost.effective, plan.cost.lower_bound),
            }),
            now: context.now.clone(),
            then: context.then.clone(),
            what_if: None,
            timing: context.timing,
            notes: context.loaded.notes.clone(),
            catalogues: context.loaded.sources.clone(),
            incomplete: context.loaded.gaps.clone(),
        }
    }

    /// Adds what changes.
    pub(super) fn compare(&mut self, now: &Solved, then: &Solved, changed: &Changed) {
        let of = |exists: bool| {
            let objects = changed.objects.iter().filter(|(_, known)| *known == exists);
            objects.map(|(name, _)| name.clone()).collect()
        };
        let (drained, displaced) = deletions::drained(&now.snapshot, &then.snapshot);
        self.what_if = Some(WhatIf {
            changed: of(true),
            created: of(false),
            deleted: changed.deleted.clone(),
            now: now.then.clone(),
            then: then.then.clone(),
            moved: then.moved + changed.restarted + displaced,
            drifted: then.leaving.iter().cloned().collect(),
            drained,
        });
    }

    /// The figures of `--fail-if`, before and after.
    pub(super) fn figures(&self) -> (Figures, Figures) {
        let (now, then, moved) = match &self.what_if {
            Some(change) => (&change.now, &change.then, change.moved),
            None => (&self.now, &self.then, 0),
        };
        let then = Figures { new_nodes: self.node_claims.len(), moved, ..then.figures() };
        (now.figures(), then)
    }
}

/// Six digits: more are noise.
fn gap(effective: Price, bound: Price) -> f64 {
    if bound == Price::ZERO {
        return 0.0;
    }
    ((effective.dollars() / bound.dollars() - 1.0) * 1e6).round() / 1e6
}

fn claims(plan: &Plan, context: &Context<'_>, names: &Names) -> Vec<Claim> {
    let places = raise::launch_batches(&names.suffix(10), &plan.new_claims);
    let claim = |(new_claim, place): (&NewClaim, &(String, u32))| {
        let chosen = &new_claim.chosen;
        Claim {
            node_pool: new_claim.pool.name.to_string(),
            resource: raised(new_claim, context.loaded, names, place),
            instance_types: new_claim.instance_types.iter().map(|known| known.name.to_string()).collect(),
            offering: context.loaded.priced.then(|| Offering {
                instance_type: chosen.instance_type.to_string(),
                zone: chosen.zone.to_string(),
                capacity_type: chosen.capacity_type.to_string(),
                price: chosen.price.to_string(),
                effective_price: chosen.effective.to_string(),
            }),
            requests: json!(raise::quantities(&new_claim.requests)),
            pods: new_claim.pods.iter().map(|pod| pod.id.to_string()).collect(),
        }
    };
    plan.new_claims.iter().zip(&places).map(claim).collect()
}

/// The object of a new NodeClaim, as it would be created; null if its NodePool is not in the input.
pub(crate) fn raised(new_claim: &NewClaim, loaded: &Loaded, names: &Names, place: &(String, u32)) -> Value {
    let name = format!("{}-{}", new_claim.pool.name, names.suffix(5));
    let (batch, position) = (place.0.as_str(), place.1);
    let identity = Identity { name, batch, position, cluster_uid: &loaded.cluster_uid };
    let Some(pool) = loaded.index.pool(&new_claim.pool.name) else { return Value::Null };
    let claim = raise::claim(new_claim, pool, &new_claim.pods, identity);
    let mut value = json!(claim);
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, part| !part.is_null());
        object.insert("apiVersion".to_owned(), json!("karpenter.sh/v1"));
        object.insert("kind".to_owned(), json!("NodeClaim"));
    }
    value
}

fn existing(placement: &Placement) -> Existing {
    Existing {
        node: placement.node.name().to_string(),
        pods: placement.pods.iter().map(|pod| pod.id.to_string()).collect(),
    }
}

fn unplaced(
    pod: String,
    why: &Unplaced,
    nodes: Option<&NodeObstacles>,
    constraints: Vec<constraints::Row>,
) -> Unschedulable {
    let verdict = |verdict: &PoolVerdict| Verdict {
        node_pool: verdict.pool.to_string(),
        reason: verdict.eliminated.as_str().to_owned(),
        message: verdict.to_string(),
    };
    let per_node_pool = match why {
        Unplaced::NoPoolFits(verdicts) => verdicts.iter().map(verdict).collect(),
        _ => Vec::new(),
    };
    let nodes = nodes.map(|nodes| Refusals {
        total: nodes.total,
        message: nodes.to_string(),
        obstacles: nodes.obstacles.iter().map(refusal).collect(),
    });
    let (reason, message) = (why.as_str().to_owned(), why.to_string());
    Unschedulable { pod, reason, message, per_node_pool, constraints, nodes }
}

fn refusal((obstacle, count): &(Obstacle, usize)) -> Refusal {
    Refusal { reason: obstacle.as_str().to_owned(), count: *count, message: obstacle.to_string() }
}
