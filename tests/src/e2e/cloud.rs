//! The fake cloud, with the kubelets of its instances, as a process that outlives the operator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::time::Instant;

use super::arguments::Tier;
use super::process::{Process, Recipe, free_ports};

const READY_LIMIT: Duration = Duration::from_secs(30);

/// How long the cloud takes, and which instance types it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloudPace {
    /// Instances in a second instead of a minute: the cases wait for many of them, in real time.
    Quick,
    /// Times, instance types and prices of the simulator's cloud, drawn with this seed.
    Realistic(u64),
    /// Instances in a few seconds, of the instance types in this file.
    Listed(PathBuf),
}

impl CloudPace {
    fn arguments(&self) -> Vec<String> {
        let arguments = match self {
            Self::Quick => {
                "--boot-latency 1s --ready-latency 500ms --launch-latency 100ms --terminate-latency 1s"
                    .to_owned()
            }
            Self::Realistic(seed) => format!(
                "--catalog realistic --boot-latency 18s-60s --launch-latency 2s-12s --terminate-latency 8s-60s --seed {seed}"
            ),
            Self::Listed(_) => {
                "--boot-latency 2s-5s --ready-latency 500ms --launch-latency 200ms-1s --terminate-latency 1s-3s"
                    .to_owned()
            }
        };
        let mut arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        if let Self::Listed(file) = self {
            arguments.extend(["--instance-types".to_owned(), file.display().to_string()]);
        }
        arguments
    }
}

/// A running fake cloud.
#[derive(Debug)]
pub(crate) struct Cloud {
    process: Process,
    /// `http://host:port`
    pub(crate) url: String,
    /// Whose instances are listed: the UID of the namespace kube-system.
    cluster: String,
}

/// An instance that the cloud has running or is starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) provider_id: String,
    /// Price per hour in nano-dollars; zero once it is being terminated.
    pub(crate) price_nanos: i64,
}

impl Cloud {
    /// Starts the cloud of `program` with its log in `folder`; its kubelets use `kubeconfig`. `cluster` is the cluster's UID.
    pub(crate) async fn start(
        program: &Path,
        folder: &Path,
        kubeconfig: &Path,
        cluster: String,
        tier: Tier,
        pace: CloudPace,
    ) -> anyhow::Result<Self> {
        let [port] = free_ports()?;
        let address = format!("127.0.0.1:{port}");
        let kubeconfig = kubeconfig.display().to_string();
        let args = ["fake-cloud", "--listen", &address, "--kubeconfig", &kubeconfig].map(str::to_owned);
        let args = args.into_iter().chain(pace.arguments());
        // Karpenter creates Nodes, and what it deletes is gone.
        let args = args.chain((tier == Tier::Karpenter).then(|| "--follow-kwok".to_owned()));
        let recipe = Recipe {
            name: "fake-cloud",
            program: program.to_path_buf(),
            args: args.collect(),
            env: vec![("RUST_BACKTRACE", "1".into())],
            logs: folder.to_path_buf(),
        };
        let mut cloud = Self { process: recipe.start()?, url: format!("http://{address}"), cluster };
        let deadline = Instant::now() + READY_LIMIT;
        while let Err(error) = cloud.instances().await {
            cloud.check_running()?;
            if Instant::now() > deadline {
                bail!("the fake cloud does not answer after {READY_LIMIT:?}: {error:#}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(cloud)
    }

    /// Every instance of the cluster that is not gone; one that is being terminated still counts.
    pub(crate) async fn instances(&self) -> anyhow::Result<Vec<Instance>> {
        let all = format!("{}/instances?clusterUid={}", self.url, self.cluster);
        let (mut found, mut url) = (Vec::new(), all.clone());
        loop {
            let page: Value = reqwest::get(&url).await?.error_for_status()?.json().await?;
            found.extend(parse(&page)?);
            let Some(next) = page["next"].as_str() else { return Ok(found) };
            url = format!("{all}&after={next}");
        }
    }

    /// Adds faults, in the format of `fleetwright fake-cloud`.
    pub(crate) async fn inject(&self, faults: &Value) -> anyhow::Result<()> {
        let call = reqwest::Client::new().post(format!("{}/faults", self.url)).json(faults);
        call.send().await?.error_for_status().map(drop).context("the fake cloud refuses the faults")
    }

    /// Removes all faults.
    pub(crate) async fn heal(&self) -> anyhow::Result<()> {
        let call = reqwest::Client::new().delete(format!("{}/faults", self.url));
        call.send().await?.error_for_status().map(drop).context("the fake cloud does not heal")
    }

    /// Fails when the cloud has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.process.check_running()
    }
}

fn parse(page: &Value) -> anyhow::Result<Vec<Instance>> {
    let list = page["instances"].as_array().context("/instances did not answer a list")?;
    let alive = list.iter().filter(|instance| instance["state"] != "gone");
    alive
        .map(|instance| {
            let id = instance["id"].as_str().context("an instance without id")?;
            let is_paid = !matches!(instance["state"].as_str(), Some("terminating" | "terminated"));
            let price_nanos = instance["priceNanos"].as_i64().filter(|_| is_paid).unwrap_or(0);
            Ok(Instance { provider_id: id.to_owned(), price_nanos })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_is_there_until_it_is_gone_and_an_unreadable_answer_is_an_error() {
        let page = json!({"instances": [
            {"id": "kwok://a", "state": "running"},
            {"id": "kwok://b", "state": "gone"},
            {"id": "kwok://c", "state": "terminating"},
        ]});
        let ids: Vec<String> = parse(&page).unwrap().into_iter().map(|i| i.provider_id).collect();
        assert_eq!(ids, ["kwok://a", "kwok://c"]);
        assert!(parse(&json!({})).is_err());
        assert!(parse(&json!({"instances": [{"state": "running"}]})).is_err());
    }
}
