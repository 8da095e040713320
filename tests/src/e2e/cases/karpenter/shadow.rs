//! Shadow mode beside a Karpenter that leads.

use super::in_its_place;
use crate::e2e::case::Cx;
use crate::e2e::cases::shadow;

pub(crate) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut karpenter = in_its_place(cx).await?;
    shadow::beside(cx).await?;
    karpenter.stop().await.map(drop)
}
