//! What a controller does all day: classes, types, launches, ends.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{CloudError, CloudProvider as _, Identity, Instance, Termination};
use fleetwright_core::model::labels::{INSTANCE_TYPE, ON_DEMAND};
use fleetwright_core::model::{NodeClaim, ProviderId};
use futures::future::join_all;
use jiff::SignedDuration;

use crate::case::Cx;
use crate::cluster::{Cluster, NAME, Seat, UID, claim};

/// Types that claims of these cases allow; the first is the cheapest.
const TYPES: [&str; 2] = ["m5.large", "m5.xlarge"];

/// Claims for one of [`TYPES`] on demand.
pub(super) fn claims(names: &[&str]) -> Vec<NodeClaim> {
    let capacity = ("karpenter.sh/capacity-type", &[ON_DEMAND][..]);
    names.iter().map(|name| claim(name, &[(INSTANCE_TYPE, &TYPES), capacity])).collect()
}

/// The instances of a launch that succeeded as a whole.
pub(super) fn launched<E: std::error::Error + Send + Sync + 'static>(
    answers: Vec<Result<Instance, E>>,
) -> anyhow::Result<Vec<Instance>> {
    answers.into_iter().map(|answer| answer.context("a claim was not launched")).collect()
}

pub(super) async fn nodeclass(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&cx.proxy.url, Seat::ours(&cx.authority)).await?;
    cx.equal("what proves the cluster", &cluster.identity, &Identity::Proven)?;
    let before = cx.proxy.mark();
    cluster.ready().await?;
    let status = cluster.class()?.status.context("no status")?;
    let zones: Vec<&str> = status.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    cx.equal(
        "zones with a tagged subnet",
        &zones.into_iter().collect::<BTreeSet<_>>(),
        &["us-west-2a", "us-west-2b"].into(),
    )?;
    cx.equal("tagged security groups", &status.security_groups.len(), &1)?;
    cx.equal("images of the alias", &status.amis.len(), &5)?;
    let profiles = cx.account.profiles().await?;
    cx.equal("instance profiles", &profiles, &[(status.instance_profile, vec!["nodes".to_owned()])].into())?;
    let made: BTreeSet<String> = cx.proxy.mutations(before).into_iter().collect();
    let expected = ["AddRoleToInstanceProfile", "CreateInstanceProfile", "CreateLaunchTemplate"];
    cx.equal("what was made", &made, &expected.map(str::to_owned).into())?;
    cx.equal("instances", &cx.account.instances().await?.len(), &0)?;
    let (settled, hours) = (cx.proxy.mark(), 2);
    for _ in 0..hours * 4 {
        cluster.pass(SignedDuration::from_mins(15));
        cluster.round("nodeclass").await?;
    }
    cx.equal("changes of two quiet hours", &cx.proxy.mutations(settled), &Vec::new())?;
    cx.check(
        "the class is looked after all the time",
        cx.proxy.count("DescribeSubnets", settled) >= hours * 4,
    )?;
    cx.equal("the class after two quiet hours", &cluster.condition("Ready"), &"True Ready".to_owned())
}

pub(super) async fn selectors(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let tagged = |value: &str| -> anyhow::Result<_> {
        Ok(serde_json::from_value(serde_json::json!([{"tags": {"karpenter.sh/discovery": value}}]))?)
    };
    let nothing = tagged("nothing-has-this")?;
    cluster.edit(|class| class.spec.subnet_selector_terms = nothing)?;
    cluster.round("nodeclass").await?;
    cx.check(
        format!("SubnetsReady is false: {}", cluster.condition("SubnetsReady")),
        cluster.condition("SubnetsReady").starts_with("False"),
    )?;
    cx.check("the class is not ready", !cluster.condition("Ready").starts_with("True"))?;
    cx.equal(
        "another condition",
        &cluster.condition("SecurityGroupsReady"),
        &"True SecurityGroupsReady".to_owned(),
    )?;
    let answers = cluster.launch("b", 1, &claims(&["a"])).await;
    cx.check("nothing is launched meanwhile", answers.iter().all(Result::is_err))?;
    let found = tagged(NAME)?;
    cluster.edit(|class| class.spec.subnet_selector_terms = found)?;
    cluster.ready().await?;
    cx.equal("the subnets again", &cluster.condition("SubnetsReady"), &"True SubnetsReady".to_owned())
}

pub(super) async fn types(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let prices = [("m5.large", "0.0960000000"), ("m5.xlarge", "0.7")];
    cx.proxy
        .rules(|rules| rules.prices = prices.map(|(name, price)| (name.to_owned(), price.to_owned())).into());
    let before = cx.proxy.mark();
    cluster.round("providers.pricing").await?;
    let catalog = cluster.catalog().await?;
    cx.check(format!("{} types", catalog.instance_types.len()), catalog.instance_types.len() > 500)?;
    let large = catalog.get("m5.large").context("no m5.large")?;
    let cpu = large.capacity.cpu();
    cx.equal("CPUs of an m5.large, in thousandths", &cpu, &2000)?;
    let memory = large.capacity.memory() >> 20;
    cx.check(format!("{memory} MiB of an m5.large"), (7000..8192).contains(&memory))?;
    cx.check("pods have less than there is", large.allocatable().memory() < large.capacity.memory())?;
    let zones: BTreeSet<&str> =
        large.offerings.iter().filter(|o| o.available).filter_map(|o| o.zone().map(|zone| &**zone)).collect();
    cx.equal("where it is to be had", &zones, &["us-west-2a", "us-west-2b"].into())?;
    for (name, dollars) in [("m5.large", 0.096), ("m5.xlarge", 0.7)] {
        let instance_type = catalog.get(name).context("a type is missing")?;
        let own =
            instance_type.offerings.iter().find(|o| o.capacity_type().is_some_and(|own| &**own == ON_DEMAND));
        let price = own.context("it is not sold on demand")?.price.dollars();
        cx.check(format!("{name} costs {price}"), (price - dollars).abs() < 1e-9)?;
    }
    let gpu = catalog.get("g5.xlarge").context("no g5.xlarge")?;
    cx.equal("GPUs of a g5.xlarge", &gpu.capacity.get(&labels::RESOURCE_NVIDIA_GPU.into()), &1)?;
    let again = cluster.catalog().await?;
    cx.check("a catalogue that did not change is the same one", std::sync::Arc::ptr_eq(&catalog, &again))?;
    cx.equal("changes", &cx.proxy.mutations(before), &Vec::new())
}

pub(super) async fn launch(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let before = cx.proxy.mark();
    let names = ["a", "b", "c"];
    let assigned = launched(cluster.launch("batch-1", 1, &claims(&names)).await)?;
    cx.equal("fleets", &cx.proxy.count("CreateFleet", before), &1)?;
    cx.equal("instances", &assigned.iter().map(|i| &i.provider_id).collect::<BTreeSet<_>>().len(), &3)?;
    let images = cluster.class()?.status.context("no status")?.amis;
    let instances = cx.account.instances().await?;
    for (name, own) in names.iter().zip(&assigned) {
        let id = own.provider_id.rsplit('/').next().unwrap_or_default();
        let instance = instances.get(id).with_context(|| format!("{id} is not there"))?;
        cx.equal("the cheapest type", &instance.instance_type.as_str(), &"m5.large")?;
        cx.check(
            format!("its zone {}", instance.zone),
            ["us-west-2a", "us-west-2b"].contains(&&*instance.zone),
        )?;
        let expected = format!("aws:///{}/{id}", instance.zone);
        cx.equal("its provider id", &own.provider_id.as_str(), &expected.as_str())?;
        let image = images.iter().find(|image| image.id == instance.image).context("an image of no alias")?;
        cx.equal("its image", &image.name.as_str(), &"al2023-x86_64-standard")?;
        for (key, value) in [
            ("kubernetes.io/cluster/prod", "owned"),
            (labels::TAG_CLUSTER_NAME, NAME),
            (labels::TAG_CLUSTER_UID, UID),
            (labels::TAG_NODEPOOL, "general"),
            (labels::NODE_CLASS, "default"),
            (labels::TAG_BATCH, "batch-1"),
            (labels::TAG_ATTEMPT, "1"),
            (labels::TAG_NODECLAIM, name),
            ("team", "a"),
        ] {
            cx.equal(key, &instance.tags.get(key).map(String::as_str), &Some(value))?;
        }
        cx.check("the class's hash", instance.tags.contains_key(labels::TAG_CLASS_HASH))?;
        cx.equal("its NodeClaim", &own.claim.as_deref(), &Some(*name))?;
    }
    let more = cx.proxy.mark();
    launched(cluster.launch("batch-2", 1, &claims(&["d"])).await)?;
    cx.equal("launch templates for the same shape", &cx.proxy.count("CreateLaunchTemplate", more), &0)?;
    cx.equal("names of an instance that is alone: at birth", &cx.proxy.count("CreateTags", more), &0)
}

/// A claim with the status of its instance.
fn named(claim: &NodeClaim, instance: &Instance) -> NodeClaim {
    NodeClaim { provider_id: Some(instance.provider_id.clone()), ..claim.clone() }
}

pub(super) async fn life(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let claims = claims(&["a", "b"]);
    let instances = launched(cluster.launch("batch", 1, &claims).await)?;
    let listed = cluster.provider.list().await?;
    let ids = |all: &[Instance]| all.iter().map(|i| i.provider_id.clone()).collect::<BTreeSet<ProviderId>>();
    cx.equal("the list", &ids(&listed), &ids(&instances))?;
    let [first, second] = instances.as_slice() else { anyhow::bail!("not two instances") };
    let seen = cluster.provider.get(&first.provider_id).await?;
    cx.equal("an instance looked at", &seen.launched_by, &Some(("batch".into(), 1)))?;
    cx.equal("its type", &seen.labels.get(INSTANCE_TYPE).map(|it| &**it), &Some("m5.large"))?;
    cx.equal("its capacity", &seen.capacity.cpu(), &2000)?;

    cluster.adopt(&claims[0], first);
    let naming = cx.proxy.mark();
    for _ in 0..2 {
        cluster.round("nodeclaim.tagging").await?;
    }
    cx.equal("calls that name it", &cx.proxy.count("CreateTags", naming), &1)?;
    let tags: BTreeMap<String, String> = cx
        .account
        .instances()
        .await?
        .into_values()
        .find(|m| first.provider_id.ends_with(&*m.id))
        .map(|m| m.tags)
        .unwrap_or_default();
    cx.equal("its name", &tags.get("Name").map(String::as_str), &Some("node-of-a"))?;

    let ending = cx.proxy.mark();
    let own = named(&claims[0], first);
    cx.equal(
        "the end",
        &cluster.provider.terminate(&own, &first.provider_id).await?,
        &Termination::Accepted,
    )?;
    cx.equal(
        "the end, again",
        &cluster.provider.terminate(&own, &first.provider_id).await?,
        &Termination::Gone,
    )?;
    cx.equal("calls that end it", &cx.proxy.count("TerminateInstances", ending), &1)?;
    let gone = cluster.provider.get(&first.provider_id).await;
    cx.check(format!("it is not found: {gone:?}"), matches!(gone, Err(CloudError::NotFound(_))))?;
    cx.equal("what is left", &ids(&cluster.provider.list().await?), &[second.provider_id.clone()].into())?;
    for never in ["aws:///us-west-2a/i-0123456789abcdef0", "aws:///us-west-2a/i-no", "fake:///zone/i-1"] {
        let ended = cluster.provider.terminate(&own, &never.into()).await?;
        cx.equal(&format!("the end of {never}, which never was"), &ended, &Termination::Gone)?;
    }
    Ok(())
}

pub(super) async fn together(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    const MANY: usize = 60;
    let cluster = cx.ours().await?;
    let names: Vec<String> = (0..MANY).map(|number| format!("claim-{number:03}")).collect();
    let claims = claims(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let before = cx.proxy.mark();
    let instances = launched(cluster.launch("burst", 1, &claims).await)?;
    cx.equal("fleets", &cx.proxy.count("CreateFleet", before), &1)?;
    cx.equal("instances", &cx.born_of(UID).await?, &MANY)?;

    let looking = cx.proxy.mark();
    let looks = join_all(instances.iter().map(|instance| cluster.provider.get(&instance.provider_id))).await;
    cx.check("each is seen", looks.iter().all(Result::is_ok))?;
    let calls = cx.proxy.count("DescribeInstances", looking);
    cx.check(format!("{calls} calls for {MANY} looks"), calls <= 2)?;

    let ending = cx.proxy.mark();
    let own: Vec<NodeClaim> =
        claims.iter().zip(&instances).map(|(claim, instance)| named(claim, instance)).collect();
    let ends = own.iter().zip(&instances).map(|(claim, i)| cluster.provider.terminate(claim, &i.provider_id));
    let ends = join_all(ends).await;
    cx.check("each is ending", ends.iter().all(|end| *end == Ok(Termination::Accepted)))?;
    let calls = cx.proxy.count("TerminateInstances", ending);
    cx.check(format!("{calls} calls for {MANY} ends"), calls <= 2)?;
    cx.equal("instances that are left", &cx.born_of(UID).await?, &0)
}
