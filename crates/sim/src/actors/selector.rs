//! Label selectors and node selectors, with the semantics of Kubernetes.
//!
//! This duplicates `fleetwright-kube-semantics` and `core::model` on purpose: the simulated scheduler and the checks of property runs are
//! an independent oracle for the controller's matching.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether a selector matches labels. An empty selector matches everything, an absent one nothing.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|wanted| {
            let values = wanted.values.as_deref().unwrap_or_default();
            let value = labels.get(&wanted.key);
            match wanted.operator.as_str() {
                "In" => value.is_some_and(|value| values.contains(value)),
                "NotIn" => value.is_none_or(|value| !values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// Whether a node with this name and these labels is selected: one matching term is enough; an empty term matches nothing.
pub(crate) fn selects(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector.node_selector_terms.iter().any(|term| term_selects(term, name, labels))
}

/// Whether one term of a node selector matches.
pub(crate) fn term_selects(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|wanted| meets(wanted, labels.get(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| wanted.key == "metadata.name" && meets(wanted, Some(name)))
}

fn meets(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = |value: &str| values.iter().any(|listed| listed == value);
    let bound = || values.first().and_then(|text| text.parse::<i64>().ok());
    let number = || value.and_then(|text| text.parse::<i64>().ok());
    match wanted.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => value.is_none_or(|value| !listed(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(value, bound)| value > bound),
        "Lt" => number().zip(bound()).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    //! Operators, present and absent.
    use super::*;

    #[test]
    fn node_terms() {
        let labels = Labels::from([("zone".to_owned(), "a".to_owned()), ("cpu".to_owned(), "8".to_owned())]);
        let cases = [
            (serde_json::json!({}), false),
            (
                serde_json::json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}),
                true,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
                false,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "gone", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["7"]}]}),
                true,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "cpu", "operator": "Lt", "values": ["8"]}]}),
                false,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}),
                false,
            ),
            (
                serde_json::json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
                true,
            ),
            (
                serde_json::json!({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}]}),
                false,
            ),
        ];
        for (term, expected) in cases {
            let parsed: NodeSelectorTerm = serde_json::from_value(term.clone()).unwrap();
            assert_eq!(term_selects(&parsed, "n1", &labels), expected, "{term}");
        }
    }

    #[test]
    fn label_selectors() {
        let labels = Labels::from([("app".to_owned(), "web".to_owned())]);
        assert!(!matches(None, &labels));
        assert!(matches(Some(&LabelSelector::default()), &labels));
        for (operator, values, expected) in [
            ("In", vec!["web"], true),
            ("NotIn", vec!["web"], false),
            ("Exists", vec![], true),
            ("DoesNotExist", vec![], false),
        ] {
            let selector = serde_json::json!({
                "matchExpressions": [{"key": "app", "operator": operator, "values": values}],
            });
            let parsed: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!(matches(Some(&parsed), &labels), expected, "{operator}");
        }
    }
}
