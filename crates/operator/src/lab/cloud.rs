//! The fake cloud: inside the controller, or as a process of its own.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use fleetwright_api::crd;
use fleetwright_core::{clock::SharedClock, cloud::CloudProvider};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, FakeProvider, Latency,
    api::CloudApi,
    catalogue::Skipped,
    http::{self, HttpCloud},
    kubelet::{KubeletConfig, Kubelets, adopt, follow},
    node_classes,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::catalogue::{built_in, of_settings};
use crate::{
    catalogue::of_file,
    cli,
    clock::SystemClock,
    kube_client, logging,
    operator::{CloudConnector, Environment},
    settings::table::{Setting, SettingKind},
    signals,
};

/// How often `--follow-kwok` compares Nodes with instances.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// The settings of the fake cloud, beside those of its instance types.
const SETTINGS: [Setting; 3] = [
    Setting::new(
        "FAKE_CLOUD",
        SettingKind::Text,
        "",
        "Fake cloud: URL of a `fleetwright fake-cloud`; empty embeds one",
    ),
    Setting::new("LAUNCH_LATENCY", SettingKind::Duration, "1s", "Fake cloud: how long a launch call takes"),
    Setting::new(
        "BOOT_LATENCY",
        SettingKind::Duration,
        "30s",
        "Fake cloud: how long an instance takes from launch to registration",
    ),
];

/// The instance types of `file`, or built-in ones. Invalid instance types of the file are logged and omitted.
///
/// # Errors
/// If the file cannot be read or has no valid instance type.
pub(super) fn catalogue(name: cli::Catalog, file: Option<&Path>) -> anyhow::Result<Catalogue> {
    let Some(path) = file else { return Ok(built_in(name)) };
    let (catalogue, skipped) = of_file(path)?;
    log_skipped(&skipped);
    Ok(catalogue)
}

fn log_skipped(skipped: &[Skipped]) {
    for skipped in skipped {
        tracing::error!(error = %skipped, "instance type is left out");
    }
}

/// The fake cloud of the settings: at a URL, or in this process with its kubelets.
pub struct FakeCloud;

#[async_trait]
impl CloudConnector for FakeCloud {
    fn settings(&self) -> Vec<Setting> {
        SETTINGS.to_vec()
    }

    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
        provider(environment).await
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        crd::kwok()
    }
}

async fn provider(environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
    let Environment { client, clock, cluster_uid, values, .. } = environment;
    let url = values.text("FAKE_CLOUD");
    let api: Arc<dyn CloudApi> = if url.is_empty() {
        let (catalogue, skipped) = of_settings(values)?;
        log_skipped(&skipped);
        let config = CloudConfig {
            launch_latency: exactly(values.duration("LAUNCH_LATENCY")),
            boot_latency: exactly(values.duration("BOOT_LATENCY")),
            ..CloudConfig::default()
        };
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
    let classes = environment.follow(node_classes());
    Ok(Arc::new(FakeProvider::new(api, classes, clock.clone()).await?))
}

fn exactly(duration: Duration) -> Latency {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Latency::between(millis, millis)
}

/// `fleetwright fake-cloud`: cloud and kubelets until Ctrl-C.
///
/// # Errors
/// Where the address, the catalogue or the cluster cannot be used.
pub(crate) fn serve(options: &cli::FakeCloud) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    logging::install("info", "stderr", clock.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube_client::connect(options.kubeconfig.as_deref()).await?;
        let cluster_uid = kube_client::cluster_uid(&client).await?;
        let sold = catalogue(options.catalog, options.instance_types.as_deref())?;
        let config = CloudConfig {
            seed: options.seed,
            launch_latency: options.launch_latency,
            boot_latency: options.boot_latency,
            terminate_latency: options.terminate_latency,
            ..CloudConfig::default()
        };
        let cloud = Arc::new(Cloud::new(sold, config, clock.clone()));
        let adopted = adopt(client.clone(), &cloud, &cluster_uid).await?;
        let listener = tokio::net::TcpListener::bind(options.listen)
            .await
            .with_context(|| format!("--listen {}", options.listen))?;
        tracing::info!(address = %listener.local_addr()?, nodes = adopted, "fake cloud is serving");
        let kubelets = KubeletConfig { ready_after: options.ready_latency, ..KubeletConfig::default() };
        tokio::spawn(Kubelets::run(
            client.clone(),
            cloud.clone(),
            clock.clone(),
            kubelets,
            std::future::pending(),
        ));
        if options.follow_kwok {
            let cloud = cloud.clone();
            tokio::spawn(async move { follow(client, &cloud, &cluster_uid, &*clock, FOLLOW_EVERY).await });
        }
        http::serve(listener, cloud, signals::terminated()).await?;
        Ok(())
    })
}
