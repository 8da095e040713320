//! `fleetwright fake-kube`: the API server in memory, with a scheduler and workload controllers.

use std::sync::Arc;

use anyhow::Context as _;
use fleetwright_core::clock::Clock as _;
use fleetwright_sim::{Simulator, SimulatorConfig};

use crate::{cli, clock::SystemClock, logging, signals};

/// `fleetwright fake-kube`: serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// The address or the file of the kubeconfig cannot be used.
pub(crate) fn serve(options: &cli::FakeKube) -> anyhow::Result<()> {
    logging::install("info", "stderr", Arc::new(SystemClock))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut config = SimulatorConfig::new(options.seed, SystemClock.now());
        config.controllers = false;
        let simulator = Simulator::new(config).await?;
        let listening =
            simulator.listen(options.listen).await.with_context(|| format!("--listen {}", options.listen))?;
        if let Some(path) = &options.kubeconfig {
            let text = simulator.server().kubeconfig(listening.address);
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        tracing::info!(address = %listening.address, "API server is serving");
        signals::terminated().await;
        Ok(())
    })
}
