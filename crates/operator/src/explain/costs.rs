//! What each constraint of a pod costs: the plan for all pods, once as it is and once without the constraint.

use std::sync::Arc;

use fleetwright_core::{
    model::{Currency, Pod, TopologySpread, pod::PodSpec},
    scheduling::Plan,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Question,
    lifting::{Lift, drop_key},
};
use crate::figures;

/// The most constraints that are lifted; each is a plan for all pods.
const MAX_CONSTRAINTS: usize = 16;

/// The cost of a constraint. Prices are per hour, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CostRow {
    /// The constraint.
    pub(super) constraint: String,
    /// How many pods of the plan have it: those of the same workload.
    pub(super) pods: usize,
    /// New nodes with it, and their price.
    pub(super) nodes: usize,
    /// Their price.
    pub(super) hourly: String,
    /// New nodes without it.
    pub(super) nodes_without: usize,
    /// Their price.
    pub(super) hourly_without: String,
    /// Pods that no node runs with it, and would without it; below zero for the opposite.
    pub(super) unschedulable_less: i64,
    /// One sentence.
    pub(super) message: String,
}

impl CostRow {
    /// Whether the plan is another one without the constraint.
    pub(super) fn matters(&self) -> bool {
        self.unschedulable_less != 0 || self.hourly != self.hourly_without
    }
}

/// The cost of each constraint of `pod`, lifted on all pods of its workload in the plan; dearest first.
pub(super) fn of(question: &Question, pod: &Arc<Pod>) -> Vec<CostRow> {
    let pods = question.pods();
    let is_sibling =
        |other: &Arc<Pod>| other.uid == pod.uid || (other.owner.is_some() && other.owner == pod.owner);
    if !question.loaded.priced || !pods.iter().any(|other| other.uid == pod.uid) {
        return Vec::new();
    }
    let whole = question.solve(&pods);
    let count = pods.iter().filter(|other| is_sibling(other)).count();
    let mut rows = Vec::new();
    for (constraint, lift) in constraints(&pod.spec).into_iter().take(MAX_CONSTRAINTS) {
        let lifted: Vec<Arc<Pod>> = pods
            .iter()
            .map(|other| {
                if !is_sibling(other) {
                    return other.clone();
                }
                let mut spec = (*other.spec).clone();
                lift(&mut spec);
                Arc::new(Pod { spec: Arc::new(spec), ..(**other).clone() })
            })
            .collect();
        rows.push(row(constraint, count, (&whole, &question.solve(&lifted)), question.snapshot.currency));
    }
    rows.sort_by(|a, b| {
        let saved = |row: &CostRow| {
            let price = |text: &str| text.parse::<f64>().unwrap_or(0.0);
            price(&row.hourly) - price(&row.hourly_without)
        };
        (b.unschedulable_less, saved(b))
            .partial_cmp(&(a.unschedulable_less, saved(a)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

fn row(constraint: String, pods: usize, (whole, without): (&Plan, &Plan), currency: Currency) -> CostRow {
    let (now, then) = (whole.cost.hourly.dollars(), without.cost.hourly.dollars());
    let (nodes, nodes_without) = (whole.new_claims.len(), without.new_claims.len());
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let unschedulable_less = number(whole.unplaced.len()).saturating_sub(number(without.unplaced.len()));
    let message = if unschedulable_less > 0 {
        let helped = usize::try_from(unschedulable_less).unwrap_or(0);
        format!("{constraint} keeps {} from running", figures::count(helped, "pod"))
    } else if now - then > 5e-5 {
        let more = figures::per_hour(currency, now - then);
        let nodes = figures::count(nodes, "node");
        if whole.new_claims.len() == nodes_without {
            let [now, then] = [now, then].map(|price| figures::per_hour(currency, price));
            format!("{constraint} costs {more}/h: {nodes} at {now}/h instead of {then}/h")
        } else {
            format!("{constraint} costs {more}/h: {nodes} instead of {nodes_without}")
        }
    } else {
        format!("{constraint} costs nothing")
    };
    CostRow {
        constraint,
        pods,
        nodes,
        hourly: whole.cost.hourly.to_string(),
        nodes_without,
        hourly_without: without.cost.hourly.to_string(),
        unschedulable_less,
        message,
    }
}

/// The topology constraints of a pod, soft ones too, each with what takes it away.
pub(super) fn topology(spec: &PodSpec) -> Vec<(String, Lift)> {
    let mut all: Vec<(String, Lift)> = Vec::new();
    for spread in &spec.topology_spread {
        let (name, lifted) = (spread_name(spread), spread.clone());
        all.push((name, Box::new(move |spec| spec.topology_spread.retain(|known| *known != lifted))));
    }
    for (kind, terms) in
        [("pod affinity", &spec.pod_affinity), ("pod anti-affinity", &spec.pod_anti_affinity)]
    {
        for term in terms {
            let lifted = term.clone();
            all.push((
                format!("{kind} by {}", short(&term.key)),
                Box::new(move |spec| {
                    spec.pod_affinity.retain(|known| *known != lifted);
                    spec.pod_anti_affinity.retain(|known| *known != lifted);
                }),
            ));
        }
    }
    let preferred = spec.preferred_pod_affinity.iter().map(|term| ("preferred pod affinity", term));
    let against = spec.preferred_pod_anti_affinity.iter().map(|term| ("preferred pod anti-affinity", term));
    for (kind, term) in preferred.chain(against) {
        let lifted = term.clone();
        all.push((
            format!("{kind} by {}", short(&term.1.key)),
            Box::new(move |spec| {
                spec.preferred_pod_affinity.retain(|known| *known != lifted);
                spec.preferred_pod_anti_affinity.retain(|known| *known != lifted);
            }),
        ));
    }
    all
}

fn constraints(spec: &PodSpec) -> Vec<(String, Lift)> {
    let mut all = topology(spec);
    let selected =
        spec.node_selector.iter().map(|(key, value)| (format!("nodeSelector {key}={value}"), key.clone()));
    let required = spec.required_node_terms.iter().flatten();
    let required = required.map(|wanted| (format!("node affinity {wanted}"), wanted.key().clone()));
    for (name, key) in selected.chain(required) {
        all.push((name, Box::new(move |spec| drop_key(spec, &key))));
    }
    for (at, (weight, _)) in spec.preferred_node_terms.iter().enumerate() {
        all.push((
            format!("preferred node affinity {} (weight {weight})", at + 1),
            Box::new(move |spec| {
                if at < spec.preferred_node_terms.len() {
                    spec.preferred_node_terms.remove(at);
                }
            }),
        ));
    }
    all
}

fn spread_name(spread: &TopologySpread) -> String {
    let soft = if spread.hard { "" } else { "soft " };
    format!("{soft}{} spread (maxSkew {})", short(&spread.key), spread.max_skew)
}

/// The name of a label without its domain.
fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
