//! `explain nodepool`.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::bail;
use fleetwright_core::{
    model::{Currency, InstanceType, Price, Requirements, Str, labels::NODEPOOL},
    scheduling::MinValuesPolicy,
    suggest::did_you_mean,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Question, funnel::FunnelStep, price};
use crate::{
    figures, fleet,
    sheet::{Page, Sheet, figure, text},
};

/// The explanation of a NodePool. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodePoolReport {
    /// Version of this form.
    version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    currency: Currency,
    /// The NodePool.
    node_pool: String,
    /// Whether nodes are launched for it, or why not.
    state: String,
    /// Its weight.
    weight: i32,
    /// What its requirements leave of the instance types, one after the other.
    funnel: Vec<FunnelStep>,
    /// Its nodes until they are gone, and NodeClaims that are launched and have no node yet.
    nodes: usize,
    /// Their price, as far as it is known; `unknown` where none is.
    hourly: String,
    /// Its limits.
    limits: Vec<LimitRow>,
}

/// A limit.
#[derive(Debug, Serialize, JsonSchema)]
struct LimitRow {
    resource: String,
    used: String,
    limit: String,
}

pub(super) fn report(question: &Question, name: &str) -> anyhow::Result<NodePoolReport> {
    let snapshot = &question.snapshot;
    let Some(pool) = snapshot.pool(name) else {
        let names = snapshot.pools.iter().map(|pool| &*pool.name);
        bail!("there is no valid NodePool {name:?} in the input{}", did_you_mean(name, names));
    };
    let catalog = snapshot.catalog(name).cloned().unwrap_or_default();
    let mut funnel =
        vec![FunnelStep { constraint: "catalogue".to_owned(), left: catalog.instance_types.len() }];
    let mut so_far = Requirements::new();
    for requirement in pool.template.requirements.iter() {
        so_far.add(requirement.clone());
        let left = catalog.instance_types.iter().filter(|known| so_far.overlaps(&known.requirements));
        funnel.push(FunnelStep { constraint: requirement.to_string(), left: left.count() });
    }
    let is_available = |known: &&Arc<InstanceType>| {
        so_far.overlaps(&known.requirements) && known.cheapest(&so_far).is_some()
    };
    let available: Vec<&Arc<InstanceType>> = catalog.instance_types.iter().filter(is_available).collect();
    funnel.push(FunnelStep { constraint: "available offerings".to_owned(), left: available.len() });
    let nodes =
        snapshot.nodes.iter().filter(|node| node.label(NODEPOOL) == Some(name) && fleet::is_paid(node));
    let nodes: Vec<_> = nodes.collect();
    let hourly: Price = nodes.iter().filter_map(|node| fleet::price(snapshot, node)).sum();
    let is_strict = question.rules.min_values == MinValuesPolicy::Strict;
    let narrow = (is_strict && !available.is_empty()).then(|| too_narrow(&so_far, &available)).flatten();
    let missing = catalog.missing.as_ref().map(|why| format!("launches nothing: {why}"));
    let state = narrow.or(missing).unwrap_or_else(|| fleet::pool_state(pool));
    let (used, count) = snapshot.usage(name);
    let mut limits: Vec<LimitRow> = Vec::new();
    for (resource, limit) in &pool.limits.resources {
        limits.push(LimitRow {
            resource: resource.as_str().to_owned(),
            used: resource.quantity(used.get(resource)).to_string(),
            limit: resource.quantity(*limit).to_string(),
        });
    }
    if let Some(limit) = pool.limits.nodes {
        limits.push(LimitRow {
            resource: "nodes".to_owned(),
            used: count.to_string(),
            limit: limit.to_string(),
        });
    }
    Ok(NodePoolReport {
        version: 1,
        currency: snapshot.currency,
        node_pool: name.to_owned(),
        state,
        weight: pool.weight,
        funnel,
        nodes: nodes.len(),
        hourly: if nodes.is_empty() { hourly.to_string() } else { price(hourly) },
        limits,
    })
}

/// Why no node can be launched although instance types are left: they have too few values for a minValues.
fn too_narrow(requirements: &Requirements, available: &[&Arc<InstanceType>]) -> Option<String> {
    requirements.iter().find_map(|requirement| {
        let wanted = usize::try_from(requirement.min_values()?).ok()?;
        let of_type = |known: &&Arc<InstanceType>| known.requirements.get(requirement.key()).cloned();
        let values: BTreeSet<Str> = available
            .iter()
            .filter_map(of_type)
            .filter(|known| !known.is_complement())
            .flat_map(|known| known.intersection(requirement).values().clone())
            .collect();
        (values.len() < wanted).then(|| {
            format!(
                "cannot launch nodes: minValues of {} is {wanted}, and the types that are left have {}: allow more of them, lower minValues, or set MIN_VALUES_POLICY=BestEffort",
                requirement.key(),
                figures::count(values.len(), "value"),
            )
        })
    })
}

pub(super) fn page(report: &NodePoolReport) -> Page {
    let mut page = Page::default();
    page.line(format!("NodePool {} {}", report.node_pool, report.state));
    let mut sheet = Sheet::new(&[text("REQUIREMENT"), figure("TYPES LEFT")]);
    for step in &report.funnel {
        sheet.row([step.constraint.clone(), step.left.to_string()]);
    }
    page.sheet(sheet);
    let mut sheet = Sheet::new(&[text("LIMIT"), figure("USED"), figure("OF")]);
    for row in &report.limits {
        let shown = |exact: &str| figures::amount_text(&row.resource, exact);
        sheet.row([row.resource.clone(), shown(&row.used), shown(&row.limit)]);
    }
    page.sheet(sheet);
    let cost = report.hourly.parse().map_or_else(
        |_| "their price is unknown".to_owned(),
        |price: f64| {
            let (hour, month) =
                (figures::per_hour(report.currency, price), figures::monthly(report.currency, price));
            format!("{hour} per hour, {month} per month")
        },
    );
    page.line(format!("{}, {cost}; weight {}", figures::count(report.nodes, "node"), report.weight));
    page
}
