//! What the LimitRanges of a namespace add to the containers of a new pod, as the admission plugin LimitRanger does.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{LimitRange, LimitRangeItem, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};

/// Default limits and requests of a container, by resource name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerDefaults {
    limits: BTreeMap<String, Quantity>,
    requests: BTreeMap<String, Quantity>,
}

impl ContainerDefaults {
    /// The defaults of `ranges`, all of one namespace. The first one that has a resource counts.
    pub fn of<'a>(ranges: impl IntoIterator<Item = &'a LimitRange>) -> Self {
        let mut defaults = Self::default();
        let items = ranges.into_iter().filter_map(|range| Some(&range.spec.as_ref()?.limits)).flatten();
        for item in items.filter(|item| item.type_ == "Container") {
            let LimitRangeItem { default, default_request, max, min, .. } = item;
            let mut limits = default.clone().unwrap_or_default();
            fill(&mut limits, max.iter().flatten());
            let mut requests = default_request.clone().unwrap_or_default();
            // The API server writes these into the object; files may be without them.
            fill(&mut requests, limits.iter().chain(min.iter().flatten()));
            fill(&mut defaults.limits, &limits);
            fill(&mut defaults.requests, &requests);
        }
        defaults
    }

    /// Adds to each container what it neither requests nor limits. Requests that follow from limits have to be in `spec` already:
    /// [`super::requests::defaulted`].
    pub fn apply(&self, spec: &mut PodSpec) {
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            let resources = container.resources.get_or_insert_default();
            fill(resources.limits.get_or_insert_default(), &self.limits);
            fill(resources.requests.get_or_insert_default(), &self.requests);
        }
    }
}

/// Adds the entries whose names are missing.
fn fill<'a>(to: &mut BTreeMap<String, Quantity>, from: impl IntoIterator<Item = (&'a String, &'a Quantity)>) {
    for (name, amount) in from {
        to.entry(name.clone()).or_insert_with(|| amount.clone());
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::lower::requests::defaulted;

    #[rstest]
    #[case::limits_become_requests(json!({"default": {"cpu": "2"}}), json!({}), json!({"cpu": "2"}))]
    #[case::requests_of_their_own(json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}), json!({}), json!({"cpu": "1"}))]
    #[case::the_maximum_is_a_limit(json!({"max": {"cpu": "4"}}), json!({}), json!({"cpu": "4"}))]
    #[case::the_minimum_is_a_request(json!({"min": {"cpu": "100m"}}), json!({}), json!({"cpu": "100m"}))]
    #[case::what_is_given_stays(json!({"default": {"cpu": "2", "memory": "1Gi"}}), json!({"requests": {"cpu": "3"}}), json!({"cpu": "3", "memory": "1Gi"}))]
    #[case::a_limit_is_a_request(json!({"defaultRequest": {"cpu": "1"}}), json!({"limits": {"cpu": "3"}}), json!({"cpu": "3"}))]
    fn containers_get_defaults(#[case] item: Value, #[case] resources: Value, #[case] requests: Value) {
        let mut item = item;
        item["type"] = json!("Container");
        let ranges: Vec<LimitRange> = [
            json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}}, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]}}),
            json!({"spec": {"limits": [item]}}),
            json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "7"}}]}}),
        ]
        .map(|range| serde_json::from_value(range).unwrap())
        .into();
        let spec = json!({"containers": [{"name": "main", "resources": resources}], "initContainers": [{"name": "first"}]});
        let mut spec = defaulted(&serde_json::from_value(spec).unwrap());
        ContainerDefaults::of(&ranges).apply(&mut spec);
        let found = |containers: &[k8s_openapi::api::core::v1::Container]| {
            serde_json::to_value(&containers[0].resources).unwrap()["requests"].clone()
        };
        assert_eq!(found(&spec.containers), requests);
        assert_ne!(found(&spec.init_containers.unwrap()), json!({}), "init containers too");
    }
}
