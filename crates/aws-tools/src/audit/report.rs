//! The output of `fleetwright audit`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Audit, AuditItem, Owner};
use crate::table;

/// The resources of the account by owner, as printed.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Resources by type and id.
    pub items: Vec<ReportItem>,
    /// The number of resources by type and owner.
    pub counts: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// One resource.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReportItem {
    /// `instance`, `launch-template` or `instance-profile`.
    pub kind: &'static str,
    /// Its id or name.
    pub id: String,
    /// `ours`, `named`, `unowned` or `foreign`.
    pub owner: &'static str,
    /// The UID of the owner, if that is another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
}

impl From<Audit> for AuditReport {
    fn from(audit: Audit) -> Self {
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for ((resource_type, owner), count) in audit.counts() {
            counts.entry(resource_type).or_default().insert(owner, count);
        }
        let item = |AuditItem { resource_type, id, owner }| {
            let name = owner.as_str();
            let cluster_uid = match owner {
                Owner::Foreign(uid) => Some(uid),
                Owner::Ours | Owner::Named | Owner::Unowned => None,
            };
            ReportItem { kind: resource_type, id, owner: name, cluster_uid }
        };
        Self { items: audit.items.into_iter().map(item).collect(), counts, unread: audit.unread }
    }
}

impl fmt::Display for AuditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.items.is_empty() {
            let mut table = table(&["KIND", "ID", "OWNER", "CLUSTER"]);
            for item in &self.items {
                table.add_row([item.kind, &item.id, item.owner, item.cluster_uid.as_deref().unwrap_or("")]);
            }
            writeln!(f, "{}\n", table.trim_fmt())?;
        }
        for unread in &self.unread {
            writeln!(f, "not read: {unread}")?;
        }
        let of = |owner: &str| self.counts.values().filter_map(|by| by.get(owner)).sum::<usize>();
        writeln!(
            f,
            "{} ours, {} named by a NodeClaim or EC2NodeClass, {} unowned, {} of other clusters",
            of("ours"),
            of("named"),
            of("unowned"),
            of("foreign")
        )?;
        if of("foreign") > 0 {
            writeln!(
                f,
                "warning: another cluster has the same name (L107), and Karpenter would take its instances for this one's: give each \
                 cluster a name of its own"
            )?;
        }
        if self.counts.get("instance").and_then(|by| by.get("unowned")).is_some_and(|count| *count > 0) {
            writeln!(
                f,
                "warning: no NodeClaim names the unowned instances (L107): they are orphans, or those of another cluster of the same \
                 name"
            )?;
        }
        Ok(())
    }
}
