//! `SCHEDULER_CONFIG`: the default topology spread constraints of kube-scheduler's configuration.
//!
//! JSON or YAML, strict: an unknown field is an error, because it would be ignored silently.

use fleetwright_core::model::TopologySpread;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Vec<Constraint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    #[serde(default)]
    min_domains: Option<i32>,
    #[serde(default)]
    node_affinity_policy: Option<Policy>,
    #[serde(default)]
    node_taints_policy: Option<Policy>,
    #[serde(default)]
    label_selector: Option<serde_json::Value>,
    #[serde(default)]
    match_label_keys: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Policy {
    Honor,
    Ignore,
}

/// The default constraints, without selectors; none for an empty text.
///
/// # Errors
/// If the text is invalid; names the field and the fix.
pub(crate) fn default_constraints(text: &str) -> Result<Vec<TopologySpread>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let config: Config = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let constraints = config.pod_topology_spread.unwrap_or_default().default_constraints;
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (at, constraint) in constraints.iter().enumerate() {
        let problem = problem(constraint).or_else(|| {
            let id = (&*constraint.topology_key, &*constraint.when_unsatisfiable);
            let twice = seen.contains(&id);
            seen.push(id);
            twice.then(|| format!("topologyKey {} with whenUnsatisfiable {} occurs twice", id.0, id.1))
        });
        if let Some(problem) = problem {
            return Err(format!("podTopologySpread.defaultConstraints[{at}]: {problem}"));
        }
    }
    Ok(constraints.into_iter().map(lower).collect())
}

fn problem(constraint: &Constraint) -> Option<String> {
    if constraint.max_skew <= 0 {
        return Some(format!("maxSkew {} must be greater than zero", constraint.max_skew));
    }
    if constraint.topology_key.is_empty() {
        return Some("topologyKey is required".to_owned());
    }
    if !matches!(&*constraint.when_unsatisfiable, "DoNotSchedule" | "ScheduleAnyway") {
        let written = &constraint.when_unsatisfiable;
        return Some(format!("whenUnsatisfiable {written:?} must be DoNotSchedule or ScheduleAnyway"));
    }
    if constraint.min_domains.is_some_and(|least| least <= 0) {
        return Some("minDomains must be greater than zero".to_owned());
    }
    if constraint.label_selector.is_some() || constraint.match_label_keys.is_some() {
        return Some("labelSelector and matchLabelKeys follow from the pod: leave them out".to_owned());
    }
    None
}

fn lower(constraint: Constraint) -> TopologySpread {
    TopologySpread {
        max_skew: constraint.max_skew,
        key: constraint.topology_key.into(),
        hard: constraint.when_unsatisfiable == "DoNotSchedule",
        selector: None,
        min_domains: constraint.min_domains,
        honor_node_affinity: constraint.node_affinity_policy != Some(Policy::Ignore),
        honor_node_taints: constraint.node_taints_policy == Some(Policy::Honor),
        match_label_keys: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    //! Valid and invalid constraints.
    use super::*;

    #[test]
    fn json_and_yaml_are_read() {
        let yaml = "podTopologySpread:\n  defaultConstraints:\n  - maxSkew: 2\n    topologyKey: topology.kubernetes.io/zone\n    whenUnsatisfiable: DoNotSchedule\n    nodeTaintsPolicy: Honor\n";
        let json = r#"{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}]}}"#;
        let read = default_constraints(yaml).unwrap();
        assert_eq!(Ok(&read), default_constraints(json).as_ref());
        assert_eq!((read.len(), read[0].max_skew, read[0].hard), (1, 2, true));
        assert!(read[0].honor_node_taints && read[0].honor_node_affinity && read[0].selector.is_none());
        assert_eq!(default_constraints(" "), Ok(Vec::new()));
        assert_eq!(default_constraints("{}"), Ok(Vec::new()));
    }

    #[test]
    fn invalid_constraints_are_refused() {
        let with = |fields: &str| {
            let zone = "\"topologyKey\": \"zone\", \"whenUnsatisfiable\": \"DoNotSchedule\"";
            default_constraints(&format!(
                "{{\"podTopologySpread\": {{\"defaultConstraints\": [{{{zone}, {fields}}}]}}}}"
            ))
        };
        assert!(with("\"maxSkew\": 1").is_ok());
        for (fields, word) in [
            ("\"maxSkew\": 0", "maxSkew"),
            ("\"maxSkew\": 1, \"labelSelector\": {}", "labelSelector"),
            ("\"maxSkew\": 1, \"matchLabelKeys\": [\"a\"]", "matchLabelKeys"),
            ("\"maxSkew\": 1, \"minDomains\": 0", "minDomains"),
            ("\"maxSkew\": 1, \"colour\": \"red\"", "colour"),
            (
                "\"maxSkew\": 1}, {\"maxSkew\": 3, \"topologyKey\": \"zone\", \"whenUnsatisfiable\": \"DoNotSchedule\"",
                "twice",
            ),
        ] {
            let error = with(fields).unwrap_err();
            assert!(error.contains(word), "{fields}: {error}");
        }
        assert!(default_constraints("plugins: []").is_err());
    }
}
