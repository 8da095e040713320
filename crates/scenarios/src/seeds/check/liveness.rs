//! L1: after the faults, a pod soon gets a node or an event with the reason. L3: each instance is soon a node or terminated.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetwright_core::model::ProviderId;
use jiff::Timestamp;
use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// The maximum time from the call to the node of an instance in the fake cloud: the call, the launch, the boot, and the delay of the node
/// class.
const BOOT: Duration = Duration::from_secs(2 + 12 + 60 + 45);
/// The additional time for a pod, and the time that it may be without an explanation. A NodeClaim may fail: its instance is lost, or
/// other pods take its capacity. Operators reconcile every ten seconds and need a pass for a new one; schedulers see a new node shortly
/// after.
const EXPLAINED: Duration = Duration::from_secs(60);
/// The maximum age of an event: it is repeated after five minutes, by the next pass.
const EVENT_AGE_MAX: Duration = Duration::from_secs(6 * 60);
/// The maximum time until an instance is a node.
const JOINED: Duration = Duration::from_secs(20 * 60);
/// The additional time with wrong clocks: an instance that was launched then may wait for a time that is wrong by this much.
const SKEW: Duration = Duration::from_secs(10 * 60);
/// The conditions of a claim, in order.
const PROGRESS: [&str; 3] = ["Launched", "Registered", "Initialized"];

/// A pod without a node.
#[derive(Clone, Copy)]
struct WaitingPod {
    /// Since when, at the earliest since the end of the faults.
    since: Duration,
    /// Until when it was explained.
    explained_until: Duration,
    /// Whether it was explained at the last step.
    explained: bool,
}

/// L1 and L3.
#[derive(Default)]
pub(super) struct Liveness {
    pods: BTreeMap<String, WaitingPod>,
    /// Since when instances have not been nodes, likewise.
    instances: BTreeMap<ProviderId, Duration>,
}

impl Check for Liveness {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        if !observation.interventions.calm {
            return;
        }
        self.pods(observation, found);
        self.instances(observation, found);
    }
}

impl Liveness {
    fn pods(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut waiting = BTreeMap::new();
        let reasons = OnceCell::new();
        for pod in observation.pods.iter().filter(|pod| waits(pod)) {
            let uid = pod.uid.as_str();
            let fresh =
                WaitingPod { since: observation.at, explained_until: observation.at, explained: false };
            let mut wait = self.pods.get(uid).copied().unwrap_or(fresh);
            let answered = wait.since.saturating_add(BOOT);
            let explained = observation.at > answered && {
                let reasons = reasons.get_or_init(|| Reasons::of(observation));
                reasons.explain(uid)
            };
            // Without changes there are no checks: the last explanation was valid until now.
            if explained || wait.explained {
                wait.explained_until = observation.at;
            }
            wait.explained = explained;
            if observation.at.saturating_sub(wait.explained_until.max(answered)) > EXPLAINED {
                let what = format!("pod {} waits for a node without an explanation", name(pod));
                found.add("L1", what, [&***pod]);
            }
            waiting.insert(uid.to_owned(), wait);
        }
        self.pods = waiting;
    }

    fn instances(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let joined: BTreeSet<&str> =
            observation.nodes.iter().map(|node| text(node, "/spec/providerID")).collect();
        let within = if observation.interventions.skewed { JOINED.saturating_add(SKEW) } else { JOINED };
        let mut apart = BTreeMap::new();
        for instance in observation.instances.iter().filter(|instance| !instance.terminating) {
            let id = &instance.provider_id;
            if observation.interventions.foreign.contains(id) || joined.contains(id.as_str()) {
                continue;
            }
            let since = self.instances.get(id).copied().unwrap_or(observation.at);
            if observation.at.saturating_sub(since) > within {
                found.add("L3", format!("instance {id} is not a node and not terminated"), []);
            }
            apart.insert(id.clone(), since);
        }
        self.instances = apart;
    }
}

/// Whether a pod needs a node, other than a DaemonSet pod.
fn waits(pod: &PodView) -> bool {
    pod.node.is_empty() && !pod.is_deleting && !pod.is_daemon
}

/// What may explain that pods wait, found once for all of them: there are as many events as pods.
struct Reasons<'a> {
    claims: BTreeMap<&'a str, &'a Arc<Value>>,
    /// By the UID of a pod: the NodeClaims that were created for it.
    created_for: BTreeMap<&'a str, Vec<&'a Arc<Value>>>,
    /// By the UID of a pod: its recent events of operators.
    events: BTreeMap<String, Vec<Arc<Value>>>,
}

impl<'a> Reasons<'a> {
    fn of(observation: &'a Observation<'_>) -> Self {
        let mut created_for: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
        for claim in &observation.claims {
            let pods = annotation(claim, "fleetwright.dev/nominated-pods").split(',');
            for (_, uid) in pods.filter_map(|pod| pod.rsplit_once(':')) {
                created_for.entry(uid).or_default().push(claim);
            }
        }
        let mut events: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
        for event in observation.events() {
            if is_current(&event, observation.now, observation.interventions.skewed) {
                let uid = text(&event, "/involvedObject/uid").to_owned();
                events.entry(uid).or_default().push(event);
            }
        }
        Self { claims: observation.claims_by_name(), created_for, events }
    }

    fn events(&self, uid: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.events.get(uid).into_iter().flatten()
    }

    /// Whether the missing node of a pod is explained: by a warning about it, or by a NodeClaim in flight that is for it or nominated for
    /// it.
    fn explain(&self, uid: &str) -> bool {
        let mut created = self.created_for.get(uid).into_iter().flatten();
        created.any(|claim| has_reason(claim))
            || self.events(uid).any(|event| {
                let claim = nominated_claim(&self.claims, text(event, "/message"));
                text(event, "/type") == "Warning" || claim.is_some_and(has_reason)
            })
    }
}

/// The NodeClaim that a nomination names.
fn nominated_claim<'a>(claims: &BTreeMap<&str, &'a Arc<Value>>, message: &str) -> Option<&'a Value> {
    let (_, rest) = message.split_once("nodeclaim/")?;
    let wanted = rest.split([',', ' ']).next()?;
    claims.get(wanted).map(|claim| &***claim)
}

/// Whether an event is recent and of an operator. With wrong clocks its age is unknown.
fn is_current(event: &Value, now: Timestamp, skewed: bool) -> bool {
    let last = text(event, "/lastTimestamp").parse::<Timestamp>();
    let fresh = last.is_ok_and(|last| now.duration_since(last).unsigned_abs() <= EVENT_AGE_MAX);
    text(event, "/source/component") == "karpenter" && (fresh || skewed)
}

/// Whether a NodeClaim in flight has a condition with a reason.
fn has_reason(claim: &Value) -> bool {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let waits_for = PROGRESS.into_iter().find(|name| !is(claim, name));
    let condition = waits_for.and_then(|name| all.and_then(|all| all.iter().find(|one| one["type"] == name)));
    condition.is_some_and(|condition| {
        !text(condition, "/message").is_empty() && text(condition, "/reason") != "AwaitingReconciliation"
    })
}

#[cfg(test)]
mod tests {
    //! Which events and conditions count.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::says_why(json!([{"type": "Launched", "status": "Unknown", "message": "no capacity"}]), true)]
    #[case::says_nothing(json!([{"type": "Launched", "status": "Unknown", "message": ""}]), false)]
    #[case::says_as_good_as_nothing(
        json!([{"type": "Launched", "status": "Unknown", "reason": "AwaitingReconciliation", "message": "a"}]),
        false
    )]
    #[case::is_there(there(), false)]
    #[case::nothing_yet(json!([]), false)]
    fn a_claim_that_is_no_node_has_to_say_why(#[case] conditions: Value, #[case] expected: bool) {
        assert_eq!(has_reason(&json!({"status": {"conditions": conditions}})), expected);
    }

    fn there() -> Value {
        PROGRESS
            .into_iter()
            .map(|kind| json!({"type": kind, "status": "True", "message": "is there"}))
            .collect()
    }

    #[rstest]
    #[case::lately(360, false, true)]
    #[case::long_ago(361, false, false)]
    #[case::an_unknown_age(900, true, true)]
    fn an_event_stands_for_a_while(#[case] now: i64, #[case] skewed: bool, #[case] expected: bool) {
        let event = json!({"lastTimestamp": "1970-01-01T00:00:00Z", "source": {"component": "karpenter"}});
        assert_eq!(is_current(&event, Timestamp::from_second(now).unwrap(), skewed), expected);
    }

    #[rstest]
    #[case::alone("Pod should schedule on: nodeclaim/a", true)]
    #[case::with_its_node("Pod should schedule on: nodeclaim/a, node/x", true)]
    #[case::of_another("Pod should schedule on: nodeclaim/b", false)]
    fn a_nomination_names_a_nodeclaim(#[case] message: &str, #[case] expected: bool) {
        let claim = Arc::new(json!({"metadata": {"name": "a"}}));
        assert_eq!(nominated_claim(&BTreeMap::from([("a", &claim)]), message).is_some(), expected);
    }
}
