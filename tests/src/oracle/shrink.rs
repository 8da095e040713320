//! Shrinks a cluster on which planner and kube-scheduler disagree: parts are left out as long as they still disagree.

use std::collections::BTreeSet;

use serde_json::Value;

use super::generator::Cluster;
use super::judge::Judge;
use super::plant::Plant;

/// Clusters that are judged on the way.
const TRIES_MAX: usize = 60;

/// Fields of pods that may go.
const FIELDS: [&str; 6] =
    ["tolerations", "topologySpreadConstraints", "affinity", "nodeSelector", "priorityClassName", "volumes"];

/// The smallest cluster found that still shows a disagreement.
pub(super) async fn shrink(
    judge: &mut Judge,
    cluster: &Cluster,
    plant: Option<Plant>,
) -> anyhow::Result<Cluster> {
    let mut best = Cluster { name: format!("{}-small", cluster.name), ..cluster.clone() };
    let mut tries = 0;
    let mut coarse = true;
    loop {
        let before = best.objects.len();
        for unit in units(&best.objects, coarse) {
            if tries == TRIES_MAX {
                return Ok(best);
            }
            let smaller = without(&best, &unit);
            if smaller.objects.len() == best.objects.len() {
                continue;
            }
            tries += 1;
            if still_disagrees(judge, &smaller, plant).await {
                best = smaller;
            }
        }
        if best.objects.len() == before && !coarse {
            break;
        }
        coarse = false;
    }
    for field in FIELDS {
        let mut plainer = best.clone();
        plainer.objects.iter_mut().for_each(|object| drop_field(object, field));
        if plainer.objects != best.objects && still_disagrees(judge, &plainer, plant).await {
            best = plainer;
        }
    }
    Ok(best)
}

/// A cluster that cannot be judged is no smaller example of this disagreement.
async fn still_disagrees(judge: &mut Judge, cluster: &Cluster, plant: Option<Plant>) -> bool {
    judge.judge(cluster, plant).await.is_ok_and(|verdict| !verdict.is_good())
}

/// What may be left out together, as keys of objects: whole workloads and nodes first, then halves and single pods.
fn units(objects: &[Value], coarse: bool) -> Vec<BTreeSet<String>> {
    let mut units = Vec::new();
    if coarse {
        let apps: BTreeSet<String> = objects.iter().filter_map(app).collect();
        units.extend(apps.iter().map(|app| keys(objects, |object| belongs_to(object, app))));
        let nodes = objects.iter().filter(|object| object["kind"] == "Node").filter_map(name);
        units.extend(nodes.map(|node| keys(objects, |object| is_on(object, node))));
        let others = ["DaemonSet", "NodePool", "PriorityClass", "StorageClass"];
        let single = objects.iter().filter(|object| others.iter().any(|kind| object["kind"] == **kind));
        units.extend(single.map(|object| BTreeSet::from([key(object)])));
        return units;
    }
    let pods: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Pod").collect();
    for parts in [2, 4, 8, pods.len()] {
        let size = pods.len().div_ceil(parts.max(1)).max(1);
        for part in pods.chunks(size) {
            let names: BTreeSet<&str> = part.iter().filter_map(|pod| name(pod)).collect();
            units.push(keys(objects, |object| names.iter().any(|pod| is_of_pod(object, pod))));
        }
    }
    units
}

fn keys(objects: &[Value], is_meant: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    objects.iter().filter(|object| is_meant(object)).map(key).collect()
}

fn key(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap_or_default(), name(object).unwrap_or_default())
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

fn app(object: &Value) -> Option<String> {
    object["metadata"]["labels"]["app"].as_str().filter(|_| object["kind"] == "Pod").map(str::to_owned)
}

/// A pod of the workload, or a claim or volume of one.
fn belongs_to(object: &Value, app: &str) -> bool {
    self::app(object).is_some_and(|its| its == app)
        || (is_of_volumes(object) && name(object).is_some_and(|name| name.starts_with(&format!("{app}-"))))
}

fn is_of_volumes(object: &Value) -> bool {
    object["kind"] == "PersistentVolumeClaim" || object["kind"] == "PersistentVolume"
}

fn is_of_pod(object: &Value, pod: &str) -> bool {
    match name(object) {
        Some(name) if object["kind"] == "Pod" => name == pod,
        Some(name) => is_of_volumes(object) && name == format!("{pod}-data"),
        None => false,
    }
}

/// The node, its claim, and its pods.
fn is_on(object: &Value, node: &str) -> bool {
    let is_node = object["kind"] == "Node" || object["kind"] == "NodeClaim";
    (is_node && name(object) == Some(node)) || object["spec"]["nodeName"] == node
}

fn without(cluster: &Cluster, unit: &BTreeSet<String>) -> Cluster {
    let mut smaller = cluster.clone();
    smaller.objects.retain(|object| !unit.contains(&key(object)));
    smaller
}

fn drop_field(object: &mut Value, field: &str) {
    if object["kind"] != "Pod" {
        return;
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove(field);
        if field == "priorityClassName" {
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator::cluster;
    use super::*;

    #[test]
    fn every_pod_and_node_may_be_left_out() {
        let cluster =
            (0..).map(cluster).find(|cluster| cluster.objects.iter().any(|o| o["kind"] == "Node")).unwrap();
        for coarse in [true, false] {
            let all: BTreeSet<String> = units(&cluster.objects, coarse).into_iter().flatten().collect();
            for object in &cluster.objects {
                let is_expected = object["kind"] == "Pod" || (coarse && object["kind"] == "Node");
                assert!(!is_expected || all.contains(&key(object)), "{}", key(object));
            }
        }
    }

    #[test]
    fn claims_and_volumes_go_with_their_pods() {
        let has_volumes = |cluster: &Cluster| cluster.objects.iter().any(|o| o["kind"] == "PersistentVolume");
        let cluster = (0..).map(cluster).find(has_volumes).unwrap();
        let mut left = cluster;
        for unit in units(&left.objects, false) {
            left = without(&left, &unit);
        }
        assert!(!left.objects.iter().any(|object| is_of_volumes(object) || object["kind"] == "Pod"));
    }
}
