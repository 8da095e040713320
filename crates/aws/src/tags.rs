//! Tags of EC2 resources: owner and purpose.

use fleetwright_aws_api::ec2nodeclass::Ec2NodeClassSpec;
use fleetwright_aws_api::labels;
use fleetwright_core::model::Str;

use crate::calls::TagSet;
use crate::settings::Settings;

/// The owner of a resource.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    /// The operator's settings.
    pub settings: &'a Settings,
    /// UID of the cluster.
    pub cluster_uid: &'a str,
    /// Name of the class.
    pub class: &'a str,
    /// Name of the NodePool; empty without one.
    pub pool: &'a str,
}

/// The tags of all resources that a class launches; ownership tags take precedence over the class's own.
#[must_use]
pub fn owned(owner: &Owner<'_>, spec: &Ec2NodeClassSpec) -> TagSet {
    let mut tags: TagSet = spec.tags.clone().unwrap_or_default();
    let cluster = &owner.settings.cluster_name;
    tags.insert(format!("{}{cluster}", labels::TAG_CLUSTER_PREFIX), "owned".to_owned());
    let ours = [
        (labels::TAG_CLUSTER_NAME, &**cluster),
        (labels::TAG_NODEPOOL, owner.pool),
        (labels::NODE_CLASS, owner.class),
        (labels::TAG_CLUSTER_UID, owner.cluster_uid),
    ];
    tags.extend(ours.map(|(key, value)| (key.to_owned(), value.to_owned())));
    tags
}

/// Most tags of a class: EC2 allows 50 per resource, and an instance has ten of the controller's.
pub const CLASS_TAGS_MAX: usize = 40;

/// Tags of the class that users may not set; the CRD rejects those that Karpenter knows.
#[must_use]
pub fn restricted(spec: &Ec2NodeClassSpec) -> Vec<&str> {
    spec.tags
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .filter(|key| labels::is_restricted_tag(key))
        .collect()
}

/// The owner by an instance's tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Launched with our UID.
    Ours,
    /// Our cluster's name without a UID: launched by Karpenter. Ours only if a NodeClaim names it.
    Unstamped,
    /// Another cluster's, or without an owner.
    Foreign,
}

/// The owner of an instance.
#[must_use]
pub fn ownership(tags: &TagSet, cluster_name: &str, cluster_uid: &str) -> Ownership {
    let name = tags.get(labels::TAG_CLUSTER_NAME).map(String::as_str);
    match tags.get(labels::TAG_CLUSTER_UID).map(String::as_str) {
        Some(uid) if uid == cluster_uid && !uid.is_empty() => Ownership::Ours,
        Some(_) => Ownership::Foreign,
        None if name == Some(cluster_name) => Ownership::Unstamped,
        None => Ownership::Foreign,
    }
}

/// Whether an instance belongs to another cluster of our name, which processes its messages.
#[must_use]
pub fn is_namesake(tags: &TagSet, cluster_name: &str, cluster_uid: &str) -> bool {
    let has = |key: &str| tags.get(key).map(String::as_str);
    has(labels::TAG_CLUSTER_NAME) == Some(cluster_name)
        && has(labels::TAG_CLUSTER_UID).is_some_and(|uid| uid != cluster_uid)
}

/// The tags that are set once a node has its name, as far as they are missing.
#[must_use]
pub fn late(tags: &TagSet, node: &str, claim: &str, cluster_name: &Str) -> TagSet {
    let wanted = [
        (labels::TAG_NAME, node),
        (labels::TAG_NODECLAIM, claim),
        (labels::TAG_CLUSTER_NAME, &**cluster_name),
    ];
    let missing = wanted.into_iter().filter(|(key, value)| !tags.contains_key(*key) && !value.is_empty());
    missing.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    //! Ownership.
    use super::*;

    fn tags(entries: &[(&str, &str)]) -> TagSet {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn ownership_is_the_uid() {
        let name = (labels::TAG_CLUSTER_NAME, "prod");
        let of = |entries: &[(&str, &str)]| ownership(&tags(entries), "prod", "uid-1");
        assert_eq!(of(&[name, (labels::TAG_CLUSTER_UID, "uid-1")]), Ownership::Ours);
        assert_eq!(of(&[(labels::TAG_CLUSTER_UID, "uid-1")]), Ownership::Ours);
        assert_eq!(
            of(&[name, (labels::TAG_CLUSTER_UID, "uid-2")]),
            Ownership::Foreign,
            "one name, two clusters"
        );
        assert_eq!(of(&[name]), Ownership::Unstamped);
        assert_eq!(of(&[(labels::TAG_CLUSTER_NAME, "test")]), Ownership::Foreign);
        assert_eq!(of(&[]), Ownership::Foreign);
        let namesake = |entries: &[(&str, &str)]| is_namesake(&tags(entries), "prod", "uid-1");
        assert!(namesake(&[name, (labels::TAG_CLUSTER_UID, "uid-2")]));
        assert!(!namesake(&[name]) && !namesake(&[name, (labels::TAG_CLUSTER_UID, "uid-1")]));
        assert!(!namesake(&[(labels::TAG_CLUSTER_NAME, "test"), (labels::TAG_CLUSTER_UID, "uid-2")]));
    }

    #[test]
    fn ownership_tags_cannot_be_overridden() {
        let own = tags(&[("team", "a"), ("fleetwright.dev/cluster-uid", "forged"), ("Name", "x")]);
        let spec = Ec2NodeClassSpec { tags: Some(own), ..Ec2NodeClassSpec::default() };
        let settings = Settings::new("prod", "us-west-2");
        let owner = Owner { settings: &settings, cluster_uid: "uid-1", class: "default", pool: "general" };
        let found = owned(&owner, &spec);
        let expected = tags(&[
            ("Name", "x"),
            ("eks:eks-cluster-name", "prod"),
            ("fleetwright.dev/cluster-uid", "uid-1"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("karpenter.sh/nodepool", "general"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("team", "a"),
        ]);
        assert_eq!(found, expected);
        assert_eq!(restricted(&spec), ["fleetwright.dev/cluster-uid"]);
        let late = late(&expected, "node-1", "claim-1", &"prod".into());
        assert_eq!(late, tags(&[("karpenter.sh/nodeclaim", "claim-1")]));
    }
}
