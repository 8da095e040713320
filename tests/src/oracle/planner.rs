//! The planner under test: `fleetwright plan -f`, in a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Rounds of improvement: reproducible, which a duration is not.
const BUDGET: &str = "100it";

/// Where the planner and its instance types are.
#[derive(Debug, Clone)]
pub(super) struct Planner {
    pub(super) program: PathBuf,
    pub(super) instance_types: PathBuf,
}

/// A plan, as `plan -o json` prints it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) node_claims: Vec<Claim>,
    pub(super) existing: Vec<Placement>,
    pub(super) unschedulable: Vec<Unschedulable>,
}

/// A NodeClaim of a plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) node_pool: String,
    pub(super) resource: Value,
    pub(super) instance_types: Vec<String>,
    pub(super) offering: Offering,
    /// `namespace/name`
    pub(super) pods: Vec<String>,
}

/// Where a NodeClaim is expected to be launched.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offering {
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
}

/// Pods on an existing node.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Placement {
    pub(super) node: String,
    pub(super) pods: Vec<String>,
}

/// A pod that the plan has no node for.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Unschedulable {
    pub(super) pod: String,
    pub(super) message: String,
}

impl Plan {
    /// The names of pods that the plan has no node for, with the reason.
    pub(super) fn unplaced(&self) -> BTreeMap<String, String> {
        self.unschedulable.iter().map(|each| (name(&each.pod), each.message.clone())).collect()
    }
}

/// The name of `namespace/name`: all is in one namespace here.
pub(super) fn name(pod: &str) -> String {
    pod.rsplit('/').next().unwrap_or(pod).to_owned()
}

impl Planner {
    /// Plans for the pending pods of `objects`.
    pub(super) async fn plan(&self, objects: &[Value]) -> anyhow::Result<Plan> {
        let mut child = Command::new(&self.program)
            .args(["plan", "-f", "-", "-o", "json", "--budget", BUDGET, "--instance-types"])
            .arg(&self.instance_types)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut input = child.stdin.take().context("the planner has no standard input")?;
        let text =
            serde_json::to_vec(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
        let write = async move { input.write_all(&text).await };
        let (written, output) = tokio::join!(write, child.wait_with_output());
        let output = output?;
        if !output.status.success() {
            bail!("plan failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        written.context("the planner did not read its input")?;
        serde_json::from_slice(&output.stdout).context("the plan is no plan")
    }

    /// The command that shows a plan for `file`.
    pub(super) fn command(&self, file: &Path) -> String {
        format!(
            "fleetwright plan -f {} --instance-types {} --budget {BUDGET}",
            file.display(),
            self.instance_types.display()
        )
    }
}
