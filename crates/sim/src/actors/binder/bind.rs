//! Executes a decision: binds volumes and the pod, or sets the condition with the reason.

use k8s_openapi::api::core::v1::{Binding, Pod};
use kube::{Api, api::PostParams};
use serde_json::json;

use super::{
    decide::PodPlacement, node::ClusterView, pod::PodInfo, preempt::Preemption, volume::ClaimVolume,
};
use crate::actors::{
    cache::Key,
    ctx::{CallError, Ctx, ignore_not_found},
    volumes,
};

/// Binds a pod and its unbound claims. `false` if the pod is gone or already bound.
///
/// # Errors
/// If the API server rejects it for another reason; the pod stays pending.
pub(super) async fn bind(
    ctx: &Ctx,
    pod: &PodInfo,
    place: &PodPlacement,
    cluster: &ClusterView,
) -> Result<bool, CallError> {
    let Some(node) = cluster.nodes.get(place.at) else { return Ok(false) };
    for (claim, wanted) in &place.volumes {
        let chosen = json!({ "metadata": { "annotations": {
            "volume.kubernetes.io/selected-node": node.name,
        } } });
        let claim = ctx.patch::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(claim, &chosen).await?;
        match wanted {
            ClaimVolume::Existing(volume) => volumes::bind(ctx, &claim, volume).await?,
            ClaimVolume::Made => {
                let zone = node.labels.get(volumes::ZONE).cloned();
                volumes::provision(ctx, &claim, zone).await?;
            }
        }
    }
    let binding: Binding = serde_json::from_value(json!({
        "metadata": { "name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node.name },
    }))
    .unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &pod.key.namespace);
    let parameters = PostParams::default();
    let call =
        api.create_subresource::<_, serde_json::Value>("binding", &pod.key.name, &parameters, &binding);
    match ctx.call("bind", &pod.key, call).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code(), 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes the pods that an unschedulable pod preempts, and sets its condition and nominated node, unless they are already set.
///
/// # Errors
/// If the API server rejects it, unless the pod is gone.
pub(super) async fn refuse(
    ctx: &Ctx,
    pod: &PodInfo,
    message: &str,
    preemption: Option<&Preemption>,
) -> Result<(), CallError> {
    for victim in preemption.iter().flat_map(|preemption| &preemption.victims) {
        ctx.delete(victim.pod.as_ref(), None).await?;
    }
    let key: &Key = &pod.key;
    let current = ctx.cache.tables().get::<Pod>(key);
    let Some(current) = current.filter(|current| current.metadata.uid.as_deref() == Some(&pod.uid)) else {
        return Ok(());
    };
    let mut conditions = current.status.clone().and_then(|status| status.conditions).unwrap_or_default();
    let known = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    let nominated = preemption.map(|preemption| preemption.node.as_str());
    let was_nominated = current.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    let is_set = was_nominated == nominated
        && known.is_some_and(|known| {
            known.status == "False"
                && known.reason.as_deref() == Some("Unschedulable")
                && known.message.as_deref() == Some(message)
        });
    if is_set {
        return Ok(());
    }
    let since =
        known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.clone());
    let condition = k8s_openapi::api::core::v1::PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since.unwrap_or_else(|| ctx.time())),
        ..k8s_openapi::api::core::v1::PodCondition::default()
    };
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(condition);
    let patch = json!({ "metadata": { "uid": pod.uid }, "status": {
        "conditions": conditions, "nominatedNodeName": nominated,
    } });
    ignore_not_found(ctx.patch_status::<Pod>(key, &patch).await).map(drop)
}
