//! The server on a port, for kubectl.

use std::net::SocketAddr;

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::Service as _;

use crate::body::{BoxError, ReplyBody};
use crate::server::{Server, Service};
use crate::status::ApiError;

/// Maximum number of concurrent connections.
const MOST_CONNECTIONS: usize = 1024;

/// A listening server. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Listening {
    /// The server's address.
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves HTTP/1.1 on an address; port 0 selects a free one. Needs a tokio runtime with I/O.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, self.service(), self.config().token.clone()));
        Ok(Listening { address, task })
    }

    /// A kubeconfig for a client of a listening server.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let user = match &self.config().token {
            Some(token) => format!("{{token: {token:?}}}"),
            None => "{}".to_owned(),
        };
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: fleetwright\nclusters:\n- name: fleetwright\n  cluster: {{server: \"http://{address}\"}}\n\
             contexts:\n- name: fleetwright\n  context: {{cluster: fleetwright, user: fleetwright}}\nusers:\n- name: fleetwright\n  user: {user}\n"
        )
    }
}

async fn accept(listener: TcpListener, service: Service, token: Option<String>) {
    // Connections end with this task: the set aborts them when dropped.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // For example without file descriptors: the next attempt must not spin.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (service, token) = (service.clone(), token.clone());
        let handler =
            hyper::service::service_fn(move |request| answer(service.clone(), token.clone(), request));
        connections.spawn(async move {
            let connection = Builder::new(TokioExecutor::new()).http1_only();
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), handler).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

async fn answer(
    mut service: Service,
    token: Option<String>,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, BoxError> {
    if let Some(token) = token {
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if given.and_then(|value| value.strip_prefix("Bearer ")) != Some(token.as_str()) {
            let error = ApiError::new(401, "Unauthorized", "Unauthorized");
            let mut response = Response::new(ReplyBody::once(crate::view_of::bytes(&error.to_value())));
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
            return Ok(response);
        }
    }
    service.call(request).await
}
