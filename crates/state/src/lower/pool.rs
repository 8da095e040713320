//! NodePools.

use std::time::Duration;

use fleetwright_api::{
    self as api, condition, duration, labels as names, labels::condition::READY, nodepool,
};
use fleetwright_core::model::{
    Budget, ConsolidationPolicy, DisruptionReason, LabelSchema, Limits, NodePool, ResourceName,
    pool::{BudgetNodes, DriftCap, Template},
};
use jiff::Timestamp;

use super::{Invalid, labels, quantity, shared, text, time};

/// A NodePool.
///
/// # Errors
/// Where a quantity or a requirement is not well formed.
pub fn pool(pool: &api::NodePool, schema: &LabelSchema) -> Result<NodePool, Invalid> {
    let (meta, spec) = (&pool.metadata, &pool.spec);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let hash = annotation(names::NODEPOOL_HASH).zip(annotation(names::NODEPOOL_HASH_VERSION));
    let disruption = &spec.disruption;
    let halted = halted(pool).map(text);
    let zone = annotation(names::BUDGET_TIME_ZONE).filter(|zone| !zone.is_empty());
    Ok(NodePool {
        name: meta.name.clone().unwrap_or_default().into(),
        uid: text(meta.uid.as_deref().unwrap_or_default()),
        created: time(meta.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        ready: condition::is_true(conditions, READY) && halted.is_none(),
        halted,
        weight: spec.weight.unwrap_or(0),
        replicas: spec.replicas,
        limits: Limits {
            hard: annotation(names::HARD_LIMITS).is_some_and(is_on),
            ..limits(spec.limits.as_ref())?
        },
        template: template(&spec.template, schema)?,
        consolidate_after: shared::duration(disruption.consolidate_after.as_ref()),
        consolidation_policy: match disruption.consolidation_policy {
            nodepool::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            nodepool::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
            // Of policies that we do not know, the one that touches least.
            nodepool::ConsolidationPolicy::Other(_) => ConsolidationPolicy::WhenEmpty,
            nodepool::ConsolidationPolicy::WhenEmptyOrUnderutilized => {
                ConsolidationPolicy::WhenEmptyOrUnderutilized
            }
        },
        budgets: match &disruption.budgets {
            Some(budgets) => budgets.iter().map(|written| budget(written, zone)).collect(),
            None => vec![budget(&nodepool::Budget::default(), zone)],
        },
        hash: hash.map(|(hash, version)| (text(hash), text(version))),
        expiry_grace: annotation(names::EXPIRE_WITHIN_BUDGETS).and_then(positive),
        drift_cap: annotation(names::DRIFT_CAP).map(drift_cap),
        observed: annotation(names::OBSERVED).map(crate::observed::read).unwrap_or_default(),
    })
}

/// What was told where nodes of the pool were not initialized in time, so that nothing is launched for it until its spec
/// changes.
fn halted(pool: &api::NodePool) -> Option<&str> {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let condition = condition::find(conditions, names::condition::INITIALIZATION_HEALTHY)?;
    let holds =
        condition.is_false() && condition.observed_generation == pool.metadata.generation.unwrap_or(0);
    holds.then_some(&*condition.message)
}

/// Whether a switch is on. Whoever writes one that protects and cannot be read wanted it: all but `false` is on.
fn is_on(text: &str) -> bool {
    text.trim() != "false"
}

/// A positive Go duration.
fn positive(text: &str) -> Option<Duration> {
    let time = duration::parse(text).ok().and_then(|time| Duration::try_from(time).ok())?;
    (!time.is_zero()).then_some(time)
}

/// `nodes/window`, as in `5/1h`. Whoever writes a brake that cannot be read wanted one: nothing is replaced for drift
/// until it can.
fn drift_cap(text: &str) -> DriftCap {
    let read = text.split_once('/').and_then(|(nodes, window)| {
        Some(DriftCap { nodes: nodes.trim().parse().ok()?, window: positive(window.trim())? })
    });
    read.unwrap_or(DriftCap { nodes: 0, window: Duration::ZERO })
}

fn template(template: &nodepool::NodeClaimTemplate, schema: &LabelSchema) -> Result<Template, Invalid> {
    let (meta, spec) = (&template.metadata, &template.spec);
    Ok(Template {
        labels: labels(meta.labels.as_ref()),
        annotations: labels(meta.annotations.as_ref()),
        taints: shared::taints(spec.taints.as_ref()),
        startup_taints: shared::taints(spec.startup_taints.as_ref()),
        requirements: shared::requirements(&spec.requirements, schema, "spec.template.spec.requirements")?,
        class: shared::class(&spec.node_class_ref),
        termination_grace_period: shared::duration(spec.termination_grace_period.as_ref()),
        expire_after: shared::duration(spec.expire_after.as_ref()),
    })
}

fn limits(written: Option<&api::Quantities>) -> Result<Limits, Invalid> {
    let mut limits = Limits::default();
    for (name, amount) in written.into_iter().flatten() {
        let amount = quantity(&format!("spec.limits[{name}]"), amount)?;
        if name == "nodes" {
            limits.nodes = Some(amount.units_floor());
        } else {
            let name = ResourceName::from(name.as_str());
            let amount = name.supply(amount);
            limits.resources.push((name, amount));
        }
    }
    Ok(limits)
}

fn budget(budget: &nodepool::Budget, zone: Option<&str>) -> Budget {
    let known = |reason: &nodepool::DisruptionReason| match reason {
        nodepool::DisruptionReason::Underutilized => Some(DisruptionReason::Underutilized),
        nodepool::DisruptionReason::Empty => Some(DisruptionReason::Empty),
        nodepool::DisruptionReason::Drifted => Some(DisruptionReason::Drifted),
        nodepool::DisruptionReason::Other(_) => None,
    };
    Budget {
        reasons: budget.reasons.as_ref().map(|reasons| reasons.iter().filter_map(known).collect()),
        nodes: budget_nodes(&budget.nodes),
        schedule: budget.schedule.as_deref().map(text),
        duration: shared::duration(budget.duration.as_ref()),
        zone: zone.map(text),
    }
}

fn budget_nodes(written: &str) -> BudgetNodes {
    let invalid = || BudgetNodes::Invalid(text(written));
    match written.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent) if percent <= 100 => BudgetNodes::Percent(percent),
            _ => invalid(),
        },
        None => written.parse().map_or_else(|_| invalid(), BudgetNodes::Count),
    }
}
