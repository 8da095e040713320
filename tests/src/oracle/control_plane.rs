//! The judge's control plane: etcd, kube-apiserver and a kube-scheduler that tries refused pods again at once.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;
use tokio::time::Instant;

use super::extender::{Extender, Serving};
use crate::e2e::judge::{Accounts, Assets, Process, Servers, connect};

/// How long it may take until the API server is ready.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// Admission plugins that rely on controllers which do not run here: they would taint every new node, and hold claims.
const WITHOUT: &str = "--disable-admission-plugins=TaintNodesByCondition,StorageObjectInUseProtection";

/// The running parts. Dropped in this order: clients before servers.
#[derive(Debug)]
pub(super) struct ControlPlane {
    scheduler: Process,
    _serving: Serving,
    servers: Servers,
    pub(super) extender: Extender,
}

impl ControlPlane {
    /// Starts all parts, their files and logs in `folder`, and returns a client of the administrator.
    pub(super) async fn start(
        assets: &Assets,
        folder: &Path,
        accounts: &Accounts,
    ) -> anyhow::Result<(Self, kube::Client)> {
        let more = ["--delete-collection-workers=8", "--event-ttl=1m", WITHOUT];
        let servers = Servers::start(assets, folder, accounts, &more).await?;
        let extender = Extender::default();
        let (port, serving) = extender.serve().await?;
        let config = folder.join("kube-scheduler.yaml");
        std::fs::write(&config, scheduler_config(servers.admin(), port).to_string())?;
        let arguments = vec![format!("--config={}", config.display()), "--secure-port=0".to_owned()];
        let scheduler = servers.recipe(assets, "kube-scheduler", arguments).start()?;
        let client = connect(servers.admin(), Some(Duration::from_secs(60))).await?;
        let mut control_plane = Self { scheduler, _serving: serving, servers, extender };
        control_plane.wait_ready(&client).await?;
        Ok((control_plane, client))
    }

    /// Fails when a part has ended.
    pub(super) fn check_running(&mut self) -> anyhow::Result<()> {
        self.servers.check_running()?;
        self.scheduler.check_running()
    }

    async fn wait_ready(&mut self, client: &kube::Client) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            self.check_running()?;
            let mut error = None;
            for path in ["/readyz", "/api/v1/namespaces/default"] {
                let request = http::Request::get(path).body(Vec::new())?;
                error = error.or(client.request_text(request).await.err());
            }
            let Some(error) = error else { return Ok(()) };
            if Instant::now() > deadline {
                bail!("the API server is not ready after {READY_LIMIT:?}: {error:#}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// `KubeSchedulerConfiguration`: kube-scheduler's own plugins as they are, no limit on requests, the shortest backoff there
/// is, and the extender.
fn scheduler_config(kubeconfig: &Path, extender: u16) -> serde_json::Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": false},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "extenders": [{
            "urlPrefix": format!("http://127.0.0.1:{extender}"),
            "filterVerb": "filter",
            "nodeCacheCapable": true,
            "httpTimeout": "10s",
        }],
    })
}

/// Where the deployment files name the accounts of a control plane.
pub(super) fn accounts(root: &Path) -> anyhow::Result<Accounts> {
    let installation = crate::e2e::judge::Installation::read(&root.join("deploy"));
    Ok(installation.context("cannot read deploy/")?.accounts)
}
