//! `fleetwright explain pod`, `explain type` and `explain nodepool`, a dry run: what the solver says when it is asked about one object.
//!
//! - [`pod`]: where a pod can run, what each constraint leaves, what would help, and what its constraints cost.
//! - [`instance_type`]: which NodePools allow a type, and why planned nodes are of it or of another one.
//! - [`node_pool`]: what the requirements of a NodePool leave of the instance types, its limits and nodes.
//! - [`decision`]: a decision of a recording, with the cluster as it was then.
//! - [`constraints`]: all constraints that rule a NodePool out; [`patches`]: what would lift them; [`lifting`]: pods without them; [`nodes`]: why existing nodes refuse a pod; [`funnel`]: what each of them leaves; [`costs`]: what each costs.

pub(crate) mod constraints;
mod costs;
mod decision;
pub(crate) mod funnel;
mod instance_type;
mod lifting;
mod node_pool;
mod nodes;
pub(crate) mod patches;
mod pod;
mod subject;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use fleetwright_controllers::settings::Packing;
use fleetwright_core::{
    clock::Clock as _,
    model::{Pod, Price, Snapshot},
    scheduling::{Plan, PreparedSnapshot, Rules},
};
use serde::Serialize;

pub(crate) use self::{decision::decision, subject::Subject};
use crate::{
    catalogue::{Catalogues, Footer},
    cli::{ExplainOptions, PlanOptions},
    clock::SystemClock,
    input::{self, Item, load::Loaded},
    outcome::Outcome,
    plan::{self, show_notes},
    settings::Values,
    sheet::{self, Answer, Page},
};

/// Explains a pod.
///
/// # Errors
/// If the input is invalid, or has no such pod.
pub(crate) fn pod(
    options: &ExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let mut question = Question::new(options, catalogues, values)?;
    let report = pod::report(&mut question, options)?;
    question.print(options, &report, pod::page(&report))
}

/// The explanation of a pod of an input; `options` name the pod.
///
/// # Errors
/// If the input is invalid, or has no such pod.
fn pod_answer(
    items: Vec<Item>,
    options: &ExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Answer> {
    let mut question = Question::of(items, options, catalogues, values)?;
    let report = pod::report(&mut question, options)?;
    let Loaded { notes, gaps, .. } = question.loaded;
    Ok(Answer { document: serde_json::to_value(&report)?, page: pod::page(&report), notes, gaps })
}

/// Explains an instance type.
///
/// # Errors
/// If the input is invalid, or no NodePool has such a type.
pub(crate) fn instance_type(
    options: &ExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let mut question = Question::new(options, catalogues, values)?;
    let report = instance_type::report(&mut question, &options.name)?;
    question.print(options, &report, instance_type::page(&report))
}

/// Explains a NodePool.
///
/// # Errors
/// If the input is invalid, or has no such NodePool.
pub(crate) fn node_pool(
    options: &ExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let question = Question::new(options, catalogues, values)?;
    let report = node_pool::report(&question, &options.name)?;
    question.print(options, &report, node_pool::page(&report))
}

/// The input of an explanation.
struct Question {
    loaded: Loaded,
    snapshot: Arc<Snapshot>,
    rules: Rules,
    packing: Packing,
    options: PlanOptions,
    live: bool,
}

impl Question {
    fn new(options: &ExplainOptions, catalogues: &Catalogues, values: &Values) -> anyhow::Result<Self> {
        Self::of(input::read_from(&options.input)?, options, catalogues, values)
    }

    fn of(
        items: Vec<Item>,
        options: &ExplainOptions,
        catalogues: &Catalogues,
        values: &Values,
    ) -> anyhow::Result<Self> {
        let of_plan = PlanOptions::of_tool(options.budget, options.catalogue.clone());
        let (mut loaded, packing) = plan::prepare_workloads(items, &[], &of_plan, catalogues, values)?;
        let at = options.at.unwrap_or_else(|| SystemClock.now());
        let snapshot = loaded.index.snapshot(at);
        let live = options.input.files.is_empty();
        Ok(Self { loaded, snapshot, rules: plan::rules(values), packing, options: of_plan, live })
    }

    /// The pods that a plan places.
    fn pods(&self) -> Vec<Arc<Pod>> {
        plan::pods(&self.snapshot, self.live)
    }

    /// The plan for some pods.
    fn solve(&self, pods: &[Arc<Pod>]) -> Plan {
        let mut prepared = PreparedSnapshot::on(self.snapshot.clone(), &self.rules);
        plan::solve(&mut prepared, pods, self.packing, self.options.budget)
    }

    /// The plan that the controller reaches for all pods.
    fn plan(&mut self) -> Plan {
        let Self { loaded, snapshot, rules, packing, options, live } = self;
        let (live, packing, budget) = (*live, *packing, options.budget);
        plan::passes(loaded, snapshot.taken_at, |snapshot| {
            let mut prepared = PreparedSnapshot::on(snapshot.clone(), rules);
            plan::solve(&mut prepared, &plan::pods(snapshot, live), packing, budget)
        })
    }

    fn print(
        &self,
        options: &ExplainOptions,
        report: &impl Serialize,
        mut page: Page,
    ) -> anyhow::Result<Outcome> {
        show_notes(&self.loaded.notes, &self.loaded.gaps)?;
        for line in Footer(&self.loaded.sources).to_string().lines() {
            page.line(line);
        }
        sheet::print(options.output, report, |_| page)?;
        Ok(Outcome::of(&self.loaded.gaps))
    }
}

/// An exact price; `unknown` where the catalogue has none, as it then counts as zero.
fn price(price: Price) -> String {
    if price == Price::ZERO { "unknown".to_owned() } else { price.to_string() }
}

/// An exact effective price; `unknown` where the list price is.
fn effective_price(list: Price, effective: Price) -> String {
    if list == Price::ZERO { "unknown".to_owned() } else { effective.to_string() }
}
