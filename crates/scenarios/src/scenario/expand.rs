//! Expands short forms to objects.

use serde_json::{Map, Value, json};

use super::{AwsShort, Domain, PodsShort, PoolShort};

/// The node class of the pools.
pub(super) fn class(aws: Option<&AwsShort>) -> Value {
    let Some(aws) = aws else {
        return json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": { "name": "default" },
        });
    };
    let mut spec = json!({
        "role": "node",
        "amiSelectorTerms": [{ "alias": aws.alias }],
        "subnetSelectorTerms": [{ "tags": { "team": "a" } }],
        "securityGroupSelectorTerms": [{ "name": "nodes" }],
    });
    if !aws.reservations.is_empty() {
        let terms = aws.reservations.iter().map(|reservation| json!({ "id": reservation.id }));
        spec["capacityReservationSelectorTerms"] = terms.collect();
    }
    if let Some(group) = &aws.placement_group {
        spec["placementGroupSelector"] = json!({ "name": group.name });
    }
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" },
        "spec": spec,
    })
}

/// A NodePool; `zones` are those of the cloud.
pub(super) fn pool(short: &PoolShort, zones: &[String], aws: bool) -> Value {
    let (group, kind) = match aws {
        true => ("karpenter.k8s.aws", "EC2NodeClass"),
        false => ("karpenter.kwok.sh", "KWOKNodeClass"),
    };
    let full = |zone: &String| {
        let matching = zones.iter().find(|known| *known == zone || known.ends_with(zone.as_str()));
        matching.unwrap_or(zone).clone()
    };
    let wanted = [
        ("kubernetes.io/arch", short.arch.clone()),
        ("karpenter.sh/capacity-type", short.capacity.clone()),
        ("topology.kubernetes.io/zone", short.zones.iter().map(full).collect()),
        ("node.kubernetes.io/instance-type", short.types.clone()),
    ];
    let requirements: Vec<Value> = wanted
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(key, values)| json!({ "key": key, "operator": "In", "values": values }))
        .collect();
    let mut spec = json!({
        "template": { "spec": {
            "nodeClassRef": { "group": group, "kind": kind, "name": "default" },
            "requirements": requirements,
            "expireAfter": short.expire_after,
            "taints": short.taints.iter().map(|text| taint(text)).collect::<Vec<_>>(),
            "startupTaints": short.startup_taints.iter().map(|text| taint(text)).collect::<Vec<_>>(),
        } },
        "disruption": {
            "consolidationPolicy": short.consolidation_policy,
            "consolidateAfter": short.consolidate_after,
            "budgets": [{ "nodes": short.budget }],
        },
    });
    if let Some(period) = &short.termination_grace_period {
        spec["template"]["spec"]["terminationGracePeriod"] = json!(period);
    }
    if let Some(weight) = short.weight {
        spec["weight"] = json!(weight);
    }
    if let Some(replicas) = short.replicas {
        spec["replicas"] = json!(replicas);
    }
    if !short.limits.is_empty() {
        spec["limits"] = json!(short.limits);
    }
    json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": short.name, "annotations": short.annotations }, "spec": spec })
}

/// Parses `key=value:Effect`.
fn taint(text: &str) -> Value {
    let (pair, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
    match pair.split_once('=') {
        Some((key, value)) => json!({ "key": key, "value": value, "effect": effect }),
        None => json!({ "key": pair, "effect": effect }),
    }
}

fn toleration(text: &str) -> Value {
    let (pair, effect) = match text.rsplit_once(':') {
        Some((pair, effect)) => (pair, Some(effect)),
        None => (text, None),
    };
    let mut toleration = match pair.split_once('=') {
        Some((key, value)) => json!({ "key": key, "operator": "Equal", "value": value }),
        None => json!({ "key": pair, "operator": "Exists" }),
    };
    if let Some(effect) = effect {
        toleration["effect"] = json!(effect);
    }
    toleration
}

fn topology(domain: Domain) -> &'static str {
    match domain {
        Domain::Zone => "topology.kubernetes.io/zone",
        Domain::Host => "kubernetes.io/hostname",
    }
}

/// A Deployment, and its PodDisruptionBudget if it has one.
pub(super) fn pods(short: &PodsShort) -> Vec<Value> {
    let labels = json!({ "app": short.name });
    let mut requests = Map::new();
    for (name, amount) in [("cpu", &short.cpu), ("memory", &short.memory)] {
        // A bare number is also a quantity.
        let text =
            amount.as_ref().map(|amount| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned));
        requests.extend(text.map(|text| (name.to_owned(), json!(text))));
    }
    let mut spec = json!({
        "containers": [{ "name": "main", "image": "pause", "resources": { "requests": requests } }],
        "nodeSelector": short.selector,
        "tolerations": short.tolerates.iter().map(|text| toleration(text)).collect::<Vec<_>>(),
    });
    if let Some(domain) = short.spread {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": topology(domain), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": labels },
        }]);
    }
    if let Some(domain) = short.apart {
        spec["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": topology(domain), "labelSelector": { "matchLabels": labels } },
        ] } });
    }
    if let Some(priority) = &short.priority {
        spec["priorityClassName"] = json!(priority);
    }
    let mut objects = vec![json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": short.name, "namespace": "default" },
        "spec": {
            "replicas": short.count, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels, "annotations": short.annotations }, "spec": spec },
        },
    })];
    if let Some(most) = &short.max_unavailable {
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": short.name, "namespace": "default" },
            "spec": { "maxUnavailable": most, "selector": { "matchLabels": labels } },
        }));
    }
    objects
}
