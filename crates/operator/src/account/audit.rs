//! `fleetwright audit`: the resources in the account that carry the cluster's name, by owner.

use std::collections::BTreeSet;
use std::io::Write as _;

use fleetwright_api::NodeClaim;
use fleetwright_aws::node_classes;
use fleetwright_aws_api::Ec2NodeClass;
use fleetwright_aws_tools::audit::{AuditReport, audit};
use fleetwright_core::{
    cloud::{CloudProvider as _, Identity},
    model::ProviderId,
};
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use super::{block_on, clock, connect, note};
use crate::{cli::TableOrJson, ec2::options::AuditOptions, kube_client, settings::Values};

/// Reads the account and prints the report.
///
/// # Errors
/// If the cluster or AWS does not respond.
pub(crate) fn run(options: &AuditOptions, values: &Values) -> anyhow::Result<()> {
    let report = block_on(read(values))?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{report}")?,
    }
    Ok(())
}

async fn read(values: &Values) -> anyhow::Result<AuditReport> {
    let client = kube_client::connect(None).await?;
    let uid = kube_client::cluster_uid(&client).await?;
    let classes = node_classes();
    let listed = Api::<Ec2NodeClass>::all(client.clone()).list(&ListParams::default()).await?;
    classes.replace(listed.items.into_iter().map(|class| (class.name_any().as_str().into(), class.into())));
    let claimed = claimed(&client).await?;
    let provider = crate::aws::over(connect(values).await?, values, classes, clock()).await?;
    match provider.identify(&uid).await? {
        Identity::Proven => {}
        Identity::Unproven(why) | Identity::Mismatch(why) => note(&why)?,
        other => note(&format!("{other:?}"))?,
    }
    Ok(audit(&provider, &claimed).await?.into())
}

/// The provider IDs of NodeClaims.
async fn claimed(client: &Client) -> anyhow::Result<BTreeSet<ProviderId>> {
    let all = Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await?;
    let ids = all.into_iter().filter_map(|claim| Some(claim.status?.provider_id));
    Ok(ids.filter(|id| !id.is_empty()).map(|id| id.as_str().into()).collect())
}
