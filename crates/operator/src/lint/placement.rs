//! Rules that ask the solver: workloads that no NodePool can ever run, and DaemonSets that take most of a node.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    disruption,
    model::{
        DisruptionReason, InstanceType, Limits, Pod, Requirement, Requirements, ResourceName, Resources,
        Snapshot,
        labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT},
    },
    scheduling::{Eliminated, PreparedSnapshot, Rules, Unplaced},
};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    LintReport,
    cluster::{has, pool_item},
    images, windows,
};
use crate::{
    catalogue::Catalogues,
    explain::constraints::{self, Finder, Row, ask, ask_together, is_drawn_to, only_pool},
    figures,
    input::{Item, load::Loaded, select::identity},
    plan,
    settings::Values,
};

/// The most workloads that the solver is asked about.
const MAX_WORKLOADS: usize = 500;

/// Adds the findings, if the input has NodePools whose instance types are known.
pub(super) fn check(
    items: &[Item],
    loaded: &mut Loaded,
    (catalogues, values): (&Catalogues, &Values),
    report: &mut LintReport,
) {
    if !has(items, "NodePool") {
        return;
    }
    let snapshot = loaded.index.snapshot(Timestamp::UNIX_EPOCH);
    budgets(items, &snapshot, report);
    windows::check(items, &snapshot, report);
    if !snapshot.catalogs.values().any(|catalog| !catalog.instance_types.is_empty()) {
        let of = |gap: &String| format!("L116, L117 and L124 are not checked: {gap}");
        report.unchecked.extend(loaded.gaps.iter().map(of));
        return;
    }
    images::check(items, &snapshot, catalogues, report);
    let rules = plan::rules(values);
    let mut first: BTreeMap<(String, String, String), Arc<Pod>> = BTreeMap::new();
    for pod in &snapshot.pending {
        // Spark executors are owned by their driver, and are not like it.
        let owner = pod.owner.as_ref().filter(|owner| owner.plain_kind() != "Pod");
        let owner = owner.map(|owner| (owner.plain_kind().to_owned(), owner.name.to_string()));
        let (kind, name) = owner.unwrap_or_else(|| ("Pod".to_owned(), pod.id.name.to_string()));
        first.entry((kind, pod.id.namespace.to_string(), name)).or_insert_with(|| pod.clone());
    }
    let unread = if values.gate("NodeOverlay") { &[] } else { items };
    workloads(items, unread, (loaded, &snapshot, &rules), first, report);
    daemons(items, &snapshot, &rules, report);
    node_pools(items, &snapshot, report);
}

/// Workloads of which no NodePool can run a pod, by what the pods of each are: kind, namespace and name. NodeOverlays of `unread` are not
/// read.
fn workloads(
    items: &[Item],
    unread: &[Item],
    (loaded, snapshot, rules): (&Loaded, &Snapshot, &Rules),
    first: BTreeMap<(String, String, String), Arc<Pod>>,
    report: &mut LintReport,
) {
    // One pod of each together: those that are to run beside one another find each other. Limits say what may be launched, not what can.
    let mut unlimited = snapshot.clone();
    for pool in &mut unlimited.pools {
        Arc::make_mut(pool).limits = Limits::default();
    }
    let asked: Vec<_> = first.into_iter().take(MAX_WORKLOADS).collect();
    let pods: Vec<Arc<Pod>> = asked.iter().map(|(_, pod)| pod.clone()).collect();
    let plan = ask_together(&mut PreparedSnapshot::new(&unlimited, rules), &pods);
    let mut finder = Finder::new(loaded, (&unlimited, &plan), rules);
    for (key, pod) in asked {
        // Without its owner in the input, a pod stands for it.
        let own = ("Pod".to_owned(), pod.id.namespace.to_string(), pod.id.name.to_string());
        let of = |key| items.iter().rev().find(|item| is_of(item, key));
        let Some(item) = of(&key).or_else(|| of(&own)) else { continue };
        let verdict = plan.unplaced.iter().find(|(other, _)| other.uid == pod.uid);
        let Some((_, why @ Unplaced::NoPoolFits(verdicts))) = verdict else { continue };
        // What the cloud refuses today is not wrong in the manifest, nor what reservations may hold, nor affinity to pods that run.
        let is_for_now = |eliminated: &Eliminated| match eliminated {
            Eliminated::Halted(_) | Eliminated::NoInstanceTypes(_) | Eliminated::SharedCapacity => true,
            Eliminated::Topology { kind: "pod affinity", key, .. } => {
                let mut running = loaded.index.pods().filter(|other| other.node.is_some());
                running.any(|other| is_drawn_to(snapshot, &pod, key, other))
            }
            _ => false,
        };
        if verdicts
            .iter()
            .any(|verdict| is_for_now(&verdict.eliminated) || needs_reservation(snapshot, &verdict.pool))
        {
            continue;
        }
        let rows = finder.rows(&pod, why);
        let all: Vec<String> = rows.iter().map(|row| format!("{}: {}", row.node_pool, row.message)).collect();
        report.add(
            "L117",
            item,
            "spec",
            format!("no NodePool can run its pods: {}", all.join("; ")),
            overlay_for(unread, &pod).unwrap_or_else(|| fix(&rows)),
        );
    }
    if finder.in_part() > 0 {
        report.unchecked.push(format!("L117: {}", constraints::in_part(finder.in_part())));
    }
}

/// What to do about a workload that no NodePool fits.
fn fix(rows: &[Row]) -> String {
    // A patch of a NodePool that another constraint rules out too is no fix.
    let is_only = |row: &&Row| rows.iter().filter(|other| other.node_pool == row.node_pool).count() == 1;
    let fix = rows.iter().filter(is_only).find_map(|row| row.patch.as_ref());
    fix.map_or_else(
        || "change the workload, or let a NodePool have such nodes".to_owned(),
        |patch| format!("patch of {}: {}", patch.object, patch.merge),
    )
}

/// The NodeOverlay that has a resource which a pod requests.
fn overlay_for(unread: &[Item], pod: &Pod) -> Option<String> {
    unread.iter().filter(|item| item.value["kind"] == "NodeOverlay").find_map(|item| {
        let capacity = item.value.pointer("/spec/capacity").and_then(Value::as_object)?;
        let (resource, _) =
            capacity.iter().find(|(name, _)| pod.requests().get(&ResourceName::from(name.as_str())) > 0)?;
        let (.., name) = identity(&item.value);
        Some(format!("set the feature gate NodeOverlay=true: NodeOverlay {name} gives nodes {resource}"))
    })
}

/// Whether a NodePool launches reserved capacity alone and its catalogue, offline, knows none: what reservations hold is not known.
fn needs_reservation(snapshot: &Snapshot, pool: &str) -> bool {
    let wanted = snapshot.pool(pool).and_then(|pool| pool.template.requirements.get(CAPACITY_TYPE));
    let is_only = |wanted: &Requirement| wanted.has(RESERVED) && !wanted.has(ON_DEMAND) && !wanted.has(SPOT);
    let is_reserved = |known: &Arc<InstanceType>| {
        known.offerings.iter().any(|offering| offering.capacity_type().is_some_and(|of| &**of == RESERVED))
    };
    wanted.is_some_and(is_only)
        && snapshot.catalog(pool).is_none_or(|catalog| !catalog.instance_types.iter().any(is_reserved))
}

/// NodePools whose requirements leave no instance type of their catalogue: the requirement that takes the last ones away.
fn node_pools(items: &[Item], snapshot: &Snapshot, report: &mut LintReport) {
    for pool in &snapshot.pools {
        let Some(catalog) = snapshot.catalog(&pool.name) else { continue };
        let Some(item) = pool_item(items, &pool.name) else { continue };
        // Requirements that exclude each other have a finding.
        let object = super::object(item);
        let is_told = report.findings.iter().any(|known| known.code == "L111" && known.object == object);
        if is_told || needs_reservation(snapshot, &pool.name) {
            continue;
        }
        let meets = |known: &InstanceType, wanted: &Requirements| {
            wanted.overlaps(&known.requirements) && known.cheapest(wanted).is_some()
        };
        let count = |wanted: &Requirements| {
            catalog.instance_types.iter().filter(|known| meets(known, wanted)).count()
        };
        let all = &pool.template.requirements;
        if catalog.instance_types.is_empty() || count(all) > 0 {
            continue;
        }
        let alone = |wanted: &&Requirement| count(&Requirements::from_iter([(*wanted).clone()])) == 0;
        let (wanted, what) = match all.iter().find(alone) {
            Some(wanted) => (
                Some(wanted),
                format!(
                    "none of the {} of the catalogue is available with {wanted}",
                    figures::count(catalog.instance_types.len(), "instance type")
                ),
            ),
            None => {
                let mut so_far = Requirements::new();
                let last = all.iter().find(|wanted| {
                    so_far.add((*wanted).clone());
                    count(&so_far) == 0
                });
                let shown = last.map_or_else(String::new, ToString::to_string);
                (
                    last,
                    format!(
                        "no instance type of the catalogue is available with {shown} and the requirements before it"
                    ),
                )
            }
        };
        let key = wanted.map_or("", |wanted| &**wanted.key());
        let listed = item.value.pointer("/spec/template/spec/requirements").and_then(Value::as_array);
        let at = listed.and_then(|listed| listed.iter().position(|wanted| wanted["key"] == key));
        let path = at.map_or_else(String::new, |at| format!("[{at}]"));
        let fix = format!(
            "allow values of {key} that instance types have (`fleetwright explain nodepool {}` counts them)",
            pool.name
        );
        report.add(
            "L124",
            item,
            &format!("spec.template.spec.requirements{path}"),
            format!("the NodePool launches no node: {what}"),
            fix,
        );
    }
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

/// Whether an object owns pods of this owner.
pub(super) fn is_of(item: &Item, (kind, namespace, name): &(String, String, String)) -> bool {
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
        let allowed = allowed.filter(|known| pool.template.requirements.overlaps(&known.requirements));
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
                    figures::cpu(sum.cpu()),
                    figures::bytes(sum.memory()),
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
