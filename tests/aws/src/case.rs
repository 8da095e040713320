//! What a case is, and what it can do.

use std::path::PathBuf;

use anyhow::Context as _;
use fleetwright_aws_api::labels;
use fleetwright_aws_emulator::iam::{ACCOUNT, Policies};
use fleetwright_tests::e2e::Checks;
use futures::future::LocalBoxFuture;

use crate::account::{Account, REGION};
use crate::cluster::{Cluster, NAME, Seat, UID};
use crate::proxy::Proxy;

/// A named case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What passing shows, in one sentence.
    pub(crate) shows: &'static str,
    pub(crate) run: Run,
    /// Whether it takes minutes, so that no sample has it.
    pub(crate) is_long: bool,
}

/// What a case does.
pub(crate) type Run = for<'a, 'w> fn(&'a mut Cx<'w>) -> LocalBoxFuture<'a, anyhow::Result<()>>;

/// What a running case works with: an account of its own, in which nothing is but what [`Cx::prepare`] made.
pub(crate) struct Cx<'w> {
    pub(crate) account: &'w Account,
    pub(crate) proxy: &'w Proxy,
    /// The operator's binary, built with AWS.
    pub(crate) operator: PathBuf,
    /// The repository.
    pub(crate) root: PathBuf,
    /// Files and logs of this case.
    pub(crate) folder: PathBuf,
    /// `PATH`, for processes.
    pub(crate) path: std::ffi::OsString,
    /// The certificate authority that EKS returns for the cluster, base64.
    pub(crate) authority: String,
    pub(crate) checks: Checks,
    /// What the case measured, for its line of the report.
    pub(crate) figures: Vec<String>,
    /// Where a Prometheus looks for operators.
    pub(crate) scrape: Option<PathBuf>,
}

impl Cx<'_> {
    /// Makes what an administrator makes before there is a controller: an EKS cluster, tagged subnets in two of three zones, a
    /// tagged security group, a role for nodes, and the images that SSM names.
    ///
    /// Both clusters' controllers may do what `deploy/iam/controller-policy.json` allows, and nothing else.
    pub(crate) async fn prepare(&mut self) -> anyhow::Result<()> {
        let scoped = self.policy("controller-policy.json", UID)?;
        self.govern(&Policies::of(&[&scoped])?);
        self.authority = self.account.create_cluster(NAME).await?;
        let discovery = [("karpenter.sh/discovery", NAME)];
        let subnets = self.account.subnets().await?;
        for zone in ["us-west-2a", "us-west-2b"] {
            let id = subnets.get(zone).with_context(|| format!("no subnet in {zone}"))?;
            self.account.tag(id, &discovery).await?;
        }
        self.account.tag(&self.account.security_group().await?, &discovery).await?;
        self.account.create_role("nodes").await?;
        for (arch, variant) in [
            ("x86_64", "standard"),
            ("x86_64", "nvidia"),
            ("x86_64", "neuron"),
            ("arm64", "standard"),
            ("arm64", "nvidia"),
        ] {
            let id = self.account.create_image(&format!("al2023-{arch}-{variant}"), arch).await?;
            let folder = format!("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{arch}/{variant}");
            self.proxy.rules(|rules| {
                rules.images.architectures.insert(id.clone(), arch);
                rules.parameters.insert(format!("{folder}/recommended/image_id"), id);
                NAME.clone_into(&mut rules.cluster);
            });
        }
        Ok(())
    }

    /// A policy of `deploy/iam` with its variables filled in.
    pub(crate) fn policy(&self, name: &str, uid: &str) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(self.root.join("deploy/iam").join(name))?;
        let blanks = [
            ("${AWS_PARTITION}", "aws"),
            ("${AWS_REGION}", REGION),
            ("${AWS_ACCOUNT_ID}", ACCOUNT),
            ("${CLUSTER_NAME}", NAME),
            ("${CLUSTER_UID}", uid),
            ("${NODE_ROLE_NAME}", "nodes"),
        ];
        Ok(blanks.iter().fold(text, |text, (blank, value)| text.replace(blank, value)))
    }

    /// Gives both controllers these policies.
    pub(crate) fn govern(&self, policies: &Policies) {
        let of = |key: &str| (key.to_owned(), policies.clone());
        self.proxy.rules(|rules| rules.policies = ["OURS", "THEIRS"].map(of).into());
    }

    /// Our cluster, its class ready.
    pub(crate) async fn ours(&self) -> anyhow::Result<Cluster> {
        let mut cluster = self.fresh().await?;
        cluster.ready().await?;
        Ok(cluster)
    }

    /// The cluster of [`Cx::ours`], its class not looked at yet.
    pub(crate) async fn fresh(&self) -> anyhow::Result<Cluster> {
        Cluster::timed(&self.proxy.url, Seat::ours(&self.authority), self.proxy.clock.clone()).await
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

    /// How many instances of the account carry a cluster's UID.
    pub(crate) async fn born_of(&self, uid: &str) -> anyhow::Result<usize> {
        let instances = self.account.instances().await?;
        let own = |tags: &std::collections::BTreeMap<String, String>| {
            tags.get(labels::TAG_CLUSTER_UID).is_some_and(|known| known == uid)
        };
        Ok(instances.values().filter(|instance| own(&instance.tags) && instance.state == "running").count())
    }
}
