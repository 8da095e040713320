//! Finding the cluster: a kubeconfig, or the account of the pod that this runs in.

use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A client of the cluster that `kubeconfig` names, else of the one that kubectl would find, else of the one that this
/// runs in.
///
/// # Errors
/// Where there is none, or its configuration is unusable.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => Config::infer()
            .await
            .context("no cluster: set KUBECONFIG, or run in a pod with a service account")?,
    };
    Ok(fleetwright_controllers::runtime::client(config)?)
}

/// UID of the `kube-system` namespace: the cluster's identity.
///
/// # Errors
/// Where the API server cannot be reached.
pub(crate) async fn cluster_uid(client: &Client) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get("kube-system").await.context("reading namespace kube-system")?;
    namespace.metadata.uid.context("namespace kube-system has no UID")
}
