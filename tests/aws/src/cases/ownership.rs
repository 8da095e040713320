//! Ownership: unowned resources, two clusters with one name, and a cluster with another identity.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws::foreign::ResourceType;
use fleetwright_aws_api::labels;
use fleetwright_core::clock::Clock as _;
use fleetwright_core::cloud::{CloudError, CloudProvider as _, Identity, Instance, Termination};
use fleetwright_core::model::{NodeClaim, ProviderId};
use fleetwright_core::nodeclaim::orphans::{Claimed, Orphans};
use fleetwright_core::safety::Limits;
use jiff::SignedDuration;

use super::basics::{claims, launched};
use crate::case::Cx;
use crate::clock::Forward;
use crate::cluster::{Cluster, NAME, Seat, UID};

/// Tags of an instance that Karpenter launched for a cluster of our name.
const KARPENTER_S: [(&str, &str); 4] = [
    ("kubernetes.io/cluster/prod", "owned"),
    (labels::TAG_CLUSTER_NAME, NAME),
    (labels::TAG_NODEPOOL, "general"),
    (labels::NODE_CLASS, "default"),
];

pub(super) async fn garbage(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let names = claims(&["kept", "orphan"]);
    let instances = launched(cluster.launch("batch", 1, &names).await)?;
    let unstamped: ProviderId =
        format!("aws:///us-west-2a/{}", cx.account.launch(&KARPENTER_S).await?).into();
    let listed = cluster.provider.list().await?;
    cx.equal("what may be ours", &listed.len(), &3)?;

    let mut claimed = Claimed::default();
    claimed.add("kept".into(), "batch".into(), Some(instances[0].provider_id.clone()));
    let mut collector = Orphans::default();
    let now = Forward::default().now();
    let mut limits = Limits::default();
    let mut due = |collector: &mut Orphans, minutes: i64| {
        let at = now + SignedDuration::from_mins(minutes);
        collector.survey(&listed, &claimed, UID, &mut limits, at, at).due
    };
    cx.equal("what is due at first sight", &due(&mut collector, 6), &Vec::new())?;
    cx.equal("what is due minutes later", &due(&mut collector, 10), &vec![instances[1].provider_id.clone()])?;
    let ended = cluster.provider.terminate_orphan(&instances[1].provider_id).await?;
    cx.equal("the end of the orphan", &ended, &Termination::Accepted)?;

    let refused = cluster.provider.terminate_orphan(&unstamped).await;
    cx.check(
        "one without a UID is nobody's to collect",
        matches!(refused, Err(CloudError::NotOwned { .. })),
    )?;
    let naming = NodeClaim { provider_id: Some(unstamped.clone()), ..names[0].clone() };
    let ended = cluster.provider.terminate(&naming, &unstamped).await?;
    cx.equal("the end of one that a claim names", &ended, &Termination::Accepted)?;
    cx.equal("what is left", &cx.account.instances().await?.len(), &1)
}

/// Every loop that clears something away, and the list that a collector works by.
async fn sweep(cluster: &mut Cluster) -> anyhow::Result<Vec<Instance>> {
    cluster.pass(SignedDuration::from_mins(55));
    let listed = cluster.provider.list().await?;
    for step in
        ["nodeclass", "launchtemplate.garbagecollection", "instanceprofile.garbagecollection", "ownership"]
    {
        cluster.round(step).await?;
    }
    Ok(listed)
}

/// What each access key has made and deleted, by name: launch templates, instance profiles, instances.
pub(super) fn deeds(cx: &Cx<'_>) -> (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, BTreeSet<String>>) {
    let (mut made, mut deleted) =
        (BTreeMap::<_, BTreeSet<String>>::new(), BTreeMap::<_, BTreeSet<String>>::new());
    for call in cx.proxy.calls() {
        let name = ["LaunchTemplateName", "InstanceProfileName"].iter().find_map(|key| call.params.get(*key));
        let names: Vec<String> = match call.action.as_str() {
            "TerminateInstances" => {
                let ids = call.params.iter().filter(|(key, _)| key.starts_with("InstanceId."));
                ids.map(|(_, id)| id.clone()).collect()
            }
            _ => name.into_iter().cloned().collect(),
        };
        match call.action.as_str() {
            "CreateLaunchTemplate" | "CreateInstanceProfile" => {
                made.entry(call.access_key).or_default().extend(names)
            }
            "DeleteLaunchTemplate" | "DeleteInstanceProfile" | "TerminateInstances" => {
                deleted.entry(call.access_key).or_default().extend(names);
            }
            _ => {}
        }
    }
    (made, deleted)
}

pub(super) async fn two_clusters(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut ours = cx.ours().await?;
    let mut theirs = Cluster::start(&cx.proxy.url, Seat::theirs(&cx.authority)).await?;
    theirs.ready().await?;
    let mine = launched(ours.launch("batch", 1, &claims(&["a", "b"])).await)?;
    let other = launched(theirs.launch("batch", 1, &claims(&["a", "b", "c"])).await)?;
    let ids = |all: &[Instance]| all.iter().map(|i| i.provider_id.clone()).collect::<BTreeSet<ProviderId>>();
    for _ in 0..9 {
        cx.equal("our list", &ids(&sweep(&mut ours).await?), &ids(&mine))?;
        cx.equal("their list", &ids(&sweep(&mut theirs).await?), &ids(&other))?;
    }
    cx.equal(
        "instances of theirs that we know of",
        &ours.provider.foreign().count(ResourceType::Instance),
        &3,
    )?;
    for instance in &other {
        let naming =
            NodeClaim { provider_id: Some(instance.provider_id.clone()), ..claims(&["a"]).remove(0) };
        let refused = [
            ours.provider.terminate_orphan(&instance.provider_id).await,
            // Not even a claim that names it makes it ours.
            ours.provider.terminate(&naming, &instance.provider_id).await,
        ];
        let all = refused.iter().all(|refused| matches!(refused, Err(CloudError::NotOwned { .. })));
        cx.check(format!("theirs is not ours to end: {refused:?}"), all)?;
    }
    for instance in &mine {
        ours.provider.terminate_orphan(&instance.provider_id).await?;
    }
    cx.equal("instances of theirs in the end", &cx.born_of("0b5e7d11-their-cluster").await?, &3)?;
    cx.equal("instances of ours in the end", &cx.born_of(UID).await?, &0)?;
    let (made, mut deleted) = deeds(cx);
    let ended: BTreeSet<String> =
        mine.iter().filter_map(|i| i.provider_id.rsplit('/').next().map(str::to_owned)).collect();
    let by_us = deleted.remove("OURS").unwrap_or_default();
    let ours_made: BTreeSet<String> = made["OURS"].union(&ended).cloned().collect();
    cx.check(format!("we deleted only our own: {by_us:?}"), by_us.is_subset(&ours_made))?;
    cx.check("there was something to clear away", by_us.len() > ended.len())?;
    let by_them = deleted.remove("THEIRS").unwrap_or_default();
    cx.check(format!("they deleted only their own: {by_them:?}"), by_them.is_subset(&made["THEIRS"]))?;
    cx.check("they cleared away something too", !by_them.is_empty())?;
    let profiles = cx.account.profiles().await?;
    cx.equal("instance profiles, one of each cluster", &profiles.len(), &2)
}

pub(super) async fn identity(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&cx.proxy.url, Seat::ours("b3RoZXI=")).await?;
    let mismatch = matches!(cluster.identity, Identity::Mismatch(_));
    cx.check(format!("another certificate authority: {:?}", cluster.identity), mismatch)?;
    let refused = cluster.launch("batch", 1, &claims(&["a"])).await;
    cx.check("nothing is launched", refused.iter().all(Result::is_err))?;
    cluster.round("nodeclass").await?;
    let told = cluster.class()?.status.unwrap_or_default().conditions;
    let mismatch =
        told.iter().any(|known| known.type_ == "ClusterIdentityProven" && known.reason == "ClusterMismatch");
    cx.check(format!("the class says why: {told:?}"), mismatch)?;
    let stranger: ProviderId = format!("aws:///us-west-2a/{}", cx.account.launch(&KARPENTER_S).await?).into();
    let naming = NodeClaim { provider_id: Some(stranger.clone()), ..claims(&["a"]).remove(0) };
    cx.check("nothing is ended", cluster.provider.terminate(&naming, &stranger).await.is_err())?;
    cx.equal("changes", &cx.proxy.mutations(0), &Vec::new())?;
    let mut unknown = Seat::ours(&cx.authority);
    unknown.settings.cluster_name = "self-made".into();
    let cluster = Cluster::start(&cx.proxy.url, unknown).await?;
    cx.check("EKS does not know every cluster", matches!(cluster.identity, Identity::Unproven(_)))
}
