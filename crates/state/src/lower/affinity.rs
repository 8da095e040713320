//! Node selectors, node affinity, pod affinity and topology spread.

use fleetwright_core::model::{
    LabelSchema, LabelSelector, Operator, PodAffinityTerm, Requirement, Str, TopologySpread,
    pod::SelectorTerm,
};
use k8s_openapi::{api::core::v1 as k8s, apimachinery::pkg::apis::meta::v1::LabelSelector as KubeSelector};

use super::{Invalid, text};

/// Node terms: the required ones, of which one must hold, and the preferred ones by weight.
pub type NodeTerms = (Vec<Vec<Requirement>>, Vec<(i32, Vec<Requirement>)>);

/// The terms of a node affinity; preferred ones heaviest first, of equal weight as written. Terms without a condition are
/// left out, as kube-scheduler does: a required one matches no node, a preferred one prefers none.
///
/// # Errors
/// If a requirement is invalid, or no required term has a condition.
pub fn node_terms(affinity: Option<&k8s::NodeAffinity>, schema: &LabelSchema) -> Result<NodeTerms, Invalid> {
    let Some(affinity) = affinity else { return Ok((Vec::new(), Vec::new())) };
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let required = required.map(|required| required_terms(required, schema, field)).transpose()?;
    let field = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let mut preferred = affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .flatten()
        .filter(|term| has_condition(&term.preference))
        .map(|term| Ok((term.weight, node_term(&term.preference, schema, field)?)))
        .collect::<Result<Vec<_>, Invalid>>()?;
    preferred.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    Ok((required.unwrap_or_default(), preferred))
}

/// The terms of a selector of which one must hold, without those that have no condition and match nothing.
///
/// # Errors
/// If a requirement is invalid, or no term has a condition.
pub fn required_terms(
    selector: &k8s::NodeSelector,
    schema: &LabelSchema,
    field: &'static str,
) -> Result<Vec<Vec<Requirement>>, Invalid> {
    let terms = selector.node_selector_terms.iter().filter(|term| has_condition(term));
    let terms: Vec<_> = terms.map(|term| node_term(term, schema, field)).collect::<Result<_, _>>()?;
    if terms.is_empty() { Err(Invalid::NoTerm { field }) } else { Ok(terms) }
}

fn has_condition(term: &k8s::NodeSelectorTerm) -> bool {
    term.match_expressions.iter().flatten().chain(term.match_fields.iter().flatten()).next().is_some()
}

/// A conjunction of requirements; keys are normalised.
///
/// `matchFields` (which in practice only DaemonSet pods have) becomes a requirement on a key that is no node's label, so that nothing
/// satisfies it.
///
/// # Errors
/// If a requirement is invalid.
pub fn node_term(
    term: &k8s::NodeSelectorTerm,
    schema: &LabelSchema,
    field: &'static str,
) -> Result<Vec<Requirement>, Invalid> {
    let both = term.match_expressions.iter().flatten().chain(term.match_fields.iter().flatten());
    both.map(|wanted| node_requirement(wanted, schema, field)).collect()
}

fn node_requirement(
    wanted: &k8s::NodeSelectorRequirement,
    schema: &LabelSchema,
    field: &'static str,
) -> Result<Requirement, Invalid> {
    let operator = Operator::parse(&wanted.operator).ok_or_else(|| Invalid::Operator {
        field,
        key: wanted.key.clone(),
        operator: wanted.operator.clone(),
    })?;
    let values = wanted.values.iter().flatten().map(String::as_str);
    Requirement::new(schema.normalize(&wanted.key), operator, values)
        .map_err(|source| Invalid::Requirement { field, source })
}

/// A label selector; `None` stays `None` and selects nothing.
///
/// # Errors
/// If an operator is unknown.
pub fn selector(selector: Option<&KubeSelector>) -> Result<Option<LabelSelector>, Invalid> {
    let Some(selector) = selector else { return Ok(None) };
    let mut terms = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        terms.push(SelectorTerm { key: text(key), operator: Operator::In, values: vec![text(value)] });
    }
    for wanted in selector.match_expressions.iter().flatten() {
        let operator = match wanted.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let (key, operator) = (wanted.key.clone(), other.to_owned());
                return Err(Invalid::Operator { field: "labelSelector", key, operator });
            }
        };
        let mut values: Vec<Str> = wanted.values.iter().flatten().map(|value| text(value)).collect();
        values.sort();
        terms.push(SelectorTerm { key: text(&wanted.key), operator, values });
    }
    Ok(Some(LabelSelector { terms }))
}

fn texts(list: Option<&Vec<String>>) -> Vec<Str> {
    list.into_iter().flatten().map(|item| text(item)).collect()
}

/// One topology spread constraint.
///
/// # Errors
/// If the selector is invalid.
pub fn spread(spread: &k8s::TopologySpreadConstraint) -> Result<TopologySpread, Invalid> {
    Ok(TopologySpread {
        max_skew: spread.max_skew,
        key: text(&spread.topology_key),
        hard: spread.when_unsatisfiable != "ScheduleAnyway",
        selector: selector(spread.label_selector.as_ref())?,
        min_domains: spread.min_domains,
        honor_node_affinity: spread.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_node_taints: spread.node_taints_policy.as_deref() == Some("Honor"),
        match_label_keys: texts(spread.match_label_keys.as_ref()),
    })
}

/// One term of pod affinity or anti-affinity.
///
/// # Errors
/// If a selector is invalid.
pub fn pod_term(term: &k8s::PodAffinityTerm) -> Result<PodAffinityTerm, Invalid> {
    Ok(PodAffinityTerm {
        key: text(&term.topology_key),
        selector: selector(term.label_selector.as_ref())?,
        namespaces: texts(term.namespaces.as_ref()),
        namespace_selector: selector(term.namespace_selector.as_ref())?,
        match_label_keys: texts(term.match_label_keys.as_ref()),
        mismatch_label_keys: texts(term.mismatch_label_keys.as_ref()),
    })
}

/// Terms of pod affinity or anti-affinity.
///
/// # Errors
/// If a selector is invalid.
pub fn pod_terms(terms: Option<&Vec<k8s::PodAffinityTerm>>) -> Result<Vec<PodAffinityTerm>, Invalid> {
    terms.into_iter().flatten().map(pod_term).collect()
}

/// Weighted terms, heaviest first; of equal weight as written.
///
/// # Errors
/// If a selector is invalid.
pub fn weighted(terms: &[k8s::WeightedPodAffinityTerm]) -> Result<Vec<(i32, PodAffinityTerm)>, Invalid> {
    let mut terms = terms
        .iter()
        .map(|term| Ok((term.weight, pod_term(&term.pod_affinity_term)?)))
        .collect::<Result<Vec<_>, Invalid>>()?;
    terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    Ok(terms)
}
