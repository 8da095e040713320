//! Generated clusters with everything that refers to something by name: labels, selectors, owners, claims, taints, namespaces.

use serde_json::{Value, json};

/// Words that occur in names, keys and values of every world.
pub(super) const WORDS: [&str; 12] = [
    "acme",
    "payments",
    "ledger",
    "checkout",
    "zebra",
    "alpha",
    "secret-team",
    "tier-gold",
    "fraud",
    "i-0abc",
    "u-pod",
    "tenant",
];

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        // Constants of Knuth's MMIX generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let at = self.below(u64::try_from(all.len()).unwrap());
        all[usize::try_from(at).unwrap()]
    }

    fn chance(&mut self, of_ten: u64) -> bool {
        self.below(10) < of_ten
    }
}

const NAMESPACES: [&str; 6] = ["acme", "acme-payments", "default", "kube-system", "payments", "zebra"];
const APPS: [&str; 5] = ["alpha", "checkout", "fraud", "ledger", "zebra"];
const TEAMS: [&str; 3] = ["secret-team", "tier-gold", "zebra"];
const TENANT: &str = "acme.example/tenant";

/// The objects of a cluster.
pub(super) fn world(seed: u64) -> Vec<Value> {
    let mut draw = Draw(seed.wrapping_mul(7919).wrapping_add(17));
    let mut objects: Vec<Value> = NAMESPACES
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": format!("u-{name}"), "labels": {"kubernetes.io/metadata.name": name, TENANT: name}}, "status": {"phase": "Active"}}))
        .collect();
    let pools = ["payments-pool", "acme-pool", "zebra-pool"];
    for pool in pools {
        objects.push(node_pool(pool, &mut draw));
    }
    objects.push(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "alpha-agent", "namespace": "kube-system", "uid": "u-agent"}, "spec": {"selector": {"matchLabels": {"app": "alpha-agent"}}, "template": {"metadata": {"labels": {"app": "alpha-agent"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "alpha", "resources": {"requests": {"cpu": "100m"}}}]}}}, "status": {"numberReady": 1}}));
    objects.extend(stateful_set());
    for number in 0..draw.below(5) {
        objects.extend(node(number, pools[usize::try_from(number).unwrap() % 3], &mut draw));
    }
    let nodes: Vec<String> = objects
        .iter()
        .filter(|object| object["kind"] == "Node")
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for number in 0..8 + draw.below(30) {
        objects.push(pod(number, &nodes, &mut draw));
    }
    objects
}

fn node_pool(name: &str, draw: &mut Draw) -> Value {
    let mut requirements = vec![
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": [draw.one_of(&["spot", "on-demand"])]}),
        json!({"key": "secret-team", "operator": "In", "values": TEAMS}),
    ];
    if draw.chance(4) {
        requirements.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a", "test-zone-b"]}));
    }
    let mut spec = json!({
        "weight": draw.below(3) + 1,
        "template": {
            "metadata": {"labels": {"acme-pool": name, "ledger/generation": "7"}, "annotations": {"acme.example/owner": "fraud"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "checkout-class"},
                "requirements": requirements,
            },
        },
    });
    if draw.chance(3) {
        spec["template"]["spec"]["taints"] =
            json!([{"key": TENANT, "value": "zebra", "effect": "NoSchedule"}]);
    }
    if draw.chance(3) {
        spec["limits"] = json!({"cpu": "24"});
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "uid": format!("u-{name}"), "generation": 1}, "spec": spec})
}

/// A StatefulSet with one of its pods and claims.
fn stateful_set() -> Vec<Value> {
    vec![
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ledger-disk", "uid": "u-disk"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["test-zone-b"]}]}]}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "ledger", "namespace": "acme", "uid": "u-ledger"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "ledger"}}, "template": {"metadata": {"labels": {"app": "ledger"}}, "spec": {"containers": [{"name": "fraud", "resources": {"requests": {"cpu": "500m"}}}]}}, "volumeClaimTemplates": [{"metadata": {"name": "tier-gold"}, "spec": {"storageClassName": "ledger-disk", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}, "status": {"replicas": 1}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "tier-gold-ledger-1", "namespace": "acme", "uid": "u-claim", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"storageClassName": "ledger-disk", "volumeName": "zebra-volume"}, "status": {"phase": "Bound"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "zebra-volume", "uid": "u-volume"}, "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "acme-volume"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}}}, "status": {"phase": "Bound"}}),
    ]
}

fn node(number: u64, pool: &str, draw: &mut Draw) -> Vec<Value> {
    let (name, claim) = (format!("zebra-{}-{number}", draw.below(90)), format!("{pool}-{}", draw.below(900)));
    let zone = draw.one_of(&["test-zone-a", "test-zone-b", "test-zone-c"]);
    let id = format!("kwok://i-0abc{number}");
    let labels = json!({
        "karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true", "node.kubernetes.io/instance-type": "c-4x-amd64-linux",
        "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "secret-team": draw.one_of(&TEAMS), "acme-pool": pool,
    });
    let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}]);
    let done = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "lastTransitionTime": "2025-12-31T00:00:00Z"});
    vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": claim, "uid": format!("u-{claim}"), "labels": labels, "creationTimestamp": "2025-12-30T00:00:00Z", "annotations": {"fleetwright.dev/nominated-pods": "acme/fraud-1:u-pod-1"}}, "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "checkout-class"}, "requirements": [], "resources": {}}, "status": {"providerID": id, "nodeName": name, "capacity": capacity, "allocatable": capacity, "conditions": [done("Launched"), done("Registered"), done("Initialized")]}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("u-{name}"), "labels": labels, "creationTimestamp": "2025-12-30T00:00:00Z"}, "spec": {"providerID": id}, "status": {"capacity": capacity, "allocatable": capacity, "conditions": ready}}),
    ]
}

fn pod(number: u64, nodes: &[String], draw: &mut Draw) -> Value {
    let app = draw.one_of(&APPS);
    let cpu = draw.one_of(&["250m", "500m", "1", "2", "500"]);
    // One in many is too large for any node.
    let cpu = if cpu == "500" && !draw.chance(2) { "1500m" } else { cpu };
    let mut spec =
        json!({"containers": [{"name": app, "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}]});
    if draw.chance(2) {
        spec["nodeSelector"] =
            json!({"secret-team": draw.one_of(&["secret-team", "tier-gold", "zebra", "fraud"])});
    }
    if draw.chance(3) {
        spec["tolerations"] = json!([{"key": TENANT, "operator": "Equal", "value": "zebra"}]);
    }
    let key = draw.one_of(&[
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
        "secret-team",
        "karpenter.sh/nodepool",
    ]);
    let selector = json!({"matchLabels": {"app": app}});
    match draw.below(6) {
        0 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": draw.one_of(&["DoNotSchedule", "ScheduleAnyway"]), "labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}]);
        }
        1 => {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "ledger"]}]}, "namespaceSelector": {"matchLabels": {TENANT: "payments"}}}]}});
        }
        2 => {
            spec["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector, "namespaces": ["acme", "acme-payments"]}]}});
        }
        3 => {
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {"matchExpressions": [{"key": "acme-pool", "operator": "In", "values": ["zebra-pool"]}]}}], "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "ledger/generation", "operator": "Gt", "values": ["5"]}]}]}}});
        }
        _ => {}
    }
    let mut status = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node for payments"}]});
    if !nodes.is_empty() && draw.chance(3) {
        let at = draw.below(u64::try_from(nodes.len()).unwrap());
        spec["nodeName"] = json!(nodes[usize::try_from(at).unwrap()]);
        status = json!({"phase": "Running", "startTime": "2025-12-31T00:00:00Z"});
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{number}"), "namespace": draw.one_of(&NAMESPACES), "uid": format!("u-pod-{}", draw.below(1 << 30)),
            "creationTimestamp": "2025-12-31T12:00:00Z",
            "labels": {"app": app, TENANT: draw.one_of(&TEAMS), "pod-template-hash": format!("acme{}", draw.below(2))},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-acme"), "uid": format!("u-{app}"), "controller": true}],
        },
        "spec": spec, "status": status,
    })
}
