//! Discovery: which groups, versions and resources there are.
//!
//! Groups appear in the order in which `resources` first names them; within a group stable versions come before
//! betas and betas before alphas, newer ones first.

use serde_json::{Map, Value, json};

use crate::registry::ResourceInfo;

/// `/api` and `/apis` in the aggregated form (`apidiscovery.k8s.io/v2` `APIGroupDiscoveryList`): the core group if
/// `core`, else all others.
#[must_use]
pub fn aggregated(resources: &[ResourceInfo], core: bool) -> Value {
    let groups = groups(resources).into_iter().filter(|group| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|group| {
            let versions = versions(resources, group).into_iter().map(|version| {
                let served = served(resources, group, version).map(aggregated_resource).collect::<Vec<_>>();
                json!({"version": version, "resources": served, "freshness": "Current"})
            });
            let metadata = if core {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions.collect::<Vec<_>>()})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// `/apis` in the plain form (`APIGroupList`).
#[must_use]
pub fn group_list(resources: &[ResourceInfo]) -> Value {
    let named = groups(resources).into_iter().filter(|group| !group.is_empty());
    let groups: Vec<Value> = named.map(|name| Value::Object(group(resources, name))).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>` (`APIGroup`); `None` if there is no such group.
#[must_use]
pub fn api_group(resources: &[ResourceInfo], group: &str) -> Option<Value> {
    if group.is_empty() || !resources.iter().any(|resource| resource.group == group) {
        return None;
    }
    let mut document = self::group(resources, group);
    document.insert("kind".to_owned(), json!("APIGroup"));
    document.insert("apiVersion".to_owned(), json!("v1"));
    Some(Value::Object(document))
}

/// `/api/<version>` and `/apis/<group>/<version>` (`APIResourceList`), subresources included; `None` if nothing is
/// served there.
#[must_use]
pub fn resource_list(resources: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let list: Vec<Value> = served(resources, group, version).flat_map(plain_resources).collect();
    if list.is_empty() {
        return None;
    }
    let group_version = group_version(group, version);
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

/// `/api` in the plain form (`APIVersions`).
#[must_use]
pub fn api_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/version`, for a version such as `v1.35.4`.
#[must_use]
pub fn version(git_version: &str) -> Value {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "gitVersion": git_version, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "linux/amd64"
    })
}

/// `v1` or `group/v1`.
pub(super) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All pairs of group and version, groups in order of appearance, preferred versions first.
pub(super) fn group_versions(resources: &[ResourceInfo]) -> Vec<(&str, &str)> {
    let groups = groups(resources).into_iter();
    groups
        .flat_map(|group| versions(resources, group).into_iter().map(move |version| (group, version)))
        .collect()
}

/// The resources of one group and version.
pub(super) fn served<'a>(
    resources: &'a [ResourceInfo],
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a ResourceInfo> {
    resources.iter().filter(move |resource| resource.group == group && resource.version == version)
}

fn groups(resources: &[ResourceInfo]) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for resource in resources {
        if !groups.contains(&resource.group.as_str()) {
            groups.push(&resource.group);
        }
    }
    groups
}

fn versions<'a>(resources: &'a [ResourceInfo], group: &str) -> Vec<&'a str> {
    let of_group = resources.iter().filter(|resource| resource.group == group);
    let mut versions: Vec<&str> = of_group.map(|resource| resource.version.as_str()).collect();
    versions.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| a.cmp(b)));
    versions.dedup();
    versions
}

/// Stability, then major, then minor number; texts of another form come last.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        for (word, stability) in [("beta", 2), ("alpha", 1)] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some((stability, major.parse().ok()?, minor.parse().ok()?));
            }
        }
        Some((3, rest.parse().ok()?, 0))
    };
    parse().unwrap_or_default()
}

fn group(resources: &[ResourceInfo], name: &str) -> Map<String, Value> {
    let entry = |version: &str| json!({"groupVersion": group_version(name, version), "version": version});
    let versions: Vec<Value> = versions(resources, name).into_iter().map(entry).collect();
    let mut document = Map::new();
    document.insert("name".to_owned(), json!(name));
    document.insert("preferredVersion".to_owned(), versions.first().cloned().unwrap_or_default());
    document.insert("versions".to_owned(), Value::Array(versions));
    document
}

/// What a subresource answers with, and its verbs.
struct Subresource<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'static [&'static str],
}

fn subresource<'a>(resource: &'a ResourceInfo, name: &str) -> Subresource<'a> {
    let (group, version) = (resource.group.as_str(), resource.version.as_str());
    let own = |verbs| Subresource { group, version, kind: &resource.kind, verbs };
    let other = |group, version, kind, verbs| Subresource { group, version, kind, verbs };
    match name {
        "scale" => other("autoscaling", "v1", "Scale", &["get", "patch", "update"]),
        "eviction" => other("policy", "v1", "Eviction", &["create"]),
        "binding" => other("", "v1", "Binding", &["create"]),
        "token" => other("authentication.k8s.io", "v1", "TokenRequest", &["create"]),
        "exec" => other("", "v1", "PodExecOptions", &["create", "get"]),
        "attach" => other("", "v1", "PodAttachOptions", &["create", "get"]),
        "portforward" => other("", "v1", "PodPortForwardOptions", &["create", "get"]),
        "log" => own(&["get"]),
        "finalize" => own(&["update"]),
        _ => own(&["get", "patch", "update"]),
    }
}

fn aggregated_resource(resource: &ResourceInfo) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs
    });
    names(resource, &mut entry);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|name| {
            let Subresource { group, version, kind, verbs } = subresource(resource, name);
            let response = json!({"group": group, "version": version, "kind": kind});
            json!({"subresource": name, "responseKind": response, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

fn plain_resources(resource: &ResourceInfo) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs
    });
    names(resource, &mut entry);
    let mut entries = vec![entry];
    for name in &resource.subresources {
        let Subresource { group, version, kind, verbs } = subresource(resource, name);
        let mut entry = json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "",
            "namespaced": resource.namespaced, "kind": kind, "verbs": verbs
        });
        if (group, version) != (resource.group.as_str(), resource.version.as_str()) {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        entries.push(entry);
    }
    entries
}

fn names(resource: &ResourceInfo, entry: &mut Value) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::samples::{pools, samples};

    #[test]
    fn plain_groups() {
        let resources = samples();
        let groups = group_list(&resources);
        let names: Vec<_> = groups["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
        assert_eq!(json!(names), json!(["apps", "karpenter.sh"]));
        let group = api_group(&resources, "karpenter.sh").unwrap();
        assert_eq!(group["preferredVersion"], json!({"groupVersion": "karpenter.sh/v1", "version": "v1"}));
        assert_eq!(group["versions"][1]["version"], "v1beta1");
        assert!(api_group(&resources, "").is_none() && api_group(&resources, "nope").is_none());
    }

    #[test]
    fn plain_resources() {
        let resources = samples();
        let core = resource_list(&resources, "", "v1").unwrap();
        assert_eq!(core["groupVersion"], "v1");
        let names: Vec<_> =
            core["resources"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
        assert_eq!(json!(names), json!(["pods", "pods/status", "pods/eviction"]));
        let eviction = json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction",
            "group": "policy", "version": "v1", "verbs": ["create"]});
        assert_eq!(core["resources"][2], eviction);
        assert_eq!(core["resources"][0]["shortNames"], json!(["po"]));
        assert!(resource_list(&resources, "apps", "v2").is_none());
    }

    #[test]
    fn aggregated_documents() {
        let resources = samples();
        let core = aggregated(&resources, true);
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        assert_eq!(core["items"][0]["versions"][0]["resources"][0]["resource"], "pods");
        let others = aggregated(&resources, false);
        assert_eq!(others["items"][1]["metadata"]["name"], "karpenter.sh");
        let pools_entry = json!({
            "resource": "nodepools", "responseKind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"},
            "scope": "Cluster", "singularResource": "nodepool", "verbs": pools("v1").verbs,
            "categories": ["karpenter"],
            "subresources": [
                {"subresource": "status", "verbs": ["get", "patch", "update"],
                 "responseKind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}},
                {"subresource": "scale", "verbs": ["get", "patch", "update"],
                 "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}
            ]
        });
        assert_eq!(others["items"][1]["versions"][0]["resources"][0], pools_entry);
    }

    #[test]
    fn versions_are_ordered_by_stability() {
        let mut versions = ["v1beta1", "v2alpha1", "v1", "foo", "v10", "v2", "v1beta2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "foo"]);
    }

    #[test]
    fn the_version_is_taken_apart() {
        let version = version("v1.35.4");
        assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("35")));
        assert_eq!(api_versions()["versions"], json!(["v1"]));
    }
}
