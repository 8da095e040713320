//! Shadow mode beside a Karpenter that leads.

use super::{installed, lead};
use crate::e2e::case::Cx;
use crate::e2e::cases::shadow;

pub(crate) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.world.operator.stop().await?;
    let mut karpenter = installed(cx.world)?;
    lead(cx, &mut karpenter).await?;
    shadow::beside(cx).await?;
    karpenter.stop().await.map(drop)
}
