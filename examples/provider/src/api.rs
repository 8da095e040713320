//! The API of the cloud: servers, and the types that are sold.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_core::cloud::CloudError;
use futures::future::{BoxFuture, FutureExt as _};
use reqwest::{Client, Method, Request, RequestBuilder, Response, StatusCode, Url};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// How long a call may take. It is far below the 270 s that a launch has.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait if the cloud throttles without saying how long.
const THROTTLED: Duration = Duration::from_secs(5);

/// A server of the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its id, which the cloud chooses.
    #[serde(default)]
    pub id: String,
    /// Its name, unique in the account.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub server_type: String,
    /// The zone.
    pub zone: String,
    /// The image.
    pub image: String,
    /// Labels of the API, not of the node.
    pub labels: BTreeMap<String, String>,
    /// What the server runs when it boots.
    pub user_data: String,
    /// Whether the cloud is still building it: it will run, and cannot be used yet.
    #[serde(default)]
    pub building: bool,
    /// Whether the cloud is deleting it.
    #[serde(default)]
    pub deleting: bool,
}

/// A type that is sold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerType {
    /// Its name.
    pub name: String,
    /// CPUs.
    pub cpus: i64,
    /// Memory in GiB.
    pub memory_gib: i64,
    /// Dollars per hour, by zone.
    pub prices: BTreeMap<String, f64>,
}

/// A page of servers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// The servers.
    pub servers: Vec<Server>,
    /// The last id of the page, if there are more.
    pub next: Option<String>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiError {
    /// There is no such server.
    NotFound,
    /// There is a server of this name.
    Exists,
    /// The zone has no server of this type left.
    NoCapacity,
    /// The account may not have more servers.
    Quota,
    /// The token does not allow it.
    Denied,
    /// Too many calls.
    Throttled(Duration),
    /// Anything else: the call may have taken effect.
    Failed(String),
}

impl ApiError {
    /// The error for callers that have no instance in mind.
    #[must_use]
    pub fn into_cloud_error(self, action: &str) -> CloudError {
        match self {
            Self::NotFound => CloudError::NotFound(action.into()),
            Self::Denied => CloudError::Unauthorized { action: action.into() },
            Self::Throttled(after) => CloudError::RateLimited { after },
            other => CloudError::Unavailable(format!("{action}: {other:?}").into()),
        }
    }
}

/// Carries a request to the cloud.
pub type Transport = Arc<dyn Fn(Request) -> BoxFuture<'static, reqwest::Result<Response>> + Send + Sync>;

/// A client of the API.
#[derive(Clone)]
pub struct PebbleApi {
    url: String,
    token: String,
    client: Client,
    /// The network, unless a test in virtual time replaces it.
    pub transport: Transport,
}

impl PebbleApi {
    /// The API at `url`.
    ///
    /// # Errors
    /// If the URL is empty, or TLS cannot be set up.
    pub fn new(url: &str, token: &str) -> Result<Self, CloudError> {
        let invalid =
            |message: String| CloudError::Invalid { field: "PEBBLE_URL".into(), message: message.into() };
        if url.is_empty() {
            return Err(invalid("is empty: give the URL of the API".to_owned()));
        }
        // The cryptography that the client of the API server has too. It is there already if that client was made before.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::builder().no_proxy().timeout(TIMEOUT).build();
        let client = client.map_err(|error| invalid(error.to_string()))?;
        let network = client.clone();
        let transport: Transport = Arc::new(move |request| network.execute(request).boxed());
        Ok(Self { url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), client, transport })
    }

    /// What is sold.
    pub async fn types(&self) -> Result<Vec<ServerType>, ApiError> {
        self.send(self.request(Method::GET, "/types")).await
    }

    /// Creates a server. A name is used once, so that a call that is repeated creates nothing.
    pub async fn create(&self, server: &Server) -> Result<Server, ApiError> {
        self.send(self.request(Method::POST, "/servers").json(server)).await
    }

    /// A server by its id.
    pub async fn get(&self, id: &str) -> Result<Server, ApiError> {
        self.send(self.request(Method::GET, &format!("/servers/{id}"))).await
    }

    /// A server by its name.
    pub async fn named(&self, name: &str) -> Result<Option<Server>, ApiError> {
        Ok(self.page(&[("name", name)]).await?.servers.into_iter().next())
    }

    /// All servers with this label: every page, or an error.
    pub async fn list(&self, key: &str, value: &str) -> Result<Vec<Server>, ApiError> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.page(&[("label", &format!("{key}={value}")), ("after", &after)]).await?;
            all.extend(page.servers);
            match page.next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }

    /// Deletes a server, which takes a while.
    pub async fn delete(&self, id: &str) -> Result<(), ApiError> {
        self.send(self.request(Method::DELETE, &format!("/servers/{id}"))).await
    }

    async fn page(&self, query: &[(&str, &str)]) -> Result<Page, ApiError> {
        let url = Url::parse_with_params(&format!("{}/servers", self.url), query);
        let url = url.map_err(|error| ApiError::Failed(error.to_string()))?;
        self.send(self.client.get(url).bearer_auth(&self.token)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ApiError> {
        let failed = |error: reqwest::Error| ApiError::Failed(error.to_string());
        let response = (self.transport)(request.build().map_err(failed)?).await.map_err(failed)?;
        let wait = response.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
        match response.status() {
            status if status.is_success() => response.json().await.map_err(failed),
            StatusCode::NOT_FOUND => Err(ApiError::NotFound),
            StatusCode::CONFLICT => Err(ApiError::Exists),
            StatusCode::INSUFFICIENT_STORAGE => Err(ApiError::NoCapacity),
            StatusCode::PAYMENT_REQUIRED => Err(ApiError::Quota),
            StatusCode::FORBIDDEN => Err(ApiError::Denied),
            StatusCode::TOO_MANY_REQUESTS => {
                Err(ApiError::Throttled(wait.map_or(THROTTLED, Duration::from_secs)))
            }
            status => Err(ApiError::Failed(format!("the API answered {status}"))),
        }
    }
}
