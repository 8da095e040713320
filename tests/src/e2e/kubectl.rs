//! Stock kubectl, as a user runs it.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

/// How long one call may take, `wait` included.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// kubectl with the administrator's kubeconfig and a cache of its own.
#[derive(Debug)]
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// Takes the place of the home directory, where kubectl would keep what it discovered.
    pub(crate) home: PathBuf,
}

/// What one call printed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kubectl {
    /// Runs kubectl and returns what it printed, whatever its exit status.
    pub(crate) async fn call(&self, args: &[&str], input: Option<&Value>) -> anyhow::Result<Answer> {
        let mut child = self.spawn(args)?;
        if let Some(mut stdin) = child.stdin.take() {
            let bytes = input.map(Value::to_string).unwrap_or_default();
            stdin.write_all(bytes.as_bytes()).await.context("kubectl reads no input")?;
        }
        let output = tokio::time::timeout(CALL_LIMIT, child.wait_with_output()).await;
        let Ok(output) = output else { bail!("kubectl {} hangs", args.join(" ")) };
        Ok(Answer::from(output?))
    }

    /// Runs kubectl and returns its standard output; failing is an error that carries what it said.
    pub(crate) async fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        self.call(args, None).await?.success(args)
    }

    /// `kubectl apply -f -` of one object.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<String> {
        let args = ["apply", "-f", "-"];
        self.call(&args, Some(object)).await?.success(&args)
    }

    /// Starts kubectl with all its streams piped; it dies with the returned child.
    pub(crate) fn spawn(&self, args: &[&str]) -> anyhow::Result<Child> {
        Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }
}

impl Answer {
    fn success(self, args: &[&str]) -> anyhow::Result<String> {
        if !self.success {
            bail!("kubectl {} failed: {}", args.join(" "), self.stderr.trim());
        }
        Ok(self.stdout)
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
