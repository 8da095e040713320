//! `explain pod`.

use std::sync::Arc;

use anyhow::{bail, ensure};
use fleetwright_core::{
    model::{Currency, NamespacedName, Pod, labels::INSTANCE_TYPE},
    scheduling::{NewClaim, Plan},
    suggest::did_you_mean,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Question,
    constraints::{self, Finder, Row},
    costs::{self, CostRow},
    effective_price,
    funnel::{self, Funnel},
    nodes::{self, NodeRow},
    price,
};
use crate::{
    cli::ExplainOptions,
    figures,
    sheet::{Page, Sheet, figure, text},
};

/// The most instance types that are listed.
const MAX_CANDIDATES: usize = 10;

/// The explanation of a pod. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodReport {
    /// Version of this form.
    version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    currency: Currency,
    /// `namespace/name`.
    pod: String,
    /// One word: `Bound`, `NewNode`, `ExistingNode`, `Unschedulable` or `Held`.
    state: &'static str,
    /// Where it runs or is going to, or why it cannot.
    message: String,
    /// What each constraint leaves of the instance types, by NodePool.
    funnels: Vec<Funnel>,
    /// For each NodePool that it does not fit, all constraints that rule it out.
    pub(super) constraints: Vec<Row>,
    /// How many NodePools have only their first constraint in `constraints`, because the work on a report is limited.
    #[serde(skip_serializing_if = "is_zero")]
    node_pools_in_part: usize,
    /// Why existing nodes refuse it; nodes with equal reasons share a row.
    nodes: Vec<NodeRow>,
    /// How many existing nodes were not asked, because the work on a report is limited.
    #[serde(skip_serializing_if = "is_zero")]
    nodes_left_out: usize,
    /// Instance types of its planned node, those of the lowest effective price first.
    candidates: Vec<Candidate>,
    /// What its constraints cost, the dearest first.
    costs: Vec<CostRow>,
}

/// Whether a count is left out of the document.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An instance type that the planned node of the pod may be of.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate {
    /// The instance type.
    pub(super) instance_type: String,
    /// Its cheapest allowed offering.
    pub(super) zone: String,
    /// Its cheapest allowed offering.
    pub(super) capacity_type: String,
    /// Its list price; `unknown` where it is not known.
    pub(super) price: String,
    /// Its effective price, by which the plan chooses; `unknown` where the price is not known.
    pub(super) effective_price: String,
    /// CPU that the pods and daemons of the node leave.
    pub(super) cpu_left: String,
    /// Memory that they leave.
    pub(super) memory_left: String,
    /// Whether the plan chose it.
    pub(super) chosen: bool,
}

pub(super) fn report(question: &mut Question, options: &ExplainOptions) -> anyhow::Result<PodReport> {
    let pod = find(question, options)?;
    let snapshot = question.snapshot.clone();
    let mut report = PodReport {
        version: 1,
        currency: snapshot.currency,
        pod: pod.id.to_string(),
        state: "Bound",
        message: String::new(),
        funnels: Vec::new(),
        constraints: Vec::new(),
        node_pools_in_part: 0,
        nodes: Vec::new(),
        nodes_left_out: 0,
        candidates: Vec::new(),
        costs: Vec::new(),
    };
    if let Some(node) = &pod.node {
        let is_known = question.loaded.index.node(node).is_some();
        report.message =
            format!("runs on node {node}{}", if is_known { "" } else { ", which the input lacks" });
    } else if let Some(held) = question.loaded.held_pods.get(&pod.id) {
        (report.state, report.message) = ("Held", format!("{}: {}", held.reason, held.message));
    } else {
        let costs = costs::of(question, &pod);
        let plan = question.plan();
        place(&mut report, &plan, &pod);
        if let Some((_, why)) = plan.unplaced.iter().find(|(other, _)| other.uid == pod.uid) {
            let mut finder = Finder::new(&question.loaded, (&snapshot, &plan), &question.rules);
            report.constraints = finder.rows(&pod, why);
            report.node_pools_in_part = finder.in_part();
        }
        report.costs = costs;
    }
    let pools = snapshot.pools.iter().filter(|pool| !pool.is_static() && !pool.deleting);
    report.funnels = pools.map(|pool| funnel::of(&snapshot, &question.rules, &pod, &pool.name)).collect();
    if pod.node.is_none() {
        let refusals = nodes::refusals(&snapshot, &question.rules, &pod);
        (report.nodes, report.nodes_left_out) = (refusals.rows, refusals.left_out);
    }
    Ok(report)
}

/// Where the plan puts the pod.
fn place(report: &mut PodReport, plan: &Plan, pod: &Pod) {
    let has = |pods: &[Arc<Pod>]| pods.iter().any(|other| other.uid == pod.uid);
    if let Some(new_claim) = plan.new_claims.iter().find(|new_claim| has(&new_claim.pods)) {
        let chosen = &new_claim.chosen;
        report.state = "NewNode";
        report.message = format!(
            "would run on a new node of NodePool {}: {} in {}, {}, {}/h",
            new_claim.pool.name,
            chosen.instance_type,
            chosen.zone,
            chosen.capacity_type,
            figures::per_hour(report.currency, chosen.price.dollars())
        );
        report.candidates = candidates(new_claim);
    } else if let Some(placement) = plan.existing.iter().find(|placement| has(&placement.pods)) {
        report.state = "ExistingNode";
        report.message = format!("fits on node {}", placement.node.name());
    } else if let Some((_, why)) = plan.unplaced.iter().find(|(other, _)| other.uid == pod.uid) {
        report.state = "Unschedulable";
        report.message = format!("{}: {why}", why.as_str());
    } else {
        report.state = "Held";
        report.message = "is not scheduled by the controller".to_owned();
    }
}

/// The instance types of a planned node, with what its pods leave of each, in the order in which the plan chooses.
pub(super) fn candidates(new_claim: &NewClaim) -> Vec<Candidate> {
    let mut allowed = new_claim.requirements.clone();
    allowed.remove(INSTANCE_TYPE);
    let of = |instance_type: &Arc<fleetwright_core::model::InstanceType>| {
        let offering = instance_type.cheapest(&allowed)?;
        let left = instance_type.allocatable_of(offering).minus(&new_claim.requests);
        let effective = new_claim.objective.effective(&new_claim.pool, instance_type, offering.price);
        Some((
            (effective, offering.price),
            Candidate {
                instance_type: instance_type.name.to_string(),
                zone: offering.zone().map(ToString::to_string).unwrap_or_default(),
                capacity_type: offering.capacity_type().map(ToString::to_string).unwrap_or_default(),
                price: price(offering.price),
                effective_price: effective_price(offering.price, effective),
                cpu_left: figures::cpu(left.cpu()),
                memory_left: figures::bytes(left.memory()),
                chosen: instance_type.name == new_claim.chosen.instance_type,
            },
        ))
    };
    let mut all: Vec<_> = new_claim.instance_types.iter().filter_map(of).collect();
    all.sort_by_key(|((effective, list), candidate)| (*effective, !candidate.chosen, *list));
    all.truncate(MAX_CANDIDATES);
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The pod that the options name.
fn find(question: &Question, options: &ExplainOptions) -> anyhow::Result<Arc<Pod>> {
    let (namespace, name) = match options.name.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => (options.namespace.as_deref().unwrap_or("default"), options.name.as_str()),
    };
    let Question { loaded, snapshot, .. } = question;
    // Pods of buffers are in the snapshot alone.
    let all: Vec<&Arc<Pod>> = loaded.index.pods().chain(&snapshot.pending).collect();
    let is_meant = |id: &NamespacedName| &*id.namespace == namespace && &*id.name == name;
    if let Some(found) = all.iter().find(|pod| is_meant(&pod.id)) {
        ensure!(!found.is_terminal(), "Pod {} has ended", found.id);
        return Ok((*found).clone());
    }
    if let Some((id, broken)) = loaded.broken_pods.iter().find(|(id, _)| is_meant(id)) {
        bail!("Pod {id} is left out: {}", broken.message);
    }
    let meant = match all.iter().find(|pod| &*pod.id.name == name) {
        Some(elsewhere) => format!("; there is one in namespace {}", elsewhere.id.namespace),
        None => {
            let names = all.iter().filter(|pod| &*pod.id.namespace == namespace).map(|pod| &*pod.id.name);
            did_you_mean(name, names)
        }
    };
    bail!("there is no pod {namespace}/{name} in the input{meant}")
}

pub(super) fn page(report: &PodReport) -> Page {
    let mut page = Page::default();
    page.line(format!("Pod {} {}", report.pod, report.message));
    for funnel in &report.funnels {
        let mut sheet = Sheet::new(&[text("NODEPOOL"), text("CONSTRAINT"), figure("TYPES LEFT")]);
        for step in &funnel.steps {
            sheet.row([funnel.node_pool.clone(), step.constraint.clone(), step.left.to_string()]);
        }
        page.sheet(sheet);
        if let Some(why) = &funnel.why {
            page.line(why);
        }
    }
    let mut sheet = Sheet::new(&[text("NODEPOOL"), figure("#"), text("REASON"), text("RULED OUT BY")]);
    for row in &report.constraints {
        sheet.row([row.node_pool.clone(), row.place.to_string(), row.reason.clone(), row.message.clone()]);
    }
    page.sheet(sheet);
    if report.node_pools_in_part > 0 {
        page.line(constraints::in_part(report.node_pools_in_part));
    }
    for line in constraints::patch_lines(&report.constraints) {
        page.line(line);
    }
    let mut sheet = Sheet::new(&[figure("NODES"), text("NODE"), text("WHY NOT")]);
    for row in &report.nodes {
        sheet.row([row.nodes.len().to_string(), figures::names(&row.nodes), row.why.clone()]);
    }
    page.sheet(sheet);
    if report.nodes_left_out > 0 {
        page.line(format!("{} were not asked", figures::count(report.nodes_left_out, "more node")));
    }
    page.sheet(candidate_sheet(&report.candidates, report.currency));
    let telling: Vec<&CostRow> = report.costs.iter().filter(|row| row.matters()).collect();
    for row in &telling {
        page.line(row.message.clone());
    }
    if telling.is_empty() && !report.costs.is_empty() && report.state != "Unschedulable" {
        page.line("no single constraint of the pod costs anything");
    }
    page
}

/// The table of candidates.
pub(super) fn candidate_sheet(candidates: &[Candidate], currency: Currency) -> Sheet {
    let mut sheet = Sheet::new(&[
        text("CANDIDATE"),
        text("ZONE"),
        text("CAPACITY"),
        figure(format!("{currency}/H")),
        figure("EFFECTIVE"),
        figure("CPU LEFT"),
        figure("MEMORY LEFT"),
        text("CHOSEN"),
    ]);
    for candidate in candidates {
        sheet.row([
            candidate.instance_type.clone(),
            candidate.zone.clone(),
            candidate.capacity_type.clone(),
            figures::hourly_text(&candidate.price),
            figures::hourly_text(&candidate.effective_price),
            candidate.cpu_left.clone(),
            candidate.memory_left.clone(),
            if candidate.chosen { "yes".to_owned() } else { String::new() },
        ]);
    }
    sheet
}
