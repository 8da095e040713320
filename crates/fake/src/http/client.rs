//! The client. Every failure on the way has an unknown effect.

use std::{fmt::Write as _, time::Duration};

use async_trait::async_trait;
use fleetwright_core::clock::SharedClock;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    api::{
        ApiError, CloudApi, CloudInstance, InstancePage, InterruptionNotice, Launch, LaunchReply, Lifecycle,
        SpotPrices, TagClaim, Terminate,
    },
    catalogue::{Catalogue, Vocabulary, load},
};

/// The timeout of a call.
const DEADLINE: Duration = Duration::from_secs(30);

/// A fake cloud in another process.
pub struct HttpCloud {
    base: String,
    client: reqwest::Client,
    clock: SharedClock,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CatalogueReply {
    vocabulary: String,
    instance_types: Value,
}

impl HttpCloud {
    /// The cloud at `url`, such as `http://127.0.0.1:8090`.
    ///
    /// # Errors
    /// If `url` is not an `http` URL.
    pub fn new(url: &str, clock: SharedClock) -> Result<Self, ApiError> {
        let base = url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") || base.len() <= "http://".len() {
            let message = format!("{url:?} is not a valid URL: use http://HOST:PORT (TLS is not supported)");
            return Err(ApiError::Invalid { field: "fake cloud URL".to_owned(), message });
        }
        let client = reqwest::Client::builder().no_proxy().build().map_err(failed)?;
        Ok(Self { base, client, clock })
    }

    async fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ApiError> {
        let exchange = async {
            let response = request.send().await.map_err(failed)?;
            let status = response.status();
            let body = response.bytes().await.map_err(failed)?;
            if status.is_success() {
                return serde_json::from_slice(&body).map_err(failed);
            }
            let reported = serde_json::from_slice::<ApiError>(&body);
            Err(reported
                .unwrap_or_else(|_| ApiError::Failed { message: format!("fake cloud answered {status}") }))
        };
        tokio::select! {
            biased;
            answer = exchange => answer,
            () = self.clock.sleep(DEADLINE) => {
                Err(ApiError::Failed { message: format!("fake cloud did not answer within {DEADLINE:?}") })
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::Failed { message: format!("calling the fake cloud: {error}") }
}

/// Percent-encodes all but unreserved characters.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[async_trait]
impl CloudApi for HttpCloud {
    async fn catalogue(&self) -> Result<Catalogue, ApiError> {
        let sold: CatalogueReply = self.send(self.client.get(format!("{}/catalog", self.base))).await?;
        let vocabulary = Vocabulary::parse(&sold.vocabulary)
            .ok_or_else(|| failed(format!("vocabulary {:?} is unknown", sold.vocabulary)))?;
        let loaded = load(&sold.instance_types.to_string(), vocabulary).map_err(failed)?;
        Ok(loaded.catalogue)
    }

    async fn launch(&self, call: &Launch) -> Result<LaunchReply, ApiError> {
        self.send(self.client.post(format!("{}/launch", self.base)).json(call)).await
    }

    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError> {
        self.send(self.client.post(format!("{}/tag", self.base)).json(call)).await
    }

    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError> {
        self.send(self.client.post(format!("{}/terminate", self.base)).json(call)).await
    }

    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError> {
        self.send(self.client.get(format!("{}/instances/{}", self.base, encode(id)))).await
    }

    async fn list(&self, cluster_uid: &str, after: Option<&str>) -> Result<InstancePage, ApiError> {
        let after = after.map_or_else(String::new, |after| format!("&after={}", encode(after)));
        let url = format!("{}/instances?clusterUid={}{after}", self.base, encode(cluster_uid));
        self.send(self.client.get(url)).await
    }

    async fn spot_prices(&self) -> Result<SpotPrices, ApiError> {
        self.send(self.client.get(format!("{}/spot-prices", self.base))).await
    }

    async fn notices(&self, cluster_uid: &str) -> Result<Vec<InterruptionNotice>, ApiError> {
        let url = format!("{}/notices?clusterUid={}", self.base, encode(cluster_uid));
        self.send(self.client.get(url)).await
    }
}
