//! CapacityBuffers: how many chunks a buffer has, and the virtual pods that stand for them.

use std::sync::Arc;

use fleetwright_api as api;
use fleetwright_core::model::{
    LabelSchema, NamespacedName, Pod, PodUid, ResourceName, Resources,
    pod::{Owner, PodSpec},
};
use k8s_openapi::{
    api::core::v1::{PodTemplateSpec, ResourceQuota},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use super::{limit_range::ContainerDefaults, pod, quantity, text};

/// The most chunks of one buffer: work is bounded.
pub const MAX_CHUNKS: i64 = 10_000;

/// What a buffer refers to: a pod template, and the scale of a workload.
#[derive(Clone, Copy, Debug)]
pub struct BufferTemplate<'a> {
    /// The template of its pods.
    pub template: &'a PodTemplateSpec,
    /// Replicas of the workload behind it; `None` for a PodTemplate.
    pub scale: Option<i32>,
}

/// The virtual pods of a buffer, one per chunk: of the lowest priority, without volumes, bound nowhere. `defaults` are those of its
/// namespace ([`crate::Index::container_defaults`]).
///
/// # Errors
/// Why no number of chunks follows, with the field and the fix.
pub fn pods(
    buffer: &api::CapacityBuffer,
    template: &BufferTemplate<'_>,
    defaults: &ContainerDefaults,
    schema: &LabelSchema,
) -> Result<Vec<Arc<Pod>>, String> {
    let meta = &buffer.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let like = ObjectMeta { namespace: meta.namespace.clone(), ..ObjectMeta::default() };
    let interner = &mut pod::Interner::default();
    let lowered = pod::of_template(&like, "CapacityBuffer", template.template, defaults, schema, interner);
    let mut model = lowered.map_err(|invalid| format!("pod template: {invalid}"))?;
    let mut spec = (*model.spec).clone();
    spec.volumes.clear();
    spec.priority = i32::MIN;
    spec.priority_class = None;
    let count = count(&buffer.spec, template.scale, &spec.requests)?;
    model.spec = Arc::new(spec);
    model.owner = Some(Owner { kind: "CapacityBuffer".into(), name: text(name), uid: text(uid) });
    model.unschedulable = true;
    model.is_virtual = true;
    let chunk = |at: i64| {
        let id = NamespacedName::new(namespace, format!("capacity-buffer-{name}-{at}"));
        Arc::new(Pod { uid: PodUid::from(format!("{uid}-{at}")), id, ..model.clone() })
    };
    Ok((0..count).map(chunk).collect())
}

/// Limits the chunks of a buffer to the ResourceQuotas of its namespace. Returns the name of the strictest quota, if any chunks were
/// dropped. Scoped quotas apply to some pods only and are ignored.
pub fn within_quotas(pods: &mut Vec<Arc<Pod>>, quotas: &[ResourceQuota]) -> Option<String> {
    let spec = Arc::clone(&pods.first()?.spec);
    let named = quotas.iter().filter_map(|quota| {
        Some((
            usize::try_from(room(quota, &spec)?).unwrap_or(0),
            quota.metadata.name.clone().unwrap_or_default(),
        ))
    });
    let (room, name) = named.min().filter(|(room, _)| *room < pods.len())?;
    pods.truncate(room);
    Some(name)
}

/// The number of such pods that a quota allows; `None` if it does not limit them.
fn room(quota: &ResourceQuota, spec: &PodSpec) -> Option<i64> {
    let written = quota.spec.as_ref()?;
    if written.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || written.scope_selector.is_some() {
        return None;
    }
    let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
    let of_resource = |(name, hard): (&String, &Quantity)| {
        let (resource, wanted) = match name.strip_prefix("limits.") {
            Some(resource) => (resource, &spec.limits),
            None if name == "count/pods" => ("pods", &spec.requests),
            None => (name.strip_prefix("requests.").unwrap_or(name), &spec.requests),
        };
        let resource = ResourceName::from(resource);
        let wanted = wanted.get(&resource);
        let amount = |written: &Quantity| Some(resource.supply(quantity(name, written).ok()?));
        let used = used.and_then(|used| amount(used.get(name)?)).unwrap_or(0);
        (wanted > 0).then(|| Some(amount(hard)?.saturating_sub(used).max(0) / wanted)).flatten()
    };
    written.hard.iter().flatten().filter_map(of_resource).min()
}

/// The smaller of `replicas` and `percentage` of the workload, cut to `limits`; where neither is given, as many as
/// `limits` allow. Any percentage of a workload that runs is at least one chunk; of none, there is none.
fn count(spec: &api::CapacityBufferSpec, scale: Option<i32>, requests: &Resources) -> Result<i64, String> {
    let of_scale = match (spec.percentage, scale) {
        (Some(percent), Some(scale)) => {
            let exact = i64::from(percent.max(0)) * i64::from(scale.max(0));
            Some((exact + 99) / 100)
        }
        (Some(_), None) => {
            return Err("spec.percentage: only with scalableRef; give replicas or limits instead".to_owned());
        }
        (None, _) => None,
    };
    let wanted = [spec.replicas.map(i64::from), of_scale].into_iter().flatten().min();
    let held = limit(spec, requests)?;
    match [wanted, held].into_iter().flatten().min() {
        Some(count) => Ok(count.clamp(0, MAX_CHUNKS)),
        None if spec.limits.is_some() => {
            Err("spec.limits: names no resource that the pods request; add one, or give replicas".to_owned())
        }
        None => Err("spec: gives no number of chunks; set replicas, percentage or limits".to_owned()),
    }
}

/// How many pods the limits hold, by the resources that both name.
fn limit(spec: &api::CapacityBufferSpec, requests: &Resources) -> Result<Option<i64>, String> {
    let mut held: Option<i64> = None;
    for (name, amount) in spec.limits.iter().flatten() {
        let resource = name.as_str().into();
        let amount = quantity(&format!("spec.limits[{name}]"), amount).map_err(|error| error.to_string())?;
        let request = requests.get(&resource);
        if request > 0 {
            let fit = resource.supply(amount) / request;
            held = Some(held.map_or(fit, |least| least.min(fit)));
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    //! How many chunks there are.
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn buffer(spec: Value) -> api::CapacityBuffer {
        serde_json::from_value(
            json!({"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "spec": spec}),
        )
        .unwrap()
    }

    fn resolve(spec: Value, scale: Option<i32>) -> Result<Vec<Arc<Pod>>, String> {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "priority": 7,
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
            }
        }))
        .unwrap();
        let (template, schema) = (BufferTemplate { template: &template, scale }, LabelSchema::default());
        pods(&buffer(spec), &template, &ContainerDefaults::default(), &schema)
    }

    #[rstest]
    #[case(json!({"replicas": 3}), None, 3)]
    #[case(json!({"replicas": 0}), None, 0)]
    #[case(json!({"percentage": 20}), Some(11), 3)]
    #[case::at_least_one(json!({"percentage": 1}), Some(1), 1)]
    #[case::of_nothing(json!({"percentage": 20}), Some(0), 0)]
    #[case::nothing(json!({"percentage": 0}), Some(11), 0)]
    #[case::of_nothing_in_limits(json!({"percentage": 20, "limits": {"cpu": "2"}}), Some(0), 0)]
    #[case::the_smaller_of_both(json!({"percentage": 50, "replicas": 2}), Some(10), 2)]
    #[case::the_smaller_of_both(json!({"percentage": 10, "replicas": 9}), Some(10), 1)]
    #[case(json!({"replicas": 9, "limits": {"cpu": "2", "memory": "3Gi"}}), None, 3)]
    #[case(json!({"limits": {"cpu": "2"}}), None, 4)]
    #[case(json!({"limits": {"cpu": "400m"}}), None, 0)]
    #[case(json!({"replicas": 2_000_000_000}), None, 10_000)]
    fn chunks(#[case] spec: Value, #[case] scale: Option<i32>, #[case] expected: usize) {
        assert_eq!(resolve(spec, scale).unwrap().len(), expected);
    }

    #[rstest]
    #[case(json!({"percentage": 20}), None, "percentage")]
    #[case(json!({}), Some(4), "replicas, percentage or limits")]
    #[case(json!({"limits": {"example.com/gpu": "2"}}), None, "spec.limits")]
    #[case(json!({"limits": {"cpu": "many"}}), None, "spec.limits[cpu]")]
    fn no_number_follows(#[case] spec: Value, #[case] scale: Option<i32>, #[case] word: &str) {
        let error = resolve(spec, scale).unwrap_err();
        assert!(error.contains(word), "{error}");
    }

    #[rstest]
    #[case::no_room(json!({"hard": {"requests.cpu": "2"}}), json!({"requests.cpu": "1900m"}), 0, true)]
    #[case::some_room(json!({"hard": {"cpu": "2"}}), json!({"cpu": "1"}), 2, true)]
    #[case::nothing_used_yet(json!({"hard": {"requests.memory": "3Gi"}}), json!({}), 3, true)]
    #[case::by_number(json!({"hard": {"pods": "5", "count/pods": "4"}}), json!({"count/pods": "3"}), 1, true)]
    #[case::enough(json!({"hard": {"cpu": "10", "pods": "100"}}), json!({"cpu": "1"}), 4, false)]
    #[case::exceeded_already(json!({"hard": {"cpu": "1"}}), json!({"cpu": "7"}), 0, true)]
    #[case::other_things(json!({"hard": {"services": "0", "requests.storage": "0", "limits.cpu": "0"}}), json!({}), 4, false)]
    #[case::of_some_pods(json!({"hard": {"cpu": "0"}, "scopes": ["BestEffort"]}), json!({}), 4, false)]
    #[case::no_number(json!({"hard": {"cpu": "many"}}), json!({}), 4, false)]
    fn quotas(#[case] spec: Value, #[case] used: Value, #[case] expected: usize, #[case] cut: bool) {
        let quota = json!({"metadata": {"name": "q"}, "spec": spec, "status": {"used": used}});
        let mut pods = resolve(json!({"replicas": 4}), None).unwrap();
        let by = within_quotas(&mut pods, &[serde_json::from_value(quota).unwrap()]);
        assert_eq!((pods.len(), by), (expected, cut.then(|| "q".to_owned())));
    }

    #[test]
    fn chunks_are_virtual_pods_of_the_lowest_priority() {
        let pods = resolve(json!({"replicas": 2}), None).unwrap();
        let pod = &pods[1];
        assert_eq!((pod.id.to_string().as_str(), pod.uid.as_str()), ("default/capacity-buffer-b-1", "u-1"));
        assert_eq!((pod.spec.priority, pod.spec.volumes.len(), pod.is_virtual), (i32::MIN, 0, true));
        assert!(pod.is_provisionable() && pod.labels.get("app").is_some());
    }
}
