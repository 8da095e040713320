//! PodDisruptionBudgets: the number of allowed evictions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};
use serde_json::{Value, json};

use super::{count, has_ended, is_ready, portion};
use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables, controller_of},
    ctx::{CallError, Ctx, ignore_not_found},
    selector::matches,
};

/// How long a granted eviction may take until the pod terminates.
const EVICTION: Duration = Duration::from_secs(120);

/// The actor.
pub(super) struct Budgets;

impl Actor for Budgets {
    fn name(&self) -> &'static str {
        "disruption-budgets"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        if matches!(change.new, Some(Object::PodDisruptionBudget(_))) {
            return vec![change.key.clone()];
        }
        // The desired size of a workload counts, as well as its pods.
        let any = change.sides().any(|object| {
            matches!(object, Object::Deployment(_) | Object::ReplicaSet(_) | Object::StatefulSet(_))
        });
        let labels = change.sides().filter_map(|object| match object {
            Object::Pod(pod) => Some(pod.metadata.labels.clone().unwrap_or_default()),
            _ => None,
        });
        let labels: Vec<_> = labels.collect();
        tables
            .within::<PodDisruptionBudget>(&change.key.namespace)
            .filter(|budget| {
                let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                any || labels.iter().any(|labels| matches(selector, labels))
            })
            .map(|budget| Key::of(&budget.metadata))
            .collect()
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let found = {
                let tables = ctx.cache.tables();
                tables.get::<PodDisruptionBudget>(key).map(|budget| {
                    let counted = count_pods(&tables, &budget, ctx.clock.now());
                    (budget, counted)
                })
            };
            let Some((budget, counted)) = found else { return Ok(Requeue::No) };
            let again = counted.again;
            if let Some(patch) = patch(&budget, &counted, &ctx.time()) {
                ignore_not_found(ctx.patch_status::<PodDisruptionBudget>(key, &patch).await)?;
            }
            Ok(again)
        })
    }
}

/// The figures of a budget.
struct BudgetCounts {
    expected: i32,
    desired: i32,
    healthy: i32,
    /// Granted evictions whose pods are not terminating yet.
    evicting: BTreeMap<String, Time>,
    again: Requeue,
}

fn count_pods(tables: &Tables, budget: &PodDisruptionBudget, now: jiff::Timestamp) -> BudgetCounts {
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let spec = budget.spec.clone().unwrap_or_default();
    let selected = |pod: &&Arc<Pod>| {
        !has_ended(pod) && matches(spec.selector.as_ref(), &pod.metadata.labels.clone().unwrap_or_default())
    };
    let pods: Vec<&Arc<Pod>> = tables.within::<Pod>(namespace).filter(selected).collect();
    let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let expected = expected(tables, &pods);
            (expected, expected.saturating_sub(portion(Some(most), expected, true, 0)).max(0))
        }
        (None, Some(IntOrString::Int(least))) => (count(pods.len()), *least),
        (None, least) => {
            let expected = expected(tables, &pods);
            (expected, portion(least.as_ref(), expected, true, 0))
        }
    };
    let mut evicting = BTreeMap::new();
    let mut again = Requeue::No;
    let granted = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    for (name, since) in granted {
        let shows = pods
            .iter()
            .find(|pod| pod.metadata.name.as_ref() == Some(&name))
            .is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        let passed: Duration = now.duration_since(since.0).try_into().unwrap_or_default();
        if !shows && passed < EVICTION {
            again = again.or(Requeue::After(EVICTION.saturating_sub(passed)));
            evicting.insert(name, since);
        }
    }
    let healthy = pods.iter().filter(|pod| {
        is_ready(pod)
            && pod.metadata.deletion_timestamp.is_none()
            && !pod.metadata.name.as_ref().is_some_and(|name| evicting.contains_key(name))
    });
    BudgetCounts { expected, desired, healthy: count(healthy.count()), evicting, again }
}

/// The number of pods that the controllers of these pods desire; a pod without a controller counts as one.
fn expected(tables: &Tables, pods: &[&Arc<Pod>]) -> i32 {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let own = pod.metadata.uid.clone().unwrap_or_default();
        let (owner, scale) = match controller_of(&pod.metadata) {
            None => (own, 1),
            Some(owner) => scale(tables, &owner.kind, &Key::new(namespace, &owner.name)).unwrap_or((own, 1)),
        };
        scales.insert(owner, scale);
    }
    scales.values().fold(0, |sum, scale| sum.saturating_add(*scale))
}

/// UID and size of a controller, or of its own controller.
fn scale(tables: &Tables, kind: &str, key: &Key) -> Option<(String, i32)> {
    match kind {
        "ReplicaSet" => {
            let set = tables.get::<ReplicaSet>(key)?;
            if let Some(owner) = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment") {
                let deployment = tables.get::<Deployment>(&Key::new(&key.namespace, &owner.name))?;
                let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                return Some((deployment.metadata.uid.clone()?, wanted));
            }
            Some((set.metadata.uid.clone()?, set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        "StatefulSet" => {
            let set = tables.get::<StatefulSet>(key)?;
            Some((set.metadata.uid.clone()?, set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        _ => None,
    }
}

/// The status patch, with the version that was read; `None` if nothing changed.
fn patch(budget: &PodDisruptionBudget, counted: &BudgetCounts, now: &Time) -> Option<Value> {
    let known = budget.status.clone().unwrap_or_default();
    let allowed =
        if counted.expected > 0 { counted.healthy.saturating_sub(counted.desired).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let granted = known.disrupted_pods.clone().unwrap_or_default();
    let conditions = known.conditions.unwrap_or_default();
    let condition = condition(&conditions, allowed > 0, generation, now);
    let same = known.disruptions_allowed == allowed
        && known.current_healthy == counted.healthy
        && known.desired_healthy == counted.desired
        && known.expected_pods == counted.expected
        && known.observed_generation == generation
        && granted == counted.evicting
        && conditions.contains(&condition);
    if same {
        return None;
    }
    // A merge patch removes null fields.
    let evicting: BTreeMap<&String, Option<&Time>> = granted
        .keys()
        .chain(counted.evicting.keys())
        .map(|name| (name, counted.evicting.get(name)))
        .collect();
    Some(json!({
        "metadata": { "uid": budget.metadata.uid, "resourceVersion": budget.metadata.resource_version },
        "status": {
            "disruptionsAllowed": allowed, "currentHealthy": counted.healthy, "desiredHealthy": counted.desired,
            "expectedPods": counted.expected, "observedGeneration": generation,
            "disruptedPods": evicting, "conditions": [condition],
        },
    }))
}

fn condition(known: &[Condition], allowed: bool, generation: Option<i64>, now: &Time) -> Condition {
    let status = if allowed { "True" } else { "False" };
    let before =
        known.iter().find(|condition| condition.type_ == "DisruptionAllowed" && condition.status == status);
    Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: if allowed { "SufficientPods" } else { "InsufficientPods" }.to_owned(),
        message: String::new(),
        observed_generation: generation,
        last_transition_time: before
            .map_or_else(|| now.clone(), |before| before.last_transition_time.clone()),
    }
}
