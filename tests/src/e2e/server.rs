//! The API server of a tier, and how everybody reaches it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::Instant;

use super::arguments::{Environment, Tier};
use super::assets::Assets;
use super::control_plane::ControlPlane;
use super::credentials::Accounts;
use super::credentials::Kubeconfigs;
use super::process::{Process, Recipe, free_ports};

/// How long a server may take until it is ready. Seconds, on an instance with nothing else to do.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A running API server with what schedules pods and runs workload controllers.
#[derive(Debug)]
pub(crate) struct Server {
    kind: ServerKind,
    /// How the administrator, the operator and the fake cloud reach it. The fake server authorises everybody: there
    /// they are all the same.
    pub(crate) kubeconfigs: Kubeconfigs,
}

#[derive(Debug)]
enum ServerKind {
    Kube(Box<ControlPlane>),
    FakeKube(Box<Process>),
}

impl Server {
    /// Starts the server of `tier`, its files and logs in `folder`, and waits until it is ready.
    pub(crate) async fn start(
        tier: Tier,
        environment: &Environment,
        assets: &Assets,
        folder: &Path,
        accounts: &Accounts,
    ) -> anyhow::Result<Self> {
        let mut server = match tier {
            Tier::Kube | Tier::Karpenter => {
                let (control_plane, kubeconfigs) = ControlPlane::start(assets, folder, accounts).await?;
                Self { kind: ServerKind::Kube(Box::new(control_plane)), kubeconfigs }
            }
            Tier::FakeKube => start_fake(environment, folder)?,
        };
        server.wait_ready().await?;
        Ok(server)
    }

    /// A client with the administrator's rights that waits so long for a part of an answer. Nothing is retried: a case
    /// wants to see every failure.
    pub(crate) async fn client(&self, patience: Option<Duration>) -> anyhow::Result<kube::Client> {
        connect(&self.kubeconfigs.admin, patience).await
    }

    /// A client with the operator's permissions, for proxies between it and the server.
    pub(crate) async fn operators_client(&self) -> anyhow::Result<kube::Client> {
        connect(&self.kubeconfigs.operator, None).await
    }

    /// Waits until the server is ready and has the system namespaces.
    pub(crate) async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            self.check_running()?;
            let error = match self.probe().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() > deadline {
                bail!("the API server is not ready after {READY_LIMIT:?}: {error:#}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn probe(&self) -> anyhow::Result<()> {
        let client = self.client(Some(Duration::from_secs(30))).await?;
        for path in ["/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/kube-node-lease"] {
            let request = http::Request::get(path).body(Vec::new())?;
            let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            answer.with_context(|| format!("{path} does not answer"))??;
        }
        Ok(())
    }

    /// Fails when a part has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            ServerKind::Kube(control_plane) => control_plane.check_running(),
            ServerKind::FakeKube(process) => process.check_running(),
        }
    }

    /// The real control plane; the fake server keeps its objects in memory and cannot be restarted.
    pub(crate) fn control_plane(&mut self) -> anyhow::Result<&mut ControlPlane> {
        match &mut self.kind {
            ServerKind::Kube(control_plane) => Ok(control_plane),
            ServerKind::FakeKube(_) => bail!("the fake server has no parts"),
        }
    }
}

pub(crate) async fn connect(kubeconfig: &Path, patience: Option<Duration>) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.read_timeout = patience;
    Ok(kube::Client::try_from(config)?)
}

fn start_fake(environment: &Environment, folder: &Path) -> anyhow::Result<Server> {
    let [port] = free_ports()?;
    let kubeconfig = folder.join("fake-kube.kubeconfig");
    let args = ["fake-kube", "--listen", &format!("127.0.0.1:{port}"), "--kubeconfig"].map(str::to_owned);
    let recipe = Recipe {
        name: "fake-kube",
        program: environment.operator.clone(),
        args: args.into_iter().chain([kubeconfig.display().to_string()]).collect(),
        env: vec![("RUST_BACKTRACE", "1".into())],
        logs: folder.to_path_buf(),
    };
    let process = recipe.start()?;
    let [admin, operator, cloud] = std::array::from_fn(|_| kubeconfig.clone());
    let kubeconfigs = Kubeconfigs { admin, operator, cloud };
    Ok(Server { kind: ServerKind::FakeKube(Box::new(process)), kubeconfigs })
}
