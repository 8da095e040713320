//! Workloads, volumes and nodes on a server, in virtual time, with a minimal kubelet.

use std::{sync::Arc, time::Duration};

use fleetwright_core::clock::Clock as _;
use fleetwright_fake_kube::{Answer, ApiError, Config, Fault, Faults, Request, Server, WatchFault};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::clock::TokioClock;

/// A cluster without an autoscaler.
pub(super) struct Cluster {
    pub(super) server: Server,
    _tasks: JoinSet<()>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self::with(None)
    }

    pub(super) fn with(faults: Option<Arc<dyn Faults>>) -> Self {
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let mut serving = Config::new(Arc::new(move || clock.now()), 7);
        serving.faults = faults;
        let server = Server::new(serving);
        let client = Client::new(server.service(), "default");
        let mut tasks = JoinSet::new();
        let config = ActorsConfig { seed: 7, zones: vec!["a".into(), "b".into(), "c".into()] };
        tasks.spawn(run(client, Arc::new(clock), config));
        let kubelet = server.clone();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                for pod in kubelet.list("v1", "Pod", "") {
                    run_kubelet(&kubelet, &pod);
                }
            }
        });
        Self { server, _tasks: tasks }
    }

    pub(super) fn node(&self, name: &str, zone: &str, cpu: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
            } },
            "status": {
                "allocatable": { "cpu": cpu, "memory": "16Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        self.server.apply(node).unwrap();
    }

    pub(super) fn apply(&self, yaml: &str) {
        for document in serde_saphyr::from_multiple::<Value>(yaml).unwrap() {
            self.server.apply(document).unwrap();
        }
    }

    pub(super) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(super) fn get(&self, version: &str, kind: &str, name: &str) -> Value {
        let found = self.server.get(version, kind, "default", name);
        found.as_deref().cloned().unwrap_or_default()
    }

    pub(super) fn pods(&self) -> Vec<Arc<Value>> {
        self.server.list("v1", "Pod", "")
    }

    /// Names of the nodes of all pods, sorted; pods without one are `-`.
    pub(super) fn node_names(&self) -> Vec<String> {
        let mut node_names: Vec<String> = self
            .pods()
            .iter()
            .map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or("-").to_owned())
            .collect();
        node_names.sort();
        node_names
    }
}

fn run_kubelet(server: &Server, pod: &Value) {
    let (name, namespace) =
        (pod["metadata"]["name"].as_str().unwrap(), pod["metadata"]["namespace"].as_str().unwrap());
    if pod["spec"]["nodeName"].is_null() {
        return;
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let mut ended = pod.clone();
        ended["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        force_delete(server, namespace, name);
        return;
    }
    let run_for = pod["metadata"]["annotations"]["run"].as_str();
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    let next = match (phase, run_for) {
        ("Pending", _) => ("Running", "True"),
        ("Running", Some("fails")) => ("Failed", "False"),
        ("Running", Some(_)) => ("Succeeded", "False"),
        _ => return,
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
        "status": { "phase": next.0, "conditions": [
            { "type": "PodScheduled", "status": "True" },
            { "type": "Ready", "status": next.1, "lastTransitionTime": pod["metadata"]["creationTimestamp"] },
        ] },
    });
    server.apply(status).unwrap();
}

fn force_delete(server: &Server, namespace: &str, name: &str) {
    let client = Client::new(server.service(), "default");
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(client, namespace);
    let name = name.to_owned();
    let parameters = kube::api::DeleteParams::default().grace_period(0);
    tokio::spawn(async move { api.delete(&name, &parameters).await.map(drop) });
}

fn deployment(replicas: u32, image: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {replicas},
          selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}},
          spec: {{containers: [{{name: c, image: {image}, resources: {{requests: {{cpu: '1'}}}}}}]}}}}}}}}"
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_scales_and_rolls() {
    let cluster = Cluster::new();
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        cluster.node(name, zone, "4");
    }
    cluster.wait(1).await;
    cluster.apply(&deployment(4, "one"));
    cluster.wait(10).await;
    assert_eq!(cluster.node_names(), ["n1", "n1", "n2", "n2"]);
    let status = cluster.get("apps/v1", "Deployment", "web")["status"].clone();
    assert_eq!(status["availableReplicas"], 4, "{status:#}");
    assert_eq!(status["observedGeneration"], 1);

    cluster.apply(&deployment(4, "two"));
    cluster.wait(60).await;
    let images: Vec<Value> =
        cluster.pods().iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, ["two", "two", "two", "two"]);
    let status = cluster.get("apps/v1", "Deployment", "web")["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["replicas"]), (&json!(4), &json!(4)), "{status:#}");
    assert_eq!(cluster.server.list("apps/v1", "ReplicaSet", "").len(), 2);

    cluster.apply(&deployment(1, "two"));
    cluster.wait(20).await;
    assert_eq!(cluster.pods().len(), 1);
    cluster.server.delete("apps/v1", "Deployment", "default", "web").unwrap();
    cluster.wait(20).await;
    assert_eq!(cluster.pods().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_wait_with_kube_schedulers_message_until_a_node_fits() {
    let cluster = Cluster::new();
    cluster.node("n1", "a", "1");
    cluster.apply(&deployment(2, "one"));
    cluster.wait(5).await;
    assert_eq!(cluster.node_names(), ["-", "n1"]);
    let waiting = cluster.pods().into_iter().find(|pod| pod["spec"]["nodeName"].is_null()).unwrap();
    let condition = &waiting["status"]["conditions"][0];
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], "0/1 nodes are available: 1 Insufficient cpu.");
    cluster.node("n2", "b", "1");
    cluster.wait(15).await;
    assert_eq!(cluster.node_names(), ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_keeps_order_names_and_volumes() {
    let cluster = Cluster::new();
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        cluster.node(name, zone, "4");
    }
    cluster.apply(
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: csi.example.com,
          volumeBindingMode: WaitForFirstConsumer}",
    );
    cluster.apply(
        "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, serviceName: db,
          selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}},
          spec: {containers: [{name: c, image: i}]}},
          volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: local,
          accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}",
    );
    cluster.wait(20).await;
    let names: Vec<Value> = cluster.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    let claim = cluster.get("v1", "PersistentVolumeClaim", "data-db-0");
    assert_eq!(claim["status"]["phase"], "Bound", "{claim:#}");
    let zone = |pod: &Value| if pod["spec"]["nodeName"] == "n1" { "a" } else { "b" };
    let volume =
        cluster.server.get("v1", "PersistentVolume", "", claim["spec"]["volumeName"].as_str().unwrap());
    let terms = &volume.unwrap()["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let first = cluster.get("v1", "Pod", "db-0");
    assert_eq!(terms[0]["matchExpressions"][0]["values"][0], zone(&first));

    // The pod is recreated with its name, on the node of its volume.
    let old = first["spec"]["nodeName"].clone();
    cluster.server.delete("v1", "Pod", "default", "db-0").unwrap();
    cluster.wait(20).await;
    let again = cluster.get("v1", "Pod", "db-0");
    assert_ne!(again["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(again["spec"]["nodeName"], old);
    assert_eq!(cluster.get("apps/v1", "StatefulSet", "db")["status"]["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_runs_on_every_node_that_it_tolerates() {
    let cluster = Cluster::new();
    cluster.node("n1", "a", "4");
    cluster.apply(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}},
          template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}}}",
    );
    cluster.wait(10).await;
    assert_eq!(cluster.node_names(), ["n1"]);
    cluster.node("n2", "a", "4");
    cluster.apply(
        "{apiVersion: v1, kind: Node, metadata: {name: n3}, spec: {taints: [{key: x, effect: NoSchedule}]}}",
    );
    cluster.wait(10).await;
    assert_eq!(cluster.node_names(), ["n1", "n2"]);
    for pod in cluster.pods() {
        let terms =
            &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(
            terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0], pod["spec"]["nodeName"],
            "{pod:#}"
        );
    }
    let status = cluster.get("apps/v1", "DaemonSet", "agent")["status"].clone();
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberAvailable"]),
        (&json!(2), &json!(2)),
        "{status:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let cluster = Cluster::new();
    cluster.node("n1", "a", "4");
    let job = |name: &str, run: &str, more: &str| {
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{completions: 3, parallelism: 2, {more}
              template: {{metadata: {{annotations: {{run: {run}}}}},
              spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}"
        )
    };
    cluster.apply(&job("good", "well", ""));
    cluster.apply(&job("bad", "fails", "backoffLimit: 1,"));
    cluster.wait(120).await;
    let status = cluster.get("batch/v1", "Job", "good")["status"].clone();
    assert_eq!(status["succeeded"], 3, "{status:#}");
    assert!(status["conditions"].as_array().unwrap().iter().any(|condition| condition["type"] == "Complete"));
    let status = cluster.get("batch/v1", "Job", "bad")["status"].clone();
    assert!(
        status["conditions"].as_array().unwrap().iter().any(|condition| condition["type"] == "Failed"),
        "{status:#}"
    );
    assert_eq!(status["conditions"][0]["reason"], "BackoffLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_healthy_pods_and_limits_evictions() {
    let cluster = Cluster::new();
    cluster.node("n1", "a", "8");
    cluster.apply(&deployment(4, "one"));
    cluster.apply(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 25%,
          selector: {matchLabels: {app: web}}}}",
    );
    cluster.wait(10).await;
    let status = cluster.get("policy/v1", "PodDisruptionBudget", "web")["status"].clone();
    assert_eq!(
        (
            &status["expectedPods"],
            &status["currentHealthy"],
            &status["desiredHealthy"],
            &status["disruptionsAllowed"]
        ),
        (&json!(4), &json!(4), &json!(3), &json!(1)),
        "{status:#}"
    );
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(Client::new(cluster.server.service(), "default"), "default");
    let pods = cluster.pods();
    let name = |at: usize| pods[at]["metadata"]["name"].as_str().unwrap().to_owned();
    api.evict(&name(0), &kube::api::EvictParams::default()).await.unwrap();
    let refused = api.evict(&name(1), &kube::api::EvictParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 429));
    cluster.wait(20).await;
    api.evict(&name(1), &kube::api::EvictParams::default()).await.unwrap();
    cluster.wait(20).await;

    // A granted eviction counts until the pod terminates, at most two minutes.
    let allowed = |cluster: &Cluster| {
        cluster.get("policy/v1", "PodDisruptionBudget", "web")["status"]["disruptionsAllowed"].clone()
    };
    assert_eq!(allowed(&cluster), 1);
    let pod = cluster.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let budget = cluster.get("policy/v1", "PodDisruptionBudget", "web");
    let now = budget["metadata"]["creationTimestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let now = now + jiff::SignedDuration::from_secs(50);
    cluster
        .server
        .apply(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web", "namespace": "default" },
            "status": { "disruptedPods": { pod: now.to_string() } },
        }))
        .unwrap();
    cluster.wait(5).await;
    assert_eq!(allowed(&cluster), 0);
    cluster.wait(130).await;
    assert_eq!(allowed(&cluster), 1);
}

#[tokio::test(start_paused = true)]
async fn an_immediate_volume_is_created_in_a_zone_and_pods_follow_it() {
    let cluster = Cluster::new();
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        cluster.node(name, zone, "4");
    }
    cluster.apply(
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast, annotations: {
          storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: csi.example.com, volumeBindingMode: Immediate}",
    );
    cluster.apply(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce],
          resources: {requests: {storage: 1Gi}}}}",
    );
    cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: user}, spec: {containers: [{name: c, image: i}],
          volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}",
    );
    cluster.wait(20).await;
    let claim = cluster.get("v1", "PersistentVolumeClaim", "data");
    assert_eq!(claim["status"]["phase"], "Bound", "{claim:#}");
    let volumes = cluster.server.list("v1", "PersistentVolume", "");
    let zone = &volumes[0]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
        ["values"][0];
    let node = cluster.get("v1", "Pod", "user")["spec"]["nodeName"].as_str().unwrap().to_owned();
    let of_node = cluster.server.get("v1", "Node", "", &node).unwrap();
    assert_eq!(zone, &of_node["metadata"]["labels"]["topology.kubernetes.io/zone"]);
    let attached = cluster.server.list("storage.k8s.io/v1", "VolumeAttachment", "");
    assert_eq!((attached.len(), &attached[0]["spec"]["nodeName"]), (1, &json!(node)));
    cluster.server.delete("v1", "Pod", "default", "user").unwrap();
    cluster.server.delete("v1", "PersistentVolumeClaim", "default", "data").unwrap();
    cluster.wait(20).await;
    assert!(cluster.server.list("storage.k8s.io/v1", "VolumeAttachment", "").is_empty());
    assert!(cluster.server.list("v1", "PersistentVolume", "").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_are_evicted_and_collected() {
    let cluster = Cluster::new();
    cluster.node("n1", "a", "4");
    let lease =
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: n1, namespace: kube-node-lease},
                  spec: {holderIdentity: n1}}";
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: kube-node-lease}}");
    cluster.apply(lease);
    cluster.apply(&deployment(1, "one"));
    cluster.wait(10).await;
    assert_eq!(cluster.node_names(), ["n1"]);
    let first = cluster.pods()[0]["metadata"]["uid"].clone();
    cluster.wait(60).await;
    let node = cluster.server.get("v1", "Node", "", "n1").unwrap();
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert_eq!(
        taints.iter().filter(|taint| taint["key"] == "node.kubernetes.io/unreachable").count(),
        2,
        "{node:#}"
    );
    assert_eq!(cluster.pods()[0]["metadata"]["uid"], first);
    // The default toleration lasts five minutes.
    cluster.wait(310).await;
    assert_ne!(cluster.pods()[0]["metadata"]["uid"], first);
    cluster.server.delete("v1", "Node", "", "n1").unwrap();
    cluster.node("n2", "a", "4");
    cluster.wait(60).await;
    assert_eq!(cluster.node_names(), ["n2"]);
}

/// Rejects, breaks and delays requests in turn; a third of the watches expire.
#[derive(Default)]
struct UnreliableServer(std::sync::atomic::AtomicU64);

impl Faults for UnreliableServer {
    fn decide(&self, request: &Request) -> Fault {
        let turn = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut fault = Fault { before: Duration::from_millis(turn % 40), ..Fault::default() };
        if request.verb == "watch" {
            fault.watch = match turn % 3 {
                0 => WatchFault { expire_after: Some(5), ..WatchFault::default() },
                1 => WatchFault { break_after: Some(7), duplicate_every: 2, ..WatchFault::default() },
                _ => WatchFault {
                    lag: Duration::from_millis(300),
                    end_after: Some(9),
                    ..WatchFault::default()
                },
            };
            return fault;
        }
        fault.answer = match turn % 11 {
            3 => Answer::Drop,
            5 => Answer::ApplyThenDrop,
            7 => Answer::Refuse(ApiError::new(503, "ServiceUnavailable", "come back later")),
            9 => Answer::ApplyThenRefuse(ApiError::new(500, "InternalError", "lost")),
            _ => Answer::Normal,
        };
        fault
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreliable_server_only_delays() {
    let cluster = Cluster::with(Some(Arc::new(UnreliableServer::default())));
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        cluster.node(name, zone, "8");
    }
    cluster.apply(&deployment(12, "one"));
    cluster.apply(
        "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 3, serviceName: db,
          selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}},
          spec: {containers: [{name: c, image: i}]}}}}",
    );
    cluster.wait(900).await;
    let web = cluster.get("apps/v1", "Deployment", "web")["status"].clone();
    assert_eq!((&web["replicas"], &web["availableReplicas"]), (&json!(12), &json!(12)), "{web:#}");
    assert_eq!(cluster.get("apps/v1", "StatefulSet", "db")["status"]["readyReplicas"], 3);
    assert_eq!(cluster.pods().len(), 15);
    assert!(!cluster.node_names().contains(&"-".to_owned()), "{:?}", cluster.node_names());
}

/// Every watch is delayed by three seconds.
struct SlowWatches;

impl Faults for SlowWatches {
    fn decide(&self, request: &Request) -> Fault {
        let lag = if request.verb == "watch" { Duration::from_secs(3) } else { Duration::ZERO };
        Fault { watch: WatchFault { lag, ..WatchFault::default() }, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn assumed_pods_count_before_the_watch_event() {
    let cluster = Cluster::with(Some(Arc::new(SlowWatches)));
    cluster.node("n1", "a", "1");
    cluster.wait(20).await;
    for name in ["one", "two"] {
        cluster.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i,
              resources: {{requests: {{cpu: '1'}}}}}}]}}}}"
        ));
        cluster.wait(1).await;
    }
    cluster.wait(30).await;
    assert_eq!(cluster.node_names(), ["-", "n1"]);
}
