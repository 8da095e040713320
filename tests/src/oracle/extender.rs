//! A scheduler extender, which kube-scheduler asks after its own filters: it keeps pods on the nodes that the plan names, and
//! notes which nodes kube-scheduler's own filters left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// What the extender knows, shared between the server and the judge.
#[derive(Debug, Clone, Default)]
pub(super) struct Extender(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    /// Pods that may run on one node only; the others may run anywhere.
    pinned: BTreeMap<String, String>,
    /// Nodes that kube-scheduler's own filters left for a pod, at any of its attempts.
    feasible: BTreeMap<String, BTreeSet<String>>,
}

/// The running server; it ends with this value.
#[derive(Debug)]
pub(super) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Extender {
    /// Serves on a port of its own, which it returns.
    pub(super) async fn serve(&self) -> anyhow::Result<(u16, Serving)> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let router = Router::new().route("/filter", post(filter)).with_state(self.clone());
        let task = tokio::spawn(async move {
            // An error ends the extender; kube-scheduler then reports it on each pod.
            let _ = axum::serve(listener, router).await;
        });
        Ok((port, Serving(task)))
    }

    /// Pins pods to nodes from now on, and forgets what was noted.
    pub(super) fn pin(&self, pinned: BTreeMap<String, String>) {
        *self.lock() = Memory { pinned, feasible: BTreeMap::new() };
    }

    /// Whether kube-scheduler's own filters ever left `node` for `pod`.
    pub(super) fn was_feasible(&self, pod: &str, node: &str) -> bool {
        self.lock().feasible.get(pod).is_some_and(|nodes| nodes.contains(node))
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `ExtenderArgs` in, `ExtenderFilterResult` out (k8s.io/kube-scheduler/extender/v1).
    fn answer(&self, arguments: &Value) -> Value {
        let pod = arguments["Pod"]["metadata"]["name"].as_str().unwrap_or_default();
        let nodes: Vec<&str> =
            arguments["NodeNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut memory = self.lock();
        memory.feasible.entry(pod.to_owned()).or_default().extend(nodes.iter().map(|&node| node.to_owned()));
        let pinned = memory.pinned.get(pod);
        let is_kept = |node: &&str| pinned.is_none_or(|pinned| pinned == node);
        let (kept, others): (Vec<&str>, Vec<&str>) = nodes.into_iter().partition(is_kept);
        let failed: Map<String, Value> =
            others.into_iter().map(|node| (node.to_owned(), json!("planned elsewhere"))).collect();
        json!({"NodeNames": kept, "FailedNodes": failed})
    }
}

async fn filter(State(extender): State<Extender>, Json(arguments): Json<Value>) -> Json<Value> {
    Json(extender.answer(&arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_pods_keep_their_node_and_others_all() {
        let extender = Extender::default();
        extender.pin(BTreeMap::from([("one".to_owned(), "b".to_owned())]));
        let ask = |pod: &str, nodes: &[&str]| {
            extender.answer(&json!({"Pod": {"metadata": {"name": pod}}, "NodeNames": nodes}))
        };
        assert_eq!(ask("one", &["a", "b"])["NodeNames"], json!(["b"]));
        assert_eq!(ask("one", &["a"])["NodeNames"], json!([]));
        assert_eq!(ask("other", &["a", "b"])["NodeNames"], json!(["a", "b"]));
        assert!(extender.was_feasible("one", "b") && !extender.was_feasible("one", "c"));
    }
}
