//! Two operators, one of them the leader: nothing is done twice, and an operator without the lease does nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::history::{History, RecordedKind};
use crate::e2e::operator::{Operator, Seat};
use crate::e2e::process::Signal;
use crate::e2e::proxy::{Noted, Proxy, Upstream};
use crate::e2e::trap::Traps;
use crate::e2e::world::LaneWorld;

/// A lease lasts 15 s after it was last seen to change; a standby looks every 2 s. The rest is for a busy instance.
const TAKEOVER: Duration = Duration::from_secs(25);

/// An operator behind proxies that note what it does.
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) operator: Operator,
    pub(super) kube: Proxy,
    cloud: Proxy,
}

impl Candidate {
    /// The operator of the world.
    pub(super) async fn new(world: &LaneWorld, name: &'static str) -> anyhow::Result<Self> {
        let client = world.server.operators_client().await?;
        Self::of(world, name, &world.binary, client, world.cloud.url.clone()).await
    }

    /// An operator of this program, with the permissions of a client, and a cloud at a URL.
    pub(super) async fn of(
        world: &LaneWorld,
        name: &'static str,
        program: &Path,
        client: kube::Client,
        cloud: String,
    ) -> anyhow::Result<Self> {
        let kube = Proxy::start(Upstream::Kube(client), Traps::default()).await?;
        let cloud = Proxy::start(Upstream::Cloud(cloud), Traps::default()).await?;
        let kubeconfig = world.folder.join(format!("{name}.kubeconfig"));
        kube.write_kubeconfig(&kubeconfig)?;
        let seat = Seat { name, kubeconfig: &kubeconfig, cloud: &cloud.url };
        let mut operator = Operator::new(program, &world.folder, seat)?;
        operator.set(&[("DISABLE_LEADER_ELECTION", "false"), ("HOSTNAME", name)]);
        Ok(Self { name, operator, kube, cloud })
    }

    /// What it changed since then, or tried to, its own lease aside.
    fn acts(&self, since: Instant) -> Vec<String> {
        let noted = self.kube.noted().into_iter().chain(self.cloud.noted());
        let acts = noted.filter(|noted| noted.at >= since && !noted.change.is_lease());
        acts.map(|noted| noted.change.to_string()).collect()
    }

    /// Writes of the lease since then that the server took.
    fn renewals(&self, since: Instant) -> usize {
        let taken = |noted: &Noted| noted.answer.as_ref().is_some_and(|(status, _)| status.is_success());
        let noted = self.kube.noted();
        noted.iter().filter(|noted| noted.at >= since && noted.change.is_lease() && taken(noted)).count()
    }
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.world.operator.stop().await?;
    let mut history = cx.watch().await?;
    let mut first = Candidate::new(cx.world, "operator-a").await?;
    let mut second = Candidate::new(cx.world, "operator-b").await?;
    let begin = Instant::now();
    first.operator.start()?;
    leads(cx, &first).await?;
    second.operator.start()?;
    second.operator.wait_ready().await?;
    // 3 of 4 CPUs: one pod per node.
    cx.deploy(4, 2, "3").await?;
    cx.serving(2, Duration::from_secs(60)).await?;
    cx.equal("what the standby did", &second.acts(begin), &Vec::new())?;
    cx.check("the leader did something", !first.acts(begin).is_empty())?;

    killed(cx, &mut first, &second).await?;
    first.operator.start()?;
    first.operator.wait_ready().await?;
    paused(cx, &mut second, &first).await?;
    once_each(cx, &mut history).await?;
    for candidate in [&first, &second] {
        let panic = candidate.operator.panic_line();
        cx.check(format!("{} did not panic: {panic:?}", candidate.name), panic.is_none())?;
    }
    let status = first.operator.stop().await?;
    cx.equal("the leader's exit status after SIGTERM", &status.code(), &Some(0))
}

/// Who holds the lease; empty if nobody does.
pub(super) async fn holder(world: &LaneWorld) -> anyhow::Result<String> {
    holder_in(world, "kube-system").await
}

/// Who holds the lease in a namespace; empty if nobody does.
pub(super) async fn holder_in(world: &LaneWorld, namespace: &str) -> anyhow::Result<String> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = world.get(&format!("{leases}/karpenter-leader-election")).await?;
    let lease = lease.context("there is no lease")?;
    Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

/// Waits until this one holds the lease.
async fn leads(cx: &mut Cx<'_>, candidate: &Candidate) -> anyhow::Result<()> {
    let name = candidate.name;
    cx.eventually(&format!("{name} takes the lease"), TAKEOVER, async |world| {
        let holder = holder(world).await?;
        anyhow::ensure!(holder.starts_with(&format!("{name}_")), "{holder:?} holds it");
        Ok(())
    })
    .await
}

async fn scale(cx: &Cx<'_>, replicas: usize) -> anyhow::Result<()> {
    let (namespace, replicas) = (cx.namespace(), format!("--replicas={replicas}"));
    cx.kubectl(&["scale", "deployment/web", &replicas, "-n", &namespace]).await.map(drop)
}

/// The leader is killed; the standby takes over and serves the next pod.
async fn killed(cx: &mut Cx<'_>, leader: &mut Candidate, standby: &Candidate) -> anyhow::Result<()> {
    leader.operator.kill().await?;
    // The lease outlives the leader: nobody acts meanwhile.
    let foreseen = cx.foresee_launches(async |cx| scale(cx, 3).await).await?;
    leads(cx, standby).await?;
    cx.launched_as(&foreseen).await?;
    cx.serving(3, Duration::from_secs(60)).await
}

/// The leader is paused until it has lost the lease, then resumed: it must notice before it acts, and exit.
async fn paused(cx: &mut Cx<'_>, leader: &mut Candidate, standby: &Candidate) -> anyhow::Result<()> {
    leader.operator.signal(Signal::Stop).await?;
    // Calls that were under way when it was stopped are noted by now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stopped = Instant::now();
    scale(cx, 4).await?;
    leads(cx, standby).await?;
    leader.operator.signal(Signal::Continue).await?;
    let status = leader.operator.wait(Duration::from_secs(20)).await?;
    cx.check(format!("it ends by itself, as a failure: {status}"), !status.success())?;
    cx.equal("what it did after it had lost the lease", &leader.acts(stopped), &Vec::new())?;
    cx.equal("renewals of a lease that it had lost", &leader.renewals(stopped), &0)?;
    cx.serving(4, Duration::from_secs(60)).await
}

/// One instance for each pod, now and ever.
async fn once_each(cx: &mut Cx<'_>, history: &mut History) -> anyhow::Result<()> {
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("instances", &fleet.instances.len(), &4)?;
    let record = history.so_far().await?;
    let claims = record.iter().filter(|seen| seen.kind == RecordedKind::NodeClaim);
    let names: BTreeSet<String> = claims.map(|seen| fleet::name(&seen.object)).collect();
    cx.equal("NodeClaims that there ever were", &names.len(), &4)
}
