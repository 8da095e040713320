//! Permissions taken from the controller one by one: a feature is off, nothing else is, and it comes back without a restart.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::world::LaneWorld;

/// The role with the permissions of the controller.
pub(super) const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/karpenter-core";
/// A refusal shorter than a minute switches nothing off, a watch lasts a minute, and attempts are half a minute apart.
const LIMIT: Duration = Duration::from_secs(180);

/// Group, resource and feature of each optional kind. The role grants nothing on the last five: their feature is off from the
/// start, and comes with the permission.
const OPTIONAL: [(&str, &str, &str, bool); 13] = [
    ("autoscaling.x-k8s.io", "capacitybuffers", "capacity-buffers", true),
    ("karpenter.sh", "nodeoverlays", "node-overlays", true),
    ("", "replicationcontrollers", "default-topology-spread", true),
    ("apps", "replicasets", "default-topology-spread", true),
    ("apps", "statefulsets", "default-topology-spread", true),
    ("storage.k8s.io", "csinodes", "volume-limits", true),
    ("storage.k8s.io", "volumeattachments", "volume-detachment", true),
    ("storage.k8s.io", "storageclasses", "volume-provisioning", true),
    ("", "services", "default-topology-spread", false),
    ("resource.k8s.io", "deviceclasses", "dynamic-resources", false),
    ("resource.k8s.io", "resourceslices", "dynamic-resources", false),
    ("resource.k8s.io", "resourceclaimtemplates", "dynamic-resources", false),
    ("resource.k8s.io", "resourceclaims", "dynamic-resources", false),
];

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let role = cx.world.get(ROLE).await?.context("no ClusterRole karpenter-core")?;
    let result = optional(cx, &role).await;
    // The other cases need the role as it was.
    put(cx.world, &role["rules"]).await?;
    result
}

async fn optional(cx: &mut Cx<'_>, role: &Value) -> anyhow::Result<()> {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let spread = json!({"podTopologySpread": {"defaultConstraints": [constraint]}});
    cx.reconfigure(&[
        ("FEATURE_GATES", "NodeOverlay=true,CapacityBuffer=true"),
        ("IGNORE_DRA_REQUESTS", "false"),
        ("SCHEDULER_CONFIG", &spread.to_string()),
    ])
    .await?;
    cx.deploy(4, 1, "1").await?;
    cx.serving(1, Duration::from_secs(60)).await?;
    let all: Vec<(&str, &str, &str, bool)> = OPTIONAL.to_vec();
    off(cx, all.iter().filter(|row| !row.3).copied().collect()).await?;
    let mut full = role["rules"].as_array().cloned().context("a role without rules")?;
    for (group, resource, ..) in OPTIONAL {
        full.push(json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}));
    }
    put(cx.world, &json!(full)).await?;
    on(cx).await?;
    let none: Vec<Value> = full.into_iter().filter_map(without_optional).collect();
    put(cx.world, &json!(none)).await?;
    off(cx, all).await?;
    // All features at once: pods still get nodes.
    let namespace = cx.namespace();
    let scale = ["scale", "deployment/web", "--replicas=5", "-n", &namespace];
    cx.launches_as_foreseen(async |cx| cx.kubectl(&scale).await.map(drop)).await?;
    cx.serving(5, Duration::from_secs(90)).await?;
    put(cx.world, &role["rules"]).await
}

/// The rule without permission to read optional kinds.
fn without_optional(mut rule: Value) -> Option<Value> {
    let groups = rule["apiGroups"].clone();
    let optional = |resource: &Value| {
        OPTIONAL.iter().any(|(group, name, ..)| groups == json!([group]) && *resource == json!(name))
    };
    let resources = rule["resources"].as_array_mut()?;
    resources.retain(|resource| !optional(resource));
    (!resources.is_empty()).then_some(rule)
}

/// Replaces the rules of the role.
pub(super) async fn put(world: &LaneWorld, rules: &Value) -> anyhow::Result<()> {
    let mut role = world.get(ROLE).await?.context("no ClusterRole karpenter-core")?;
    role["rules"] = rules.clone();
    let written = world.rest.write("PUT", ROLE, &role).await?;
    written.map(drop).map_err(|status| anyhow::anyhow!("the role is refused: {}", status.message))
}

/// Waits until the features of these rows are off, and no others; the operator stays ready.
async fn off(
    cx: &mut Cx<'_>,
    rows: Vec<(&'static str, &'static str, &'static str, bool)>,
) -> anyhow::Result<()> {
    let process = cx.world.operator.id();
    cx.eventually(&format!("{} resources are refused, and reported", rows.len()), LIMIT, async |world| {
        let metrics = world.operator.metrics().await?;
        let shown = metrics.lines().filter(|line| line.starts_with("fleetwright_feature_off{")).count();
        for (group, name, feature, _) in &rows {
            let resource = if group.is_empty() { (*name).to_owned() } else { format!("{name}.{group}") };
            let series = format!(
                "fleetwright_feature_off{{feature=\"{feature}\",reason=\"Forbidden\",resource=\"{resource}\"}} 1"
            );
            anyhow::ensure!(metrics.contains(&series), "no {series}");
        }
        anyhow::ensure!(shown == rows.len(), "{shown} series, not {}", rows.len());
        Ok(())
    })
    .await?;
    let pool = format!("/apis/karpenter.sh/v1/nodepools/{}", cx.pool());
    let pool = cx.world.get(&pool).await?.context("no NodePool")?;
    let condition = crate::e2e::fleet::condition(&pool, "FeaturesAvailable").cloned().unwrap_or_default();
    cx.check(format!("the NodePool says so: {condition}"), condition["status"] == "False")?;
    cx.world.operator.wait_ready().await?;
    cx.equal("the operator did not restart", &cx.world.operator.id(), &process)
}

/// Waits until every feature is on.
async fn on(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.eventually("every feature is on again", LIMIT, async |world| {
        let metrics = world.operator.metrics().await?;
        let left = metrics.lines().find(|line| line.starts_with("fleetwright_feature_off{"));
        anyhow::ensure!(left.is_none(), "{left:?}");
        Ok(())
    })
    .await
}
