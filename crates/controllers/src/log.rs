//! Log messages about NodeClaims and nodes, with Karpenter's texts, fields and order of fields: log pipelines parse them.
//!
//! The logger of the binary nests a field whose first part is a kind (`NodeClaim.name` is `"NodeClaim":{"name":…}`), and writes the
//! text of a field `json:x` as the JSON value of `x`.

use fleetwright_core::{
    cloud::Instance,
    disruption::{Command, Decision},
    model::{Price, Resources, labels},
    scheduling::Plan,
};
use fleetwright_state::Key;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::Span;

/// Maximum number of names in a list.
const MAX_LISTED: usize = 5;

/// The span of a reconcile, with the fields of controller-runtime. `count` is the number of earlier reconciles of the controller.
#[must_use]
pub fn reconcile_span(controller: &'static str, key: &Key, count: u64, now: Timestamp) -> Span {
    let (namespace, name) = (&*key.namespace, &*key.name);
    let id = || reconcile_id(controller, key, count, now);
    macro_rules! about {
        ($group:literal, $kind:literal, $($field:tt)+) => {
            tracing::error_span!("reconcile", controller, controllerGroup = $group, controllerKind = $kind,
                $($field)+ = name, namespace, name, reconcileID = id())
        };
    }
    match controller.split('.').next().unwrap_or_default() {
        _ if name.is_empty() => {
            tracing::error_span!("reconcile", controller, namespace, name, reconcileID = id())
        }
        "nodeclaim" => about!("karpenter.sh", "NodeClaim", NodeClaim.name),
        "nodepool" | "static" => about!("karpenter.sh", "NodePool", NodePool.name),
        "node" => about!("", "Node", Node.name),
        _ => tracing::error_span!("reconcile", controller, namespace, name, reconcileID = id()),
    }
}

/// An id in the form of a UUID, different for each reconcile.
fn reconcile_id(controller: &str, key: &Key, count: u64, now: Timestamp) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, controller, key, count, now.as_nanosecond()).hash(&mut hasher);
        hasher.finish()
    };
    let (high, low) = (half(0), half(1));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        ((low >> 48) & 0x3fff) | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// Logs the pods for which a plan creates NodeClaims.
pub fn found_pods(pods: impl Iterator<Item = String>, took: std::time::Duration) {
    tracing::info!(
        Pods = %first_of(pods),
        duration = ?took,
        "found provisionable pod(s)"
    );
}

/// Logs a plan that places pods on new NodeClaims or on nodes that are not ready yet.
pub fn computed(plan: &Plan) {
    let pods: usize = plan.new_claims.iter().map(|new_claim| new_claim.pods.len()).sum();
    computed_new(plan.new_claims.len(), pods);
    let unready = plan.existing.iter().filter(|placement| !placement.node.is_initialized());
    let add = |(nodes, pods): (usize, usize), more: usize| (nodes + 1, pods + more);
    let (nodes, pods) = unready.map(|placement| placement.pods.len()).fold((0, 0), add);
    computed_unready(nodes, pods);
}

/// Logs pods that are placed on new NodeClaims.
pub fn computed_new(nodeclaims: usize, pods: usize) {
    if nodeclaims > 0 {
        tracing::info!(nodeclaims, pods, "computed new nodeclaim(s) to fit pod(s)");
    }
}

/// Logs pods that are placed on nodes that are not ready yet.
pub fn computed_unready(nodes: usize, pods: usize) {
    if nodes > 0 {
        tracing::info!(nodes, pods, "computed unready node(s) will fit pod(s)");
    }
}

/// Logs a pod that a plan has no node for, once per plan as Karpenter does.
pub fn could_not_schedule(namespace: &str, name: &str, why: &str) {
    tracing::error!(Pod.name = name, Pod.namespace = namespace, error = why, "could not schedule pod");
}

/// Logs that a NodeClaim was created, for an instance of one of `types`.
pub fn created_nodeclaim(name: &str, pool: &str, requests: &Resources, types: impl Iterator<Item = String>) {
    tracing::info!(
        NodePool.name = pool,
        NodeClaim.name = name,
        "json:requests" = %quantities(requests),
        "instance-types" = %first_of(types),
        "created nodeclaim"
    );
}

/// Logs that the instance of a NodeClaim exists.
pub fn launched_nodeclaim(name: &str, instance: &Instance) {
    let label = |key: &str| instance.labels.get(key).map_or("", |value| &**value);
    tracing::info!(
        NodeClaim.name = name,
        "provider-id" = %instance.provider_id,
        "instance-type" = label(labels::INSTANCE_TYPE),
        zone = label(labels::ZONE),
        "capacity-type" = label(labels::CAPACITY_TYPE),
        "json:allocatable" = %quantities(&instance.allocatable),
        "launched nodeclaim"
    );
}

/// Logs that the node of a NodeClaim registered.
pub fn registered_nodeclaim(name: &str, provider_id: &str, node: &str) {
    tracing::info!(
        NodeClaim.name = name,
        "provider-id" = provider_id,
        Node.name = node,
        "registered nodeclaim"
    );
}

/// Logs that the node of a NodeClaim is initialized.
pub fn initialized_nodeclaim(name: &str, provider_id: &str, node: &str, allocatable: &Resources) {
    tracing::info!(
        NodeClaim.name = name,
        "provider-id" = provider_id,
        Node.name = node,
        "json:allocatable" = %quantities(allocatable),
        "initialized nodeclaim"
    );
}

/// A disruption command that starts.
#[derive(Clone, Debug)]
pub struct Disrupting<'a> {
    /// The id of the command.
    pub id: &'a str,
    /// Karpenter's reason.
    pub reason: &'a str,
    /// The names of the NodePools.
    pub pools: Vec<&'a str>,
    /// What it saves per hour.
    pub savings: Price,
    /// `delete` or `replace`.
    pub decision: &'a str,
    /// Number of pods to reschedule.
    pub pods: usize,
    /// Node, NodeClaim, capacity type and instance type of each node.
    pub nodes: Vec<[&'a str; 4]>,
    /// Capacity type and instance types of each replacement.
    pub replacements: Vec<(&'a str, Vec<String>)>,
}

impl<'a> Disrupting<'a> {
    /// The command `id`.
    #[must_use]
    pub fn of(command: &'a Command, id: &'a str) -> Self {
        let mut pools: Vec<&str> = Vec::new();
        for name in command.candidates.iter().map(|candidate| candidate.pool.name.as_str()) {
            if !pools.contains(&name) {
                pools.push(name);
            }
        }
        let nodes_removed = command.candidates.iter().map(|candidate| {
            let claim = candidate.node.claim_name().map_or("", |name| name.as_str());
            let capacity_type = candidate.node.label(labels::CAPACITY_TYPE).unwrap_or_default();
            let instance_type = candidate.instance_type.as_ref().map_or("", |type_| &*type_.name);
            [candidate.name(), claim, capacity_type, instance_type]
        });
        let nodes_created = command.replacements.iter().map(|new_claim| {
            let names = new_claim.instance_types.iter().map(|type_| type_.name.to_string());
            (&*new_claim.chosen.capacity_type, names.collect())
        });
        let decision = if command.replacements.is_empty() { Decision::Delete } else { Decision::Replace };
        Self {
            id,
            reason: command.method.reason.as_str(),
            pools,
            savings: command.savings(),
            decision: decision.as_str(),
            pods: command.candidates.iter().map(|candidate| candidate.pods.len()).sum(),
            nodes: nodes_removed.collect(),
            replacements: nodes_created.collect(),
        }
    }

    /// The command in one line, as Karpenter writes it.
    fn text(&self) -> String {
        let Self { id, reason, pools, savings, decision, nodes, replacements, .. } = self;
        let names: Vec<&str> = nodes.iter().map(|[node, ..]| *node).collect();
        let new = match replacements.len() {
            0 => String::new(),
            1 => " -> [1 replacement]".to_owned(),
            several => format!(" -> [{several} replacements]"),
        };
        let (pools, names) = (pools.join(","), names.join(", "));
        format!("{reason}/{id}: {decision}: nodepools=[{pools}]: [{names}]{new} (savings: ${savings:.2})")
    }

    /// Logs the command.
    pub fn log(&self) {
        // Fields of JSON objects are in alphabetical order, as Karpenter's are.
        let nodes = self.nodes.iter().map(|[node, claim, capacity_type, instance_type]| {
            json!({"Node": {"name": node}, "NodeClaim": {"name": claim},
                "capacity-type": capacity_type, "instance-type": instance_type})
        });
        let replacements = self.replacements.iter().map(|(capacity_type, types)| {
            json!({"capacity-type": capacity_type, "instance-types": first_of(types.iter().cloned())})
        });
        let (disrupted, nodes_created) = (Value::from_iter(nodes), Value::from_iter(replacements));
        tracing::info!(
            command = self.text(),
            decision = self.decision,
            "disrupted-node-count" = self.nodes.len(),
            "replacement-node-count" = self.replacements.len(),
            "pod-count" = self.pods,
            "json:disrupted-nodes" = %disrupted,
            "json:replacement-nodes" = %nodes_created,
            "disrupting node(s)"
        );
    }
}

/// Logs that a node was tainted.
pub fn tainted_node(node: &str, claim: &str, key: &str, value: &str, effect: &str) {
    tracing::info!(
        Node.name = node,
        NodeClaim.name = claim,
        taint.Key = key,
        taint.Value = value,
        taint.Effect = effect,
        "tainted node"
    );
}

/// Logs that a NodeClaim was annotated with the time at which its termination is forced.
pub fn annotated_nodeclaim(name: &str, until: &str) {
    tracing::info!(
        NodeClaim.name = name,
        "karpenter.sh/nodeclaim-termination-timestamp" = until,
        "annotated nodeclaim"
    );
}

/// Logs that a NodeClaim is deleted because of an interruption.
pub fn interrupted_nodeclaim(name: &str, kind: &str) {
    tracing::info!(
        messageKind = kind,
        NodeClaim.name = name,
        action = "CordonAndDrain",
        "initiating delete from interruption message"
    );
}

/// Logs that a Node was deleted, that of a NodeClaim if it has one.
pub fn deleted_node(name: &str, claim: Option<&str>) {
    tracing::info!(Node.name = name, NodeClaim.name = claim, "deleted node");
}

/// Logs that a NodeClaim was deleted.
pub fn deleted_nodeclaim(name: &str, provider_id: &str, node: &str) {
    tracing::info!(NodeClaim.name = name, "provider-id" = provider_id, Node.name = node, "deleted nodeclaim");
}

/// Resources as a JSON object.
fn quantities(resources: &Resources) -> Value {
    let written = resources
        .iter()
        .map(|(name, amount)| (name.as_str().to_owned(), Value::String(name.quantity(amount).to_string())));
    Value::Object(written.collect::<Map<String, Value>>())
}

/// The first five names, and the number of the others.
fn first_of(names: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = names.collect();
    let others = all.len().saturating_sub(MAX_LISTED);
    all.truncate(MAX_LISTED);
    let listed = all.join(", ");
    if others == 0 { listed } else { format!("{listed} and {others} other(s)") }
}
