//! `capacitybuffer`: resolves CapacityBuffers to chunks: virtual pods in the index, and the status of the buffer.
//!
//! The key of a buffer resolves that buffer; the singleton key writes the outcome of the last scheduling pass to all buffers.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_api::{
    self as api, ConditionSet, HasConditions,
    capacitybuffer::{ACTIVE_CAPACITY, LocalRef, ScalableRef},
    labels::condition::{LIMITED_BY_QUOTAS, PROVISIONING, READY_FOR_PROVISIONING},
};
use fleetwright_core::model::NamespacedName;
use fleetwright_state::{
    BufferOutcome, Change, Feature, Index, Key, RefusalCause, WatchedKind, lower::buffer,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::{PodTemplate, PodTemplateSpec, ResourceQuota},
};
use kube::{
    api::{ListParams, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::json;

use crate::{
    provisioning::names::{CAPACITY_BUFFER, PROVISIONER},
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, Features, RateLimit, ReconcileError, References,
        Requeue, ignore_not_found,
    },
    settings::Settings,
};

/// How often a buffer is resolved without an event: some kinds may not be watched.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);

/// The permissions of optional calls.
const QUOTAS: (&str, &str, &[&str]) = ("", "resourcequotas", &["list"]);
const STATUS: (&str, &str, &[&str]) = ("autoscaling.x-k8s.io", "capacitybuffers/status", &["patch"]);

/// Resolves buffers.
pub struct BufferController {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    features: Features,
    references: References,
}

impl BufferController {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            features: ctx.features.clone(),
            references: ctx.references.clone(),
        }
    }
}

/// What a buffer refers to.
struct Source {
    template: PodTemplateSpec,
    scale: Option<i32>,
    /// The PodTemplate's name and generation.
    template_ref: Option<(String, Option<i64>)>,
}

/// A resolved buffer.
struct Resolved {
    chunks: i32,
    /// Name and generation of its PodTemplate, if it has one.
    template_ref: Option<(String, Option<i64>)>,
    /// The ResourceQuota that allows fewer chunks than requested, and the number of requested chunks.
    limiting_quota: Option<(String, usize)>,
}
/// Why a buffer cannot be resolved: the condition's reason and message.
type Unresolved = (&'static str, String);

#[async_trait]
impl Controller for BufferController {
    fn name(&self) -> &'static str {
        CAPACITY_BUFFER
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_millis(100), Duration::from_secs(60), 10, 100)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        match change.kind {
            WatchedKind::CapacityBuffer if !change.is_deleted() => vec![change.key.clone()],
            WatchedKind::LimitRange => {
                let of_namespace = index.buffers().filter(|id| id.namespace == change.key.namespace);
                of_namespace.cloned().map(Key::from).collect()
            }
            _ => Vec::new(),
        }
    }

    fn references(&self) -> Vec<ApiResource> {
        let mut kinds = source_kinds();
        kinds.push(ApiResource::erase::<ResourceQuota>(&()));
        kinds
    }

    fn referring(&self, kind: &ApiResource, name: Option<&NamespacedName>, index: &Index) -> Vec<Key> {
        let refers = |id: &NamespacedName| {
            index
                .buffer(id)
                .is_some_and(|(buffer, ..)| is_ours(buffer) && refers(&buffer.spec, id, kind, name))
        };
        index.buffers().filter(|id| refers(id)).cloned().map(Key::from).collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        if *key == Key::singleton() {
            let ids: Vec<NamespacedName> = self.cluster.index().buffers().cloned().collect();
            for id in ids {
                self.write_status(&id, |_| {}).await?;
            }
            return Ok(Requeue::No);
        }
        let id = NamespacedName::from(key);
        let known = self.cluster.index().buffer(&id).map(|(raw, ..)| raw.clone());
        let Some(buffer) = known else { return Ok(Requeue::No) };
        if !is_ours(&buffer) {
            self.cluster.index().set_buffer_pods(&id, Vec::new());
            return Ok(Requeue::No);
        }
        let found = forbidden_is_unresolved(source(&self.client, &buffer, &id.namespace).await)?;
        let resolved = match found {
            Ok(source) => {
                let template = buffer::BufferTemplate { template: &source.template, scale: source.scale };
                let index = self.cluster.index();
                let defaults = index.container_defaults(&id.namespace);
                let pods = buffer::pods(&buffer, &template, &defaults, index.schema());
                pods.map(|pods| (pods, source.template_ref)).map_err(|why| ("ResolutionFailed", why))
            }
            Err(unresolved) => Err(unresolved),
        };
        let mut reads_quotas = false;
        let (pods, resolution) = match resolved {
            Ok((mut pods, template_ref)) => {
                let requested = pods.len();
                let quotas = if pods.is_empty() { None } else { self.quotas(&id.namespace).await? };
                reads_quotas = quotas.is_some();
                let limiting_quota = buffer::within_quotas(&mut pods, &quotas.unwrap_or_default())
                    .map(|quota| (quota, requested));
                let chunks = i32::try_from(pods.len()).unwrap_or(i32::MAX);
                (pods, Ok(Resolved { chunks, template_ref, limiting_quota }))
            }
            Err(unresolved) => (Vec::new(), Err(unresolved)),
        };
        let chunks = pods.len();
        let changed = self.cluster.index().set_buffer_pods(&id, pods);
        let polled = self.polled(&buffer.spec, &id, reads_quotas);
        self.write_status(&id, |status| set_resolution(status, &resolution, polled.as_deref())).await?;
        if changed || chunks > 0 {
            // Pods may have used the capacity since the last pass.
            self.cluster.enqueue(PROVISIONER, Key::cluster("buffers"));
        }
        Ok(Requeue::After(RESOLVE_INTERVAL))
    }
}

/// Whether this controller implements the strategy of a buffer.
fn is_ours(buffer: &api::CapacityBuffer) -> bool {
    buffer.spec.provisioning_strategy.as_deref().is_none_or(|strategy| strategy == ACTIVE_CAPACITY)
}

/// Whether the buffer `id` refers to an object of a kind: to `name`, or to any. Quotas are those of its namespace.
fn refers(
    spec: &api::CapacityBufferSpec,
    id: &NamespacedName,
    kind: &ApiResource,
    name: Option<&NamespacedName>,
) -> bool {
    let is_near = name.is_none_or(|name| name.namespace == id.namespace);
    let referred = match (&*kind.kind, &spec.pod_template_ref, &spec.scalable_ref) {
        ("ResourceQuota", ..) => return is_near,
        ("PodTemplate", Some(reference), _) => &reference.name,
        // As in `source`, the template comes first.
        (of, None, Some(reference)) if reference.kind == of && reference.api_group == kind.group => {
            &reference.name
        }
        _ => return false,
    };
    is_near && name.is_none_or(|name| *name.name == **referred)
}

/// The kinds that the schema lets a buffer take its pods from.
fn source_kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<ReplicaSet>(&()),
        ApiResource::erase::<PodTemplate>(&()),
    ]
}

/// Writes the resolution into a status, and what is `polled`.
fn set_resolution(
    status: &mut BufferStatus<'_, '_>,
    resolution: &Result<Resolved, Unresolved>,
    polled: Option<&str>,
) {
    match resolution {
        Ok(Resolved { chunks, template_ref, limiting_quota }) => {
            status.fields.replicas = Some(*chunks);
            status.fields.pod_template_ref =
                template_ref.as_ref().map(|(name, _)| LocalRef { name: name.clone() });
            status.fields.pod_template_generation =
                template_ref.as_ref().and_then(|(_, generation)| *generation);
            status.fields.provisioning_strategy = Some(ACTIVE_CAPACITY.to_owned());
            status.conditions.set_true_with_reason(
                READY_FOR_PROVISIONING,
                "Resolved",
                polled.unwrap_or_default(),
            );
            if let Some((quota, requested)) = limiting_quota {
                let message = format!(
                    "resourcequota {quota} leaves room for {chunks} of {requested} chunks: raise it, or ask for fewer"
                );
                status.conditions.set_true_with_reason(LIMITED_BY_QUOTAS, LIMITED_BY_QUOTAS, &message);
            } else {
                // An independent condition can always be cleared.
                let _cleared = status.conditions.clear(LIMITED_BY_QUOTAS);
            }
        }
        Err((reason, why)) => {
            // What may not be read may not be watched either.
            let polled = polled.filter(|_| *reason != RefusalCause::Forbidden.as_str());
            let message = polled.map_or_else(|| why.clone(), |polled| format!("{why}; {polled}"));
            status.conditions.set_false(READY_FOR_PROVISIONING, reason, &message);
        }
    }
}

/// The status of a buffer while it changes.
struct BufferStatus<'a, 'b> {
    fields: &'a mut api::CapacityBufferStatus,
    conditions: &'a mut ConditionSet<'b>,
}

impl BufferController {
    /// Says which of the kinds that a buffer refers to are polled because they may not be watched.
    fn polled(
        &self,
        spec: &api::CapacityBufferSpec,
        id: &NamespacedName,
        reads_quotas: bool,
    ) -> Option<String> {
        let quota = reads_quotas.then(|| ApiResource::erase::<ResourceQuota>(&()));
        let kinds = source_kinds().into_iter().chain(quota).filter(|kind| refers(spec, id, kind, None));
        let refusals = kinds.filter_map(|kind| self.references.refusal(&kind));
        let refusals: Vec<String> = refusals.map(|refusal| refusal.to_string()).collect();
        let why = (!refusals.is_empty()).then(|| refusals.join("; "));
        why.map(|why| format!("changes are noticed within {RESOLVE_INTERVAL:?}, not by watch: {why}"))
    }

    /// The ResourceQuotas of a namespace; `None` if the controller may not list them, as with Karpenter's chart.
    async fn quotas(&self, namespace: &str) -> Result<Option<Vec<ResourceQuota>>, ReconcileError> {
        const MAX_QUOTAS: u32 = 500;
        let (api, params) =
            (self.client.namespaced::<ResourceQuota>(namespace), ListParams::default().limit(MAX_QUOTAS));
        let listed = self.client.call("list resourcequotas", api.list(&params)).await;
        let listed = self.features.optional(Feature::ResourceQuotas, QUOTAS, listed)?;
        Ok(listed.map(|list| list.items))
    }
}

/// Maps a forbidden workload or PodTemplate to a condition of this buffer: it is no error of the controller.
fn forbidden_is_unresolved(
    found: Result<Result<Source, Unresolved>, ReconcileError>,
) -> Result<Result<Source, Unresolved>, ReconcileError> {
    match found {
        Err(error) if error.is_forbidden() => {
            let why = format!("{error}: grant the controller get on it in a ClusterRole");
            Ok(Err((RefusalCause::Forbidden.as_str(), why)))
        }
        other => other,
    }
}

/// Reads what a buffer refers to.
async fn source(
    client: &ApiClient,
    buffer: &api::CapacityBuffer,
    namespace: &str,
) -> Result<Result<Source, Unresolved>, ReconcileError> {
    if let Some(reference) = &buffer.spec.pod_template_ref {
        let api = client.namespaced::<PodTemplate>(namespace);
        let found = client.call("get podtemplate", api.get_opt(&reference.name)).await?;
        let missing =
            || ("PodTemplateNotFound", format!("podtemplate {} does not exist: create it", reference.name));
        return Ok(found.ok_or_else(missing).map(|found| Source {
            template: found.template.unwrap_or_default(),
            scale: None,
            template_ref: Some((reference.name.clone(), found.metadata.generation)),
        }));
    }
    match &buffer.spec.scalable_ref {
        Some(reference) => scalable(client, reference, namespace).await,
        None => Ok(Err(("ResolutionFailed", "spec: set podTemplateRef or scalableRef".to_owned()))),
    }
}

async fn scalable(
    client: &ApiClient,
    reference: &ScalableRef,
    namespace: &str,
) -> Result<Result<Source, Unresolved>, ReconcileError> {
    let (group, kind, name) = (&reference.api_group, &reference.kind, &reference.name);
    let what = "get workload of buffer";
    let found = match (group.as_str(), kind.as_str()) {
        ("apps", "Deployment") => {
            let api = client.namespaced::<Deployment>(namespace);
            let spec = client.call(what, api.get_opt(name)).await?.and_then(|found| found.spec);
            spec.map(|spec| (spec.template, spec.replicas))
        }
        ("apps", "StatefulSet") => {
            let api = client.namespaced::<StatefulSet>(namespace);
            let spec = client.call(what, api.get_opt(name)).await?.and_then(|found| found.spec);
            spec.map(|spec| (spec.template, spec.replicas))
        }
        ("apps", "ReplicaSet") => {
            let api = client.namespaced::<ReplicaSet>(namespace);
            let spec = client.call(what, api.get_opt(name)).await?.and_then(|found| found.spec);
            spec.map(|spec| (spec.template.unwrap_or_default(), spec.replicas))
        }
        _ => {
            let why = format!(
                "spec.scalableRef: {group}/{kind} is not supported: use a Deployment, StatefulSet or ReplicaSet of apps"
            );
            return Ok(Err(("ResolutionFailed", why)));
        }
    };
    let missing = || ("ScalableRefNotFound", format!("{kind} {name} does not exist: create it"));
    Ok(found.ok_or_else(missing).map(|(template, replicas)| Source {
        template,
        // Unset means one to Kubernetes.
        scale: Some(replicas.unwrap_or(1)),
        template_ref: None,
    }))
}

impl BufferController {
    /// Applies `change` and the outcome of the last pass to the status of a buffer, and writes it if it changed.
    async fn write_status(
        &self,
        id: &NamespacedName,
        change: impl FnOnce(&mut BufferStatus<'_, '_>) + Send,
    ) -> Result<(), ReconcileError> {
        let known =
            self.cluster.index().buffer(id).map(|(raw, chunks, outcome)| (raw.clone(), chunks, outcome));
        let Some((buffer, chunks, outcome)) = known else { return Ok(()) };
        let mut status = buffer.status.clone().unwrap_or_default();
        let mut list = std::mem::take(&mut status.conditions);
        let mut conditions =
            ConditionSet::new(api::CapacityBuffer::TYPES, &buffer.metadata, &mut list, self.clocks.now());
        change(&mut BufferStatus { fields: &mut status, conditions: &mut conditions });
        let ready = conditions.is_true(READY_FOR_PROVISIONING);
        match (ready, chunks, outcome) {
            (false, ..) => {
                conditions.set_false(PROVISIONING, "NotReadyForProvisioning", "");
            }
            (true, 0, _) => {
                conditions.set_false(PROVISIONING, "BufferEmpty", "");
            }
            (true, _, Some(BufferOutcome::Fits)) => {
                conditions.set_true_with_reason(PROVISIONING, "FitsExistingCapacity", "");
            }
            (true, _, Some(BufferOutcome::NeedsCapacity)) => {
                conditions.set_false(PROVISIONING, "RequiresNewCapacity", "");
            }
            // The next pass decides.
            (true, _, None) => {}
        }
        status.conditions = list;
        if buffer.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let body = Patch::Merge(json!({
            "metadata": { "resourceVersion": buffer.metadata.resource_version },
            "status": status,
        }));
        let api = self.client.namespaced::<api::CapacityBuffer>(&id.namespace);
        let params = PatchParams::default();
        let patched =
            self.client.call("write capacitybuffer status", api.patch_status(&id.name, &params, &body)).await;
        let patched =
            self.features.optional(Feature::CapacityBufferStatus, STATUS, ignore_not_found(patched))?;
        if let Some(Some(written)) = patched {
            self.cluster.observe(written);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
