//! Everything that runs during the cases, and the ways to look at it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::arguments::{Environment, Tier};
use super::assets::Assets;
use super::cloud::{Cloud, CloudPace};
use super::fleet::Fleet;
use super::installation::Installation;
use super::kubectl::Kubectl;
use super::operator::{Operator, Seat};
use super::rest::Rest;
use super::schema;
use super::server::Server;

/// Objects of a kind can be applied when its CRD is established.
const CRD_WAIT: [&str; 4] = ["wait", "--for=condition=Established", "crd", "--all"];

/// How long the administrator waits for a part of an answer.
const ADMIN_PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// How long a command of the binary may take.
const TOOL_LIMIT: Duration = Duration::from_secs(90);

/// The running tier. Dropping it ends every process, the operator first and the server last.
pub(crate) struct LaneWorld {
    pub(crate) tier: Tier,
    pub(crate) operator: Operator,
    pub(crate) cloud: Cloud,
    pub(crate) server: Server,
    pub(crate) kubectl: Kubectl,
    pub(crate) installation: Installation,
    /// The administrator's access to the server.
    pub(crate) rest: Rest,
    /// The same for watches, which are silent for long.
    pub(crate) watching: kube::Client,
    /// Files and logs of this run.
    pub(crate) folder: PathBuf,
    /// The operator's binary, for cases that run its other commands.
    pub(crate) binary: PathBuf,
    /// The repository.
    pub(crate) root: PathBuf,
    /// The programs of the control plane, for cases that start one of their own.
    pub(crate) assets: Assets,
}

impl LaneWorld {
    /// Starts the server, installs `deploy/fake-cloud/`, then starts the cloud and the operator.
    pub(crate) async fn start(
        tier: Tier,
        environment: &Environment,
        assets: &Assets,
        folder: PathBuf,
        pace: CloudPace,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let installation = Installation::read(&environment.root.join("deploy"))?;
        let server = Server::start(tier, environment, assets, &folder, &installation.accounts).await?;
        let kubectl = Kubectl {
            program: assets.program("kubectl"),
            kubeconfig: server.kubeconfigs.admin.clone(),
            home: folder.join("home"),
        };
        std::fs::create_dir_all(&kubectl.home)?;
        for crd in &installation.crds {
            kubectl.apply(crd).await.context("deploy/fake-cloud/crds cannot be applied")?;
        }
        kubectl.run(&CRD_WAIT).await?;
        let rest = Rest::new(server.client(ADMIN_PATIENCE).await?);
        let watching = server.client(None).await?;
        for crd in &installation.crds {
            wait_served(&rest, crd).await?;
        }
        for object in &installation.access {
            kubectl.apply(object).await.context("deploy/fake-cloud/ cannot be applied")?;
        }
        kubectl.apply(&super::manifests::node_class()).await?;
        let uid = cluster_uid(&rest).await?;
        let cloud = &server.kubeconfigs.cloud;
        let cloud = Cloud::start(&environment.operator, &folder, cloud, uid, tier, pace).await?;
        let seat = Seat { name: "operator", kubeconfig: &server.kubeconfigs.operator, cloud: &cloud.url };
        let mut operator = Operator::new(&environment.operator, &folder, seat)?;
        operator.start()?;
        operator.wait_ready().await?;
        let (binary, root) = (environment.operator.clone(), environment.root.clone());
        Ok(Self {
            tier,
            operator,
            cloud,
            server,
            kubectl,
            installation,
            rest,
            watching,
            folder,
            binary,
            root,
            assets: assets.clone(),
        })
    }

    /// The object at `path`, or nothing when there is none.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        self.rest.get(path).await
    }

    /// The items of the list at `path`.
    pub(crate) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        self.rest.list(path).await
    }

    /// The whole fleet in its three views.
    pub(crate) async fn fleet(&self) -> anyhow::Result<Fleet> {
        Ok(Fleet {
            claims: self.list("/apis/karpenter.sh/v1/nodeclaims").await?,
            nodes: self.list("/api/v1/nodes").await?,
            instances: self.cloud.instances().await?,
        })
    }

    /// The UID of the cluster, by which instances are owned.
    pub(crate) async fn uid(&self) -> anyhow::Result<String> {
        cluster_uid(&self.rest).await
    }

    /// The pods of a namespace.
    pub(crate) async fn pods(&self, namespace: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("/api/v1/namespaces/{namespace}/pods")).await
    }

    /// Events about the object `name` of `kind`, in any namespace.
    pub(crate) async fn events(&self, kind: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        let mut events = self.list("/api/v1/events").await?;
        events.retain(|event| {
            event["involvedObject"]["kind"] == kind && event["involvedObject"]["name"] == name
        });
        Ok(events)
    }

    /// Runs a command of the binary with the administrator's kubeconfig, as a user does: its exit status, and what it printed.
    pub(crate) async fn fleetwright(&self, args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        self.fleetwright_as(&self.server.kubeconfigs.admin, args).await
    }

    /// The same with the kubeconfig of somebody else.
    pub(crate) async fn fleetwright_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
    ) -> anyhow::Result<(Option<i32>, String)> {
        let command = tokio::process::Command::new(&self.binary)
            .args(args)
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(TOOL_LIMIT, command).await;
        let output = output.with_context(|| format!("fleetwright {} hangs", args.join(" ")))??;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.code(), text))
    }

    /// Fails when any process has ended that should be running.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.server.check_running()?;
        self.cloud.check_running()?;
        self.operator.check_running()
    }
}

/// The UID of the namespace kube-system.
async fn cluster_uid(rest: &Rest) -> anyhow::Result<String> {
    let identity = rest.get("/api/v1/namespaces/kube-system").await?.context("there is no kube-system")?;
    Ok(identity["metadata"]["uid"].as_str().context("kube-system has no UID")?.to_owned())
}

/// Waits until the server's storage for a new kind is up: established is a promise, for a second or two it answers 429.
async fn wait_served(rest: &Rest, crd: &Value) -> anyhow::Result<()> {
    const ATTEMPTS: usize = 100;
    let path = schema::collection(crd, "default").context("a CRD without group, version or plural")?;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match rest.list(&path).await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    anyhow::bail!("{path} is not served: {last:?}")
}
