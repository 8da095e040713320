//! Protected pods: nothing but the deadline of their node takes them, and protection for a time ends with it.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::history::{RecordedKind, Seen};
use crate::e2e::manifests;

/// terminationGracePeriod of the NodePool: the deadline, counted from the deletion of the NodeClaim.
const DEADLINE: Duration = Duration::from_secs(20);

/// How long the other pod is protected, counted from its start.
const PROTECTED: Duration = Duration::from_secs(30);

/// Times are written in whole seconds, and the deletion of a pod may have a second of grace.
const EARLY: Duration = Duration::from_secs(2);

/// How long after its time a pod may stay: the drain looks at it every few seconds.
const LATE: Duration = Duration::from_secs(15);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    let patient = format!("{}-patient", cx.pool());
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    cx.apply(&never_consolidated(manifests::node_pool(&patient, 4))).await?;
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!(format!("{}s", DEADLINE.as_secs()));
    cx.apply(&never_consolidated(pool)).await?;
    let until = format!("{}s", PROTECTED.as_secs());
    let mut history = cx.watch().await?;
    cx.launches_as_foreseen(async |cx| {
        for (name, pool, value) in [("forever", &cx.pool(), "true"), ("timed", &patient, &*until)] {
            let mut pod = manifests::pod(&namespace, name, pool, "3");
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": value});
            cx.apply(&pod).await?;
        }
        Ok(())
    })
    .await?;
    cx.serving(2, Duration::from_secs(90)).await?;
    cx.stable(Duration::from_secs(60)).await?;

    let deleted = Instant::now();
    cx.kubectl(&["delete", "nodeclaims", "--all", "--wait=false"]).await?;
    blocked_and_told(cx).await?;
    cx.eventually("both pods leave in the end", PROTECTED + LATE * 2, async |world| {
        let left = world.pods(&namespace).await?.len();
        anyhow::ensure!(left == 0, "{left} pods are left");
        Ok(())
    })
    .await?;
    let record = history.so_far().await?;
    let forever = leaves(&record, "forever")?.duration_since(deleted);
    cx.check(
        format!("the protected pod went {forever:?} after the deletion, with the deadline of {DEADLINE:?}"),
        (DEADLINE.saturating_sub(EARLY)..DEADLINE + LATE).contains(&forever),
    )?;
    let timed = leaves(&record, "timed")?.duration_since(starts(&record, "timed")?);
    cx.check(
        format!("the other one went {timed:?} after its start, protected for {PROTECTED:?}"),
        (PROTECTED.saturating_sub(EARLY)..PROTECTED + LATE).contains(&timed),
    )?;
    cx.emptied(Duration::from_secs(60)).await
}

fn never_consolidated(mut pool: Value) -> Value {
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    pool
}

/// Both nodes are tainted at once, and have conditions about the drain.
async fn blocked_and_told(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.eventually("both NodeClaims say that they are draining", Duration::from_secs(15), async |world| {
        let fleet = world.fleet().await?;
        let told = |claim: &&Value| {
            fleet::condition(claim, "Drained").is_some_and(|condition| condition["status"] != "True")
        };
        let draining = fleet.claims.iter().filter(told).count();
        anyhow::ensure!(draining == 2, "{draining} of {}", fleet.sizes());
        Ok(())
    })
    .await
}

/// When a pod was first seen to go.
fn leaves(record: &[Seen], pod: &str) -> anyhow::Result<Instant> {
    let going = |seen: &&Seen| seen.gone || !seen.object["metadata"]["deletionTimestamp"].is_null();
    first(record, pod, going).with_context(|| format!("the pod {pod} never went"))
}

/// When a pod was first seen to run.
fn starts(record: &[Seen], pod: &str) -> anyhow::Result<Instant> {
    let started = |seen: &&Seen| seen.object["status"]["startTime"].is_string();
    first(record, pod, started).with_context(|| format!("the pod {pod} never started"))
}

fn first(record: &[Seen], pod: &str, what: impl Fn(&&Seen) -> bool) -> Option<Instant> {
    let of_pod =
        record.iter().filter(|seen| seen.kind == RecordedKind::Pod && fleet::name(&seen.object) == pod);
    of_pod.filter(what).map(|seen| seen.at).next()
}
