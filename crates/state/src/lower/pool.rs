//! NodePools.

use std::time::Duration;

use fleetwright_api::{
    self as api, condition, duration, labels as names, labels::condition::READY, nodepool,
};
use fleetwright_core::model::{
    Budget, ConsolidationPolicy, DisruptionReason, LabelSchema, Limits, NodePool, ResourceName, Str,
    pool::{BudgetNodes, DriftCap, InitializationStanding, InitializationTimeout, Template},
};
use jiff::Timestamp;

use super::{Invalid, labels, quantity, shared, text, time};

/// A NodePool.
///
/// # Errors
/// If a quantity or a requirement is invalid.
pub fn pool(pool: &api::NodePool, schema: &LabelSchema) -> Result<NodePool, Invalid> {
    let (meta, spec) = (&pool.metadata, &pool.spec);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let hash = annotation(names::NODEPOOL_HASH).zip(annotation(names::NODEPOOL_HASH_VERSION));
    let disruption = &spec.disruption;
    let template = template(&spec.template, schema)?;
    let halted = halted(pool).map(text).or_else(|| contradiction(&template));
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
        template,
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
        initialization_timeout: annotation(names::INITIALIZATION_TIMEOUT)
            .map(initialization_timeout)
            .unwrap_or_default(),
        initialization: initialization(pool),
        observed: annotation(names::OBSERVED).map(crate::observed::read).unwrap_or_default(),
    })
}

/// Why every node of the template would be drifted as soon as it is launched: it has a label that the requirements exclude.
fn contradiction(template: &Template) -> Option<Str> {
    template.labels.iter().find_map(|(key, value)| {
        let wanted = template.requirements.get(key).filter(|wanted| !wanted.has(value))?;
        Some(text(&format!(
            "the template has the label {key}={value}, which its requirement {wanted} excludes: change one of them"
        )))
    })
}

/// The message of a missed initialization deadline, while launches for the NodePool are stopped until its spec changes.
fn halted(pool: &api::NodePool) -> Option<&str> {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let condition = condition::find(conditions, names::condition::INITIALIZATION_HEALTHY)?;
    let holds =
        condition.is_false() && condition.observed_generation == pool.metadata.generation.unwrap_or(0);
    holds.then_some(&*condition.message)
}

/// `Never`, or a Go duration, of which zero is `Never`. Any other value counts as unset.
fn initialization_timeout(text: &str) -> InitializationTimeout {
    if text == "Never" {
        return InitializationTimeout::Never;
    }
    match duration::parse(text).ok().and_then(|time| Duration::try_from(time).ok()) {
        Some(Duration::ZERO) => InitializationTimeout::Never,
        Some(time) => InitializationTimeout::After(time),
        None => InitializationTimeout::Unset,
    }
}

/// The standing that the condition InitializationHealthy and the record of [`crate::raise::initialization_failure`] show, for
/// the pool's spec as it is.
fn initialization(pool: &api::NodePool) -> InitializationStanding {
    let generation = pool.metadata.generation.unwrap_or(0);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let halted = condition::find(conditions, names::condition::INITIALIZATION_HEALTHY)
        .filter(|shown| shown.observed_generation == generation && shown.is_false());
    if let Some(halted) = halted {
        return InitializationStanding::Halted { since: halted.changed_at() };
    }
    let record = pool.metadata.annotations.as_ref().and_then(|all| all.get(names::INITIALIZATION_FAILURES));
    let replaced = record.and_then(|record| {
        let mut parts = record.splitn(3, '/');
        let of: i64 = parts.next()?.parse().ok()?;
        let (claim, since): (&str, Timestamp) = (parts.next()?, parts.next()?.parse().ok()?);
        (of == generation).then(|| InitializationStanding::Replaced { claim: claim.into(), since })
    });
    replaced.unwrap_or_default()
}

/// Whether a protecting switch is on. An invalid value counts as on: only `false` is off.
fn is_on(text: &str) -> bool {
    text.trim() != "false"
}

/// A positive Go duration.
fn positive(text: &str) -> Option<Duration> {
    let time = duration::parse(text).ok().and_then(|time| Duration::try_from(time).ok())?;
    (!time.is_zero()).then_some(time)
}

/// `nodes/window`, as in `5/1h`. An invalid value allows no replacement for drift.
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

#[cfg(test)]
mod tests {
    //! The annotations and the condition of a NodePool about the initialization of its nodes.
    use fleetwright_api::labels::{
        INITIALIZATION_FAILURES, INITIALIZATION_TIMEOUT, condition::INITIALIZATION_HEALTHY,
    };
    use serde_json::{Value, json};

    use super::*;

    fn written(annotations: Value, healthy: Option<(&str, i64)>) -> api::NodePool {
        let conditions: Vec<_> = healthy
            .map(|(status, generation)| {
                json!({"type": INITIALIZATION_HEALTHY, "status": status, "reason": "x", "message": "",
                    "observedGeneration": generation, "lastTransitionTime": "2025-01-01T00:00:00Z"})
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default", "generation": 3, "annotations": annotations},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn deadlines() {
        let minute = Some(Duration::from_secs(60));
        let of = |annotations: Value| {
            let read = pool(&written(annotations, None), &LabelSchema::default()).unwrap();
            read.initialization_timeout.or(minute)
        };
        let annotated = |value: &str| of(json!({ INITIALIZATION_TIMEOUT: value }));
        assert_eq!(of(json!({})), minute);
        assert_eq!(annotated("10m"), Some(Duration::from_secs(600)));
        assert_eq!((annotated("Never"), annotated("0s"), annotated("soon")), (None, None, minute));
    }

    #[test]
    fn a_label_that_the_requirements_exclude_stops_launches() {
        let halted = |operator: &str, values: Value| {
            let mut torn = serde_json::to_value(written(json!({}), None)).unwrap();
            torn["spec"]["template"]["metadata"] = json!({"labels": {"team": "a"}});
            torn["spec"]["template"]["spec"]["requirements"] =
                json!([{"key": "team", "operator": operator, "values": values}]);
            torn["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2025-01-01T00:00:00Z"}]);
            let read = pool(&serde_json::from_value(torn).unwrap(), &LabelSchema::default()).unwrap();
            assert_eq!(read.ready, read.halted.is_none());
            read.halted
        };
        assert_eq!(halted("In", json!(["a", "b"])), None);
        let why = halted("In", json!(["b"])).unwrap();
        assert!(why.contains("the label team=a, which its requirement team In [b] excludes"), "{why}");
        assert!(halted("DoesNotExist", json!([])).is_some() && halted("Gt", json!(["1"])).is_some());
    }

    #[test]
    fn the_standing_is_read_from_record_and_condition() {
        let since: Timestamp = "2025-01-01T00:00:00Z".parse().unwrap();
        let record = |generation: i64| {
            let record = crate::raise::initialization_failure(generation, "default-a", since);
            json!({ INITIALIZATION_FAILURES: record })
        };
        let of = |annotations: Value, healthy| initialization(&written(annotations, healthy));
        let replaced = InitializationStanding::Replaced { claim: "default-a".into(), since };
        assert_eq!(of(json!({}), None), InitializationStanding::Healthy);
        assert_eq!(of(record(3), None), replaced);
        assert_eq!(of(record(2), None), InitializationStanding::Healthy, "the spec has changed");
        assert_eq!(of(record(3), Some(("False", 3))), InitializationStanding::Halted { since });
        assert_eq!(of(record(3), Some(("False", 2))), replaced);
        assert_eq!(of(json!({ INITIALIZATION_FAILURES: "3/a" }), None), InitializationStanding::Healthy);
    }

    #[test]
    fn a_percentage_of_more_than_all_nodes_is_no_budget() {
        assert_eq!(budget_nodes("100%"), BudgetNodes::Percent(100));
        assert_eq!(budget_nodes("0%"), BudgetNodes::Percent(0));
        assert_eq!(budget_nodes("7"), BudgetNodes::Count(7));
        for invalid in ["101%", "%", "-1", "-1%", "5.5%"] {
            assert_eq!(budget_nodes(invalid), BudgetNodes::Invalid(invalid.into()));
        }
    }

    #[test]
    fn nodes_can_be_limited_beside_resources() {
        let mut limited = serde_json::to_value(written(json!({}), None)).unwrap();
        limited["spec"]["limits"] = json!({"nodes": "3", "cpu": "10"});
        let read = pool(&serde_json::from_value(limited).unwrap(), &LabelSchema::default()).unwrap().limits;
        assert_eq!((read.nodes, read.resources.len()), (Some(3), 1));
    }

    #[test]
    fn a_missed_deadline_stops_launches_until_the_spec_changes() {
        let of = |healthy| halted(&written(json!({}), healthy)).is_some();
        assert!(of(Some(("False", 3))) && !of(Some(("True", 3))) && !of(None));
        assert!(!of(Some(("False", 2))), "the spec has changed");
    }
}
