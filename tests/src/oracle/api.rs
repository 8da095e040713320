//! The API server as the judge uses it: objects as JSON, many at once.

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

/// Writes under way at a time.
const CONCURRENCY: usize = 24;

/// Collections of a cluster, in the order of creation.
const COLLECTIONS: [(&str, &str); 8] = [
    ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    ("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("PersistentVolumeClaim", "/api/v1/namespaces/default/persistentvolumeclaims"),
    ("DaemonSet", "/apis/apps/v1/namespaces/default/daemonsets"),
    ("Node", "/api/v1/nodes"),
    ("Pod", "/api/v1/namespaces/default/pods"),
];

/// The collection of a kind; `None` for kinds that kube-scheduler does not know.
fn collection(kind: &str) -> Option<&'static str> {
    COLLECTIONS.iter().find(|(known, _)| *known == kind).map(|(_, path)| *path)
}

/// The API server.
#[derive(Clone)]
pub(super) struct Api(pub(super) kube::Client);

impl Api {
    /// Creates objects, kind by kind, many of a kind at once. Kinds that kube-scheduler does not know are passed over.
    pub(super) async fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        for (kind, _) in COLLECTIONS {
            let of_kind: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
            stream::iter(of_kind.into_iter().map(Ok))
                .try_for_each_concurrent(CONCURRENCY, |object| self.create_one(object))
                .await?;
        }
        Ok(())
    }

    async fn create_one(&self, object: &Value) -> anyhow::Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(path) = collection(kind) else { return Ok(()) };
        let mut object = object.clone();
        let mut is_terminating = false;
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("uid");
            meta.remove("deletionGracePeriodSeconds");
            is_terminating = meta.remove("deletionTimestamp").is_some();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.send("POST", path, &object).await.with_context(|| format!("cannot create {kind} {name}"))?;
        if is_terminating {
            // There is no kubelet that would end the pod, so it stays in this state.
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3600});
            self.send("DELETE", &format!("{path}/{name}"), &options).await?;
        }
        Ok(())
    }

    /// Merges `patch` into an object.
    pub(super) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let path = collection(kind).with_context(|| format!("{kind} has no collection"))?;
        self.send("PATCH", &format!("{path}/{name}"), patch).await.map(drop)
    }

    /// The objects of a kind.
    pub(super) async fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let path = collection(kind).with_context(|| format!("{kind} has no collection"))?;
        let mut list = self.send("GET", path, &Value::Null).await?;
        Ok(match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        })
    }

    /// Deletes pods by name, without a grace period.
    pub(super) async fn delete_pods(&self, names: &[String]) -> anyhow::Result<()> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.delete_each("Pod", names, &options).await
    }

    /// Deletes objects by name.
    pub(super) async fn delete(&self, kind: &str, names: &[String]) -> anyhow::Result<()> {
        self.delete_each(kind, names, &json!({"kind": "DeleteOptions", "apiVersion": "v1"})).await
    }

    async fn delete_each(&self, kind: &str, names: &[String], options: &Value) -> anyhow::Result<()> {
        let path = collection(kind).with_context(|| format!("{kind} has no collection"))?;
        stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |name| async move {
                self.send("DELETE", &format!("{path}/{name}"), options).await.map(drop)
            })
            .await
    }

    /// Deletes everything that a cluster can have: pods first, so that no pod is without its node.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        for (kind, path) in COLLECTIONS.iter().rev() {
            // The two classes that the API server makes itself stay.
            if *kind == "PriorityClass" {
                for name in self.names(kind).await?.into_iter().filter(|name| !name.starts_with("system-")) {
                    self.send("DELETE", &format!("{path}/{name}"), &options).await?;
                }
            } else {
                self.send("DELETE", path, &options)
                    .await
                    .with_context(|| format!("cannot delete all {kind}s"))?;
            }
        }
        Ok(())
    }

    async fn names(&self, kind: &str) -> anyhow::Result<Vec<String>> {
        let items = self.list(kind).await?;
        Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let request =
            http::Request::builder().method(method).uri(path).header("Content-Type", content).body(bytes)?;
        Ok(self.0.request(request).await?)
    }
}
