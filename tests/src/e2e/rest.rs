//! The API server through plain paths and JSON: the same for both servers, and nothing typed in between that could
//! hide a difference.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use kube::core::Status;
use serde_json::Value;

/// A client of one API server.
#[derive(Clone)]
pub struct Rest {
    client: kube::Client,
}

/// What the server answered to a write: the object, or its refusal.
pub type Written = Result<Value, Box<Status>>;

impl Rest {
    /// The API server of a client.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// The API server that a kubeconfig names.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub async fn open(kubeconfig: &Path, patience: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self::new(super::server::connect(kubeconfig, patience).await?))
    }

    /// The object at `path`, or nothing when there is none.
    pub async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.client.request(Request::get(path).body(Vec::new())?).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot get {path}")),
        }
    }

    /// The items of the list at `path`.
    pub async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let list = self.get(path).await?.with_context(|| format!("{path} is not served"))?;
        list["items"].as_array().cloned().with_context(|| format!("{path} is no list"))
    }

    /// Sends `object` to `path` with `method`; a refusal by the server is a result, not an error.
    pub async fn write(&self, method: &str, path: &str, object: &Value) -> anyhow::Result<Written> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes())?;
        match self.client.request(request).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) => Ok(Err(status)),
            Err(error) => Err(error).with_context(|| format!("cannot {method} {path}")),
        }
    }
}
