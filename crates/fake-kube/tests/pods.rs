//! Pods under disruption budgets, faults, and the server on a port.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Outcome, config, start};
use fleetwright_fake_kube::{Answer, ApiError, Fault, Faults, Request, Server};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, EvictParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn running(server: &Server, name: &str) -> Result<(), ApiError> {
    server.apply(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "nodeName": "n", "containers": [{ "name": "main", "image": "web:1" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    }))?;
    Ok(())
}

fn budget(server: &Server, name: &str, allowed: i64) -> Result<(), ApiError> {
    server.apply(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "minAvailable": 1 },
        "status": { "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1 },
    }))?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn evictions_obey_budgets() -> Outcome {
    let (server, client) = start();
    let pods: Api<Pod> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        running(&server, name)?;
    }
    budget(&server, "web", 1)?;
    pods.evict("a", &EvictParams::default()).await?;
    let going = pods.get("a").await?;
    assert!(going.metadata.deletion_timestamp.is_some());
    let conditions = going.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(conditions.iter().any(|condition| condition.type_ == "DisruptionTarget"));
    let Err(kube::Error::Api(status)) = pods.evict("b", &EvictParams::default()).await else {
        return Err("the budget is spent".into());
    };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = status.details.and_then(|details| details.causes.into_iter().next());
    let cause = cause.map(|cause| (cause.reason, cause.message));
    let message = "The disruption budget web needs 1 healthy pods and has 2 currently".to_owned();
    assert_eq!(cause, Some(("DisruptionBudget".to_owned(), message)));
    budget(&server, "other", 1)?;
    let both = pods.evict("b", &EvictParams::default()).await;
    assert!(matches!(both, Err(kube::Error::Api(status)) if status.code == 500));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bad_objects_are_refused_in_the_servers_words() -> Outcome {
    let (server, _client) = start();
    let pod =
        |spec: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": spec });
    let request = |cpu: &str| json!({ "containers": [{ "name": "m", "image": "i", "resources": { "requests": { "cpu": cpu } } }] });
    let node = |effect: &str| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "taints": [{ "key": "a", "effect": effect }] } });
    for (object, code, message) in [
        (pod(json!({})), 422, "Pod \"p\" is invalid: spec.containers: Required value"),
        (
            pod(json!({ "containers": [{ "name": "m" }] })),
            422,
            "Pod \"p\" is invalid: spec.containers[0].image: Required value",
        ),
        (
            pod(request("-1")),
            422,
            "Pod \"p\" is invalid: spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            pod(request("9E9E")),
            400,
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            node("Never"),
            422,
            "Node \"n\" is invalid: spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\"",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x", "namespace": "no" } }),
            404,
            "namespaces \"no\" not found",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x", "labels": { "a": "b c" } } }),
            422,
            "ConfigMap \"x\" is invalid: metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        let refused = server.apply(object).err().map(|error| (error.code, error.message));
        assert_eq!(refused, Some((code, message.to_owned())));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_know_the_keys_of_lists() -> Outcome {
    let (server, client) = start();
    let nodes: Api<Node> = Api::all(client);
    server.apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "finalizers": ["example.com/a", "example.com/b"] },
        "status": { "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Disk", "status": "False" }] } }))?;
    let patch = |patch: Value| Patch::Strategic(patch);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let node = nodes.patch_status("n", &PatchParams::default(), &patch(ready)).await?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let shown: Vec<_> = conditions.iter().map(|entry| format!("{}={}", entry.type_, entry.status)).collect();
    assert_eq!(shown, ["Ready=True", "Disk=False"]);
    let gone = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] }, "spec": { "taints": null } });
    let node = nodes.patch("n", &PatchParams::default(), &patch(gone)).await?;
    assert_eq!(node.metadata.finalizers, Some(vec!["example.com/b".to_owned()]));
    assert_eq!(node.spec.and_then(|spec| spec.taints), None);
    Ok(())
}

/// Refuses the first creation after it took effect.
#[derive(Default)]
struct Once(std::sync::atomic::AtomicBool);

impl Faults for Once {
    fn decide(&self, request: &Request) -> Fault {
        let first = request.verb == "create" && !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        let timeout = ApiError::new(504, "Timeout", "the request timed out");
        Fault {
            before: Duration::from_secs(2),
            answer: if first { Answer::ApplyThenRefuse(timeout) } else { Answer::Normal },
            ..Fault::default()
        }
    }
}

#[tokio::test(start_paused = true)]
async fn faults_failure_after_the_effect() -> Outcome {
    let mut config = config();
    config.faults = Some(Arc::new(Once::default()));
    let server = Server::new(config);
    let client = kube::Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = serde_json::from_value(json!({ "metadata": { "name": "m" } }))?;
    let before = tokio::time::Instant::now();
    let lost = maps.create(&PostParams::default(), &map).await;
    assert!(matches!(lost, Err(kube::Error::Api(status)) if status.code == 504));
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    let again = maps.create(&PostParams::default(), &map).await;
    assert!(matches!(again, Err(kube::Error::Api(status)) if status.reason == "AlreadyExists"));
    let key = ("create".to_owned(), "configmaps".to_owned(), String::new());
    assert_eq!(server.requests().get(&key), Some(&2));
    Ok(())
}

#[tokio::test]
async fn a_port_answers_with_the_right_token_only() -> Outcome {
    let mut config = config();
    config.token = Some("secret".to_owned());
    let server = Server::new(config);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await?;
    for (token, expected) in [("secret", "HTTP/1.1 200 OK"), ("wrong", "HTTP/1.1 401 Unauthorized")] {
        let mut stream = tokio::net::TcpStream::connect(listening.address).await?;
        let request = format!(
            "GET /api/v1/namespaces/kube-system HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert!(server.kubeconfig(listening.address).contains("secret"));
    Ok(())
}
