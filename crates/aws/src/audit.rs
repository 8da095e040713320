//! Whose is what carries our cluster's name: ours by its UID, ours by a claim that names it, nobody's, or another cluster's.
//! Nothing but the first two is ever touched.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_api::labels;
use fleetwright_core::model::ProviderId;
use jiff::{SignedDuration, Timestamp};

use crate::calls::{InstanceInfo, LaunchTemplate, ProfileInfo, TagSet};
use crate::provider::provider_id;
use crate::settings::Settings;
use crate::tags::{Ownership, is_namesake, ownership};

/// Most names that are kept of each cluster, and most that are told.
const NAMED_MAX: usize = 3;
/// Most clusters that are told of at once.
const CLUSTERS_MAX: usize = 5;

/// What is found of another cluster of our name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// An instance.
    Instance,
    /// A launch template.
    LaunchTemplate,
    /// An instance profile.
    InstanceProfile,
}

impl Resource {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Instance, Self::LaunchTemplate, Self::InstanceProfile];

    /// The name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::LaunchTemplate => "launch-template",
            Self::InstanceProfile => "instance-profile",
        }
    }

    /// The reason of the event, and how people call them.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Instance => ("ForeignInstances", "instances"),
            Self::LaunchTemplate => ("ForeignLaunchTemplates", "launch templates"),
            Self::InstanceProfile => ("ForeignInstanceProfiles", "instance profiles"),
        }
    }
}

/// How many there are of each cluster, by UID, and some of their names.
type ByUid = BTreeMap<String, (usize, Vec<String>)>;

/// What carries our cluster's name and another cluster's UID, as of the last list of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign(BTreeMap<Resource, ByUid>);

impl Foreign {
    /// Takes what a list has of other clusters: names, each with the UID that it carries.
    pub fn see(&mut self, resource: Resource, others: impl IntoIterator<Item = (String, String)>) {
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

    /// How many there are.
    #[must_use]
    pub fn count(&self, resource: Resource) -> usize {
        self.0.get(&resource).into_iter().flatten().map(|(_, (count, _))| count).sum()
    }

    /// What people are told, reason and message, of each resource that there is any of.
    #[must_use]
    pub fn messages(&self, cluster: &str) -> Vec<(&'static str, String)> {
        let message = |(resource, by_uid): (&Resource, &ByUid)| {
            let of_uid = |(uid, (count, names)): (&String, &(usize, Vec<String>))| {
                let more = if *count > names.len() { ", ..." } else { "" };
                format!("{uid}: {}{more}", names.join(", "))
            };
            let mut some: Vec<String> = by_uid.iter().take(CLUSTERS_MAX).map(of_uid).collect();
            if by_uid.len() > CLUSTERS_MAX {
                some.push(format!("and {} clusters more", by_uid.len() - CLUSTERS_MAX));
            }
            let (reason, what) = resource.told();
            let count = self.count(*resource);
            let text = format!(
                "{count} {what} carry the name {cluster} and the UID of another cluster ({}): they are left alone; \
                 give each cluster a name of its own",
                some.join("; ")
            );
            (reason, text)
        };
        self.0.iter().filter(|(_, by_uid)| !by_uid.is_empty()).map(message).collect()
    }
}

/// The name of something that carries our cluster's name and another UID, with that UID.
#[must_use]
pub fn namesake(name: &str, tags: &TagSet, cluster: &str, own_uid: &str) -> Option<(String, String)> {
    let uid = tags.get(labels::TAG_CLUSTER_UID).filter(|_| is_namesake(tags, cluster, own_uid))?;
    Some((name.to_owned(), uid.clone()))
}

/// An instance of our cluster's name without any UID: Karpenter's, or somebody's who copied its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstamped {
    /// Its provider id.
    pub id: ProviderId,
    /// When it was launched.
    pub launched: Option<Timestamp>,
}

/// How old an instance is before it is missed: its claim may not have been seen yet.
const AGE_MIN: SignedDuration = SignedDuration::from_mins(1);

/// Those that no claim names: they are told of, and never ended.
#[must_use]
pub fn unowned<'a>(
    unstamped: &'a [Unstamped],
    claimed: &BTreeSet<ProviderId>,
    now: Timestamp,
) -> Vec<&'a Unstamped> {
    let old = |found: &&Unstamped| found.launched.is_none_or(|at| now.duration_since(at) >= AGE_MIN);
    unstamped.iter().filter(old).filter(|found| !claimed.contains(&found.id)).collect()
}

/// What is told of the owner of something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It carries our UID.
    Ours,
    /// It carries no UID, and a claim or class of ours names it.
    Named,
    /// It carries no UID, and nothing of ours names it: reported, never touched.
    Unowned,
    /// It carries the UID of another cluster.
    Foreign(String),
}

/// One thing in the account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// `instance`, `launch-template` or `instance-profile`.
    pub kind: &'static str,
    /// Its id or name.
    pub id: String,
    /// Whose it is.
    pub verdict: Verdict,
}

/// Everything that carries our cluster's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// By kind and id.
    pub items: Vec<Item>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

fn verdict(tags: &TagSet, settings: &Settings, uid: &str, named: bool) -> Verdict {
    match ownership(tags, &settings.cluster_name, uid) {
        Ownership::Ours => Verdict::Ours,
        Ownership::Unstamped if named => Verdict::Named,
        Ownership::Unstamped => Verdict::Unowned,
        Ownership::Foreign => {
            Verdict::Foreign(tags.get(labels::TAG_CLUSTER_UID).cloned().unwrap_or_default())
        }
    }
}

impl Audit {
    fn add(&mut self, kind: &'static str, id: &str, verdict: Verdict) {
        self.items.push(Item { kind, id: id.to_owned(), verdict });
        self.items.sort();
    }

    /// Adds instances, by the provider ids that claims name.
    pub fn instances(
        &mut self,
        all: &[InstanceInfo],
        settings: &Settings,
        uid: &str,
        claimed: &BTreeSet<ProviderId>,
    ) {
        for info in all.iter().filter(|info| info.state != "terminated") {
            let named = claimed.contains(&provider_id(&info.zone, &info.id));
            self.add("instance", &info.id, verdict(&info.tags, settings, uid, named));
        }
    }

    /// Adds launch templates; nothing names those that Karpenter made.
    pub fn templates(&mut self, all: &[LaunchTemplate], settings: &Settings, uid: &str) {
        for template in all {
            self.add("launch-template", &template.name, verdict(&template.tags, settings, uid, false));
        }
    }

    /// Adds instance profiles, with whether each is ours.
    pub fn profiles(&mut self, all: Vec<(ProfileInfo, bool)>) {
        for (profile, ours) in all {
            let uid = profile.tags.get(labels::TAG_CLUSTER_UID);
            let verdict = match (ours, uid) {
                (true, Some(_)) => Verdict::Ours,
                (true, None) => Verdict::Named,
                (false, Some(uid)) => Verdict::Foreign(uid.clone()),
                (false, None) => Verdict::Unowned,
            };
            self.add("instance-profile", &profile.name, verdict);
        }
    }

    /// How much there is of each kind and owner, foreign clusters together.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for item in &self.items {
            let owner = match item.verdict {
                Verdict::Ours => "ours",
                Verdict::Named => "named",
                Verdict::Unowned => "unowned",
                Verdict::Foreign(_) => "foreign",
            };
            *counts.entry((item.kind, owner)).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests;
