//! The operator as a process of its own, with the settings and the identity of its Deployment; and Karpenter in its place.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::Instant;

use super::process::{Process, Recipe, Signal, free_ports};

/// How long the operator may take until it is ready to act.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Delays that wait for nothing but time, shortened: the cases wait for them in real time. What is waited for to happen
/// keeps its limits.
const PACE: [(&str, &str); 2] = [("DISRUPTION_PERIOD", "1s"), ("DISRUPTION_VALIDATION_DELAY", "3s")];

/// The operator, running or stopped on purpose.
#[derive(Debug)]
pub(crate) struct Operator {
    recipe: Recipe,
    /// How many variables of the recipe's end belong to the present case only.
    special: usize,
    process: Option<Process>,
    health: u16,
    metrics: u16,
}

/// The identity of an operator, and the servers that it uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat<'a> {
    /// Names its log.
    pub(crate) name: &'static str,
    pub(crate) kubeconfig: &'a Path,
    /// URL of its cloud.
    pub(crate) cloud: &'a str,
}

impl Operator {
    /// An operator that is not started yet, of this program, with its log in `folder`.
    pub(crate) fn new(program: &Path, folder: &Path, seat: Seat<'_>) -> anyhow::Result<Self> {
        let [metrics, health] = free_ports()?;
        let port = |port: u16| OsString::from(port.to_string());
        let mut recipe = Recipe {
            name: seat.name,
            program: program.to_path_buf(),
            args: ["--cloud", "fake"].map(str::to_owned).to_vec(),
            env: vec![
                ("KUBECONFIG", seat.kubeconfig.as_os_str().to_owned()),
                ("FAKE_CLOUD", seat.cloud.into()),
                ("METRICS_PORT", port(metrics)),
                ("HEALTH_PROBE_PORT", port(health)),
                ("DISABLE_LEADER_ELECTION", "true".into()),
                ("SYSTEM_NAMESPACE", "kube-system".into()),
                ("LOG_LEVEL", "debug".into()),
                ("RUST_BACKTRACE", "1".into()),
            ],
            logs: folder.to_path_buf(),
        };
        recipe.env.extend(PACE.map(|(name, value)| (name, OsString::from(value))));
        Ok(Self { recipe, special: 0, process: None, health, metrics })
    }

    /// Karpenter, not started yet, with its log in `folder`. Its settings have the same names.
    pub(crate) fn karpenter(program: &Path, folder: &Path, kubeconfig: &Path) -> anyhow::Result<Self> {
        let [metrics, health] = free_ports()?;
        let port = |port: u16| OsString::from(port.to_string());
        let recipe = Recipe {
            name: "karpenter",
            program: program.to_path_buf(),
            args: Vec::new(),
            env: vec![
                ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
                ("METRICS_PORT", port(metrics)),
                ("HEALTH_PROBE_PORT", port(health)),
                ("LEADER_ELECTION_NAMESPACE", "kube-system".into()),
                ("SYSTEM_NAMESPACE", "kube-system".into()),
                ("LOG_LEVEL", "debug".into()),
            ],
            logs: folder.to_path_buf(),
        };
        Ok(Self { recipe, special: 0, process: None, health, metrics })
    }

    /// The log of all starts.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        let path = self.recipe.log();
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Where the metrics port answers, with `host` for this instance.
    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.metrics)
    }

    /// Where the probes of the Deployment answer.
    pub(crate) fn probe_url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.health)
    }

    /// Gives the next start these settings too, which win over the others.
    pub(crate) fn set(&mut self, settings: &[(&'static str, &str)]) {
        // Of two values of a variable the later one counts.
        self.recipe.env.extend(settings.iter().map(|(name, value)| (*name, OsString::from(*value))));
        self.special += settings.len();
    }

    /// Takes back what [`Self::set`] set. Returns whether there was anything.
    pub(crate) fn unset(&mut self) -> bool {
        let left = self.recipe.env.len() - self.special;
        self.recipe.env.truncate(left);
        std::mem::take(&mut self.special) > 0
    }

    /// Where `/metrics` is, as a file for `file_sd_configs` of a Prometheus.
    pub(crate) fn scrape_target(&self) -> String {
        serde_json::json!([{"targets": [format!("127.0.0.1:{}", self.metrics)]}]).to_string()
    }

    /// What `/metrics` shows.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics);
        Ok(reqwest::get(&url).await?.error_for_status()?.text().await?)
    }

    /// Sends a signal to the process.
    pub(crate) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.as_ref().context("the operator does not run")?.signal(signal).await
    }

    /// Waits for the operator to end by itself; the exit status.
    pub(crate) async fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        self.process.take().context("the operator does not run")?.wait(limit).await
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
        let url = format!("http://127.0.0.1:{}/readyz", self.health);
        loop {
            self.check_running()?;
            let answer = reqwest::get(&url).await;
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the operator is not ready after {READY_LIMIT:?}: {url}: {answer:?}");
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
