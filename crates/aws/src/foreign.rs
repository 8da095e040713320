//! Resources with our cluster's name that do not belong to it: those of another cluster with the same name, and instances without a
//! cluster UID that no NodeClaim names. The provider reports them and never changes them.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_api::labels;
use fleetwright_core::model::ProviderId;
use jiff::{SignedDuration, Timestamp};

use crate::calls::TagSet;
use crate::tags::is_namesake;

/// Most resource names of one cluster in a message.
const NAMED_MAX: usize = 3;
/// Most clusters in a message.
const CLUSTERS_MAX: usize = 5;

/// A kind of resource that another cluster of the same name may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceType {
    /// An instance.
    Instance,
    /// A launch template.
    LaunchTemplate,
    /// An instance profile.
    InstanceProfile,
}

impl ResourceType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::Instance, Self::LaunchTemplate, Self::InstanceProfile];

    /// The value of the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::LaunchTemplate => "launch-template",
            Self::InstanceProfile => "instance-profile",
        }
    }

    /// The event reason, and the plural for messages.
    fn reason_and_plural(self) -> (&'static str, &'static str) {
        match self {
            Self::Instance => ("ForeignInstances", "instances"),
            Self::LaunchTemplate => ("ForeignLaunchTemplates", "launch templates"),
            Self::InstanceProfile => ("ForeignInstanceProfiles", "instance profiles"),
        }
    }
}

/// The number of resources of each cluster, by UID, and some of their names.
type ByUid = BTreeMap<String, (usize, Vec<String>)>;

/// Resources with our cluster's name and another cluster's UID, as of the last list of each type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignResources(BTreeMap<ResourceType, ByUid>);

impl ForeignResources {
    /// Replaces the resources of a type by those of a new list: names, each with the UID that it carries.
    pub fn replace(&mut self, resource: ResourceType, others: impl IntoIterator<Item = (String, String)>) {
        let mut by_uid = ByUid::new();
        let mut others: Vec<(String, String)> = others.into_iter().collect();
        others.sort_unstable();
        for (name, uid) in others {
            let (count, names) = by_uid.entry(uid).or_default();
            *count += 1;
            if names.len() < NAMED_MAX {
                names.push(name);
            }
        }
        self.0.insert(resource, by_uid);
    }

    /// The number of resources of a type.
    #[must_use]
    pub fn count(&self, resource: ResourceType) -> usize {
        self.0.get(&resource).into_iter().flatten().map(|(_, (count, _))| count).sum()
    }

    /// The event reason and message of each type that has such resources.
    #[must_use]
    pub fn messages(&self, cluster: &str) -> Vec<(&'static str, String)> {
        let message = |(resource, by_uid): (&ResourceType, &ByUid)| {
            let of_uid = |(uid, (count, names)): (&String, &(usize, Vec<String>))| {
                let more = if *count > names.len() { ", ..." } else { "" };
                format!("{uid}: {}{more}", names.join(", "))
            };
            let mut some: Vec<String> = by_uid.iter().take(CLUSTERS_MAX).map(of_uid).collect();
            if by_uid.len() > CLUSTERS_MAX {
                some.push(format!("and {} more clusters", by_uid.len() - CLUSTERS_MAX));
            }
            let (reason, what) = resource.reason_and_plural();
            let count = self.count(*resource);
            let text = format!(
                "{count} {what} carry the name {cluster} and the UID of another cluster ({}) and are left unchanged; \
                 give each cluster a unique name",
                some.join("; ")
            );
            (reason, text)
        };
        self.0.iter().filter(|(_, by_uid)| !by_uid.is_empty()).map(message).collect()
    }
}

/// The name and cluster UID of a resource that carries our cluster's name and another UID.
#[must_use]
pub fn namesake(name: &str, tags: &TagSet, cluster: &str, own_uid: &str) -> Option<(String, String)> {
    let uid = tags.get(labels::TAG_CLUSTER_UID).filter(|_| is_namesake(tags, cluster, own_uid))?;
    Some((name.to_owned(), uid.clone()))
}

/// An instance with our cluster's name and no cluster UID: launched by Karpenter, or with copied tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstampedInstance {
    /// Its provider id.
    pub id: ProviderId,
    /// When it was launched.
    pub launched: Option<Timestamp>,
}

/// Minimum age of an instance without NodeClaim: a younger one may have a NodeClaim that has not been observed yet.
const AGE_MIN: SignedDuration = SignedDuration::from_mins(1);

/// The instances that no NodeClaim names. They are reported and never terminated.
#[must_use]
pub fn unowned<'a>(
    unstamped: &'a [UnstampedInstance],
    claimed: &BTreeSet<ProviderId>,
    now: Timestamp,
) -> Vec<&'a UnstampedInstance> {
    let old = |found: &&UnstampedInstance| found.launched.is_none_or(|at| now.duration_since(at) >= AGE_MIN);
    unstamped.iter().filter(old).filter(|found| !claimed.contains(&found.id)).collect()
}

#[cfg(test)]
mod tests;
