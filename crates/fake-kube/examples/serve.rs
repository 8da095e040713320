//! Serves an empty cluster on a loopback port: `cargo run -p fleetwright-fake-kube --example serve [PORT]`.

use std::io::Write as _;
use std::sync::Arc;

use fleetwright_fake_kube::{Config, Server};

#[expect(clippy::disallowed_methods, reason = "a program of its own: its time is the wall clock's")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned()).parse()?;
    let server = Server::new(Config::new(Arc::new(jiff::Timestamp::now), 1));
    let listening = server.listen(([127, 0, 0, 1], port).into()).await?;
    // The kubeconfig is the program's output.
    std::io::stdout().write_all(server.kubeconfig(listening.address).as_bytes())?;
    std::future::pending::<()>().await;
    Ok(())
}
