//! Reads the input of the tools from a live cluster. Lists only: no writes, no watches.

use std::collections::BTreeSet;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    discovery,
};
use serde_json::Value;

use super::{Item, Source};

/// Objects per page.
const PAGE: u32 = 500;

/// Group, version, kind and plural of the kinds to read; kinds that refer to others come last.
const KINDS: [(&str, &str, &str, &str); 26] = [
    ("", "v1", "Namespace", "namespaces"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    ("", "v1", "PersistentVolume", "persistentvolumes"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("storage.k8s.io", "v1", "CSINode", "csinodes"),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("", "v1", "LimitRange", "limitranges"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"),
    ("", "v1", "PodTemplate", "podtemplates"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("apps", "v1", "Deployment", "deployments"),
    ("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays"),
    ("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers"),
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Pod", "pods"),
];

/// Workloads and what scales them: tools check and expand them, and the controller does not read them.
const WORKLOADS: [(&str, &str, &str, &str); 4] = [
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
];

/// Without these kinds every answer is wrong.
const REQUIRED: [&str; 4] = ["Node", "Pod", "NodePool", "NodeClaim"];

/// The kinds that decisions read, but for NodeClasses.
pub(crate) fn kinds() -> impl Iterator<Item = ApiResource> {
    KINDS.into_iter().map(|(group, version, kind, plural)| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    })
}

/// All objects that tools read, and the kinds that may not be listed. Kinds that the cluster does not have are omitted.
///
/// # Errors
/// If one of [`REQUIRED`] may not be listed, or a list fails for another reason than a missing permission; names the kind.
pub(crate) async fn read(client: &Client) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    list_permitted(client, KINDS.into_iter().chain(WORKLOADS), &REQUIRED).await
}

/// The objects that a decision reads, and the kinds that may not be listed: a view of the cluster need not show all of it. Without Nodes
/// there is nothing to show.
///
/// # Errors
/// If Nodes may not be listed, or a list fails for another reason than a missing permission.
pub(crate) async fn read_permitted(client: &Client) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    list_permitted(client, KINDS.into_iter(), &["Node"]).await
}

/// The objects of these kinds with the NodeClasses of their NodePools, and the plurals of the kinds that may not be listed.
async fn list_permitted(
    client: &Client,
    kinds: impl Iterator<Item = (&str, &str, &str, &str)>,
    required: &[&str],
) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    let (mut items, mut denied) = (Vec::new(), Vec::new());
    for (group, version, kind, plural) in kinds {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        match list(client, &ApiResource::from_gvk_with_plural(&gvk, plural), &mut items).await {
            Ok(()) => {}
            Err(error) if is_denied(&error) && !required.contains(&kind) => denied.push(plural.to_owned()),
            Err(error) => return Err(error),
        }
    }
    for resource in classes(client, &items).await {
        match list(client, &resource, &mut items).await {
            Ok(()) => {}
            Err(error) if is_denied(&error) => denied.push(resource.plural),
            Err(error) => return Err(error),
        }
    }
    Ok((items, denied))
}

/// NodePools, Nodes and NodeClasses: what decides which instance types there are; and the kinds of NodeClass.
///
/// # Errors
/// If a list fails.
pub(crate) async fn read_pools(client: &Client) -> anyhow::Result<(Vec<Item>, Vec<ApiResource>)> {
    let mut items = Vec::new();
    for (group, version, kind, plural) in
        KINDS.into_iter().filter(|kind| matches!(kind.2, "NodePool" | "Node"))
    {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        list(client, &ApiResource::from_gvk_with_plural(&gvk, plural), &mut items).await?;
    }
    let classes = classes(client, &items).await;
    for resource in &classes {
        list(client, resource, &mut items).await?;
    }
    Ok((items, classes))
}

/// The kinds of the NodeClasses of the NodePools among `items`, as far as the cluster has them.
async fn classes(client: &Client, items: &[Item]) -> Vec<ApiResource> {
    let mut kinds = Vec::new();
    for (group, kind) in class_kinds(items) {
        let Ok(found) = discovery::group(client, &group).await else { continue };
        kinds.extend(found.recommended_kind(&kind).map(|(resource, _)| resource));
    }
    kinds
}

/// Further kinds that `compat` reads: definitions, permissions, webhooks, leases and workloads that run controllers.
const FURTHER: [(&str, &str, &str, &str); 9] = [
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("coordination.k8s.io", "v1", "Lease", "leases"),
    ("batch", "v1", "CronJob", "cronjobs"),
];

/// The objects of [`FURTHER`], and the kinds among them that may not be listed.
///
/// # Errors
/// If a list fails for another reason than a missing permission.
pub(crate) async fn read_further(client: &Client) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    let (mut items, mut denied) = (Vec::new(), Vec::new());
    for (group, version, kind, plural) in FURTHER {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        match list(client, &resource, &mut items).await {
            Ok(()) => {}
            Err(error) if is_denied(&error) => denied.push(kind.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok((items, denied))
}

/// The config maps that `wanted` names by namespace and name, without those that do not exist or may not be read.
///
/// # Errors
/// If the API server cannot be reached.
pub(crate) async fn read_config_maps(
    client: &Client,
    wanted: &BTreeSet<(String, String)>,
) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for (namespace, name) in wanted {
        match Api::<ConfigMap>::namespaced(client.clone(), namespace).get(name).await {
            Ok(map) => items.push(Item { value: serde_json::to_value(&map)?, source: Source::Cluster }),
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => {}
            Err(error) => return Err(error).with_context(|| format!("reading ConfigMap {namespace}/{name}")),
        }
    }
    Ok(items)
}

fn is_denied(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403))
}

/// Groups and kinds of the node classes that NodePools refer to.
fn class_kinds(items: &[Item]) -> BTreeSet<(String, String)> {
    let pools = items.iter().filter(|item| item.value["kind"] == "NodePool");
    let classes = pools.filter_map(|item| {
        let class = item.value.pointer("/spec/template/spec/nodeClassRef")?;
        Some((class["group"].as_str()?.to_owned(), class["kind"].as_str()?.to_owned()))
    });
    classes.collect()
}

async fn list(client: &Client, resource: &ApiResource, items: &mut Vec<Item>) -> anyhow::Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("listing {}", resource.plural)),
        };
        for object in page.items {
            let mut value = serde_json::to_value(&object)?;
            value["apiVersion"] = Value::from(resource.api_version.as_str());
            value["kind"] = Value::from(resource.kind.as_str());
            items.push(Item { value, source: Source::Cluster });
        }
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A reader without all permissions.
    use std::sync::Arc;

    use fleetwright_fake_kube::{Answer, ApiError, Config, Fault, Faults, Request, Server};
    use serde_json::json;

    use super::*;

    /// Plurals that may not be listed.
    struct Denied(&'static [&'static str]);

    impl Faults for Denied {
        fn decide(&self, request: &Request) -> Fault {
            let refused = || Answer::Refuse(ApiError::new(403, "Forbidden", "not permitted"));
            let answer = if self.0.contains(&&*request.resource) { refused() } else { Answer::Normal };
            Fault { answer, ..Fault::default() }
        }
    }

    /// A client of a cluster with a node, a config map and workloads.
    fn barred(denied: &'static [&'static str]) -> Client {
        let mut config = Config::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7);
        config.faults = Some(Arc::new(Denied(denied)));
        let server = Server::new(config);
        server.apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})).unwrap();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {"name": "one", "namespace": "default"}});
        server.apply(map).unwrap();
        let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = json!({"template": pods});
        let cron_job = json!({"schedule": "@hourly", "jobTemplate": {"spec": job}});
        let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"});
        for (version, kind, spec) in [
            ("batch/v1", "Job", job),
            ("batch/v1", "CronJob", cron_job),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"scaleTargetRef": scaled, "maxReplicas": 3}),
            ),
        ] {
            let meta = json!({"name": "w", "namespace": "default"});
            server
                .apply(json!({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}))
                .unwrap();
        }
        Client::new(server.service(), "default")
    }

    #[tokio::test]
    async fn kinds_that_may_not_be_listed_are_left_out() {
        let (items, denied) = read_permitted(&barred(&["resourceslices", "pods"])).await.unwrap();
        assert_eq!(denied, ["resourceslices", "pods"]);
        assert!(items.iter().any(|item| item.value["kind"] == "Node"));
        let refused = read_permitted(&barred(&["nodes"])).await.unwrap_err();
        assert!(format!("{refused:#}").contains("listing nodes"), "{refused:#}");
    }

    #[tokio::test]
    async fn tools_read_on_without_the_kinds_that_are_not_required() {
        let denied = &["daemonsets", "jobs", "poddisruptionbudgets"];
        let (items, lacking) = read(&barred(denied)).await.unwrap();
        assert_eq!(lacking, ["poddisruptionbudgets", "daemonsets", "jobs"]);
        assert!(items.iter().any(|item| item.value["kind"] == "Node"));
        for required in [&["nodes"], &["pods"], &["nodepools"], &["nodeclaims"]] {
            let refused = read(&barred(required)).await.unwrap_err();
            assert!(format!("{refused:#}").contains(&format!("listing {}", required[0])), "{refused:#}");
        }
    }

    #[tokio::test]
    async fn workloads_that_run_now_and_then_are_read_for_tools_alone() {
        let of = |items: &[Item]| -> Vec<String> {
            items.iter().map(|item| item.value["kind"].as_str().unwrap().to_owned()).collect()
        };
        let client = barred(&[]);
        let read = of(&read(&client).await.unwrap().0);
        for kind in ["Job", "CronJob", "HorizontalPodAutoscaler"] {
            assert!(read.iter().any(|known| known == kind), "{kind}: {read:?}");
        }
        assert!(!of(&read_permitted(&client).await.unwrap().0).contains(&"CronJob".to_owned()));
        assert!(kinds().all(|kind| kind.group != "batch"), "the controller may not list them");
    }

    #[tokio::test]
    async fn config_maps_are_read_by_name() {
        let wanted = ["one", "gone"].map(|name| ("default".to_owned(), name.to_owned())).into();
        let found = read_config_maps(&barred(&[]), &wanted).await.unwrap();
        let found: Vec<&Value> = found.iter().map(|item| &item.value).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0]["kind"], &found[0]["data"]["a"]), (&json!("ConfigMap"), &json!("1")));
        assert!(read_config_maps(&barred(&["configmaps"]), &wanted).await.unwrap().is_empty());
    }
}
