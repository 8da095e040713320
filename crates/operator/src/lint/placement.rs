//! Rules that ask the solver: workloads that no NodePool can ever run, and DaemonSets that take most of a node.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::{
    disruption,
    model::{DisruptionReason, Pod, Resources, Snapshot},
    scheduling::{Eliminated, PreparedSnapshot, Rules, Unplaced},
};
use jiff::Timestamp;

use super::{LintReport, cluster::has};
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::PlanOptions,
    explain::constraints::{Finder, Row, ask, only_pool},
    input::{Item, select::identity, workloads},
    plan,
    settings::Values,
};

/// The most workloads that the solver is asked about.
const MAX_WORKLOADS: usize = 500;

/// Adds the findings, if the input has NodePools whose instance types are known.
pub(super) fn check(
    items: &[Item],
    catalogue: &CatalogueOptions,
    catalogues: &Catalogues,
    values: &Values,
    report: &mut LintReport,
) -> anyhow::Result<()> {
    if !has(items, "NodePool") {
        return Ok(());
    }
    let options = PlanOptions::of_tool(SolveEffort::Iterations(0), catalogue.clone());
    let mut expanded = items.to_vec();
    // Nodes and pods that run say nothing about what new nodes can run.
    expanded.retain(|item| !matches!(item.value["kind"].as_str(), Some("Node" | "NodeClaim")));
    let Ok(_) = workloads::expand(&mut expanded, &[]) else { return Ok(()) };
    let (mut loaded, _) = plan::prepare(expanded, &options, catalogues, values)?;
    let snapshot = loaded.index.snapshot(Timestamp::UNIX_EPOCH);
    budgets(items, &snapshot, report);
    if !snapshot.catalogs.values().any(|catalog| !catalog.instance_types.is_empty()) {
        let of = |gap: &String| format!("L116 and L117 are not checked: {gap}");
        report.unchecked.extend(loaded.gaps.iter().map(of));
        return Ok(());
    }
    let rules = plan::rules(values);
    let mut first: BTreeMap<(String, String, String), Arc<Pod>> = BTreeMap::new();
    for pod in &snapshot.pending {
        let owner = pod.owner.as_ref().map(|owner| (owner.plain_kind().to_owned(), owner.name.to_string()));
        let (kind, name) = owner.unwrap_or_else(|| ("Pod".to_owned(), pod.id.name.to_string()));
        first.entry((kind, pod.id.namespace.to_string(), name)).or_insert_with(|| pod.clone());
    }
    let mut prepared = PreparedSnapshot::new(&snapshot, &rules);
    let mut finder = Finder::new(&snapshot, &rules);
    for (key, pod) in first.into_iter().take(MAX_WORKLOADS) {
        let Some(item) = items.iter().rev().find(|item| is_of(item, &key)) else { continue };
        let plan = ask(&mut prepared, &pod);
        let Some((_, why @ Unplaced::NoPoolFits(verdicts))) = plan.unplaced.first() else { continue };
        // What limits and the cloud refuse today is not wrong in the manifest.
        let is_for_now = |eliminated: &Eliminated| {
            matches!(
                eliminated,
                Eliminated::Limit { .. } | Eliminated::Halted(_) | Eliminated::NoInstanceTypes(_)
            )
        };
        if verdicts.iter().any(|verdict| is_for_now(&verdict.eliminated)) {
            continue;
        }
        let rows = finder.rows(&pod, why);
        let all: Vec<String> = rows.iter().map(|row| format!("{}: {}", row.node_pool, row.message)).collect();
        // A patch of a NodePool that another constraint rules out too is no fix.
        let is_only = |row: &&Row| rows.iter().filter(|other| other.node_pool == row.node_pool).count() == 1;
        let fix = rows.iter().filter(is_only).find_map(|row| row.patch.as_ref());
        let fix = fix.map_or_else(
            || "change the workload, or let a NodePool have such nodes".to_owned(),
            |patch| format!("patch of {}: {}", patch.object, patch.merge),
        );
        report.add("L117", item, "spec", format!("no NodePool can run its pods: {}", all.join("; ")), fix);
    }
    daemons(items, &snapshot, &rules, report);
    Ok(())
}

/// Budgets that cannot be evaluated: the NodePool then allows no disruption.
fn budgets(items: &[Item], snapshot: &Snapshot, report: &mut LintReport) {
    for pool in &snapshot.pools {
        let verdict = disruption::allowed(pool, DisruptionReason::Drifted, 1, Timestamp::UNIX_EPOCH);
        if let (Err(error), Some(item)) = (verdict, pool_item(items, &pool.name)) {
            let message = format!("{error}: the NodePool allows no disruption at all");
            report.add("L118", item, "spec.disruption.budgets", message, "correct the budget");
        }
    }
}

fn pool_item<'a>(items: &'a [Item], name: &str) -> Option<&'a Item> {
    items.iter().rev().find(|item| item.value["kind"] == "NodePool" && item.value["metadata"]["name"] == name)
}

/// Whether an object owns pods of this owner.
fn is_of(item: &Item, (kind, namespace, name): &(String, String, String)) -> bool {
    let (_, of, space, called) = identity(&item.value);
    let is_planned = |owner: &str, of_owner: &str| {
        of == of_owner && kind == owner && name.strip_suffix("-planned").is_some_and(|name| name == called)
    };
    space == *namespace
        && ((of == *kind && called == *name)
            || is_planned("ReplicaSet", "Deployment")
            || is_planned("Job", "CronJob"))
}

/// DaemonSets that in sum request more than half of what the smallest instance type of a NodePool has.
fn daemons(items: &[Item], snapshot: &Snapshot, rules: &Rules, report: &mut LintReport) {
    for pool in &snapshot.pools {
        let only = only_pool(snapshot, &pool.name);
        let Some(catalog) = snapshot.catalog(&pool.name) else { continue };
        let daemons = only.daemons.iter().filter(|daemon| {
            let mut prepared = PreparedSnapshot::new(&without_daemons(&only), rules);
            let free = Pod { owner: None, ..(***daemon).clone() };
            ask(&mut prepared, &Arc::new(free)).unplaced.is_empty()
        });
        let sum = daemons.fold(Resources::new(), |sum, daemon| sum.plus(daemon.requests()));
        let allowed = catalog.instance_types.iter();
        let allowed =
            allowed.filter(|known| pool.template.requirements.intersects(&known.requirements).is_ok());
        let smallest = allowed.min_by_key(|known| {
            (known.allocatable().cpu(), known.allocatable().memory(), known.name.clone())
        });
        let Some(smallest) = smallest else { continue };
        let room = smallest.allocatable();
        let share = |used: i64, of: i64| if of > 0 { used.saturating_mul(100) / of } else { 0 };
        let most = share(sum.cpu(), room.cpu()).max(share(sum.memory(), room.memory()));
        let Some(item) = pool_item(items, &pool.name) else { continue };
        if most > 50 {
            report.add(
                "L116",
                item,
                "spec.template.spec.requirements",
                format!(
                    "DaemonSets request {} CPU and {} memory, {most} % of {}, the smallest instance type that the NodePool allows",
                    crate::figures::cpu(sum.cpu()),
                    crate::figures::bytes(sum.memory()),
                    smallest.name
                ),
                "require larger instance types, or let the DaemonSets request less",
            );
        }
    }
}

fn without_daemons(snapshot: &Snapshot) -> Snapshot {
    let mut without = snapshot.clone();
    without.daemons.clear();
    without
}
