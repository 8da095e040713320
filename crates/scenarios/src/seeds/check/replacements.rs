//! S13: a replacement is not consolidated during its stabilization period while its pods stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// The stabilization period.
const STAYS: Duration = Duration::from_secs(600);
/// Times are written in seconds, and an answer may be late.
const SLACK: Duration = Duration::from_secs(10);
/// The maximum delay between a decision and its execution.
const DECIDED: Duration = Duration::from_secs(40);
/// The annotation whose field `replaced` names what a NodeClaim replaced.
const LINEAGE: &str = "fleetwright.dev/lineage";

/// S13.
#[derive(Default)]
pub(super) struct Replacements {
    known: BTreeMap<String, ReplacementState>,
}

/// What is known of a replacement.
struct ReplacementState {
    /// When it became a node.
    since: Duration,
    /// Since when its pods request everything that it was launched for.
    whole: Option<Duration>,
    pods: BTreeSet<String>,
    /// Whether a pod has left it.
    left: bool,
    taken: bool,
}

impl Check for Replacements {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        // With wrong clocks the end of the period is unknown.
        if observation.interventions.skewed {
            return;
        }
        let mut known = BTreeMap::new();
        let is_initialized_replacement =
            |claim: &&std::sync::Arc<Value>| is_replacement(claim) && is(claim, "Initialized");
        for claim in observation.claims.iter().filter(is_initialized_replacement) {
            let uid = text(claim, "/metadata/uid");
            let node = text(claim, "/status/nodeName");
            let on = observation.pods.iter().filter(|pod| pod.node == node && !pod.has_ended);
            let uids = on.clone().map(|pod| pod.uid.clone()).collect();
            let pods: Vec<&Value> = on.map(|pod| &***pod).collect();
            let fresh = ReplacementState {
                since: observation.at,
                whole: None,
                pods: BTreeSet::new(),
                left: false,
                taken: false,
            };
            let before = self.known.remove(uid).unwrap_or(fresh);
            let now = ReplacementState {
                since: before.since,
                whole: before.whole.or(Some(observation.at)).filter(|_| is_whole(claim, &pods)),
                left: before.left || !before.pods.is_subset(&uids),
                pods: uids,
                taken: reason(claim) == "Underutilized",
            };
            let young = observation.at.saturating_sub(now.since) < STAYS.saturating_sub(SLACK);
            let whole = now.whole.is_some_and(|since| observation.at.saturating_sub(since) > DECIDED);
            if now.taken && !before.taken && young && whole && !now.left && !is_deleting(claim) {
                let what = format!(
                    "claim {} became a replacement {:?} ago, keeps its pods, and is consolidated",
                    name(claim),
                    observation.at.saturating_sub(now.since)
                );
                found.add("S13", what, [&**claim]);
            }
            known.insert(uid.to_owned(), now);
        }
        self.known = known;
    }
}

/// Whether an instance is a replacement that was initialized after `from`.
pub(super) fn is_younger(claim: &Value, from: Timestamp) -> bool {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let condition = all.and_then(|all| all.iter().find(|one| one["type"] == "Initialized"));
    let since = condition.and_then(|one| text(one, "/lastTransitionTime").parse::<Timestamp>().ok());
    is_replacement(claim) && since.is_some_and(|since| since > from)
}

/// Whether the lineage of a claim has a non-empty field `replaced`.
fn is_replacement(claim: &Value) -> bool {
    let mut fields = annotation(claim, LINEAGE).split(';');
    fields.any(|field| field.strip_prefix("replaced=").is_some_and(|text| !text.is_empty()))
}

/// The reason of a claim's command; empty without one.
pub(super) fn reason(claim: &Value) -> &str {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let taken = |condition: &&Value| condition["type"] == "DisruptionReason" && condition["status"] == "True";
    all.and_then(|all| all.iter().find(taken)).map(|taken| text(taken, "/reason")).unwrap_or_default()
}

/// Whether the pods request as much as the claim.
fn is_whole(claim: &Value, pods: &[&Value]) -> bool {
    let Some(wanted) = field(claim, "/spec/resources/requests").and_then(Value::as_object) else {
        return true;
    };
    wanted.iter().all(|(resource, amount)| {
        let asked = |pod: &&Value| {
            let containers = field(pod, "/spec/containers").and_then(Value::as_array);
            let each = containers.into_iter().flatten();
            each.map(|one| milli(&one["resources"]["requests"][resource])).fold(0, i128::saturating_add)
        };
        let sum = match resource.as_str() {
            "pods" => i128::try_from(pods.len()).unwrap_or(0).saturating_mul(1000),
            _ => pods.iter().map(asked).fold(0, i128::saturating_add),
        };
        sum >= milli(amount)
    })
}

/// A quantity in thousandths; zero for a format that runs do not use.
fn milli(quantity: &Value) -> i128 {
    const UNITS: [(&str, i128); 7] = [
        ("Ki", 1000 << 10),
        ("Mi", 1000 << 20),
        ("Gi", 1000 << 30),
        ("k", 1_000_000),
        ("M", 1_000_000_000),
        ("G", 1_000_000_000_000),
        ("m", 1),
    ];
    let Some(text) = quantity.as_str() else { return i128::from(quantity.as_i64().unwrap_or(0)) * 1000 };
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1000));
    number.parse::<i128>().unwrap_or(0).saturating_mul(factor)
}

#[cfg(test)]
mod tests {
    //! Formats of quantities.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!("250m"), 250)]
    #[case(json!("3"), 3000)]
    #[case(json!(2), 2000)]
    #[case(json!("200Mi"), 209_715_200_000)]
    #[case(json!("1k"), 1_000_000)]
    #[case(Value::Null, 0)]
    fn quantities_are_read(#[case] quantity: Value, #[case] expected: i128) {
        assert_eq!(milli(&quantity), expected);
    }

    #[rstest]
    #[case("600m", true)]
    #[case("601m", false)]
    fn an_instance_is_whole_with_all_that_it_was_made_for(#[case] cpu: &str, #[case] expected: bool) {
        let claim = json!({"spec": {"resources": {"requests": {"cpu": cpu, "pods": "2"}}}});
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "300m"}}}]}});
        assert_eq!(is_whole(&claim, &[&pod, &pod]), expected);
        assert!(!is_whole(&claim, &[&pod]));
    }
}
