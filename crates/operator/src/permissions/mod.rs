//! `fleetwright permissions`: the service account of an operator and what it may do, for `kubectl apply -f -`.
//!
//! What an operator needs beside its NodeClasses is the same for each cloud and stands in `template.yaml`; what it needs for these follows
//! from their definitions.

use std::{collections::BTreeSet, fmt::Write as _};

use fleetwright_api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The permissions of every operator.
const TEMPLATE: &str = include_str!("template.yaml");

/// Service account, roles and bindings of the operator `name` in `namespace`. `definitions` are those of its cloud.
pub(crate) fn manifest(name: &str, namespace: &str, definitions: &[CustomResourceDefinition]) -> String {
    let filled = TEMPLATE.replace("{name}", name).replace("{namespace}", namespace);
    filled.replace("{classes}", &of_classes(definitions))
}

/// The rules for NodeClasses, which are read and get a status and finalizers.
fn of_classes(definitions: &[CustomResourceDefinition]) -> String {
    let shared: BTreeSet<String> = crd::base().into_iter().filter_map(|crd| crd.metadata.name).collect();
    let is_of_cloud = |crd: &&CustomResourceDefinition| {
        crd.metadata.name.as_ref().is_none_or(|name| !shared.contains(name))
    };
    let mut rules = String::new();
    for crd in definitions.iter().filter(is_of_cloud) {
        let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
        // Writing to a string never fails.
        let _ = write!(
            rules,
            "  # {kind}.
  - apiGroups: [\"{group}\"]
    resources: [\"{plural}\"]
    verbs: [\"get\", \"list\", \"watch\"]
  - apiGroups: [\"{group}\"]
    resources: [\"{plural}\", \"{plural}/status\"]
    verbs: [\"patch\", \"update\"]
",
            kind = crd.spec.names.kind,
        );
    }
    rules
}

#[cfg(test)]
mod tests {
    //! The permissions are those of the manifests of the repository.
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::{input, scenarios::from_root};

    fn read_documents(text: &str) -> Vec<Value> {
        let mut items = Vec::new();
        input::parse(Path::new("permissions.yaml"), text, &mut items).unwrap();
        items.into_iter().map(|item| item.value).collect()
    }

    /// Group, resource and verb of every rule of roles of a kind, beside those that are not for the operator itself.
    fn rules(documents: &[Value], kind: &str) -> BTreeSet<[String; 4]> {
        let mut found = BTreeSet::new();
        let is_own = |name: &Value| {
            name.as_str().is_some_and(|name| !name.ends_with("-admin") && !name.ends_with("-dns"))
        };
        let roles = documents.iter().filter(|role| role["kind"] == kind && is_own(&role["metadata"]["name"]));
        for rule in roles.flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
            let all = |key: &str| {
                let values = rule[key].as_array().into_iter().flatten();
                values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
            };
            let names = all("resourceNames").join(",");
            for group in all("apiGroups") {
                for resource in all("resources") {
                    let verbs = all("verbs").into_iter();
                    found.extend(verbs.map(|verb| [group.clone(), resource.clone(), names.clone(), verb]));
                }
            }
        }
        found
    }

    #[test]
    fn the_chart_and_the_example_grant_the_same() {
        let aws = fleetwright_aws_api::crds();
        let mut pebble = crd::base();
        let mut class = aws.last().unwrap().clone();
        class.metadata.name = Some("pebblenodeclasses.pebble.example".to_owned());
        class.spec.group = "pebble.example".to_owned();
        class.spec.names.plural = "pebblenodeclasses".to_owned();
        pebble.push(class);
        for (file, definitions) in
            [("deploy/aws/karpenter.yaml", aws), ("examples/provider/deploy/operator.yaml", pebble)]
        {
            let granted = read_documents(&std::fs::read_to_string(from_root(file)).unwrap());
            let own = read_documents(&manifest("a", "b", &definitions));
            for kind in ["ClusterRole", "Role"] {
                assert_eq!(rules(&own, kind), rules(&granted, kind), "{file}: {kind}");
            }
        }
    }

    #[test]
    fn names_and_namespaces_are_filled_in() {
        let documents = read_documents(&manifest("acme-autoscaler", "acme", &[]));
        let kinds: Vec<&str> = documents.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert!(documents.iter().all(|object| object["metadata"]["name"] == "acme-autoscaler"));
        assert_eq!(documents[4]["subjects"][0]["namespace"], "acme");
    }
}
