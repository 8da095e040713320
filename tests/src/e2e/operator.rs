//! The operator as a process of its own, with the settings and the identity of its Deployment.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::Instant;

use super::arguments::Environment;
use super::process::{Process, Recipe, free_ports};

/// How long the operator may take until it is ready to act.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The operator, running or stopped on purpose.
#[derive(Debug)]
pub(crate) struct Operator {
    recipe: Recipe,
    process: Option<Process>,
    ready: String,
}

impl Operator {
    /// An operator that is not started yet, with its log in `folder`.
    pub(crate) fn new(
        environment: &Environment,
        folder: &Path,
        kubeconfig: &Path,
        cloud: &str,
    ) -> anyhow::Result<Self> {
        let [metrics, health] = free_ports()?;
        let port = |port: u16| OsString::from(port.to_string());
        let recipe = Recipe {
            name: "operator",
            program: environment.operator.clone(),
            args: ["--cloud", "fake", "--fake-cloud", cloud].map(str::to_owned).to_vec(),
            env: vec![
                ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
                ("METRICS_PORT", port(metrics)),
                ("HEALTH_PROBE_PORT", port(health)),
                ("DISABLE_LEADER_ELECTION", "true".into()),
                ("SYSTEM_NAMESPACE", "kube-system".into()),
                ("LOG_LEVEL", "debug".into()),
                ("RUST_BACKTRACE", "1".into()),
            ],
            logs: folder.to_path_buf(),
        };
        Ok(Self { recipe, process: None, ready: format!("http://127.0.0.1:{health}/readyz") })
    }

    /// Starts the operator without waiting for it. Does nothing when it runs.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        if self.process.is_none() {
            self.process = Some(self.recipe.start()?);
        }
        Ok(())
    }

    /// Waits until `/readyz` answers 200.
    pub(crate) async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            self.check_running()?;
            let answer = reqwest::get(&self.ready).await;
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the operator is not ready after {READY_LIMIT:?}: {}: {answer:?}", self.ready);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Fails when the operator has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::check_running)
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// SIGTERM; the exit status.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.process.take().context("the operator does not run")?.stop().await
    }

    /// The process id, which changes with every start.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// The first line of the log that a panic wrote.
    pub(crate) fn panic_line(&self) -> Option<String> {
        let log = std::fs::read(self.recipe.log()).unwrap_or_default();
        String::from_utf8_lossy(&log).lines().find(|line| line.contains("panicked at")).map(str::to_owned)
    }
}
