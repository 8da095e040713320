//! `fleetwright audit`: what in the account carries the cluster's name, by who owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write as _;

use fleetwright_api::NodeClaim;
use fleetwright_aws::{Classes, audit as logic};
use fleetwright_aws_api::Ec2NodeClass;
use fleetwright_core::{
    cloud::{CloudProvider as _, Identity},
    model::ProviderId,
};
use kube::{Api, Client, api::ListParams};
use serde::Serialize;

use super::{block_on, clock, connect, note};
use crate::{
    cli::{AuditOptions, TableOrJson},
    kube_client,
    plan::grid,
    settings::Values,
};

/// What is printed.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Report {
    items: Vec<Item>,
    /// How much there is by kind and owner.
    counts: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// What could not be read, and why.
    unread: Vec<String>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Item {
    kind: &'static str,
    id: String,
    owner: &'static str,
    /// The cluster that it carries, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_uid: Option<String>,
}

/// Looks and prints.
///
/// # Errors
/// Where the cluster or AWS does not answer.
pub(crate) fn run(options: &AuditOptions, values: &Values) -> anyhow::Result<()> {
    let report = block_on(look(values))?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{report}")?,
    }
    Ok(())
}

async fn look(values: &Values) -> anyhow::Result<Report> {
    let client = kube_client::connect(None).await?;
    let uid = kube_client::cluster_uid(&client).await?;
    let classes = Classes::default();
    let listed = Api::<Ec2NodeClass>::all(client.clone()).list(&ListParams::default()).await?;
    classes.replace(listed.items);
    let claimed = claimed(&client).await?;
    let provider = crate::aws::over(connect(values).await?, values, classes, clock()).await?;
    match provider.identify(&uid).await? {
        Identity::Proven => {}
        Identity::Unproven(why) | Identity::Mismatch(why) => note(&why)?,
    }
    Ok(report(provider.audit(&claimed).await?))
}

/// The instances that NodeClaims name.
async fn claimed(client: &Client) -> anyhow::Result<BTreeSet<ProviderId>> {
    let all = Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await?;
    let ids = all.into_iter().filter_map(|claim| Some(claim.status?.provider_id));
    Ok(ids.filter(|id| !id.is_empty()).map(|id| id.as_str().into()).collect())
}

fn report(audit: logic::Audit) -> Report {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for ((kind, owner), count) in audit.counts() {
        counts.entry(kind).or_default().insert(owner, count);
    }
    let item = |item: logic::Item| {
        let (owner, cluster_uid) = match item.verdict {
            logic::Verdict::Ours => ("ours", None),
            logic::Verdict::Named => ("named", None),
            logic::Verdict::Unowned => ("unowned", None),
            logic::Verdict::Foreign(uid) => ("foreign", Some(uid)),
        };
        Item { kind: item.kind, id: item.id, owner, cluster_uid }
    };
    Report { items: audit.items.into_iter().map(item).collect(), counts, unread: audit.unread }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.items.is_empty() {
            let mut grid = grid(&["KIND", "ID", "OWNER", "CLUSTER"]);
            for item in &self.items {
                grid.add_row([item.kind, &item.id, item.owner, item.cluster_uid.as_deref().unwrap_or("")]);
            }
            writeln!(f, "{}\n", grid.trim_fmt())?;
        }
        for unread in &self.unread {
            writeln!(f, "not read: {unread}")?;
        }
        let of = |owner: &str| self.counts.values().filter_map(|by| by.get(owner)).sum::<usize>();
        writeln!(
            f,
            "{} ours, {} named by a claim or class of ours, {} of nobody's, {} of other clusters",
            of("ours"),
            of("named"),
            of("unowned"),
            of("foreign")
        )
    }
}

#[cfg(test)]
mod tests {
    //! What people and programs are told.
    use fleetwright_aws::Settings;
    use fleetwright_aws::calls::{InstanceInfo, TagSet};

    use super::*;

    fn instance(id: &str, uid: Option<&str>) -> InstanceInfo {
        let mut tags = TagSet::from([("eks:eks-cluster-name".to_owned(), "prod".to_owned())]);
        tags.extend(uid.map(|uid| ("fleetwright.dev/cluster-uid".to_owned(), uid.to_owned())));
        InstanceInfo { id: id.to_owned(), zone: "a".to_owned(), tags, ..InstanceInfo::default() }
    }

    #[test]
    fn each_owner_is_named_and_counted() {
        let mut audit = logic::Audit::default();
        let all = [
            instance("i-1", Some("us")),
            instance("i-2", Some("them")),
            instance("i-3", None),
            instance("i-4", None),
        ];
        let claimed = BTreeSet::from(["aws:///a/i-4".into()]);
        audit.instances(&all, &Settings::new("prod", "eu-west-1"), "us", &claimed);
        let report = report(audit);
        let owners: Vec<&str> = report.items.iter().map(|item| item.owner).collect();
        assert_eq!(owners, ["ours", "foreign", "unowned", "named"]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["items"][1]["clusterUid"], "them");
        assert_eq!(json["counts"]["instance"]["unowned"], 1);
        let text = report.to_string();
        assert!(
            text.contains("1 ours, 1 named by a claim or class of ours, 1 of nobody's, 1 of other clusters")
        );
        assert!(text.contains("i-2") && text.contains("them"), "{text}");
    }
}
