//! Reads fleets: from the objects of an input, or from the index of a running controller.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_controllers::{
    disruption as controller,
    provisioning::eligible,
    runtime::Ctx,
    settings::{Packing, SolveEffort},
};
use fleetwright_core::{
    model::{Price, Snapshot},
    scheduling::{Effort, Plan, PreparedSnapshot, Purpose, Request},
};
use jiff::Timestamp;

use super::{FleetInput, FleetReport, price};
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::PlanOptions,
    input::{Item, evaluate, load::Loaded, select::SelectOptions},
    plan,
    settings::{self, Values},
};

/// What of an input is reported.
pub(crate) struct FleetRequest<'a> {
    /// Region and prices.
    pub(crate) catalogue: &'a CatalogueOptions,
    /// The nodes and pods.
    pub(crate) select: &'a SelectOptions,
    /// Whether the input is a cluster: then pods that the controller does not schedule are not planned.
    pub(crate) live: bool,
    /// The time of the evaluation.
    pub(crate) at: Timestamp,
}

/// A fleet, and what it was made of.
pub(crate) struct ReadFleet {
    /// The fleet.
    pub(crate) report: FleetReport,
    /// The cluster before any plan.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The loaded input; its index has the NodeClaims of the plan's passes.
    pub(crate) loaded: Loaded,
    /// How pods are packed with it.
    pub(crate) packing: Packing,
}

/// The fleet of an input.
///
/// # Errors
/// If the input is invalid.
pub(crate) fn of_items(
    items: Vec<Item>,
    request: &FleetRequest<'_>,
    (catalogues, values): (&Catalogues, &Values),
) -> anyhow::Result<ReadFleet> {
    request.select.check(&items)?;
    let at = request.at;
    // The first plan is enough for reasons.
    let of_plan = PlanOptions::of_tool(SolveEffort::Time(Duration::ZERO), request.catalogue.clone());
    let (mut loaded, packing) = plan::prepare_workloads(items, &[], &of_plan, catalogues, values)?;
    evaluate::conditions(&mut loaded.index, at);
    let snapshot = loaded.index.snapshot(at);
    // Its passes put planned NodeClaims into the index: the snapshot is of before.
    let plan = plan::passes(&mut loaded, at, |snapshot| {
        let mut prepared = PreparedSnapshot::on(snapshot.clone(), &plan::rules(values));
        plan::solve(&mut prepared, &plan::pods(snapshot, request.live), packing, of_plan.budget)
    });
    let settings = settings::controllers(values);
    let set_aside: BTreeMap<_, _> = plan::set_aside(&loaded)
        .map(|(id, pod)| (id.to_string(), (pod.reason, pod.message.clone())))
        .collect();
    let mut report = FleetReport::of(&FleetInput {
        snapshot: &snapshot,
        rules: &controller::rules(&settings),
        methods: &controller::methods(&settings),
        plan: &plan,
        set_aside,
        priced: loaded.priced,
        select: request.select,
    });
    report.catalogues.clone_from(&loaded.sources);
    report.notes.clone_from(&loaded.notes);
    report.incomplete.clone_from(&loaded.gaps);
    Ok(ReadFleet { report, snapshot, loaded, packing })
}

/// The fleet as a controller in this process sees it, with its snapshot. Pending pods have the reasons of a first plan, which is
/// computed on this thread.
pub(crate) fn of_controller(ctx: &Ctx, now: Timestamp) -> (FleetReport, Arc<Snapshot>) {
    let snapshot = ctx.cluster.index().snapshot(now);
    let settings = &ctx.settings;
    let pods = eligible::pods(&snapshot, now);
    let plan = if pods.is_empty() {
        Plan::default()
    } else {
        let request =
            Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
        settings
            .packing
            .packer()
            .pack(&mut PreparedSnapshot::on(snapshot.clone(), &settings.rules()), &request)
    };
    let report = FleetReport::of(&FleetInput {
        snapshot: &snapshot,
        rules: &controller::rules(settings),
        methods: &controller::methods(settings),
        plan: &plan,
        set_aside: BTreeMap::new(),
        priced: true,
        select: &SelectOptions::default(),
    });
    (report, snapshot)
}

/// The list prices of nodes, and of launched NodeClaims without a node, in sum: those that are known.
pub(crate) fn hourly(snapshot: &Snapshot) -> Price {
    let is_paid = |node: &&Arc<fleetwright_core::model::StateNode>| {
        let launched = |claim: &Arc<fleetwright_core::model::NodeClaim>| {
            claim.provider_id.is_some() && claim.deleting.is_none()
        };
        node.node.is_some() || node.claim.as_ref().is_some_and(launched)
    };
    snapshot.nodes.iter().filter(is_paid).filter_map(|node| price(snapshot, node)).sum()
}
