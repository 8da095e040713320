//! Every list is read to its last page: with short pages the SDK's adapter finds what it finds with one page of everything.

use std::sync::Arc;

use fleetwright_aws::calls::AwsApi;
use fleetwright_aws_emulator::capacity::Reservation;

use super::basics::{claims, launched};
use crate::case::Cx;

/// How much each list has.
async fn sizes(api: &Arc<dyn AwsApi>) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let owners = ["123456789012".to_owned()];
    Ok(vec![
        ("DescribeInstanceTypes", api.instance_types().await?.len()),
        ("DescribeInstanceTypeOfferings", api.sold_in().await?.len()),
        ("DescribeSubnets", api.subnets(&[]).await?.len()),
        ("DescribeSecurityGroups", api.security_groups(&[]).await?.len()),
        ("DescribeImages", api.images(&owners, &[]).await?.len()),
        ("DescribeCapacityReservations", api.reservations(None, &[]).await?.len()),
        ("DescribeInstances", api.instances(&[], &[]).await?.len()),
        ("DescribeLaunchTemplates", api.launch_templates(&[]).await?.len()),
        ("DescribeSpotPriceHistory", api.spot_prices().await?.len()),
        ("GetProducts", api.on_demand_prices("us-west-2").await?.len()),
    ])
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    for name in ["a", "b", "c"] {
        launched(cluster.launch(name, 1, &claims(&[name])).await)?;
        let params = [("LaunchTemplateName", name), ("LaunchTemplateData.ImageId", "ami-1")];
        cx.account.ec2("CreateLaunchTemplate", &params).await?;
        let network = [("GroupName", name), ("GroupDescription", name)];
        cx.account.ec2("CreateSecurityGroup", &network).await?;
        cx.proxy.rules(|rules| {
            rules.prices.push((name.to_owned(), "1.0".to_owned()));
            let reservation = Reservation::new(&format!("cr-{name}"), "m5.large", "us-west-2a", 1);
            rules.supply.reservations.push(reservation);
        });
    }
    let whole = sizes(&cluster.api).await?;
    cx.proxy.rules(|rules| {
        rules.pages = whole.iter().map(|(action, size)| (*action, size.div_ceil(2).max(1))).collect();
    });
    let before = cx.proxy.mark();
    let paged = sizes(&cluster.api).await?;
    for ((action, whole), (_, paged)) in whole.iter().zip(&paged) {
        cx.check(format!("{action} has enough for two pages: {whole}"), *whole >= 2)?;
        cx.equal(&format!("{action}, page by page"), paged, whole)?;
        let calls = cx.proxy.count(action, before);
        cx.check(format!("{action} takes {calls} calls"), calls >= 2)?;
    }
    Ok(())
}
