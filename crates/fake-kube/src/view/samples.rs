//! Resources for the tests of this module.

use crate::registry::ResourceInfo;

fn resource(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> ResourceInfo {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    ResourceInfo {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: owned(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
        subresources: owned(&["status"]),
    }
}

/// The NodePool of one version.
pub(super) fn pools(version: &str) -> ResourceInfo {
    let mut pools = resource("karpenter.sh", version, "NodePool", "nodepools", false);
    pools.categories.push("karpenter".to_owned());
    pools.subresources.push("scale".to_owned());
    pools
}

/// Pods, Deployments, and NodePools in two versions.
pub(super) fn samples() -> Vec<ResourceInfo> {
    let mut pods = resource("", "v1", "Pod", "pods", true);
    pods.short_names.push("po".to_owned());
    pods.subresources.push("eviction".to_owned());
    vec![pods, resource("apps", "v1", "Deployment", "deployments", true), pools("v1beta1"), pools("v1")]
}
