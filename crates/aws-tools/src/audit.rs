//! Lists everything in the account that carries the cluster's name, by owner.

mod report;

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws::AwsProvider;
use fleetwright_aws::calls::{Filter, InstanceInfo, LaunchTemplate, ProfileInfo, TagSet};
use fleetwright_aws::nodeclass::profile;
use fleetwright_aws::provider::provider_id;
use fleetwright_aws::settings::Settings;
use fleetwright_aws::tags::{Ownership, ownership};
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::CloudError;
use fleetwright_core::model::ProviderId;
use serde_json::Value;

pub use report::{AuditReport, ReportItem};

/// Who owns a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// This cluster: the resource carries its UID.
    Ours,
    /// This cluster: the resource carries no UID, and a NodeClaim or EC2NodeClass names it.
    Named,
    /// Unknown: the resource carries no UID, and nothing of this cluster names it. It is reported and never changed.
    Unowned,
    /// The cluster with this UID.
    Foreign(String),
}

impl Owner {
    /// The owner as reports name it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Named => "named",
            Self::Unowned => "unowned",
            Self::Foreign(_) => "foreign",
        }
    }
}

/// One resource in the account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditItem {
    /// `instance`, `launch-template` or `instance-profile`.
    pub resource_type: &'static str,
    /// Its id or name.
    pub id: String,
    /// Its owner.
    pub owner: Owner,
}

/// Everything that carries the cluster's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Resources by type and id.
    pub items: Vec<AuditItem>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

fn owner(tags: &TagSet, settings: &Settings, cluster_uid: &str, named: bool) -> Owner {
    match ownership(tags, &settings.cluster_name, cluster_uid) {
        Ownership::Ours => Owner::Ours,
        Ownership::Unstamped if named => Owner::Named,
        Ownership::Unstamped => Owner::Unowned,
        Ownership::Foreign => Owner::Foreign(tags.get(labels::TAG_CLUSTER_UID).cloned().unwrap_or_default()),
    }
}

impl Audit {
    fn add(&mut self, resource_type: &'static str, id: &str, owner: Owner) {
        self.items.push(AuditItem { resource_type, id: id.to_owned(), owner });
        self.items.sort();
    }

    /// Adds instances. `claimed` are the provider ids in NodeClaims.
    pub fn add_instances(
        &mut self,
        instances: &[InstanceInfo],
        settings: &Settings,
        cluster_uid: &str,
        claimed: &BTreeSet<ProviderId>,
    ) {
        for info in instances.iter().filter(|info| info.state != "terminated") {
            let named = claimed.contains(&provider_id(&info.zone, &info.id));
            self.add("instance", &info.id, owner(&info.tags, settings, cluster_uid, named));
        }
    }

    /// Adds launch templates. Those of Karpenter carry no UID, and no object names them.
    pub fn add_templates(&mut self, templates: &[LaunchTemplate], settings: &Settings, cluster_uid: &str) {
        for template in templates {
            let owner = owner(&template.tags, settings, cluster_uid, false);
            self.add("launch-template", &template.name, owner);
        }
    }

    /// Adds instance profiles, with whether each is ours.
    pub fn add_profiles(&mut self, profiles: Vec<(ProfileInfo, bool)>) {
        for (profile, ours) in profiles {
            let uid = profile.tags.get(labels::TAG_CLUSTER_UID);
            let owner = match (ours, uid) {
                (true, Some(_)) => Owner::Ours,
                (true, None) => Owner::Named,
                (false, Some(uid)) => Owner::Foreign(uid.clone()),
                (false, None) => Owner::Unowned,
            };
            self.add("instance-profile", &profile.name, owner);
        }
    }

    /// The number of resources by type and owner; all other clusters together.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for item in &self.items {
            *counts.entry((item.resource_type, item.owner.as_str())).or_default() += 1;
        }
        counts
    }
}

/// Reads everything in the account that carries the cluster's name. `claimed` are the provider ids in NodeClaims. The provider must
/// have been identified.
///
/// # Errors
/// If AWS does not list instances or launch templates. Instance profiles that IAM does not list are reported as unread.
pub async fn audit(provider: &AwsProvider, claimed: &BTreeSet<ProviderId>) -> Result<Audit, CloudError> {
    let (api, settings, cluster_uid) = (provider.api(), provider.settings(), provider.cluster_uid()?);
    let classes = provider.classes().all()?;
    let class_uids = classes.values().filter_map(|known| known.class.metadata.uid.clone()).collect();
    let mut audit = Audit::default();
    let name = Filter::new(format!("tag:{}", labels::TAG_CLUSTER_NAME), [&*settings.cluster_name]);
    let instances = api.instances(&[], std::slice::from_ref(&name)).await;
    let instances = instances.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?;
    audit.add_instances(&instances, settings, &cluster_uid, claimed);
    let templates = api.launch_templates(&[name]).await;
    let templates = templates.map_err(|error| error.to_cloud_error("ec2:DescribeLaunchTemplates"))?;
    audit.add_templates(&templates, settings, &cluster_uid);
    let account = profile::Account { api, settings, cluster_uid: &cluster_uid };
    match profile::owners(&account, &class_uids).await {
        Ok(profiles) => audit.add_profiles(profiles),
        Err(error) => audit.unread.push(format!("instance profiles: {}", error.code)),
    }
    Ok(audit)
}

/// The ids of the instances that are of none of these NodeClaims, neither by provider id nor by the name that they were launched for.
#[must_use]
pub fn unclaimed(instances: &[InstanceInfo], claims: &[&Value]) -> Vec<String> {
    let texts = |pointer: &str| -> BTreeSet<&str> {
        claims.iter().filter_map(|claim| claim.pointer(pointer)?.as_str()).collect()
    };
    let (names, ids) = (texts("/metadata/name"), texts("/status/providerID"));
    let is_claimed = |info: &&InstanceInfo| {
        let name = info.tags.get(labels::TAG_NODECLAIM).map(String::as_str);
        ids.contains(&*provider_id(&info.zone, &info.id)) || name.is_some_and(|name| names.contains(name))
    };
    let mut found: Vec<String> =
        instances.iter().filter(|info| !is_claimed(info)).map(|info| info.id.clone()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests;
