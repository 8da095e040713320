//! What a case is, and what it can do: look, act, wait, and check. A case that checks nothing fails.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::LocalBoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::arguments::Tier;
use super::fleet::Fleet;
use super::foreseen::{self, ForeseenDisruption, ForeseenLaunches, Foresight};
use super::history::{History, Seen};
use super::manifests;
use super::process::Signal;
use super::world::LaneWorld;

/// How often a condition is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(250);

/// How long a NodePool may take to be ready, the pods of a Deployment to be created, and NodeClaims for them to be launched.
const READY_LIMIT: Duration = Duration::from_secs(30);
const PODS_LIMIT: Duration = Duration::from_secs(60);
const LAUNCH_LIMIT: Duration = Duration::from_secs(60);
/// How long a new process may take until it begins what was foreseen.
const DISRUPTION_LIMIT: Duration = Duration::from_secs(60);

/// How long the fleet may take to go away after a case.
const CLEANUP_LIMIT: Duration = Duration::from_secs(120);

/// A named end-to-end case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What passing shows, in one sentence.
    pub(crate) shows: &'static str,
    /// The only tier it makes sense on, if not both.
    pub(crate) only: Option<Tier>,
    pub(crate) run: Run,
}

/// What a case does.
pub(crate) type Run = for<'a, 'w> fn(&'a mut Cx<'w>) -> LocalBoxFuture<'a, anyhow::Result<()>>;

/// What a running case works with.
pub(crate) struct Cx<'w> {
    pub(crate) world: &'w mut LaneWorld,
    /// Names the namespace and the NodePools of the case.
    pub(crate) name: &'static str,
    pub(crate) bless: bool,
    chance: u64,
    checks: Checks,
    /// What was compared with what a tool had foreseen.
    compared: Vec<Foresight>,
}

/// Counts what was checked, so that a case cannot pass by checking nothing.
#[derive(Debug, Default)]
pub struct Checks {
    count: usize,
}

impl Checks {
    /// One check; `false` is an error with what was expected.
    ///
    /// # Errors
    /// If it does not hold.
    pub fn check(&mut self, what: &str, holds: bool) -> anyhow::Result<()> {
        self.count += 1;
        if !holds {
            bail!("not so: {what}");
        }
        Ok(())
    }

    /// The verdict on a case that ended with `result`: passing takes at least one check.
    ///
    /// # Errors
    /// The case's own, or that it checked nothing.
    pub fn verdict(&self, result: anyhow::Result<()>) -> anyhow::Result<usize> {
        result?;
        if self.count == 0 {
            bail!("the case checked nothing");
        }
        Ok(self.count)
    }
}

impl<'w> Cx<'w> {
    pub(crate) fn new(world: &'w mut LaneWorld, name: &'static str, seed: u64, bless: bool) -> Self {
        Self { world, name, bless, chance: seed, checks: Checks::default(), compared: Vec::new() }
    }

    /// The namespace of this case.
    pub(crate) fn namespace(&self) -> String {
        format!("e2e-{}", self.name)
    }

    /// The NodePool of this case; further ones are named `<pool>-<something>`.
    pub(crate) fn pool(&self) -> String {
        format!("e2e-{}", self.name)
    }

    /// One check; `false` fails the case with what was expected.
    pub(crate) fn check(&mut self, what: impl AsRef<str>, holds: bool) -> anyhow::Result<()> {
        self.checks.check(what.as_ref(), holds)
    }

    /// One check that two values are equal.
    pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        found: &T,
        expected: &T,
    ) -> anyhow::Result<()> {
        self.checks.check(&format!("{what}: found {found:?}, expected {expected:?}"), found == expected)
    }

    /// One check that `probe` succeeds within `limit`. The probe returns `Err(why)` for "not yet"; the last reason is part of the
    /// failure. A process that exits meanwhile is a failure at once.
    pub(crate) async fn eventually(
        &mut self,
        what: &str,
        limit: Duration,
        mut probe: impl AsyncFnMut(&LaneWorld) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            self.world.check_running()?;
            let reason = match probe(self.world).await {
                Ok(()) => return self.checks.check(what, true),
                Err(reason) => reason,
            };
            if Instant::now() > deadline {
                self.checks.check(&format!("{what} within {limit:?}; last seen: {reason:#}"), false)?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// One check that `probe` holds at every look for all of `period`.
    pub(crate) async fn throughout(
        &mut self,
        what: &str,
        period: Duration,
        mut probe: impl AsyncFnMut(&LaneWorld) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + period;
        while Instant::now() < end {
            self.world.check_running()?;
            probe(self.world).await.with_context(|| format!("not so all the time: {what}"))?;
            tokio::time::sleep(POLL).await;
        }
        self.checks.check(what, true)
    }

    /// Records every change of the fleet and its pods from now on.
    pub(crate) async fn watch(&self) -> anyhow::Result<History> {
        History::start(self.world.watching.clone()).await
    }

    /// Stops the operator and starts it with these settings too. The runner takes them back after the case.
    pub(crate) async fn reconfigure(&mut self, settings: &[(&'static str, &str)]) -> anyhow::Result<()> {
        self.world.operator.stop().await?;
        self.world.operator.set(settings);
        self.world.operator.start()?;
        self.world.operator.wait_ready().await
    }

    /// The next number of the case's own random sequence, below `bound` (splitmix64).
    pub(crate) fn random(&mut self, bound: u64) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// Applies `object` with kubectl.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<String> {
        self.world.kubectl.apply(object).await
    }

    /// Runs kubectl; failing fails the case.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.world.kubectl.run(args).await
    }

    /// Creates what nearly every case begins with: its namespace, its NodePool of `cpus`-CPU instances, and a
    /// Deployment of `replicas` pods named `web`, whose nodes are launched as foreseen if the operator runs.
    pub(crate) async fn deploy(&mut self, cpus: u32, replicas: u32, cpu: &str) -> anyhow::Result<()> {
        self.apply(&manifests::namespace(&self.namespace())).await?;
        self.apply(&manifests::node_pool(&self.pool(), cpus)).await?;
        let web = manifests::deployment(&self.namespace(), "web", &self.pool(), replicas, cpu);
        if replicas == 0 {
            return self.apply(&web).await.map(drop);
        }
        self.launches_as_foreseen(async |cx| cx.apply(&web).await.map(drop)).await
    }

    /// Makes `change`, which adds pods, while the operator is paused; `plan` has to say what the operator launches for them. Without an
    /// operator of the world it only makes the change.
    pub(crate) async fn launches_as_foreseen(
        &mut self,
        change: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.world.operator.id().is_none() {
            return change(self).await;
        }
        self.eventually("the operator has looked at the NodePools", READY_LIMIT, foreseen::looked_at).await?;
        self.world.operator.signal(Signal::Stop).await?;
        let foreseen = self.foresee_launches(change).await;
        self.world.operator.signal(Signal::Continue).await?;
        self.launched_as(&foreseen?).await
    }

    /// Makes `change`, which adds pods, and asks `plan`. No operator may act meanwhile.
    pub(crate) async fn foresee_launches(
        &mut self,
        change: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<ForeseenLaunches> {
        let before = self.world.fleet().await?.claims.iter().map(super::fleet::name).collect();
        change(self).await?;
        let namespace = self.namespace();
        self.eventually("pods without a node are unschedulable", PODS_LIMIT, async |world| {
            foreseen::unschedulable(world, &namespace).await
        })
        .await?;
        let planned = foreseen::planned(&foreseen::tool(self.world, &["plan", "-o", "json"]).await?)?;
        self.check(format!("NodeClaims are planned: {planned:?}"), !planned.is_empty())?;
        Ok(ForeseenLaunches { planned, before, by_pods: true })
    }

    /// Waits until the NodeClaims are launched that `plan` has foreseen, and no others.
    pub(crate) async fn launched_as(&mut self, foreseen: &ForeseenLaunches) -> anyhow::Result<()> {
        self.compared.push(Foresight::Launches);
        self.eventually("the NodeClaims that plan has foreseen are launched", LAUNCH_LIMIT, async |world| {
            let fleet = world.fleet().await?;
            let is_new = |claim: &&Value| !foreseen.before.contains(&super::fleet::name(claim));
            let launched = fleet.claims.iter().filter(is_new).map(foreseen::launched_for);
            foreseen.compare(launched.collect::<anyhow::Result<_>>()?)
        })
        .await
    }

    /// Makes `change` while no operator runs, asks `disrupt`, and starts the operator, which has to begin with the nodes that the report names.
    pub(crate) async fn disrupts_as_foreseen(
        &mut self,
        change: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.world.operator.stop().await?;
        let expected = self.foresee_disruptions(change).await?;
        let mut history = self.watch().await?;
        self.world.operator.start()?;
        self.world.operator.wait_ready().await?;
        self.disrupted_as(&mut history, &expected).await
    }

    /// Makes `change` and asks `disrupt`. No operator may act meanwhile.
    pub(crate) async fn foresee_disruptions(
        &mut self,
        change: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<BTreeSet<ForeseenDisruption>> {
        change(self).await?;
        let report = foreseen::tool(self.world, &["disrupt", "-o", "json"]).await?;
        let expected = foreseen::disrupted(&report)?;
        self.check(format!("nodes are disrupted by the report: {expected:?}"), !expected.is_empty())?;
        Ok(expected)
    }

    /// Waits until as many nodes are disrupted as `disrupt` has foreseen: they have to be the same.
    pub(crate) async fn disrupted_as(
        &mut self,
        history: &mut History,
        expected: &BTreeSet<ForeseenDisruption>,
    ) -> anyhow::Result<()> {
        self.compared.push(Foresight::Disruptions);
        let deadline = Instant::now() + DISRUPTION_LIMIT;
        loop {
            self.world.check_running()?;
            let found = foreseen::disrupted_first(&history.so_far().await?, expected.len());
            if found.len() == expected.len() || Instant::now() > deadline {
                return self.equal("NodeClaims that are disrupted first", &found, expected);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Checks that what the record of the case shows was compared with what the tools foresee.
    pub(crate) fn judge_foresight(&self, record: &[Seen]) -> anyhow::Result<()> {
        foreseen::judge(self.name, record, &self.compared)
    }

    /// Waits until exactly `count` pods of the case exist and all of them serve.
    pub(crate) async fn serving(&mut self, count: usize, limit: Duration) -> anyhow::Result<()> {
        let namespace = self.namespace();
        self.eventually(&format!("{count} pods are bound, run and are ready"), limit, async |world| {
            let pods = world.pods(&namespace).await?;
            let serving = pods.iter().filter(|pod| super::fleet::is_serving(pod)).count();
            anyhow::ensure!(
                serving == count && pods.len() == count,
                "{serving} of {} pods serve",
                pods.len()
            );
            Ok(())
        })
        .await
    }

    /// Waits until NodeClaims, Nodes and instances correspond one to one, all of them initialized.
    pub(crate) async fn stable(&mut self, limit: Duration) -> anyhow::Result<Fleet> {
        self.eventually("NodeClaims, Nodes and instances correspond one to one", limit, async |world| {
            let fleet = world.fleet().await?;
            let mut found = fleet.discrepancies();
            let unready = fleet.claims.iter().filter(|claim| !super::fleet::is_true(claim, "Ready"));
            found.extend(unready.map(|claim| format!("{} is not Ready", super::fleet::name(claim))));
            anyhow::ensure!(found.is_empty(), "{}", found.join("; "));
            Ok(())
        })
        .await?;
        self.world.fleet().await
    }

    /// Waits until no NodeClaim, no Node and no instance is left.
    pub(crate) async fn emptied(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.eventually("the fleet is empty", limit, async |world| {
            let fleet = world.fleet().await?;
            anyhow::ensure!(fleet.is_empty(), "{}", fleet.sizes());
            Ok(())
        })
        .await
    }

    /// Removes everything that the case made; a fleet that does not go away fails it.
    pub(crate) async fn clean_up(&mut self) -> anyhow::Result<()> {
        let namespace = self.namespace();
        let inside = "deployments,statefulsets,jobs,poddisruptionbudgets,pods";
        let gone = ["--ignore-not-found", "--wait=false"];
        let all = [&["delete", inside, "--all", "--grace-period=0", "-n", &namespace], &gone[..]].concat();
        self.kubectl(&all).await?;
        self.kubectl(&[&["delete", "capacitybuffers", "--all", "-n", &namespace], &gone[..]].concat())
            .await?;
        for kind in ["nodeoverlays", "nodepools", "nodeclaims"] {
            self.kubectl(&[&["delete", kind, "--all"], &gone[..]].concat()).await?;
        }
        self.emptied(CLEANUP_LIMIT).await?;
        self.kubectl(&[&["delete", "namespace", &namespace], &gone[..]].concat()).await.map(drop)
    }

    /// The verdict on the case, with the number of checks that it made.
    pub(crate) fn verdict(&self, result: anyhow::Result<()>) -> anyhow::Result<usize> {
        self.checks.verdict(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_checks_nothing_fails() {
        let error = Checks::default().verdict(Ok(())).expect_err("nothing was checked");
        assert_eq!(error.to_string(), "the case checked nothing");
    }

    #[test]
    fn a_failed_check_fails_the_case_and_says_what_it_was() {
        let mut checks = Checks::default();
        checks.check("two is two", true).unwrap();
        let result = checks.check("two is three", false);
        let error = checks.verdict(result).expect_err("a check failed");
        assert_eq!(error.to_string(), "not so: two is three");
    }

    #[test]
    fn checks_are_counted() {
        let mut checks = Checks::default();
        checks.check("a", true).unwrap();
        checks.check("b", true).unwrap();
        assert_eq!(checks.verdict(Ok(())).unwrap(), 2);
    }
}
