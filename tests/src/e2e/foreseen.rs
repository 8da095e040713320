//! What `plan` and `disrupt` say of a cluster, and what the controller launches and disrupts there.
//!
//! Every case in which a node is launched or disrupted compares the two, or is in [`UNFORESEEN`] with the reason: [`judge`] fails it otherwise.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::Value;

use super::fleet::{condition, is_true, name};
use super::history::{RecordedKind, Seen};
use super::world::LaneWorld;

/// What a tool foresees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foresight {
    /// The NodeClaims that are launched, by `plan`.
    Launches,
    /// The nodes that are disrupted, by `disrupt`.
    Disruptions,
}

/// Cases that launch or disrupt nodes and cannot compare them, with the reason.
pub(super) const UNFORESEEN: [(&str, Foresight, &str); 8] = [
    ("leader", Foresight::Disruptions, "one node for each pod to the end: what is disrupted is the clean-up"),
    (
        "neighbor",
        Foresight::Launches,
        "each of two operators plans its own pods: the tool of one has no catalogue of the other",
    ),
    ("neighbor", Foresight::Disruptions, "as its launches: the tool of one has no catalogue of the other"),
    (
        "shadow",
        Foresight::Disruptions,
        "its process must see what the leader does: a leader that is started again is another one",
    ),
    ("karpenter-switch", Foresight::Disruptions, "Karpenter's, but for the clean-up"),
    ("karpenter-shadow", Foresight::Launches, "Karpenter launches them; the shadow compares its own plans"),
    ("karpenter-shadow", Foresight::Disruptions, "Karpenter's; the shadow compares its own commands"),
    (
        "karpenter-contract",
        Foresight::Disruptions,
        "metrics, events and logs of one process are compared: a restart empties them",
    ),
];

/// Checks that a case compared what happened in it.
///
/// # Errors
/// If it launched or disrupted nodes without a comparison and without a reason, or has a reason that does not hold.
pub(super) fn judge(case: &str, record: &[Seen], compared: &[Foresight]) -> anyhow::Result<()> {
    for (what, sign, how) in [
        (Foresight::Launches, "Launched", "launches_as_foreseen"),
        (Foresight::Disruptions, "DisruptionReason", "disrupts_as_foreseen"),
    ] {
        let happened = |seen: &Seen| seen.kind == RecordedKind::NodeClaim && is_true(&seen.object, sign);
        let excused = UNFORESEEN.iter().any(|(name, of, _)| *name == case && *of == what);
        let is_compared = compared.contains(&what);
        anyhow::ensure!(
            !(excused && is_compared),
            "{what:?} are compared: UNFORESEEN says that they cannot be"
        );
        anyhow::ensure!(
            is_compared || excused || !record.iter().any(happened),
            "{what:?} are not compared with what the tool foresees: {how}"
        );
    }
    Ok(())
}

/// Succeeds once all pods of a namespace exist that its Deployments want, and kube-scheduler has found no node for those that have none: what
/// `plan` and the controller count.
pub(crate) async fn unschedulable(world: &LaneWorld, namespace: &str) -> anyhow::Result<()> {
    let deployments = world.list(&format!("/apis/apps/v1/namespaces/{namespace}/deployments")).await?;
    let wanted: u64 = deployments.iter().filter_map(|object| object["spec"]["replicas"].as_u64()).sum();
    let pods = world.pods(namespace).await?;
    let is_owned = |pod: &&Value| pod["metadata"]["ownerReferences"].is_array();
    let owned = u64::try_from(pods.iter().filter(is_owned).count())?;
    anyhow::ensure!(owned == wanted, "{owned} of {wanted} pods exist");
    let is_tried = |pod: &&Value| {
        condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "Unschedulable")
    };
    let mut unbound = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null());
    let untried = unbound.find(|pod| !is_tried(pod)).map(name);
    anyhow::ensure!(untried.is_none(), "{untried:?} was not tried yet");
    Ok(())
}

/// Succeeds once the operator has looked at every NodePool: `plan` leaves out those that are not ready.
pub(crate) async fn looked_at(world: &LaneWorld) -> anyhow::Result<()> {
    for pool in world.list("/apis/karpenter.sh/v1/nodepools").await? {
        let ready = condition(&pool, "Ready").map_or(&Value::Null, |condition| &condition["status"]);
        anyhow::ensure!(ready == "True" || ready == "False", "Ready of {} is {ready}", name(&pool));
    }
    Ok(())
}

/// The NodeClaims of a plan, and those that there were before.
pub(crate) struct ForeseenLaunches {
    pub(crate) planned: Vec<Foreseen>,
    pub(crate) before: BTreeSet<String>,
    /// Whether NodeClaims have to be for the same pods.
    pub(crate) by_pods: bool,
}

impl ForeseenLaunches {
    /// The same by NodePools, types and zones alone: where an operator was killed, its successor nominates the pods that still wait then, and a
    /// NodeClaim was seen that named none any more.
    pub(crate) fn without_pods(self) -> Self {
        Self { planned: without_pods(self.planned), by_pods: false, ..self }
    }

    /// Whether these NodeClaims are the planned ones.
    ///
    /// # Errors
    /// Says what is there in place of what was planned.
    pub(crate) fn compare(&self, launched: Vec<Foreseen>) -> anyhow::Result<()> {
        let launched = if self.by_pods { sorted(launched) } else { without_pods(launched) };
        anyhow::ensure!(launched == self.planned, "{launched:?} in place of {:?}", self.planned);
        Ok(())
    }
}

fn without_pods(all: Vec<Foreseen>) -> Vec<Foreseen> {
    sorted(
        all.into_iter()
            .map(|(pool, instance_type, zone, _)| (pool, instance_type, zone, Vec::new()))
            .collect(),
    )
}

/// A NodeClaim by its NodePool, what is launched, and its pods.
pub(crate) type Foreseen = (String, String, String, Vec<String>);

fn sorted(mut all: Vec<Foreseen>) -> Vec<Foreseen> {
    all.sort();
    all
}

/// The NodeClaims of a plan, sorted.
pub(crate) fn planned(plan: &Value) -> anyhow::Result<Vec<Foreseen>> {
    let claims = plan["nodeClaims"].as_array().context("a plan without NodeClaims")?;
    let claim = |claim: &Value| {
        let offering = &claim["offering"];
        Some((
            claim["nodePool"].as_str()?.to_owned(),
            offering["instanceType"].as_str()?.to_owned(),
            offering["zone"].as_str()?.to_owned(),
            names(claim["pods"].as_array()?.iter().filter_map(Value::as_str)),
        ))
    };
    let found = claims.iter().map(|found| claim(found).with_context(|| format!("incomplete: {found}")));
    found.collect::<anyhow::Result<_>>().map(sorted)
}

/// A NodeClaim that was launched.
pub(crate) fn launched_for(claim: &Value) -> anyhow::Result<Foreseen> {
    let label = |key: &str| claim["metadata"]["labels"][key].as_str().map(str::to_owned);
    let pods = claim["metadata"]["annotations"]["fleetwright.dev/nominated-pods"].as_str();
    let found = || {
        let pods = pods?.split(',').filter_map(|pod| Some(pod.rsplit_once(':')?.0));
        Some((
            label("karpenter.sh/nodepool")?,
            label("node.kubernetes.io/instance-type")?,
            label("topology.kubernetes.io/zone")?,
            names(pods),
        ))
    };
    found().with_context(|| format!("incomplete: {claim}"))
}

/// A NodeClaim whose node goes first, and the reason of the command.
pub(crate) type ForeseenDisruption = (String, String);

/// The NodeClaims that the commands of a disruption report take.
pub(crate) fn disrupted(report: &Value) -> anyhow::Result<BTreeSet<ForeseenDisruption>> {
    let rows = report["nodes"].as_array().context("a report without nodes")?;
    let mut found = BTreeSet::new();
    for command in report["commands"].as_array().context("a report without commands")? {
        let reason = command["reason"].as_str().context("a command without a reason")?;
        for node in command["nodes"].as_array().context("a command without nodes")? {
            let row = rows.iter().find(|row| row["node"] == *node).context("a node without a row")?;
            found.insert((row["nodeClaim"].as_str().unwrap_or_default().to_owned(), reason.to_owned()));
        }
    }
    Ok(found)
}

/// The `count` NodeClaims whose disruption began first.
pub(crate) fn disrupted_first(record: &[Seen], count: usize) -> BTreeSet<ForeseenDisruption> {
    let mut found = BTreeSet::new();
    for seen in record.iter().filter(|seen| seen.kind == RecordedKind::NodeClaim) {
        let reason = condition(&seen.object, "DisruptionReason").filter(|found| found["status"] == "True");
        let Some(reason) = reason.and_then(|found| found["reason"].as_str()) else { continue };
        if found.len() < count {
            found.insert((name(&seen.object), reason.to_owned()));
        }
    }
    found
}

fn names<'a>(pods: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = pods.map(str::to_owned).collect();
    names.sort();
    names
}

/// What a tool writes to the standard output, as JSON.
pub(crate) async fn tool(world: &LaneWorld, args: &[&str]) -> anyhow::Result<Value> {
    let (status, text) = world.fleetwright(args).await?;
    anyhow::ensure!(status == Some(0), "{} ends with {status:?}: {text}", args.join(" "));
    let end = text.rfind('}').map_or(text.len(), |end| end + 1);
    serde_json::from_str(&text[..end]).with_context(|| format!("{} writes {text}", args.join(" ")))
}

#[cfg(test)]
mod tests {
    //! Which cases fail for what they do not compare.
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::e2e::cases;

    fn claim(sign: &str) -> Seen {
        let object = json!({"status": {"conditions": [{"type": sign, "status": "True"}]}});
        Seen { version: 1, at: Instant::now(), kind: RecordedKind::NodeClaim, gone: false, object }
    }

    #[test]
    fn what_happens_is_compared_or_excused() {
        let (launched, disrupted) = (claim("Launched"), claim("DisruptionReason"));
        let all = [Foresight::Launches, Foresight::Disruptions];
        for (case, record, compared, is_good) in [
            ("kill", vec![], &[][..], true),
            ("kill", vec![launched.clone()], &[], false),
            ("kill", vec![launched.clone()], &all[..1], true),
            ("kill", vec![launched.clone(), disrupted.clone()], &all[..1], false),
            ("kill", vec![launched.clone(), disrupted.clone()], &all, true),
            ("neighbor", vec![launched.clone(), disrupted], &[], true),
            ("neighbor", vec![launched], &all[..1], false),
        ] {
            assert_eq!(judge(case, &record, compared).is_ok(), is_good, "{case} {compared:?}");
        }
    }

    #[test]
    fn excuses_are_of_cases_that_there_are() {
        let all = cases::all();
        for (name, _, reason) in UNFORESEEN {
            assert!(all.iter().any(|case| case.name == name) && reason.len() > 20, "{name}: {reason}");
        }
    }
}
