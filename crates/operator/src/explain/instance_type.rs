//! `explain type`.

use std::sync::Arc;

use anyhow::bail;
use fleetwright_core::{
    model::{Currency, InstanceType, NodePool, Price, Rounding, figures::amount, labels::INSTANCE_TYPE},
    scheduling::NewClaim,
    suggest::did_you_mean,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Question, effective_price, pod, price};
use crate::{
    figures,
    sheet::{Page, Sheet, figure, text},
};

/// The explanation of an instance type. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceTypeReport {
    /// Version of this form.
    version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    currency: Currency,
    /// The instance type.
    instance_type: String,
    /// CPU that pods can have.
    cpu: String,
    /// Memory that pods can have.
    memory: String,
    /// Whether NodePools allow it.
    node_pools: Vec<PoolRow>,
    /// Its offerings.
    offerings: Vec<OfferingRow>,
    /// For each planned node, whether it may be of this type.
    planned: Vec<Planned>,
}

/// Whether a NodePool allows the type.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PoolRow {
    node_pool: String,
    allowed: bool,
    why: String,
}

/// An offering.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OfferingRow {
    zone: String,
    capacity_type: String,
    /// The list price; `unknown` where it is not known.
    price: String,
    /// The effective price, by which plans choose: for NodePools that name the type, the family or the category of a burstable type, it is
    /// another one than for others.
    effective_price: String,
    available: bool,
    /// The NodePools that allow it.
    node_pools: Vec<String>,
}

/// Why a planned node is or is not of the type.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Planned {
    /// How many nodes are like this.
    nodes: usize,
    node_pool: String,
    /// The pods, as `namespace/name`.
    pods: Vec<String>,
    chosen: String,
    why: String,
    candidates: Vec<pod::Candidate>,
}

pub(super) fn report(question: &mut Question, name: &str) -> anyhow::Result<InstanceTypeReport> {
    let snapshot = question.snapshot.clone();
    let all = snapshot.catalogs.values().flat_map(|catalog| &catalog.instance_types);
    let Some(found) = snapshot.catalogs.values().find_map(|catalog| catalog.get(name)).cloned() else {
        let names = all.map(|instance_type| &*instance_type.name);
        bail!("no NodePool of the input has the instance type {name:?}{}", did_you_mean(name, names));
    };
    let allocatable = found.allocatable();
    let mut report = InstanceTypeReport {
        version: 1,
        currency: snapshot.currency,
        instance_type: name.to_owned(),
        cpu: figures::cpu(allocatable.cpu()),
        memory: figures::bytes(allocatable.memory()),
        node_pools: Vec::new(),
        offerings: Vec::new(),
        planned: Vec::new(),
    };
    for pool in &snapshot.pools {
        let of_pool = snapshot.catalog(&pool.name).and_then(|catalog| catalog.get(name));
        report.node_pools.push(allowed(pool, of_pool, snapshot.currency));
        let allows_type =
            of_pool.is_some_and(|of_pool| pool.template.requirements.overlaps(&of_pool.requirements));
        let of_type = of_pool.into_iter().flat_map(|known| known.offerings.iter().map(move |of| (known, of)));
        for (instance_type, offering) in of_type {
            let effective = snapshot.objective.effective(pool, instance_type, offering.price);
            let row = OfferingRow {
                zone: offering.zone().map(ToString::to_string).unwrap_or_default(),
                capacity_type: offering.capacity_type().map(ToString::to_string).unwrap_or_default(),
                price: price(offering.price),
                effective_price: effective_price(offering.price, effective),
                available: offering.available,
                node_pools: Vec::new(),
            };
            let is_same = |known: &&mut OfferingRow| {
                (&known.zone, &known.capacity_type) == (&row.zone, &row.capacity_type)
                    && (&known.price, &known.effective_price) == (&row.price, &row.effective_price)
            };
            let at = match report.offerings.iter_mut().find(is_same) {
                Some(known) => known,
                None => {
                    report.offerings.push(row);
                    let Some(last) = report.offerings.last_mut() else { continue };
                    last
                }
            };
            if allows_type && pool.template.requirements.overlaps(&offering.requirements) {
                at.node_pools.push(pool.name.to_string());
            }
        }
    }
    let plan = question.plan();
    for row in plan.new_claims.iter().map(|new_claim| planned(new_claim, &found, snapshot.currency)) {
        let is_like = |known: &&mut Planned| {
            (&known.node_pool, &known.chosen, &known.why) == (&row.node_pool, &row.chosen, &row.why)
                && known.candidates == row.candidates
        };
        match report.planned.iter_mut().find(is_like) {
            Some(known) => {
                known.nodes += 1;
                known.pods.extend(row.pods);
            }
            None => report.planned.push(row),
        }
    }
    Ok(report)
}

fn allowed(pool: &NodePool, instance_type: Option<&Arc<InstanceType>>, currency: Currency) -> PoolRow {
    let (allowed, why) = match instance_type {
        None => (false, "its catalogue does not have the type".to_owned()),
        Some(instance_type) => match pool.template.requirements.intersects(&instance_type.requirements) {
            Err(why) => (false, why.to_string()),
            Ok(()) => match instance_type.cheapest(&pool.template.requirements) {
                Some(offering) => (true, from(currency, offering.price)),
                None => (false, "no offering that the NodePool allows is available".to_owned()),
            },
        },
    };
    PoolRow { node_pool: pool.name.to_string(), allowed, why }
}

fn from(currency: Currency, price: Price) -> String {
    match price {
        Price::ZERO => "at an unknown price".to_owned(),
        known => format!("from {}/h", figures::per_hour(currency, known.dollars())),
    }
}

/// `$0.0825/h (list price $0.0765)`.
fn both_prices(currency: Currency, list: Price, effective: Price) -> String {
    let counts_as = figures::per_hour(currency, effective.dollars());
    if list == effective {
        return format!("{counts_as}/h");
    }
    format!("{counts_as}/h (list price {})", figures::per_hour(currency, list.dollars()))
}

fn planned(new_claim: &NewClaim, asked: &Arc<InstanceType>, currency: Currency) -> Planned {
    let chosen = &new_claim.chosen;
    let mut allowed = new_claim.requirements.clone();
    allowed.remove(INSTANCE_TYPE);
    let why = if chosen.instance_type == asked.name {
        match chosen.price {
            Price::ZERO => "chosen: the first in Karpenter's order, as prices are unknown".to_owned(),
            _ => "chosen: no type that holds its pods has a lower effective price".to_owned(),
        }
    } else if new_claim.instance_types.iter().any(|known| known.name == asked.name) {
        match asked.cheapest(&allowed) {
            Some(offering) if offering.price == Price::ZERO => {
                "holds its pods, and its price is unknown".to_owned()
            }
            Some(offering) => {
                let effective = new_claim.objective.effective(&new_claim.pool, asked, offering.price);
                format!(
                    "holds its pods, and counts as {} instead of {}",
                    both_prices(currency, offering.price, effective),
                    both_prices(currency, chosen.price, chosen.effective)
                )
            }
            None => "holds its pods, and has no available offering".to_owned(),
        }
    } else if let Err(why) = allowed.intersects(&asked.requirements) {
        format!("not allowed: {why}")
    } else if let Some(resource) = new_claim.requests.first_exceeding(&asked.allocatable()) {
        format!(
            "too small: pods and daemons request {} {}, of which it has {}",
            amount(&resource, new_claim.requests.get(&resource), Rounding::Up),
            resource.as_str(),
            amount(&resource, asked.allocatable().get(&resource), Rounding::Down)
        )
    } else if asked.cheapest(&allowed).is_none() {
        "no offering that pods and NodePool allow is available".to_owned()
    } else {
        "not among the types of the NodeClaim: daemons of the type, limits or minValues rule it out"
            .to_owned()
    };
    Planned {
        nodes: 1,
        node_pool: new_claim.pool.name.to_string(),
        pods: new_claim.pods.iter().map(|pod| pod.id.to_string()).collect(),
        chosen: chosen.instance_type.to_string(),
        why,
        candidates: pod::candidates(new_claim),
    }
}

pub(super) fn page(report: &InstanceTypeReport) -> Page {
    let mut page = Page::default();
    page.line(format!("{}: {} CPU and {} memory for pods", report.instance_type, report.cpu, report.memory));
    let mut sheet = Sheet::new(&[text("NODEPOOL"), text("ALLOWED"), text("WHY")]);
    for row in &report.node_pools {
        sheet.row([
            row.node_pool.clone(),
            if row.allowed { "yes" } else { "no" }.to_owned(),
            row.why.clone(),
        ]);
    }
    page.sheet(sheet);
    let price = figure(format!("{}/H", report.currency));
    let mut sheet = Sheet::new(&[
        text("ZONE"),
        text("CAPACITY"),
        price,
        figure("EFFECTIVE"),
        text("AVAILABLE"),
        text("ALLOWED BY"),
    ]);
    for row in &report.offerings {
        sheet.row([
            row.zone.clone(),
            row.capacity_type.clone(),
            figures::hourly_text(&row.price),
            figures::hourly_text(&row.effective_price),
            if row.available { "yes" } else { "no" }.to_owned(),
            row.node_pools.join(", "),
        ]);
    }
    page.sheet(sheet);
    for planned in &report.planned {
        page.line(format!(
            "{} of NodePool {} planned for {}: {}; {}: {}",
            figures::count(planned.nodes, "node"),
            planned.node_pool,
            figures::names(&planned.pods),
            planned.chosen,
            report.instance_type,
            planned.why
        ));
        page.sheet(pod::candidate_sheet(&planned.candidates, report.currency));
    }
    page
}
