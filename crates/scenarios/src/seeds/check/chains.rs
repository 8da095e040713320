//! S13: what came in place of others is not consolidated soon, while its pods stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// For so long it stays.
const STAYS: Duration = Duration::from_secs(600);
/// Moments are written in seconds, and an answer may be late.
const SLACK: Duration = Duration::from_secs(10);
/// What was decided before pods came is carried out so much later at most.
const DECIDED: Duration = Duration::from_secs(40);
/// The annotation whose field `replaced` names what a NodeClaim replaced.
const LINEAGE: &str = "fleetwright.dev/lineage";

/// S13.
#[derive(Default)]
pub(super) struct Chains {
    known: BTreeMap<String, Known>,
}

/// What was seen of an instance that came in place of others.
struct Known {
    /// When it was a node.
    since: Duration,
    /// Since when its pods ask for all that it was made for.
    whole: Option<Duration>,
    pods: BTreeSet<String>,
    /// Whether a pod left it.
    left: bool,
    taken: bool,
}

impl Check for Chains {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        // Under wrong clocks nobody can tell when ten minutes are over.
        if look.ledger.skewed {
            return;
        }
        let mut known = BTreeMap::new();
        let came = |claim: &&std::sync::Arc<Value>| is_replacement(claim) && is(claim, "Initialized");
        for claim in look.claims.iter().filter(came) {
            let uid = text(claim, "/metadata/uid");
            let on = |pod: &&std::sync::Arc<Value>| {
                text(pod, "/spec/nodeName") == text(claim, "/status/nodeName")
                    && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
            };
            let pods: Vec<&Value> = look.pods.iter().filter(on).map(|pod| &**pod).collect();
            let uids = pods.iter().map(|pod| text(pod, "/metadata/uid").to_owned()).collect();
            let fresh =
                Known { since: look.at, whole: None, pods: BTreeSet::new(), left: false, taken: false };
            let before = self.known.remove(uid).unwrap_or(fresh);
            let now = Known {
                since: before.since,
                whole: before.whole.or(Some(look.at)).filter(|_| is_whole(claim, &pods)),
                left: before.left || !before.pods.is_subset(&uids),
                pods: uids,
                taken: reason(claim) == "Underutilized",
            };
            let young = look.at.saturating_sub(now.since) < STAYS.saturating_sub(SLACK);
            let whole = now.whole.is_some_and(|since| look.at.saturating_sub(since) > DECIDED);
            if now.taken && !before.taken && young && whole && !now.left && !is_deleting(claim) {
                let what = format!(
                    "claim {} came in place of others {:?} ago, keeps its pods, and is consolidated",
                    name(claim),
                    look.at.saturating_sub(now.since)
                );
                found.add("S13", what, [&**claim]);
            }
            known.insert(uid.to_owned(), now);
        }
        self.known = known;
    }
}

/// Whether an instance came in place of others, and was initialized after `from`.
pub(super) fn is_younger(claim: &Value, from: Timestamp) -> bool {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let condition = all.and_then(|all| all.iter().find(|one| one["type"] == "Initialized"));
    let since = condition.and_then(|one| text(one, "/lastTransitionTime").parse::<Timestamp>().ok());
    is_replacement(claim) && since.is_some_and(|since| since > from)
}

/// Whether the lineage of a claim has a field `replaced` that is not empty.
fn is_replacement(claim: &Value) -> bool {
    let mut fields = annotation(claim, LINEAGE).split(';');
    fields.any(|field| field.strip_prefix("replaced=").is_some_and(|text| !text.is_empty()))
}

/// Why a command has taken a claim; empty where none has.
pub(super) fn reason(claim: &Value) -> &str {
    let all = field(claim, "/status/conditions").and_then(Value::as_array);
    let taken = |condition: &&Value| condition["type"] == "DisruptionReason" && condition["status"] == "True";
    all.and_then(|all| all.iter().find(taken)).map(|taken| text(taken, "/reason")).unwrap_or_default()
}

/// Whether the pods ask for as much as the claim was made for.
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

/// A quantity in thousandths; zero where it is none that runs have.
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
    //! Quantities as objects have them.
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
