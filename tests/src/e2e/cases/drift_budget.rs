//! Drift of a whole pool, a budget's worth at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::ledger;
use crate::e2e::manifests;

const NODES: u32 = 20;
const PERCENT: usize = 10;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.apply(&manifests::namespace(&cx.namespace())).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    // Nothing but drift takes an instance.
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": format!("{PERCENT}%")}]);
    cx.apply(&pool).await?;
    // 3 of 4 CPUs: one pod per node.
    let web = manifests::deployment(&cx.namespace(), "web", &cx.pool(), NODES, "3");
    cx.launches_as_foreseen(async |cx| cx.apply(&web).await.map(drop)).await?;
    let count = usize::try_from(NODES)?;
    cx.serving(count, Duration::from_secs(90)).await?;
    let old = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("nodes", &old.nodes.len(), &count)?;

    let mut history = cx.watch().await?;
    // All nodes are marked before the first is disrupted: which one it is does not depend on the order of the marks.
    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    cx.apply(&pool).await?;
    cx.eventually("every NodeClaim has drifted", Duration::from_secs(60), async |world| {
        let claims = world.fleet().await?.claims;
        let drifted = claims.iter().filter(|claim| fleet::is_true(claim, "Drifted")).count();
        anyhow::ensure!(drifted == count, "{drifted} of {}", claims.len());
        Ok(())
    })
    .await?;
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": format!("{PERCENT}%")}]);
    cx.disrupts_as_foreseen(async |cx| cx.apply(&pool).await.map(drop)).await?;
    let old: BTreeSet<String> = old.claims.iter().map(fleet::name).collect();
    cx.eventually("every node was replaced", Duration::from_secs(240), async |world| {
        let fleet = world.fleet().await?;
        let left = fleet.claims.iter().filter(|claim| old.contains(&fleet::name(claim))).count();
        anyhow::ensure!(left == 0, "{left} old ones are left, {}", fleet.sizes());
        Ok(())
    })
    .await?;
    cx.serving(count, Duration::from_secs(60)).await?;
    let new = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("nodes, after all of them were replaced", &new.nodes.len(), &count)?;

    let verdict = ledger::judge(&history.so_far().await?, &cx.pool(), PERCENT);
    cx.equal("disruptions that the budget did not allow", &verdict.violations, &Vec::new())?;
    let begun: BTreeSet<String> = verdict.begun.iter().cloned().collect();
    cx.equal("disrupted NodeClaims, none of them twice", &begun.len(), &verdict.begun.len())?;
    cx.check("they are the old ones", begun == old)?;
    cx.check(format!("the budget was made use of: {} at a time", verdict.most), verdict.most >= 2)
}
