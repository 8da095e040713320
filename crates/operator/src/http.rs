//! The HTTP endpoints of the controller: `/metrics` on one port, `/healthz` and `/readyz` on another.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// The state behind the endpoints.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Whether the process is alive: its loops iterate.
    ///
    /// # Errors
    /// The loops that do not.
    fn healthy(&self) -> Result<(), String>;

    /// Whether the process is ready: caches are synced, resources are served.
    ///
    /// # Errors
    /// What is missing.
    fn ready(&self) -> Result<(), String>;

    /// The metrics in Prometheus' text format.
    fn metrics(&self) -> String;
}

type Shared = Arc<dyn Probe>;

/// Serves `/healthz` and `/readyz` on `port` until the process ends; zero switches it off.
///
/// # Errors
/// If the port cannot be bound; names it.
pub(crate) async fn serve_probes(port: u16, probe: Shared) -> anyhow::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(|State(probe): State<Shared>| async move { answer(probe.healthy()) }))
        .route("/readyz", get(|State(probe): State<Shared>| async move { answer(probe.ready()) }));
    serve(port, "HEALTH_PROBE_PORT", routes.with_state(probe)).await
}

/// Serves `/metrics` and `further` routes on `port` until the process ends; zero switches it off.
///
/// # Errors
/// If the port cannot be bound; names it.
pub(crate) async fn serve_metrics(port: u16, probe: Shared, further: Router) -> anyhow::Result<()> {
    let text = |State(probe): State<Shared>| async move {
        ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], probe.metrics())
    };
    let routes = Router::new().route("/metrics", get(text)).with_state(probe).merge(further);
    serve(port, "METRICS_PORT", routes).await
}

fn answer(state: Result<(), String>) -> impl IntoResponse {
    match state {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

async fn serve(port: u16, setting: &str, routes: Router) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    let listener =
        listen(port).map_err(|error| anyhow::anyhow!("{setting}: cannot listen on port {port}: {error}"))?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "serving http");
        }
    });
    Ok(())
}

/// Backlog of connections, as in Go and Linux.
const BACKLOG: i32 = 4096;

/// A listener of all addresses of this host: of IPv6 and IPv4, or of IPv4 alone where the kernel has no IPv6. Kubelets and
/// Prometheus connect over IPv6 in an IPv6 cluster.
fn listen(port: u16) -> io::Result<TcpListener> {
    let dual = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)).and_then(|socket| {
        socket.set_only_v6(false)?;
        bind(socket, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
    });
    match dual {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            bind(socket, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        bound => bound,
    }
}

fn bind(socket: Socket, address: SocketAddr) -> io::Result<TcpListener> {
    // A restarted process does not have to wait for connections of its predecessor.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    //! IPv4 and IPv6.
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn listeners_accept_ipv4_and_ipv6() {
        let listener = listen(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok());
        // Only if this host has IPv6.
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_port_in_use_is_refused() {
        let listener = listen(0).unwrap();
        let error = listen(listener.local_addr().unwrap().port()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
