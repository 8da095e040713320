//! `eviction`: a deletion that PodDisruptionBudgets may refuse.

use std::sync::Arc;

use serde_json::{Value, json};

use super::binding::set_condition;
use crate::admission::effective_phase_ready;
use crate::cluster::{ClusterState, Part, Target, Write};
use crate::object;
use crate::selector::Labels;
use crate::status::ApiError;
use crate::verbs::delete::{self, DeleteOptions};
use crate::verbs::update;

/// Maximum number of disrupted pods in a budget's status.
const MOST_DISRUPTED: usize = 2000;
/// Store of budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Evicts a pod.
///
/// # Errors
/// 404, 409 for preconditions, 429 if a budget allows no disruption, 500 if two budgets select the pod.
pub(crate) fn evict(
    cluster: &mut ClusterState,
    target: &Target,
    eviction: &Value,
    write: &Write,
) -> Result<(), ApiError> {
    let named = object::name(eviction);
    if !named.is_empty() && named != target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions { dry_run: write.dry_run, ..DeleteOptions::default() };
    if let Some(given) = eviction.get("deleteOptions") {
        options.read(given)?;
    }
    let pod = cluster.find(target)?;
    // A deletion that fails its preconditions must not count against the budget.
    let probe = DeleteOptions { dry_run: true, ..options.clone() };
    delete::delete(cluster, target, &probe)?;
    let (phase, ready) = effective_phase_ready(&pod);
    let free = matches!(phase, "Succeeded" | "Failed" | "Pending") || object::deleting(&pod);
    if !free {
        let budgets = budgets_of(cluster, &pod);
        if budgets.len() > 1 {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            let mut error =
                ApiError::new(500, "InternalError", format!("Internal error occurred: {message}"));
            error.details = json!({ "causes": [{ "message": message }] });
            return Err(error);
        }
        if let Some(budget) = budgets.first()
            && !spares_unready(budget, ready)
        {
            charge(cluster, budget, &target.name, options.dry_run)?;
        }
    }
    if options.dry_run {
        return Ok(());
    }
    mark_disrupted(cluster, target, write)?;
    // The update of the budget has changed the revision that a precondition may name.
    let options = DeleteOptions { revision: None, ..options };
    delete::delete(cluster, target, &options).map(|_| ())
}

fn budgets_of(cluster: &ClusterState, pod: &Value) -> Vec<Arc<Value>> {
    let labels = object::at(pod, &["metadata", "labels"]);
    cluster
        .scan(BUDGETS, object::namespace(pod))
        .filter(|budget| {
            Labels::of_value(object::at(budget, &["spec", "selector"]))
                .is_some_and(|selector| selector.matches(labels))
        })
        .cloned()
        .collect()
}

fn mark_disrupted(cluster: &mut ClusterState, target: &Target, write: &Write) -> Result<(), ApiError> {
    let old = cluster.find(target)?;
    if object::deleting(&old) {
        return Ok(());
    }
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": cluster.now(),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    let mut new = Value::clone(&old);
    set_condition(&mut new, &condition);
    update::save(cluster, target, &old, new, &write.to(Part::Status)).map(|_| ())
}

/// Counts one disruption against a budget.
fn charge(cluster: &mut ClusterState, budget: &Arc<Value>, pod: &str, dry_run: bool) -> Result<(), ApiError> {
    let name = object::name(budget);
    let status = |field: &str| object::integer(budget, &["status", field]).unwrap_or(0);
    let refused =
        || ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.");
    if status("observedGeneration") < object::integer(budget, &["metadata", "generation"]).unwrap_or(0) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused().cause("DisruptionBudget", &message, "").retry_after(10));
    }
    let allowed = status("disruptionsAllowed");
    let forbidden = |why: &str| Err(ApiError::forbidden("policy", "poddisruptionbudgets", name, why));
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = object::at(budget, &["status", "disruptedPods"]).and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let message = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status("desiredHealthy"),
            status("currentHealthy")
        );
        return Err(refused().cause("DisruptionBudget", &message, ""));
    }
    if dry_run {
        return Ok(());
    }
    let mut new = Value::clone(budget);
    let now = cluster.now();
    object::put(&mut new, &["status", "disruptionsAllowed"], allowed - 1);
    object::put(&mut new, &["status", "disruptedPods", pod], now.as_str());
    if allowed == 1 {
        let generation = object::integer(budget, &["metadata", "generation"]).unwrap_or(0);
        set_condition(
            &mut new,
            &json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": generation, "lastTransitionTime": now,
            }),
        );
    }
    let Some(resource) = cluster.registry.of_storage(BUDGETS) else { return Ok(()) };
    let target = Target::of(&resource, budget);
    update::save(cluster, &target, budget, new, &Write::internal("kube-apiserver")).map(|_| ())
}

/// Whether the budget allows the eviction of a pod that is not ready.
fn spares_unready(budget: &Value, ready: bool) -> bool {
    if ready {
        return false;
    }
    let status = |field: &str| object::integer(budget, &["status", field]).unwrap_or(0);
    if object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" {
        return true;
    }
    status("currentHealthy") >= status("desiredHealthy") && status("desiredHealthy") > 0
}
