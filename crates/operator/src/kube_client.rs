//! The client configuration: a kubeconfig, or the service account of the pod.

use std::path::Path;

use anyhow::{Context as _, ensure};
use fleetwright_api::installed;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::proxy;

/// A client of the cluster that [`configure`] finds.
///
/// # Errors
/// If there is none, or it is invalid.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    connect_to(kubeconfig, None).await
}

/// A client of a context of a kubeconfig. Without a context it is the current one.
///
/// # Errors
/// As [`connect`]; also if there is no such context.
pub(crate) async fn connect_to(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    Ok(fleetwright_controllers::runtime::client(configure_for(kubeconfig, context).await?)?)
}

/// Host and port of the API server, as Go's client names it in metrics.
pub(crate) fn host(config: &Config) -> String {
    config.cluster_url.authority().map(ToString::to_string).unwrap_or_default()
}

/// The cluster of `kubeconfig`, otherwise that of kubectl, otherwise the one that this process runs in; through the
/// proxy of the kubeconfig, otherwise that of the environment.
///
/// # Errors
/// If there is none, or it is invalid.
pub(crate) async fn configure(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    configure_for(kubeconfig, None).await
}

#[expect(clippy::disallowed_methods, reason = "proxies are set by variables that every HTTP client reads")]
async fn configure_for(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    let env = |name: &str| std::env::var(name).ok();
    let of_context =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let read = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
            Config::from_custom_kubeconfig(read, &of_context).await?
        }
        (None, Some(context)) => Config::from_kubeconfig(&of_context).await.with_context(|| {
            format!("no cluster for context {context:?}: see `kubectl config get-contexts`")
        })?,
        (None, None) => Config::infer()
            .await
            .context("no cluster: set KUBECONFIG, or run in a pod with a service account")?,
    };
    // `kube` compares NO_PROXY with the address of the proxy, and reads no variable in a pod.
    let written = config.proxy_url.as_ref().map(ToString::to_string);
    if written.is_none() || written.is_some_and(|url| is_of_the_environment(&url, env)) {
        config.proxy_url =
            proxy::from_environment(&config.cluster_url, env).map_err(|error| anyhow::anyhow!(error))?;
    }
    Ok(config)
}

/// Whether a proxy comes from a variable rather than from the kubeconfig.
fn is_of_the_environment(url: &str, env: impl Fn(&str) -> Option<String>) -> bool {
    let variables = ["HTTPS_PROXY", "https_proxy"].into_iter().filter_map(env);
    variables.filter_map(|text| text.parse::<http::Uri>().ok()).any(|variable| variable == *url)
}

/// Refuses custom resource definitions without the fields that protect nodes and pods. If they cannot be read for
/// lack of permission, none is refused.
///
/// # Errors
/// If definitions do not exist yet, or lack fields; the message names them.
pub(crate) async fn check_definitions(client: &Client) -> anyhow::Result<()> {
    let request = http::Request::get(installed::DOCUMENT).body(Vec::new())?;
    let document: serde_json::Value = match client.request(request).await {
        Ok(document) => document,
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
            tracing::warn!(
                path = installed::DOCUMENT,
                "custom resource definitions may not be read: they are not checked"
            );
            return Ok(());
        }
        Err(error) => {
            return Err(error).context("reading the schemas of karpenter.sh/v1: are the CRDs installed?");
        }
    };
    let missing = installed::missing(&document);
    ensure!(
        missing.is_empty(),
        "the cluster's custom resource definitions lack {}, which would be lost: install the CRDs of this release",
        missing.join(", ")
    );
    check_storage(client).await
}

/// Refuses definitions with stored objects of versions that this build does not know.
async fn check_storage(client: &Client) -> anyhow::Result<()> {
    for (name, read) in installed::STORED {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let request = http::Request::get(path).body(Vec::new())?;
        let definition: serde_json::Value = match client.request(request).await {
            Ok(definition) => definition,
            // Karpenter's chart does not grant this permission.
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                tracing::info!(definition = name, "may not be read: versions in storage are not checked");
                return Ok(());
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("reading the definition {name}: is it installed?"));
            }
        };
        let lost = installed::unreadable_storage(&definition, read);
        ensure!(
            lost.is_empty(),
            "objects of {name} may be stored as {}, which cannot be read as {read}: write each of them again (kubectl get and \
             replace) with a release that converts them, then take the version out of status.storedVersions",
            lost.join(", ")
        );
    }
    Ok(())
}

/// UID of the `kube-system` namespace: the cluster's identity.
///
/// # Errors
/// If the API server cannot be reached.
pub(crate) async fn cluster_uid(client: &Client) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get("kube-system").await.context("reading namespace kube-system")?;
    namespace.metadata.uid.context("namespace kube-system has no UID")
}

#[cfg(test)]
mod tests {
    //! Against the in-memory API server.
    use std::sync::Arc;

    use fleetwright_fake_kube::{Config as ServerConfig, Server};

    use super::*;

    /// An API server with our definitions, each changed by a function.
    fn server(change: impl Fn(&mut serde_json::Value)) -> Client {
        let server = Server::new(ServerConfig::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
        for crd in fleetwright_api::crd::kwok() {
            let mut crd = serde_json::to_value(crd).unwrap();
            change(&mut crd);
            server.apply(crd).unwrap();
        }
        Client::new(server.service(), "default")
    }

    #[tokio::test]
    async fn definitions_that_would_lose_budgets_are_refused() {
        assert!(check_definitions(&server(|_| {})).await.is_ok());
        let old = server(|crd| {
            let spec =
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/disruption/properties";
            if let Some(disruption) = crd.pointer_mut(spec) {
                disruption.as_object_mut().unwrap().remove("budgets");
            }
        });
        let refused = check_definitions(&old).await.unwrap_err().to_string();
        assert!(refused.contains("NodePool.spec.disruption.budgets.[].nodes"), "{refused}");
        let bare = Server::new(ServerConfig::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
        let refused = check_definitions(&Client::new(bare.service(), "default")).await.unwrap_err();
        assert!(format!("{refused:#}").contains("CRDs"), "{refused:#}");
    }

    #[tokio::test]
    async fn objects_in_storage_that_cannot_be_read_are_refused() {
        let server = Server::new(ServerConfig::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
        for crd in fleetwright_api::crd::kwok() {
            server.apply(serde_json::to_value(crd).unwrap()).unwrap();
        }
        let client = Client::new(server.service(), "default");
        assert!(check_definitions(&client).await.is_ok());
        let (group, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let mut crd = (*server.get(group, kind, "", "nodeclaims.karpenter.sh").unwrap()).clone();
        crd["status"]["storedVersions"] = serde_json::json!(["v1beta1", "v1"]);
        server.apply(crd).unwrap();
        let refused = check_definitions(&client).await.unwrap_err().to_string();
        assert!(refused.contains("nodeclaims.karpenter.sh may be stored as v1beta1"), "{refused}");
    }
}
