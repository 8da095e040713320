//! Connects the AWS provider: its settings, the SDK clients, and the EC2NodeClasses of the cluster.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use fleetwright_aws::{
    AwsProvider, Classes, Settings,
    batch::Batched,
    calls::AwsApi,
    node_classes,
    prices::{Prices, parse},
};
use fleetwright_aws_client::SdkClient;
use fleetwright_core::{clock::SharedClock, cloud::CloudProvider};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};

use crate::{
    authority,
    ec2::{self, millionths},
    operator::{CloudConnector, Environment},
    settings::{Values, table::Setting},
};

/// Minimum interval between lookups of a part of a NodeClass.
const MIN_REFRESH: Duration = Duration::from_secs(60);
/// Interval between reads of the version of the API server.
const VERSION_INTERVAL: Duration = Duration::from_secs(300);
/// Minor versions of Kubernetes 1 that have images and that Karpenter's provider accepts.
const KNOWN_MINORS: std::ops::RangeInclusive<u32> = 26..=36;
/// The DNS service of a cluster, which Karpenter's role allows to read.
const DNS_SERVICE: &str = "kube-dns";

/// AWS, in the region that the environment names.
pub struct AwsCloud;

#[async_trait]
impl CloudConnector for AwsCloud {
    fn settings(&self) -> Vec<Setting> {
        ec2::settings::SETTINGS.to_vec()
    }

    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
        let Environment { client, clock, values, .. } = environment;
        let sdk = SdkClient::connect(values.bool("ISOLATED_VPC"), clock.clone()).await?;
        let classes = environment.follow(node_classes());
        let provider = over(sdk, values, classes, clock.clone()).await?;
        provider.set_cluster_dns(cluster_dns(client).await);
        read_version(client, &provider).await;
        tokio::spawn(follow_version(client.clone(), provider.clone(), clock.clone()));
        Ok(Arc::new(provider))
    }
}

/// Reads the version of the API server.
async fn read_version(client: &Client, provider: &AwsProvider) {
    match client.apiserver_version().await {
        // Some distributions write a plus sign behind the minor version.
        Ok(version) => {
            let minor = version.minor.trim_end_matches('+');
            if version.major != "1" || !minor.parse::<u32>().is_ok_and(|minor| KNOWN_MINORS.contains(&minor))
            {
                let (first, last) = KNOWN_MINORS.into_inner();
                tracing::error!(
                    "Kubernetes {}.{minor} is not one of those that this release knows: 1.{first} to 1.{last}",
                    version.major
                );
            }
            provider.set_kubernetes_version(&format!("{}.{minor}", version.major));
        }
        Err(error) => tracing::warn!(%error, "cannot read the API server's version"),
    }
}

/// Follows the version of the API server for ever: images are made for one version, and nodes go to the next with it.
async fn follow_version(client: Client, provider: AwsProvider, clock: SharedClock) {
    loop {
        clock.sleep(VERSION_INTERVAL).await;
        read_version(&client, &provider).await;
    }
}

/// The provider over the SDK. EKS and the kubeconfig supply settings of the cluster that are not set.
///
/// # Errors
/// If a setting, the region or the cluster cannot be used.
pub(crate) async fn over(
    sdk: SdkClient,
    values: &Values,
    classes: Classes,
    clock: SharedClock,
) -> anyhow::Result<AwsProvider> {
    let mut settings = settings(values, sdk.region())?;
    let prices = prices(values.text("PRICES_FILE"), sdk.region())?;
    let api: Arc<dyn AwsApi> = Arc::new(Batched::new(Arc::new(sdk), clock.clone()));
    if settings.cluster_endpoint.is_empty() {
        let cluster = api.cluster(&settings.cluster_name).await.context(
            "asking EKS for the API server's address: allow eks:DescribeCluster, or set CLUSTER_ENDPOINT",
        )?;
        settings.cluster_endpoint = cluster.endpoint;
    }
    if settings.ca_bundle.is_empty() {
        settings.ca_bundle = authority::ca_bundle();
    }
    let provider = AwsProvider::new(api, classes, settings, clock).await?;
    if let Some(prices) = prices {
        provider.with_prices(|known| known.merge_file(prices));
    }
    Ok(provider)
}

/// The prices of a file from `fleetwright prices export`; none without a file.
fn prices(file: &str, region: &str) -> anyhow::Result<Option<Prices>> {
    if file.is_empty() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("PRICES_FILE {file}"))?;
    Ok(Some(parse(&text, region).with_context(|| format!("PRICES_FILE {file}"))?))
}

fn settings(values: &Values, region: &str) -> anyhow::Result<Settings> {
    let name = values.text("CLUSTER_NAME");
    ensure!(
        !name.is_empty(),
        "--cluster-name is not set (env CLUSTER_NAME): it distinguishes the resources of clusters"
    );
    let endpoint = values.text("CLUSTER_ENDPOINT");
    let absolute = endpoint.is_empty() || endpoint.parse::<http::Uri>().is_ok_and(|uri| uri.host().is_some());
    ensure!(
        absolute,
        "CLUSTER_ENDPOINT {endpoint:?} is not a URL: give it with its scheme, as in https://host"
    );
    for interval in ["AMI_REFRESH_INTERVAL", "SUBNET_REFRESH_INTERVAL"] {
        ensure!(values.duration(interval) >= MIN_REFRESH, "{interval} is too short: give 1m or more");
    }
    let reserved = values.integer("RESERVED_ENIS");
    ensure!(reserved >= 0, "RESERVED_ENIS {reserved} is negative: give 0 or more");
    Ok(Settings {
        cluster_endpoint: endpoint.to_owned(),
        ca_bundle: values.text("CLUSTER_CA_BUNDLE").to_owned(),
        eks_control_plane: values.bool("EKS_CONTROL_PLANE"),
        memory_overhead_ppm: millionths(values.text("VM_MEMORY_OVERHEAD_PERCENT")),
        reserved_enis: reserved,
        node_class_cel: values.gate_of("AWS_FEATURE_GATES", "NodeClassCEL").unwrap_or(false),
        reserved_capacity: values.gate("ReservedCapacity"),
        isolated_vpc: values.bool("ISOLATED_VPC"),
        interruption_queue: Some(values.text("INTERRUPTION_QUEUE").to_owned())
            .filter(|name| !name.is_empty()),
        dry_runs: !values.bool("DISABLE_DRY_RUN"),
        ami_refresh: values.duration("AMI_REFRESH_INTERVAL"),
        subnet_refresh: values.duration("SUBNET_REFRESH_INTERVAL"),
        zonal_shift: values.bool("ENABLE_ZONAL_SHIFT"),
        min_values: values.min_values_policy(),
        ..Settings::new(name, region)
    })
}

/// Address of the cluster DNS. Nodes detect it if it is not set.
async fn cluster_dns(client: &Client) -> Option<String> {
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    match services.get_opt(DNS_SERVICE).await {
        Ok(service) => service?.spec?.cluster_ip.filter(|address| address != "None"),
        Err(error) => {
            tracing::info!(%error, "cannot read the cluster's DNS service");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    //! Valid and invalid settings, and what is read of the cluster.
    use fleetwright_fake_kube::{Config as ServerConfig, Server};
    use serde_json::json;

    use super::*;

    /// The DNS address in a cluster with these Services, each a name and its address.
    async fn dns_of(services: &[(&str, &str)]) -> Option<String> {
        let server = Server::new(ServerConfig::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
        for (name, address) in services {
            let service = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "namespace": "kube-system"}, "spec": {"clusterIP": address, "ports": [{"port": 53, "protocol": "UDP"}]}});
            server.apply(service).unwrap();
        }
        cluster_dns(&Client::new(server.service(), "default")).await
    }

    /// From the Service that Karpenter's role names, and from no other: without it nodes detect their DNS.
    #[tokio::test]
    async fn the_cluster_s_dns_is_that_of_kube_dns() {
        let other = ("coredns", "10.100.0.99");
        assert_eq!(dns_of(&[("kube-dns", "10.100.0.10"), other]).await.as_deref(), Some("10.100.0.10"));
        assert_eq!(dns_of(&[("kube-dns", "fd00::a"), other]).await.as_deref(), Some("fd00::a"));
        assert_eq!(dns_of(&[("kube-dns", "None"), other]).await, None, "headless");
        assert_eq!(dns_of(&[other]).await, None, "the role does not name it");
        assert_eq!(dns_of(&[]).await, None);
        for file in ["charts/karpenter/templates/roles.yaml", "deploy/aws/karpenter.yaml"] {
            let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
            let role = std::fs::read_to_string(path).unwrap();
            let rule = "resources: [\"services\"]\n    resourceNames: [\"kube-dns\"]\n    verbs: [\"get\"]\n";
            assert!(role.contains(rule), "{file}");
        }
    }

    fn values(pairs: &[(&str, &str)]) -> Values {
        let env =
            |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        Values::resolve(&std::collections::BTreeMap::new(), env).unwrap()
    }

    #[test]
    fn defaults_are_karpenter_s() {
        let read = settings(&values(&[("CLUSTER_NAME", "prod")]), "eu-west-1").unwrap();
        assert_eq!(read, Settings::new("prod", "eu-west-1"));
    }

    #[test]
    fn every_setting_is_passed_on() {
        let read = settings(
            &values(&[
                ("CLUSTER_NAME", "prod"),
                ("CLUSTER_ENDPOINT", "https://api.example.com"),
                ("VM_MEMORY_OVERHEAD_PERCENT", "0.05"),
                ("RESERVED_ENIS", "1"),
                ("INTERRUPTION_QUEUE", "queue"),
                ("AWS_FEATURE_GATES", "Other=true, NodeClassCEL=true"),
                ("DISABLE_DRY_RUN", "true"),
            ]),
            "eu-west-1",
        )
        .unwrap();
        assert_eq!((read.memory_overhead_ppm, read.reserved_enis), (50_000, 1));
        assert_eq!(read.interruption_queue.as_deref(), Some("queue"));
        assert!(read.node_class_cel && !read.dry_runs);
    }

    #[test]
    fn invalid_settings_are_reported() {
        for (pairs, part) in [
            (&[][..], "--cluster-name is not set"),
            (
                &[("CLUSTER_NAME", "a"), ("CLUSTER_ENDPOINT", "/path")][..],
                "CLUSTER_ENDPOINT \"/path\" is not a URL",
            ),
            (&[("CLUSTER_NAME", "a"), ("RESERVED_ENIS", "-1")][..], "RESERVED_ENIS -1 is negative"),
            (
                &[("CLUSTER_NAME", "a"), ("AMI_REFRESH_INTERVAL", "5s")][..],
                "AMI_REFRESH_INTERVAL is too short",
            ),
        ] {
            let refused = settings(&values(pairs), "eu-west-1").unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn prices_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prices.txt");
        std::fs::write(&file, "[eu-west-1]\nm5.large 0.5\n").unwrap();
        let name = file.to_str().unwrap();
        let read = prices(name, "eu-west-1").unwrap().unwrap();
        assert_eq!(read.on_demand("m5.large").map(|price| price.nanos()), Some(500_000_000));
        assert!(prices("", "eu-west-1").unwrap().is_none());
        let wrong = format!("{:#}", prices(name, "eu-west-2").unwrap_err());
        assert!(wrong.contains("PRICES_FILE") && wrong.contains("[eu-west-2]"), "{wrong}");
        assert!(prices("/no/such/file", "eu-west-1").is_err());
    }
}
