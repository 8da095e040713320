//! The stages of a pod until it is bound, as a tree. All times are those on objects and of scheduling; nothing is measured here.

use fleetwright_api::labels::DECISION;
use fleetwright_controllers::metrics::pod_times::SchedulingTimes;
use fleetwright_core::model::{Condition, ConditionStatus, NodeClaim, Pod, labels, nodeclaim::ConditionType};
use jiff::Timestamp;

/// A stage: a span, once it is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) children: Vec<Self>,
}

impl Stage {
    /// A stage within its parent's time: times on objects are whole seconds, those of scheduling are not.
    fn new(name: &'static str, (start, end): (Timestamp, Timestamp), within: (Timestamp, Timestamp)) -> Self {
        let start = start.clamp(within.0, within.1);
        Self { name, start, end: end.clamp(start, within.1), attributes: Vec::new(), children: Vec::new() }
    }
}

/// The stages of a pod that was bound at `bound`. `claim` is the NodeClaim of its node; it is a stage of a pod that is older.
pub(super) fn of_pod(
    pod: &Pod,
    bound: Timestamp,
    times: SchedulingTimes,
    claim: Option<&NodeClaim>,
) -> Stage {
    let whole = (pod.created, bound.max(pod.created));
    let mut root = Stage::new("pod", whole, whole);
    root.attributes = vec![
        ("k8s.namespace.name", pod.id.namespace.to_string()),
        ("k8s.pod.name", pod.id.name.to_string()),
        ("k8s.pod.uid", pod.uid.to_string()),
    ];
    root.attributes.extend(pod.node.as_ref().map(|node| ("k8s.node.name", node.to_string())));
    let claim = claim.filter(|claim| claim.created >= pod.created);
    if let (Some(seen), Some(placed)) = (times.seen, times.placed) {
        let mut plan = Stage::new("plan", (seen, placed), whole);
        plan.attributes.extend(claim.and_then(decision));
        root.children.push(plan);
    }
    let ready = claim.map(|claim| node_claim(claim, whole));
    let begin = ready.as_ref().map(|ready| ready.end).or(times.placed).unwrap_or(whole.0);
    root.children.extend(ready);
    root.children.push(Stage::new("bind", (begin, bound), whole));
    root
}

/// From the creation of a NodeClaim until its node is initialized, as far as it came.
fn node_claim(claim: &NodeClaim, within: (Timestamp, Timestamp)) -> Stage {
    let since = |condition: ConditionType| {
        let met = |condition: &&Condition| condition.status == ConditionStatus::True;
        claim.conditions.get(&condition).filter(met).map(|condition| condition.since)
    };
    let steps = [
        ("launch", ConditionType::Launched),
        ("register", ConditionType::Registered),
        ("initialize", ConditionType::Initialized),
    ];
    let mut stage = Stage::new("nodeclaim", (claim.created, claim.created), within);
    for (name, condition) in steps {
        let Some(end) = since(condition) else { break };
        let child = Stage::new(name, (stage.end, end), within);
        stage.end = child.end;
        stage.children.push(child);
    }
    stage.attributes.push(("karpenter.sh/nodeclaim", claim.name.to_string()));
    let of_labels = [
        ("karpenter.sh/nodepool", labels::NODEPOOL),
        ("host.type", labels::INSTANCE_TYPE),
        ("cloud.availability_zone", labels::ZONE),
        ("karpenter.sh/capacity-type", labels::CAPACITY_TYPE),
    ];
    for (attribute, label) in of_labels {
        stage.attributes.extend(claim.labels.get(label).map(|value| (attribute, value.to_string())));
    }
    stage.attributes.extend(claim.provider_id.as_ref().map(|id| ("cloud.resource_id", id.to_string())));
    stage.attributes.extend(decision(claim));
    stage
}

/// The decision that created a NodeClaim.
fn decision(claim: &NodeClaim) -> Option<(&'static str, String)> {
    claim.annotations.get(DECISION).map(|id| (DECISION, id.to_string()))
}

#[cfg(test)]
mod tests {
    //! Times of pods with and without a node of their own.
    use fleetwright_core::{
        model::NodeClassRef,
        testing::{now, pod},
    };
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        now().checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    fn claim(created: i64, conditions: &[(ConditionType, i64)]) -> NodeClaim {
        let class =
            NodeClassRef { group: "example.com".into(), kind: "Class".into(), name: "default".into() };
        let mut claim = NodeClaim::new("default-1", class, at(created));
        claim.labels.insert(labels::NODEPOOL.into(), "default".into());
        claim.annotations.insert(DECISION.into(), "p-7".into());
        for (condition, since) in conditions {
            let met = Condition {
                status: ConditionStatus::True,
                reason: "Met".into(),
                message: "".into(),
                since: at(*since),
            };
            claim.conditions.insert(*condition, met);
        }
        claim
    }

    /// Names with start and end in seconds, depth first.
    fn spans(stage: &Stage) -> Vec<(&'static str, i64, i64)> {
        let seconds = |time: Timestamp| time.duration_since(now()).as_secs();
        let own = (stage.name, seconds(stage.start), seconds(stage.end));
        std::iter::once(own).chain(stage.children.iter().flat_map(spans)).collect()
    }

    fn times() -> SchedulingTimes {
        SchedulingTimes { seen: Some(at(1)), decided: Some(at(2)), placed: Some(at(2)) }
    }

    #[test]
    fn from_pending_to_bound_over_a_node_of_its_own() {
        use ConditionType::{Initialized, Launched, Registered};
        let claim = claim(2, &[(Launched, 5), (Registered, 40), (Initialized, 45)]);
        let stage = of_pod(&pod("web").build(), at(47), times(), Some(&claim));
        let expected = [
            ("pod", 0, 47),
            ("plan", 1, 2),
            ("nodeclaim", 2, 45),
            ("launch", 2, 5),
            ("register", 5, 40),
            ("initialize", 40, 45),
            ("bind", 45, 47),
        ];
        assert_eq!(spans(&stage), expected);
        assert!(stage.attributes.contains(&("k8s.pod.name", "web".to_owned())), "{stage:?}");
        assert_eq!(stage.children[0].attributes, [(DECISION, "p-7".to_owned())]);
        let of_claim = &stage.children[1].attributes;
        assert!(of_claim.contains(&("karpenter.sh/nodepool", "default".to_owned())), "{of_claim:?}");
    }

    #[test]
    fn attributes_have_nothing_that_users_write_on_objects() {
        const PLANTED: &str = "hunter2-planted";
        let mut claim = claim(2, &[(ConditionType::Launched, 5)]);
        claim.annotations.insert("example.com/token".into(), PLANTED.into());
        claim.labels.insert("example.com/token".into(), PLANTED.into());
        for condition in claim.conditions.values_mut() {
            condition.message = PLANTED.into();
        }
        let pod = pod("web").label("example.com/token", PLANTED).build();
        assert!(format!("{pod:?} {claim:?}").matches(PLANTED).count() >= 4);
        let stage = of_pod(&pod, at(47), times(), Some(&claim));
        assert!(!format!("{stage:?}").contains(PLANTED), "{stage:#?}");
    }

    #[test]
    fn a_node_that_was_there_is_no_stage() {
        let older = claim(-60, &[(ConditionType::Launched, -50)]);
        let stage = of_pod(&pod("web").build(), at(3), times(), Some(&older));
        assert_eq!(spans(&stage), [("pod", 0, 3), ("plan", 1, 2), ("bind", 2, 3)]);
        assert_eq!(stage.children[0].attributes, []);
    }

    #[test]
    fn stages_stay_within_the_pod_and_end_where_the_claim_stands() {
        use ConditionType::{Initialized, Launched};
        // Without Registered, and launched by a clock that is ahead.
        let claim = claim(2, &[(Launched, 90), (Initialized, 91)]);
        let stage = of_pod(&pod("web").build(), at(47), SchedulingTimes::default(), Some(&claim));
        assert_eq!(
            spans(&stage),
            [("pod", 0, 47), ("nodeclaim", 2, 47), ("launch", 2, 47), ("bind", 47, 47)]
        );
    }
}
