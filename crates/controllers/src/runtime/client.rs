//! The Kubernetes client.

use std::time::Duration;

use kube::{Client, Config};

/// Returns a client for `config` without hidden retries (each caller retries on its own terms) and with a connect timeout.
/// Reads have no timeout here, because watches may be silent for minutes; every call has a deadline instead
/// ([`super::ApiClient::call`]).
///
/// # Errors
/// If the configuration is invalid.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    config.write_timeout = Some(Duration::from_secs(30));
    Client::try_from(config)
}
