//! Whose is what carries our cluster's name: ours by its UID, ours by a claim that names it, nobody's, or another cluster's.
//! Nothing but the first two is ever touched.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_api::labels;
use fleetwright_core::model::ProviderId;
use jiff::Timestamp;

use crate::calls::{InstanceInfo, LaunchTemplate, ProfileInfo, TagSet};
use crate::provider::provider_id;
use crate::settings::Settings;
use crate::tags::{Ownership, ownership};

/// Most ids that are named of each cluster.
const NAMED_MAX: usize = 20;

/// Instances of our cluster's name that carry another cluster's UID, as of the last list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// By UID: how many there are, and some of their ids.
    pub by_uid: BTreeMap<String, (usize, Vec<String>)>,
    /// When they were listed.
    pub listed: Option<Timestamp>,
}

impl Foreign {
    /// Counts foreign instances.
    #[must_use]
    pub fn of(instances: &[InstanceInfo], now: Timestamp) -> Self {
        let mut by_uid: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
        for info in instances {
            let uid = info.tags.get(labels::TAG_CLUSTER_UID).cloned().unwrap_or_default();
            let (count, ids) = by_uid.entry(uid).or_default();
            *count += 1;
            if ids.len() < NAMED_MAX {
                ids.push(info.id.clone());
            }
        }
        Self { by_uid, listed: Some(now) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_uid.values().map(|(count, _)| count).sum()
    }

    /// What people are told of them; `None` where there are none.
    #[must_use]
    pub fn message(&self, cluster: &str) -> Option<String> {
        let (uid, (_, ids)) = self.by_uid.iter().next()?;
        let some: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
        Some(format!(
            "{} instances carry the name {cluster} and the UID of another cluster ({uid}: {}): they are left alone; \
             give each cluster a name of its own",
            self.count(),
            some.join(", ")
        ))
    }
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
