//! The load script of the demo: annotations of the manifests define the replicas of workloads over time.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use fleetwright_sim::Simulator;
use serde_json::Value;

/// `2m=40,12m=6`: forty replicas two minutes into the demo, six after twelve.
const ANNOTATION: &str = "fleetwright.dev/load";

/// One change of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Time since the start.
    pub(super) after: Duration,
    /// `Deployment` or `StatefulSet`.
    pub(super) kind: String,
    /// Namespace.
    pub(super) namespace: String,
    /// Name.
    pub(super) name: String,
    /// The number of replicas from then on.
    pub(super) replicas: i32,
}

/// Applies the manifests and returns their script, in order of time.
///
/// # Errors
/// If a manifest is invalid; names it.
pub(super) fn apply(simulator: &Simulator, manifests: &[(String, String)]) -> anyhow::Result<Vec<Load>> {
    let mut script = Vec::new();
    let mut namespaces = BTreeSet::from(["default".to_owned(), "kube-system".to_owned()]);
    for (name, text) in manifests {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).with_context(|| name.clone())?;
        for namespace in documents.iter().filter_map(|document| document["metadata"]["namespace"].as_str()) {
            if namespaces.insert(namespace.to_owned()) {
                let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                simulator
                    .apply(&object.to_string())
                    .with_context(|| format!("{name}: namespace {namespace}"))?;
            }
        }
        simulator.apply(text).with_context(|| name.clone())?;
        for document in &documents {
            script.extend(of_document(document).with_context(|| name.clone())?);
        }
    }
    script.sort_by(|a, b| (a.after, &a.name).cmp(&(b.after, &b.name)));
    Ok(script)
}

fn of_document(document: &Value) -> anyhow::Result<Vec<Load>> {
    let text = |at: &str| document.pointer(at).and_then(Value::as_str);
    let Some(script) = document["metadata"]["annotations"][ANNOTATION].as_str() else {
        return Ok(Vec::new());
    };
    let entry = |entry: &str| -> anyhow::Result<Load> {
        let (after, replicas) =
            entry.split_once('=').context("it takes TIME=REPLICAS, separated by commas")?;
        let after = fleetwright_api::duration::parse(after.trim())?;
        Ok(Load {
            after: Duration::try_from(after)?,
            kind: text("/kind").unwrap_or_default().to_owned(),
            namespace: text("/metadata/namespace").unwrap_or("default").to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            replicas: replicas.trim().parse()?,
        })
    };
    script
        .split(',')
        .map(|part| entry(part).with_context(|| format!("annotation {ANNOTATION}: {part:?}")))
        .collect()
}

impl Load {
    /// Sets the replicas.
    ///
    /// # Errors
    /// If the API server refuses.
    pub(super) async fn apply(&self, client: &kube::Client) -> anyhow::Result<()> {
        use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
        use kube::api::{Api, Patch, PatchParams};
        let patch = Patch::Merge(serde_json::json!({"spec": {"replicas": self.replicas}}));
        let params = PatchParams::default();
        let done = match self.kind.as_str() {
            "StatefulSet" => {
                let api: Api<StatefulSet> = Api::namespaced(client.clone(), &self.namespace);
                api.patch_scale(&self.name, &params, &patch).await
            }
            _ => {
                let api: Api<Deployment> = Api::namespaced(client.clone(), &self.namespace);
                api.patch_scale(&self.name, &params, &patch).await
            }
        };
        match done {
            Ok(_) => Ok(()),
            // The user deleted it meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("scaling {}/{}", self.namespace, self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Reading scripts.
    use super::*;

    #[test]
    fn scripts() {
        let document = |script: &str| serde_json::json!({"kind": "Deployment", "metadata": {"name": "web", "annotations": {ANNOTATION: script}}});
        let loads = of_document(&document("2m=40, 12m30s=6")).unwrap();
        let read: Vec<(u64, i32)> = loads.iter().map(|load| (load.after.as_secs(), load.replicas)).collect();
        assert_eq!(read, [(120, 40), (750, 6)]);
        for bad in ["", "2m", "2=4", "2m=many", "-1m=3"] {
            assert!(of_document(&document(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(of_document(&serde_json::json!({"kind": "Pod"})).unwrap(), []);
    }
}
