//! L1: once the trouble is over, a pod gets a node soon, or is told why not. L3: each instance is a node soon, or ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// The longest that an instance of the fake cloud takes from the call to its node: the call, the launch, the boot, and what
/// the node class adds to an instance that was launched while the trouble lasted.
const BOOT: Duration = Duration::from_secs(2 + 12 + 60 + 45);
/// How much longer a pod may wait, and for how long nobody may say why it does. What a pod waits for may come to nothing: its
/// instance is lost, or others take the room. Operators look every ten seconds, and need a pass to answer it again; schedulers
/// see a new node a moment later.
const ANSWERED: Duration = Duration::from_secs(60);
/// How old an event may be: the same one is told again after five minutes at the latest, by the pass that comes then.
const TOLD: Duration = Duration::from_secs(6 * 60);
/// How long an instance may be no node.
const JOINED: Duration = Duration::from_secs(20 * 60);
/// How much longer where a clock was wrong: an instance that was launched then may wait for a moment that is as far off.
const SKEW: Duration = Duration::from_secs(10 * 60);
/// How far a claim is, in order.
const WAY: [&str; 3] = ["Launched", "Registered", "Initialized"];

/// A pod without a node.
#[derive(Clone, Copy)]
struct Waits {
    /// Since when, the end of the trouble at the earliest.
    since: Duration,
    /// Until when it was told why.
    heard: Duration,
    /// Whether it still was at the last look.
    told: bool,
}

/// L1 and L3.
#[derive(Default)]
pub(super) struct Soon {
    pods: BTreeMap<String, Waits>,
    /// Since when instances are no nodes, likewise.
    instances: BTreeMap<String, Duration>,
}

impl Check for Soon {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        if !look.ledger.calm {
            return;
        }
        self.pods(look, found);
        self.instances(look, found);
    }
}

impl Soon {
    fn pods(&mut self, look: &Look<'_>, found: &mut Findings) {
        let mut waiting = BTreeMap::new();
        for pod in look.pods.iter().filter(|pod| waits(pod)) {
            let uid = text(pod, "/metadata/uid");
            let fresh = Waits { since: look.at, heard: look.at, told: false };
            let mut wait = self.pods.get(uid).copied().unwrap_or(fresh);
            let answered = wait.since.saturating_add(BOOT);
            let told = look.at > answered && (is_told(look, uid) || is_kept_off(look, pod));
            // Where nothing changes nobody looks: what was said last stood until now.
            if told || wait.told {
                wait.heard = look.at;
            }
            wait.told = told;
            if look.at.saturating_sub(wait.heard.max(answered)) > ANSWERED {
                let what = format!("pod {} waits for a node, and nobody says why", name(pod));
                found.add("L1", what, [&**pod]);
            }
            waiting.insert(uid.to_owned(), wait);
        }
        self.pods = waiting;
    }

    fn instances(&mut self, look: &Look<'_>, found: &mut Findings) {
        let joined: BTreeSet<&str> = look.nodes.iter().map(|node| text(node, "/spec/providerID")).collect();
        let within = if look.ledger.skewed { JOINED.saturating_add(SKEW) } else { JOINED };
        let mut apart = BTreeMap::new();
        let ours = look.instances.iter().filter(|instance| !look.ledger.foreign.contains(&instance.id));
        for instance in ours.filter(|instance| lives(instance) && !joined.contains(instance.id.as_str())) {
            let since = self.instances.get(&instance.id).copied().unwrap_or(look.at);
            if look.at.saturating_sub(since) > within {
                found.add("L3", format!("instance {} is no node, and is not ended", instance.id), []);
            }
            apart.insert(instance.id.clone(), since);
        }
        self.instances = apart;
    }
}

/// Whether a pod needs a node that somebody else than its DaemonSet chooses.
fn waits(pod: &Value) -> bool {
    let owners = field(pod, "/metadata/ownerReferences").and_then(Value::as_array);
    let daemon = owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet");
    text(pod, "/spec/nodeName").is_empty() && !is_deleting(pod) && !daemon
}

/// Whether somebody says why a pod has no node: a warning about it, or the claim that is made for it, or that it was told to
/// wait for, and that is no node yet.
fn is_told(look: &Look<'_>, uid: &str) -> bool {
    let answers = |claim: &&Arc<Value>| {
        let pods = annotation(claim, "fleetwright.dev/nominated-pods").split(',');
        pods.filter_map(|pod| pod.rsplit_once(':')).any(|(_, pod)| pod == uid)
    };
    if look.claims.iter().filter(answers).any(|claim| says_where_it_is(claim)) {
        return true;
    }
    let events = look.events();
    let mut fresh = events.iter().filter(|event| {
        text(event, "/involvedObject/uid") == uid && stands(event, look.now, look.ledger.skewed)
    });
    fresh.any(|event| {
        let promised = text(event, "/message").split_once("nodeclaim/").map(|(_, rest)| rest);
        let promised = promised.and_then(|rest| rest.split([',', ' ']).next());
        let claim = promised.and_then(|wanted| look.claims.iter().find(|claim| name(claim) == wanted));
        text(event, "/type") == "Warning" || claim.is_some_and(|claim| says_where_it_is(claim))
    })
}

/// Whether a scheduler keeps a pod by its spread off the node that it was told to go to. For schedulers pods on instances that go
/// count until they are gone, for operators they do not: an instance more would be one too many, and the pod's own condition
/// says what it waits for.
fn is_kept_off(look: &Look<'_>, pod: &Value) -> bool {
    let all = field(pod, "/status/conditions").and_then(Value::as_array);
    let spread = all.into_iter().flatten().any(|one| {
        one["type"] == "PodScheduled" && text(one, "/message").contains("didn't match pod topology spread")
    });
    let leaves = |node: &Arc<Value>| {
        let taints = field(node, "/spec/taints").and_then(Value::as_array);
        taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted")
    };
    let promised = |event: &Arc<Value>| {
        let node = text(event, "/message").split_once("node/").map(|(_, node)| node).unwrap_or_default();
        text(event, "/involvedObject/uid") == text(pod, "/metadata/uid")
            && stands(event, look.now, look.ledger.skewed)
            && look.nodes.iter().any(|known| name(known) == node && !leaves(known))
    };
    spread && look.nodes.iter().any(leaves) && look.events().iter().any(promised)
}

/// Whether an event is one of operators that stands. Under wrong clocks nobody can tell how old one is.
fn stands(event: &Value, now: Timestamp, skewed: bool) -> bool {
    let last = text(event, "/lastTimestamp").parse::<Timestamp>();
    let fresh = last.is_ok_and(|last| now.duration_since(last).unsigned_abs() <= TOLD);
    text(event, "/source/component") == "karpenter" && (fresh || skewed)
}

/// Whether a claim that is no node yet says what it waits for.
fn says_where_it_is(claim: &Value) -> bool {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let waits_for = WAY.into_iter().find(|name| !is(claim, name));
    let condition = waits_for.and_then(|name| all.and_then(|all| all.iter().find(|one| one["type"] == name)));
    condition.is_some_and(|condition| {
        !text(condition, "/message").is_empty() && text(condition, "/reason") != "AwaitingReconciliation"
    })
}

#[cfg(test)]
mod tests {
    //! Which words count.
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
        assert_eq!(says_where_it_is(&json!({"status": {"conditions": conditions}})), expected);
    }

    fn there() -> Value {
        WAY.into_iter().map(|kind| json!({"type": kind, "status": "True", "message": "is there"})).collect()
    }

    #[rstest]
    #[case::lately(360, false, true)]
    #[case::long_ago(361, false, false)]
    #[case::nobody_knows_when(900, true, true)]
    fn an_event_stands_for_a_while(#[case] now: i64, #[case] skewed: bool, #[case] expected: bool) {
        let event = json!({"lastTimestamp": "1970-01-01T00:00:00Z", "source": {"component": "karpenter"}});
        assert_eq!(stands(&event, Timestamp::from_second(now).unwrap(), skewed), expected);
    }
}
