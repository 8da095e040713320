//! What a cloud makes of a NodeClaim: the offering that the plan expects, or any other that the claim allows.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::catalogue::{CAPACITY_TYPES, InstanceType, ZONES, instance_types};
use super::dice::Dice;
use super::node::NodeSpec;
use super::planner::Claim;

/// The node of `claim`. A NodeClaim promises that each offering that it allows will do, so half of them get another than the
/// one that the plan expects.
pub(super) fn node(claim: &Claim, name: String, dice: &mut Dice) -> anyhow::Result<NodeSpec> {
    let catalogue = instance_types();
    let of_name = |name: &str| catalogue.iter().find(|each| each.name == name).cloned();
    let expected = &claim.offering;
    let instance_type =
        of_name(&expected.instance_type).context("the plan expects an unknown instance type")?;
    let mut offering = (instance_type, expected.zone.as_str(), expected.capacity_type.as_str());
    let allowed = allowed(claim, &of_name);
    if dice.chance(50)
        && let Some((instance_type, zone, capacity_type)) = dice.one(&allowed)
    {
        offering = (instance_type.clone(), zone, capacity_type);
    }
    let (instance_type, zone, capacity_type) = offering;
    Ok(NodeSpec {
        name,
        pool: claim.node_pool.clone(),
        instance_type,
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        labels: labels(&claim.resource),
        taints: claim.resource["spec"]["taints"].as_array().map_or_else(|| json!([]), |taints| json!(taints)),
    })
}

/// All offerings that the claim allows.
fn allowed(
    claim: &Claim,
    of_name: &impl Fn(&str) -> Option<InstanceType>,
) -> Vec<(InstanceType, &'static str, &'static str)> {
    let is_allowed = |key: &str, value: &str| is_allowed(&claim.resource, key, value);
    let mut offerings = Vec::new();
    for instance_type in claim.instance_types.iter().filter_map(|name| of_name(name)) {
        for zone in ZONES.into_iter().filter(|zone| is_allowed("topology.kubernetes.io/zone", zone)) {
            let capacity_types = CAPACITY_TYPES.into_iter();
            for capacity_type in capacity_types.filter(|of| is_allowed("karpenter.sh/capacity-type", of)) {
                if instance_type.is_offered(zone, capacity_type) {
                    offerings.push((instance_type.clone(), zone, capacity_type));
                }
            }
        }
    }
    offerings
}

/// Whether the requirements of a NodeClaim allow `value` for `key`.
fn is_allowed(claim: &Value, key: &str, value: &str) -> bool {
    let requirements = claim["spec"]["requirements"].as_array();
    requirements.into_iter().flatten().filter(|each| each["key"] == key).all(|each| {
        let is_named = each["values"].as_array().is_some_and(|values| values.iter().any(|one| one == value));
        match each["operator"].as_str() {
            Some("In") => is_named,
            Some("NotIn") => !is_named,
            Some("DoesNotExist") => false,
            _ => true,
        }
    })
}

/// Labels of the template, and those that requirements fix to one value.
fn labels(claim: &Value) -> Map<String, Value> {
    let mut labels = claim["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    for requirement in claim["spec"]["requirements"].as_array().into_iter().flatten() {
        let values = requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let (Some("In"), Some(key), [value]) =
            (requirement["operator"].as_str(), requirement["key"].as_str(), values)
        {
            labels.insert(key.to_owned(), value.clone());
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::super::planner::Offering;
    use super::*;

    #[test]
    fn only_allowed_offerings_are_launched() {
        let claim = Claim {
            node_pool: "default".into(),
            resource: json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"requirements": [
                {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["test-zone-b"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ]}}),
            instance_types: vec!["r5.large".into(), "m5.4xlarge".into()],
            offering: Offering {
                instance_type: "r5.large".into(),
                zone: "test-zone-a".into(),
                capacity_type: "spot".into(),
            },
            pods: Vec::new(),
        };
        for seed in 0..50 {
            let node = node(&claim, "n".into(), &mut Dice::new(seed)).unwrap();
            // Zone c lacks the memory family, and the largest size lacks spot.
            assert_eq!((node.zone.as_str(), node.instance_type.name.as_str()), ("test-zone-a", "r5.large"));
            assert_eq!(node.labels["team"], "blue");
            assert_eq!(node.labels["karpenter.sh/capacity-type"], "spot");
        }
    }
}
