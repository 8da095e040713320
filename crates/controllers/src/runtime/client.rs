//! A client as Fleetwright wants it.

use std::time::Duration;

use kube::{Client, Config};

/// Makes a client from `config` with our own choices: no hidden retries (each caller has its own, on its own terms), and
/// no connection that waits for ever. Reads have no timeout here, since watches are silent for long; every call has a
/// deadline instead ([`super::Ctx::call`]).
///
/// # Errors
/// Where the configuration is unusable.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    config.write_timeout = Some(Duration::from_secs(30));
    Client::try_from(config)
}
