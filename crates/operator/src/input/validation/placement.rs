//! What pods say of the nodes that may run them: node affinity, pod affinity, topology spread and tolerations.

use serde_json::Value;

use crate::input::invalid::{Invalid, add, one_of};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Operators of node affinity, and how many values each takes.
const OF_NODES: [(&str, Values); 6] = [
    ("In", Values::Some),
    ("NotIn", Values::Some),
    ("Exists", Values::None),
    ("DoesNotExist", Values::None),
    ("Gt", Values::One),
    ("Lt", Values::One),
];
/// Those of label selectors.
const OF_LABELS: [(&str, Values); 4] =
    [("In", Values::Some), ("NotIn", Values::Some), ("Exists", Values::None), ("DoesNotExist", Values::None)];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const KEY: &str = "write the label of nodes to compare, such as topology.kubernetes.io/zone";

/// How many values an operator takes.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    None,
    One,
    Some,
}

/// `ValidatePodSpec`, of its constraints.
pub(super) fn pod(spec: &Value, path: &str, found: &mut Vec<Invalid>) {
    node_affinity(&spec["affinity"]["nodeAffinity"], &format!("{path}.affinity.nodeAffinity"), found);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (affinity, path) = (&spec["affinity"][kind], format!("{path}.affinity.{kind}"));
        for (at, term) in list(&affinity[REQUIRED]) {
            pod_term(term, &format!("{path}.{REQUIRED}[{at}]"), found);
        }
        for (at, weighted) in list(&affinity[PREFERRED]) {
            let path = format!("{path}.{PREFERRED}[{at}]");
            weight(weighted, &path, found);
            pod_term(&weighted["podAffinityTerm"], &format!("{path}.podAffinityTerm"), found);
        }
    }
    for (at, spread) in list(&spec["topologySpreadConstraints"]) {
        topology_spread(spread, &format!("{path}.topologySpreadConstraints[{at}]"), found);
    }
    for (at, toleration) in list(&spec["tolerations"]) {
        self::toleration(toleration, &format!("{path}.tolerations[{at}]"), found);
    }
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

/// `ValidateNodeSelector` and `ValidatePreferredSchedulingTerms`.
fn node_affinity(affinity: &Value, path: &str, found: &mut Vec<Invalid>) {
    let required = &affinity[REQUIRED];
    let at_terms = format!("{path}.{REQUIRED}.nodeSelectorTerms");
    let terms = &required["nodeSelectorTerms"];
    if required.is_object() && terms.as_array().is_none_or(Vec::is_empty) {
        let message = "Required value: must have at least one node selector term";
        add(found, at_terms.clone(), message.to_owned(), "give a term, or leave the affinity out");
    }
    for (at, term) in list(terms) {
        expressions(
            &term["matchExpressions"],
            &format!("{at_terms}[{at}].matchExpressions"),
            &OF_NODES,
            found,
        );
    }
    for (at, preferred) in list(&affinity[PREFERRED]) {
        let path = format!("{path}.{PREFERRED}[{at}]");
        weight(preferred, &path, found);
        let wanted = &preferred["preference"]["matchExpressions"];
        expressions(wanted, &format!("{path}.preference.matchExpressions"), &OF_NODES, found);
    }
}

fn weight(preferred: &Value, path: &str, found: &mut Vec<Invalid>) {
    // One of another type is named where the object is read.
    if preferred["weight"].as_i64().is_some_and(|weight| !(1..=100).contains(&weight)) {
        let message = format!("Invalid value: {}: must be in the range 1-100", preferred["weight"]);
        add(found, format!("{path}.weight"), message, "write a number from 1 to 100");
    }
}

/// `validatePodAffinityTerm`.
fn pod_term(term: &Value, path: &str, found: &mut Vec<Invalid>) {
    if term["topologyKey"].as_str().unwrap_or_default().is_empty() {
        let message = "Required value: can not be empty".to_owned();
        add(found, format!("{path}.topologyKey"), message, KEY);
    }
    for selector in ["labelSelector", "namespaceSelector"] {
        label_selector(&term[selector], &format!("{path}.{selector}"), found);
    }
}

/// `ValidateLabelSelector`.
pub(super) fn label_selector(selector: &Value, path: &str, found: &mut Vec<Invalid>) {
    expressions(&selector["matchExpressions"], &format!("{path}.matchExpressions"), &OF_LABELS, found);
}

/// `ValidateNodeSelectorRequirement` and `ValidateLabelSelectorRequirement`.
fn expressions(written: &Value, path: &str, operators: &[(&str, Values)], found: &mut Vec<Invalid>) {
    for (at, wanted) in list(written) {
        let path = format!("{path}[{at}]");
        let operator = wanted["operator"].as_str().unwrap_or_default();
        let count = wanted["values"].as_array().map_or(0, Vec::len);
        let Some((_, takes)) = operators.iter().find(|(known, _)| *known == operator) else {
            let message = format!("Invalid value: {operator:?}: not a valid selector operator");
            let known: Vec<&str> = operators.iter().map(|(known, _)| *known).collect();
            add(found, format!("{path}.operator"), message, meant_operator(operator, &known));
            continue;
        };
        let path = format!("{path}.values");
        match takes {
            Values::Some if count == 0 => {
                let message = "Required value: must be specified when `operator` is 'In' or 'NotIn'";
                add(found, path, message.to_owned(), "give a value, or use Exists or DoesNotExist");
            }
            Values::None if count > 0 => {
                let message = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                add(found, path, message.to_owned(), "remove the values, or use In or NotIn");
            }
            Values::One if count != 1 => {
                let message =
                    "Required value: must be specified single value when `operator` is 'Lt' or 'Gt'";
                add(found, path, message.to_owned(), "give one number in quotes");
            }
            _ => {}
        }
    }
}

/// The operator that was meant: as other languages write them, or misspelt.
fn meant_operator(written: &str, known: &[&str]) -> String {
    let meant = match written.to_ascii_lowercase().as_str() {
        "equals" | "equal" | "eq" | "=" | "==" => "In",
        "notequals" | "notequal" | "ne" | "!=" => "NotIn",
        ">" | "greaterthan" => "Gt",
        "<" | "lessthan" => "Lt",
        "notexists" => "DoesNotExist",
        _ => return one_of(written, known),
    };
    if known.contains(&meant) { format!("write {meant}") } else { one_of(written, known) }
}

/// `validateTopologySpreadConstraints`.
fn topology_spread(spread: &Value, path: &str, found: &mut Vec<Invalid>) {
    if spread["topologyKey"].as_str().unwrap_or_default().is_empty() {
        let message = "Required value: can not be empty".to_owned();
        add(found, format!("{path}.topologyKey"), message, KEY);
    }
    for field in ["maxSkew", "minDomains"] {
        if spread[field].as_i64().is_some_and(|number| number < 1)
            || (field == "maxSkew" && spread[field].is_null())
        {
            let message =
                format!("Invalid value: {}: must be greater than zero", spread[field].as_i64().unwrap_or(0));
            add(found, format!("{path}.{field}"), message, "write 1 or more");
        }
    }
    let when = spread["whenUnsatisfiable"].as_str().unwrap_or_default();
    choice(when, &["DoNotSchedule", "ScheduleAnyway"], &format!("{path}.whenUnsatisfiable"), found);
    if !spread["minDomains"].is_null() && when == "ScheduleAnyway" {
        let message = format!(
            "Invalid value: {}: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            spread["minDomains"]
        );
        add(found, format!("{path}.minDomains"), message, "remove minDomains, or set DoNotSchedule");
    }
    label_selector(&spread["labelSelector"], &format!("{path}.labelSelector"), found);
}

/// `ValidateTolerations`.
fn toleration(toleration: &Value, path: &str, found: &mut Vec<Invalid>) {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let operator = if text("operator").is_empty() { "Equal" } else { text("operator") };
    // Lt and Gt are a feature of later versions.
    if !matches!(operator, "Lt" | "Gt") {
        choice(operator, &["Equal", "Exists"], &format!("{path}.operator"), found);
    }
    if !text("effect").is_empty() {
        choice(text("effect"), &EFFECTS, &format!("{path}.effect"), found);
    }
    if text("key").is_empty() && operator != "Exists" {
        let message = format!(
            "Invalid value: {operator:?}: operator must be Exists when `key` is empty, which means \"match all values and all keys\""
        );
        add(found, format!("{path}.operator"), message, "name the key of the taint, or write Exists");
    }
    if operator == "Exists" && !text("value").is_empty() {
        let message =
            format!("Invalid value: {:?}: value must be empty when `operator` is 'Exists'", text("value"));
        add(found, format!("{path}.value"), message, "remove the value, or write the operator Equal");
    }
    if !toleration["tolerationSeconds"].is_null() && text("effect") != "NoExecute" {
        let message = format!(
            "Invalid value: {:?}: effect must be 'NoExecute' when `tolerationSeconds` is set",
            text("effect")
        );
        add(found, format!("{path}.effect"), message, "write NoExecute, or remove tolerationSeconds");
    }
}

fn choice(written: &str, known: &[&str], path: &str, found: &mut Vec<Invalid>) {
    if !known.contains(&written) {
        let quoted: Vec<String> = known.iter().map(|known| format!("{known:?}")).collect();
        let message = format!("Unsupported value: {written:?}: supported values: {}", quoted.join(", "));
        add(found, path.to_owned(), message, one_of(written, known));
    }
}
