//! The constraints that a feature gives a workload.

use serde_json::{Value, json};

use super::super::super::catalogue::ZONES;
use super::super::super::dice::Dice;
use super::super::super::feature::Feature;
use super::super::pools::TAINT;
use super::super::volumes::Source;
use super::{PRIORITIES, Workload};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Gives `workload` what `feature` is about. `apps` are workloads that it may refer to.
pub(super) fn add(dice: &mut Dice, feature: Feature, workload: &mut Workload, apps: &[String]) {
    match feature {
        Feature::ZoneSpread => zone_spread(dice, workload),
        Feature::HostSpread => {
            let spread = spread(workload, dice.between(1, 3), HOSTNAME);
            add_spread(workload, spread);
        }
        Feature::SpreadPolicies => spread_policies(dice, workload),
        Feature::Affinity => affinity(dice, workload, apps),
        Feature::AntiAffinity => anti_affinity(dice, workload, apps),
        Feature::Preferences => preferences(dice, workload, apps),
        Feature::Taints => taints(dice, workload),
        Feature::NodeSelectors => node_selectors(dice, workload),
        Feature::Volumes => {
            workload.replicas = workload.replicas.min(6);
            workload.volumes =
                Some(dice.pick([Source::Zonal, Source::Zonal, Source::Late, Source::LateInTwoZones]));
        }
        Feature::HostPorts => host_port(dice, workload),
        Feature::Priorities => {
            let (name, value) = dice.pick(PRIORITIES);
            workload.spec.insert("priorityClassName".to_owned(), json!(name));
            workload.spec.insert("priority".to_owned(), json!(value));
            workload.spec.insert("preemptionPolicy".to_owned(), json!("Never"));
        }
        Feature::Rollouts => rollout(dice, workload),
        Feature::DaemonSets | Feature::HalfFullNodes | Feature::Pools => {}
    }
}

fn spread(workload: &Workload, max_skew: u64, key: &str) -> Value {
    json!({"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": workload.selector()})
}

/// Adds a spread; the API server refuses two of one key and one `whenUnsatisfiable`.
fn add_spread(workload: &mut Workload, spread: Value) {
    let list = workload.list(&["topologySpreadConstraints"]);
    let is_equal = |other: &Value| {
        other["topologyKey"] == spread["topologyKey"]
            && other["whenUnsatisfiable"] == spread["whenUnsatisfiable"]
    };
    if !list.iter().any(is_equal) {
        list.push(spread);
    }
}

fn zone_spread(dice: &mut Dice, workload: &mut Workload) {
    let mut spread = spread(workload, dice.between(1, 2), ZONE);
    if dice.chance(30) {
        spread["minDomains"] = json!(dice.between(2, 3));
    }
    add_spread(workload, spread);
}

fn spread_policies(dice: &mut Dice, workload: &mut Workload) {
    let key = dice.pick([ZONE, ZONE, HOSTNAME, CAPACITY_TYPE]);
    let mut spread = spread(workload, dice.between(1, 2), key);
    spread["nodeAffinityPolicy"] = json!(dice.pick(["Honor", "Ignore"]));
    spread["nodeTaintsPolicy"] = json!(dice.pick(["Honor", "Ignore"]));
    if dice.chance(25) {
        spread["whenUnsatisfiable"] = json!("ScheduleAnyway");
    }
    add_spread(workload, spread);
}

fn term(selector: Value, key: &str) -> Value {
    json!({"labelSelector": selector, "topologyKey": key})
}

fn other(dice: &mut Dice, workload: &Workload, apps: &[String]) -> Option<Value> {
    let others: Vec<&String> = apps.iter().filter(|app| **app != workload.app).collect();
    dice.one(&others).map(|app| json!({"matchLabels": {"app": app}}))
}

fn has(workload: &Workload, kind: &str) -> bool {
    workload.spec.get("affinity").is_some_and(|affinity| !affinity[kind][REQUIRED].is_null())
}

fn affinity(dice: &mut Dice, workload: &mut Workload, apps: &[String]) {
    if has(workload, "podAntiAffinity") {
        return;
    }
    let key = dice.pick([ZONE, ZONE, HOSTNAME]);
    let selector = match other(dice, workload, apps) {
        Some(other) if dice.chance(40) => other,
        _ => workload.selector(),
    };
    if key == HOSTNAME {
        workload.replicas = workload.replicas.min(4);
    }
    workload.list(&["affinity", "podAffinity", REQUIRED]).push(term(selector, key));
}

fn anti_affinity(dice: &mut Dice, workload: &mut Workload, apps: &[String]) {
    if has(workload, "podAffinity") {
        return;
    }
    let other = other(dice, workload, apps);
    let (selector, key) = match (dice.between(0, 3), other) {
        (0, _) => {
            workload.replicas = workload.replicas.min(3);
            (workload.selector(), ZONE)
        }
        (1, Some(other)) => (other, HOSTNAME),
        _ => {
            workload.replicas = workload.replicas.min(10);
            (workload.selector(), HOSTNAME)
        }
    };
    workload.list(&["affinity", "podAntiAffinity", REQUIRED]).push(term(selector, key));
}

fn preferences(dice: &mut Dice, workload: &mut Workload, apps: &[String]) {
    let weight = dice.between(1, 100);
    let own = workload.selector();
    let other = other(dice, workload, apps).unwrap_or_else(|| own.clone());
    let zone = dice.pick(ZONES);
    match dice.between(0, 2) {
        0 => workload
            .list(&["affinity", "podAntiAffinity", PREFERRED])
            .push(json!({"weight": weight, "podAffinityTerm": term(own, HOSTNAME)})),
        1 => workload
            .list(&["affinity", "podAffinity", PREFERRED])
            .push(json!({"weight": weight, "podAffinityTerm": term(other, ZONE)})),
        _ => workload.list(&["affinity", "nodeAffinity", PREFERRED]).push(json!({
            "weight": weight,
            "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
        })),
    }
}

fn taints(dice: &mut Dice, workload: &mut Workload) {
    let (key, value) = TAINT;
    workload.list(&["tolerations"]).push(json!({"key": key, "value": value, "effect": "NoSchedule"}));
    if dice.chance(40) {
        workload.spec.insert("nodeSelector".to_owned(), json!({"karpenter.sh/nodepool": "batch"}));
    }
}

fn node_selectors(dice: &mut Dice, workload: &mut Workload) {
    let zone = dice.pick(ZONES);
    let another = dice.pick(ZONES);
    let terms = match dice.between(0, 4) {
        0 => json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]),
        1 => json!([{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": [zone]}]}]),
        2 => json!([
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [another]}]},
        ]),
        3 => {
            json!([{"matchExpressions": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]}])
        }
        _ => json!([{"matchExpressions": [
            {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["c5.xlarge", "m5.xlarge"]},
        ]}]),
    };
    *workload.list(&["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]) =
        terms.as_array().cloned().unwrap_or_default();
}

fn host_port(dice: &mut Dice, workload: &mut Workload) {
    workload.replicas = workload.replicas.min(8);
    let mut port = json!({
        "containerPort": 8080,
        "hostPort": dice.pick([8080, 8080, 8081]),
        "protocol": dice.pick(["TCP", "TCP", "UDP"]),
    });
    if dice.chance(25) {
        port["hostIP"] = json!("127.0.0.1");
    }
    workload.host_port = Some(port);
}

fn rollout(dice: &mut Dice, workload: &mut Workload) {
    workload.running = dice.between(1, 6);
    workload.terminating = dice.between(0, workload.running);
    if dice.chance(60) {
        for spread in workload.list(&["topologySpreadConstraints"]) {
            spread["matchLabelKeys"] = json!(["pod-template-hash"]);
        }
    }
}
