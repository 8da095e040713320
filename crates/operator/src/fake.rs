//! The fake cloud and the embedded API server as this binary runs them: inside the controller, or as processes of their
//! own.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use fleetwright_core::{clock::SharedClock, cloud::CloudProvider};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, FakeProvider, Latency, NodeClasses, Vocabulary,
    api::CloudApi,
    catalogue::{Skipped, kwok, load, realistic},
    http::{HttpCloud, serve},
    kubelet::{KubeletConfig, Kubelets, adopt, watch_classes},
};
use fleetwright_sim::{World, WorldConfig};
use kube::Client;

use crate::{cli, clock::SystemClock, devices, kube_client, logging, settings::Values};

/// Seed of the realistic catalogue's spot prices: everybody sees the same market.
const MARKET: u64 = 1;

/// The instance types of `file`, or built-in ones. Broken types of a file are left out and logged.
///
/// # Errors
/// Where the file cannot be read or holds no usable type.
pub(crate) fn catalogue(built_in: cli::Catalog, file: Option<&Path>) -> anyhow::Result<Catalogue> {
    let (catalogue, skipped) = read_catalogue(built_in, file)?;
    log_skipped(&skipped);
    Ok(catalogue)
}

fn log_skipped(skipped: &[Skipped]) {
    for skipped in skipped {
        tracing::error!(error = %skipped, "instance type is left out");
    }
}

fn read_catalogue(built_in: cli::Catalog, file: Option<&Path>) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let Some(path) = file else {
        let catalogue = match built_in {
            cli::Catalog::Kwok => kwok(),
            cli::Catalog::Realistic => realistic(MARKET),
        };
        return Ok((catalogue, Vec::new()));
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let loaded = load(&text, Vocabulary::Kwok).with_context(|| path.display().to_string())?;
    let (mut catalogue, mut skipped) = (loaded.catalogue, loaded.skipped);
    skipped.extend(devices::attach(&text, &mut catalogue));
    Ok((catalogue, skipped))
}

/// The instance types that the settings name, and those of their file that are broken.
///
/// # Errors
/// Where the file cannot be read or holds no usable type.
pub(crate) fn catalogue_of(values: &Values) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let built_in =
        if values.text("CATALOG") == "realistic" { cli::Catalog::Realistic } else { cli::Catalog::Kwok };
    let file = Some(values.text("INSTANCE_TYPES_FILE_PATH")).filter(|path| !path.is_empty()).map(Path::new);
    read_catalogue(built_in, file)
}

/// The provider of the fake cloud that the settings name: at a URL, or embedded with its kubelets.
///
/// # Errors
/// Where the catalogue, the URL or the cluster cannot be used.
pub(crate) async fn provider(
    values: &Values,
    client: Client,
    clock: SharedClock,
    cluster_uid: &str,
) -> anyhow::Result<Arc<dyn CloudProvider>> {
    let url = values.text("FAKE_CLOUD");
    let api: Arc<dyn CloudApi> = if url.is_empty() {
        let (catalogue, skipped) = catalogue_of(values)?;
        log_skipped(&skipped);
        let config = config(values.duration("LAUNCH_LATENCY"), values.duration("BOOT_LATENCY"), 1);
        let cloud = Arc::new(Cloud::new(catalogue, config, clock.clone()));
        let adopted = adopt(client.clone(), &cloud, cluster_uid).await?;
        tracing::info!(nodes = adopted, "embedded fake cloud adopted what the cluster knows of");
        let kubelets = Kubelets::run(
            client.clone(),
            cloud.clone(),
            clock.clone(),
            KubeletConfig::default(),
            std::future::pending(),
        );
        tokio::spawn(kubelets);
        cloud
    } else {
        Arc::new(HttpCloud::new(url, clock.clone()).with_context(|| "FAKE_CLOUD")?)
    };
    let classes = NodeClasses::unread();
    tokio::spawn(watch_classes(client, classes.clone(), clock.clone()));
    Ok(Arc::new(FakeProvider::new(api, classes, clock).await?))
}

fn exactly(duration: Duration) -> Latency {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Latency::between(millis, millis)
}

fn config(launch: Duration, boot: Duration, seed: u64) -> CloudConfig {
    CloudConfig {
        seed,
        launch_latency: exactly(launch),
        boot_latency: exactly(boot),
        ..CloudConfig::default()
    }
}

/// `fleetwright fake-cloud`: cloud and kubelets until Ctrl-C.
///
/// # Errors
/// Where the address, the catalogue or the cluster cannot be used.
pub(crate) fn serve_cloud(options: &cli::FakeCloud) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    logging::install("info", "stderr", clock.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube_client::connect(options.kubeconfig.as_deref()).await?;
        let cluster_uid = kube_client::cluster_uid(&client).await?;
        let sold = catalogue(options.catalog, options.instance_types.as_deref())?;
        let mut config = config(options.launch_latency, options.boot_latency, options.seed);
        if let Some(takes) = options.terminate_latency {
            config.terminate_latency = exactly(takes);
        }
        let cloud = Arc::new(Cloud::new(sold, config, clock.clone()));
        let adopted = adopt(client.clone(), &cloud, &cluster_uid).await?;
        let listener = tokio::net::TcpListener::bind(options.listen)
            .await
            .with_context(|| format!("--listen {}", options.listen))?;
        tracing::info!(address = %listener.local_addr()?, nodes = adopted, "fake cloud is serving");
        let kubelets = KubeletConfig { ready_after: options.ready_latency, ..KubeletConfig::default() };
        tokio::spawn(Kubelets::run(client, cloud.clone(), clock, kubelets, std::future::pending()));
        serve(listener, cloud, until_told()).await?;
        Ok(())
    })
}

/// `fleetwright fake-kube`: API server and world actors until Ctrl-C.
///
/// # Errors
/// Where the address or the kubeconfig's file cannot be used.
pub(crate) fn serve_kube(options: &cli::FakeKube) -> anyhow::Result<()> {
    use fleetwright_core::clock::Clock as _;
    logging::install("info", "stderr", Arc::new(SystemClock))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut config = WorldConfig::new(options.seed, SystemClock.now());
        config.controllers = false;
        let world = World::new(config).await?;
        let listening =
            world.listen(options.listen).await.with_context(|| format!("--listen {}", options.listen))?;
        if let Some(path) = &options.kubeconfig {
            let text = world.server().kubeconfig(listening.address);
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        tracing::info!(address = %listening.address, "API server is serving");
        until_told().await;
        Ok(())
    })
}

/// Completes at Ctrl-C or SIGTERM.
pub(crate) async fn until_told() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        // Without a handler the signal ends the process by itself.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
