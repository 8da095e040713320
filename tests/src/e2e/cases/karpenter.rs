//! Beside Karpenter itself: its kwok provider, in the version of `tests/e2e/karpenter/go.mod`.
//!
//! The fake cloud follows the Nodes that Karpenter creates: they get kubelets, and are the operator's instances after a switch.

mod contract;
mod shadow;
mod switch;

use std::time::Duration;

pub(super) use self::{contract::run as contract, shadow::run as shadow, switch::run as switch};
use super::leader::holder;
use crate::e2e::case::Cx;
use crate::e2e::operator::Operator;

/// A lease is released at SIGTERM; otherwise it lasts 15 s. The rest is for a busy instance.
const TAKEOVER: Duration = Duration::from_secs(40);

/// The name of the operator's pod, by which its lease is told from Karpenter's, whose holder has the name of the host.
const POD: &str = "fleetwright-e2e";

/// Karpenter in the operator's place, with the administrator's permissions, which include those of a kubelet: its kwok provider creates
/// Nodes. Lease and events of an earlier case are gone.
async fn in_its_place(cx: &mut Cx<'_>) -> anyhow::Result<Operator> {
    cx.world.operator.stop().await?;
    cx.kubectl(&["delete", "lease", "karpenter-leader-election", "-n", "kube-system", "--ignore-not-found"])
        .await?;
    cx.kubectl(&["delete", "events", "--all", "-A"]).await?;
    let (world, admin) = (&cx.world, &cx.world.server.kubeconfigs.admin);
    let mut karpenter = Operator::karpenter(world.assets.karpenter()?, &world.folder, admin)?;
    lead(cx, &mut karpenter).await?;
    Ok(karpenter)
}

/// Starts Karpenter and waits until it leads.
async fn lead(cx: &mut Cx<'_>, karpenter: &mut Operator) -> anyhow::Result<()> {
    karpenter.start()?;
    karpenter.wait_ready().await?;
    cx.eventually("Karpenter takes the lease", TAKEOVER, async |world| {
        let holder = holder(world).await?;
        anyhow::ensure!(!holder.is_empty() && !holder.starts_with(POD), "{holder:?} holds it");
        Ok(())
    })
    .await
}

/// Waits until the operator of the world leads.
async fn ours_leads(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.eventually("Fleetwright takes the lease", TAKEOVER, async |world| {
        let holder = holder(world).await?;
        anyhow::ensure!(holder.starts_with(POD), "{holder:?} holds it");
        Ok(())
    })
    .await
}

/// `kubectl scale` of the Deployment of the case.
async fn scale(cx: &Cx<'_>, replicas: usize) -> anyhow::Result<()> {
    let replicas = format!("--replicas={replicas}");
    cx.kubectl(&["scale", "deployment/web", &replicas, "-n", &cx.namespace()]).await.map(drop)
}
