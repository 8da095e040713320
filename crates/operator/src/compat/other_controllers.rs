//! C7xx: other controllers that delete nodes, and the holder of the lease.

use fleetwright_api::labels;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    deployment::Running,
    finding::Finding,
    objects::{ClusterObjects, count, display, label, list, name, text},
};
use crate::settings::Values;

/// A controller that removes nodes on its own.
struct OtherController {
    /// A part of the names of its workload, its label `app.kubernetes.io/name` or its image.
    words: &'static [&'static str],
    title: &'static str,
    is_blocker: bool,
    does: &'static str,
    fix: &'static str,
}

/// The known ones. Tools that only evict pods or reboot nodes are not included.
const OTHER_CONTROLLERS: &[OtherController] = &[
    OtherController {
        words: &["cluster-autoscaler"],
        title: "Cluster Autoscaler",
        is_blocker: false,
        does: "launches nodes for the same pending pods, and deletes nodes of its groups",
        fix: "keep their nodes apart by taints, or scale it to zero; Fleetwright leaves nodes without a NodeClaim alone",
    },
    OtherController {
        words: &["aws-node-termination-handler", "node-termination-handler"],
        title: "AWS Node Termination Handler",
        is_blocker: false,
        does: "cordons and drains nodes on interruptions that INTERRUPTION_QUEUE handles as well",
        fix: "remove it where INTERRUPTION_QUEUE is set",
    },
    OtherController {
        words: &["spotinst", "ocean-controller", "spot-ocean"],
        title: "Spot Ocean",
        is_blocker: true,
        does: "replaces and deletes nodes by its own rules",
        fix: "take the cluster out of Spot Ocean first",
    },
    OtherController {
        words: &["castai-cluster-controller", "castai-evictor", "castai-spot-handler"],
        title: "Cast AI",
        is_blocker: true,
        does: "replaces and deletes nodes by its own rules",
        fix: "disconnect the cluster from Cast AI's automation first; castai-agent alone only reads",
    },
    OtherController {
        words: &["escalator", "draino", "node-reaper", "kube-janitor", "cluster-turndown"],
        title: "a tool that deletes nodes",
        is_blocker: false,
        does: "deletes nodes by its own rules",
        fix: "let it leave nodes with the label karpenter.sh/nodepool alone",
    },
];

/// Workloads that run controllers.
const WORKLOADS: [(&str, &str); 4] =
    [("apps", "Deployment"), ("apps", "DaemonSet"), ("apps", "StatefulSet"), ("batch", "CronJob")];

/// Other controllers.
pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let mut found = Vec::new();
    for workload in WORKLOADS.iter().flat_map(|(group, kind)| cluster.of(group, kind)) {
        if workload.pointer("/spec/replicas") == Some(&Value::from(0)) {
            continue;
        }
        let Some(other) = OTHER_CONTROLLERS.iter().find(|other| other.runs(workload)) else {
            continue;
        };
        let what = format!("{} {}", other.title, other.does);
        found.push(if other.is_blocker {
            Finding::blocker("C701", display(workload), what).fix(other.fix)
        } else {
            Finding::warning("C701", display(workload), what).fix(other.fix)
        });
    }
    found
}

impl OtherController {
    fn runs(&self, workload: &Value) -> bool {
        let pod =
            if workload["kind"] == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
        let mut texts = vec![name(workload), label(workload, "app.kubernetes.io/name")];
        let containers = list(workload, &format!("{pod}/spec/containers"));
        texts.extend(containers.map(|container| text(container, "/image")));
        self.words.iter().any(|word| texts.iter().any(|text| text.contains(word)))
    }
}

/// A lease of a leader election of Karpenter's API.
struct Lease<'a> {
    object: String,
    namespace: &'a str,
    holder: &'a str,
    /// When the lease expires.
    until: Option<Timestamp>,
}

/// Checks the leases: more than one holder means two acting controllers.
pub(super) fn leases(cluster: &ClusterObjects, running: &[Running<'_>], values: &Values) -> Vec<Finding> {
    let wanted = values.text("LEADER_ELECTION_NAME");
    let leases = cluster.of("coordination.k8s.io", "Lease").filter(|lease| {
        name(lease) == wanted
            || name(lease) == "karpenter-leader-election"
            || name(lease).contains("fleetwright")
    });
    let leases: Vec<Lease<'_>> = leases.map(Lease::of).collect();
    // The newest lease shows the age of a dump.
    let renewals = cluster.of("coordination.k8s.io", "Lease").filter_map(renewed);
    let now = if cluster.is_live { Some(cluster.now) } else { renewals.max() };
    let held: Vec<&Lease<'_>> =
        leases.iter().filter(|lease| lease.until.zip(now).is_some_and(|(until, now)| until > now)).collect();
    let mut found = Vec::new();
    if let [first, second, ..] = held.as_slice() {
        let what = format!(
            "is held by {} while {} is held by {}: two controllers act on the same NodePools",
            second.holder, first.object, first.holder
        );
        let fix = "stop one of the two; one installation has one lease (LEADER_ELECTION_NAME, LEADER_ELECTION_NAMESPACE)";
        found.push(Finding::blocker("C702", second.object.clone(), what).fix(fix));
    }
    for lease in &leases {
        let is_held = held.iter().any(|held| held.object == lease.object);
        let set = values.text("LEADER_ELECTION_NAMESPACE");
        let is_ours = running
            .iter()
            .any(|running| lease.namespace == if set.is_empty() { running.namespace() } else { set });
        if is_held && !running.is_empty() && !is_ours {
            let what = format!(
                "is held by {}, and no known Deployment has its lease in this namespace",
                lease.holder
            );
            let fix = "find that controller and stop it before the switch";
            found.push(Finding::warning("C703", lease.object.clone(), what).fix(fix));
        } else if !is_held {
            let what = match lease.until {
                Some(until) if !lease.holder.is_empty() => {
                    format!("of {} ended at {until}: nothing leads, or the input is old", lease.holder)
                }
                _ => "has no holder: nothing leads".to_owned(),
            };
            found.push(Finding::note("C704", lease.object.clone(), what));
        }
    }
    found
}

impl<'a> Lease<'a> {
    fn of(lease: &'a Value) -> Self {
        let holder = text(lease, "/spec/holderIdentity");
        let renewed = renewed(lease);
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(15);
        let until = renewed.and_then(|renewed| renewed.checked_add(SignedDuration::from_secs(seconds)).ok());
        let until = until.filter(|_| !holder.is_empty());
        Self { object: display(lease), namespace: text(lease, "/metadata/namespace"), holder, until }
    }
}

fn renewed(lease: &Value) -> Option<Timestamp> {
    text(lease, "/spec/renewTime").parse().ok()
}

/// Annotations of Fleetwright on objects, from an earlier run.
pub(super) fn traces(cluster: &ClusterObjects) -> Option<Finding> {
    let has_any = |object: &&Value| {
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        annotations
            .into_iter()
            .flatten()
            .any(|(key, _)| key.starts_with(labels::PREFIX) && !labels::SET_BY_USERS.contains(&key.as_str()))
    };
    let number = cluster.all().iter().filter(has_any).count();
    (number > 0).then(|| {
        let what = format!(
            "{} with annotations that Fleetwright wrote: it ran, or runs, in this cluster",
            count(number, "object")
        );
        Finding::note("C705", "cluster", what)
            .fix("`fleetwright compat clean` removes them once it no longer runs")
    })
}
