//! Clients with credentials and a region from the environment of the process.

use std::time::Duration;

use aws_config::{
    AppName, BehaviorVersion, ConfigLoader, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig,
};
use fleetwright_aws::{SharedClock, calls::FLEET_TIMEOUT};

use crate::http::{self, HttpError};
use crate::record::{Listener, Recorder};
use crate::requests::Requests;

/// Why no client could be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No region is configured.
    #[error("no AWS region: set AWS_REGION, or make the instance metadata service reachable")]
    NoRegion,
    /// A variable of the environment cannot be used.
    #[error("{0}")]
    Http(#[from] HttpError),
}

/// An emulator of AWS, and the credentials to use.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://host:port`, for every service.
    pub url: String,
    /// The region that it emulates.
    pub region: String,
    /// The access key, which is part of every signature.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

/// The clients of all services, in one region.
#[derive(Clone)]
pub struct SdkClient {
    pub(crate) clock: SharedClock,
    pub(crate) ec2: aws_sdk_ec2::Client,
    /// EC2 for `CreateFleet`, which may take longer than other calls.
    pub(crate) fleets: aws_sdk_ec2::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) iam: aws_sdk_iam::Client,
    pub(crate) eks: aws_sdk_eks::Client,
    pub(crate) shifts: aws_sdk_arczonalshift::Client,
    /// Only a few regions have an endpoint for the price list.
    pub(crate) prices: Option<aws_sdk_pricing::Client>,
    pub(crate) queues: crate::queues::Queues,
    pub(crate) requests: Requests,
    region: String,
}

impl SdkClient {
    /// Creates clients from the environment: region and credentials by the SDK's default chain, endpoints by `AWS_ENDPOINT_URL`, the
    /// proxy by `HTTPS_PROXY` and `NO_PROXY`, further certificate authorities by `AWS_CA_BUNDLE`. Wrong or missing credentials show in the
    /// first call, not here.
    ///
    /// # Errors
    /// If no region is configured, or if the proxy or the bundle cannot be used.
    #[expect(
        clippy::disallowed_methods,
        reason = "proxies and authorities are set by variables that every HTTP client reads"
    )]
    pub async fn connect(isolated_vpc: bool, clock: SharedClock) -> Result<Self, ConnectError> {
        let http = http::client(|name| std::env::var(name).ok())?;
        Self::of(&loader().http_client(http).load().await, isolated_vpc, clock)
    }

    /// The same, and `listener` receives every request with its answer.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    #[expect(clippy::disallowed_methods, reason = "as above")]
    pub async fn recorded(clock: SharedClock, listener: Listener) -> Result<Self, ConnectError> {
        let http = http::client(|name| std::env::var(name).ok())?;
        Self::build(&loader().http_client(http).load().await, false, clock, Some(Recorder(listener)))
    }

    /// Creates clients of an emulator of AWS; the environment is ignored.
    ///
    /// # Errors
    /// If the endpoint has no region.
    pub async fn at(endpoint: &Endpoint, clock: SharedClock) -> Result<Self, ConnectError> {
        use aws_sdk_ec2::config::Credentials;
        let Endpoint { url, region, access_key, secret_key } = endpoint;
        let region =
            Some(region.clone()).filter(|region| !region.is_empty()).ok_or(ConnectError::NoRegion)?;
        let credentials = Credentials::new(access_key, secret_key, None, None, "endpoint");
        let loader = loader().endpoint_url(url).region(Region::new(region)).credentials_provider(credentials);
        Self::of(&loader.load().await, false, clock)
    }

    /// Creates clients from a configuration.
    ///
    /// # Errors
    /// If it has no region.
    pub fn of(config: &SdkConfig, isolated_vpc: bool, clock: SharedClock) -> Result<Self, ConnectError> {
        Self::build(config, isolated_vpc, clock, None)
    }

    fn build(
        config: &SdkConfig,
        isolated_vpc: bool,
        clock: SharedClock,
        recorder: Option<Recorder>,
    ) -> Result<Self, ConnectError> {
        let region = config.region().ok_or(ConnectError::NoRegion)?.to_string();
        let requests = Requests::new(clock.clone());
        // Each service has its own builder type; the types share no trait.
        macro_rules! builder {
            ($service:ident) => {{
                let builder = $service::config::Builder::from(config).interceptor(requests.clone());
                match recorder.clone() {
                    Some(recorder) => builder.interceptor(recorder),
                    None => builder,
                }
            }};
        }
        macro_rules! client {
            ($service:ident) => {
                $service::Client::from_conf(builder!($service).build())
            };
        }
        let prices = fleetwright_aws::prices::pricing_region(&region, isolated_vpc).map(|region| {
            // The price list has no FIPS endpoint.
            let config = builder!(aws_sdk_pricing).region(Region::new(region)).use_fips(false).build();
            aws_sdk_pricing::Client::from_conf(config)
        });
        let fleets = builder!(aws_sdk_ec2).timeout_config(timeouts(FLEET_TIMEOUT, FLEET_TIMEOUT)).build();
        Ok(Self {
            clock,
            ec2: client!(aws_sdk_ec2),
            fleets: aws_sdk_ec2::Client::from_conf(fleets),
            ssm: client!(aws_sdk_ssm),
            sqs: client!(aws_sdk_sqs),
            iam: client!(aws_sdk_iam),
            eks: client!(aws_sdk_eks),
            shifts: client!(aws_sdk_arczonalshift),
            prices,
            queues: crate::queues::Queues::default(),
            requests,
            region,
        })
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }
}

/// Limits of one attempt of a call, and of all its attempts.
fn timeouts(attempt: Duration, all: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(attempt)
        .operation_timeout(all)
        .build()
}

/// The configuration of every client.
fn loader() -> ConfigLoader {
    // The SDK retries throttled and unanswered calls; beyond that, our own backoff applies.
    let retries = RetryConfig::standard().with_max_attempts(3);
    // Long polling of a queue takes 20 seconds.
    let timeouts = timeouts(Duration::from_secs(60), Duration::from_secs(180));
    let loader =
        aws_config::defaults(BehaviorVersion::latest()).retry_config(retries).timeout_config(timeouts);
    match AppName::new("fleetwright") {
        Ok(name) => loader.app_name(name),
        Err(_) => loader,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! Regions.
    use std::pin::Pin;

    use fleetwright_core::clock::Clock;

    use super::*;

    fn config(region: Option<&'static str>) -> SdkConfig {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region.map(Region::new))
            .build()
    }

    /// A clock that does not advance.
    pub(crate) struct StoppedClock;

    impl Clock for StoppedClock {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    fn client(region: Option<&'static str>, isolated: bool) -> Result<SdkClient, ConnectError> {
        SdkClient::of(&config(region), isolated, std::sync::Arc::new(StoppedClock))
    }

    #[test]
    fn a_region_is_needed() {
        assert_eq!(client(None, false).err().unwrap(), ConnectError::NoRegion);
        assert_eq!(client(Some("eu-west-1"), false).unwrap().region(), "eu-west-1");
    }

    /// A fleet is waited for as long as it may take to launch, in one attempt; other calls are not.
    #[tokio::test(start_paused = true)]
    async fn fleets_may_take_minutes() {
        use fleetwright_aws::calls::{AwsApi as _, FleetKind, FleetRequest, Strategy};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            url: format!("http://{}", listener.local_addr().unwrap()),
            region: "eu-west-1".to_owned(),
            access_key: "key".to_owned(),
            secret_key: "secret".to_owned(),
        };
        let client = SdkClient::at(&endpoint, std::sync::Arc::new(StoppedClock)).await.unwrap();
        let request = FleetRequest {
            token: "token".to_owned(),
            count: 1,
            kind: FleetKind::OnDemand,
            strategy: Strategy::LowestPrice,
            overrides: Vec::new(),
            tags: std::collections::BTreeMap::default(),
            context: None,
        };
        let began = tokio::time::Instant::now();
        assert!(client.create_fleet(&request).await.is_err());
        assert_eq!(began.elapsed().as_secs(), FLEET_TIMEOUT.as_secs());
        let began = tokio::time::Instant::now();
        assert!(client.subnets(&[]).await.is_err());
        assert_eq!(began.elapsed().as_secs(), 180);
        drop(listener);
    }

    #[test]
    fn prices_have_an_endpoint_outside_isolated_vpcs() {
        for (region, isolated, there) in [
            ("eu-west-1", false, true),
            ("eu-west-1", true, false),
            ("cn-north-1", false, true),
            ("us-gov-east-1", false, false),
            ("us-iso-east-1", false, false),
            ("eu-isoe-west-1", false, false),
            ("eusc-de-east-1", false, false),
        ] {
            let client = client(Some(region), isolated).unwrap();
            assert_eq!(client.prices.is_some(), there, "{region} {isolated}");
        }
    }
}
