//! Metrics of requests, through the SDK's own pipeline: only the connection is a test double.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_ec2::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use fleetwright_aws::calls::AwsApi;
use fleetwright_core::clock::Clock;
use jiff::SignedDuration;

use crate::SdkClient;

use super::*;

/// Every reading advances the clock by a second: an answer takes one, a request of one attempt three.
#[derive(Debug, Default)]
struct TickingClock(Mutex<i64>);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn steady(&self) -> Timestamp {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seconds += 1;
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(*seconds)
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// Status and body; `None` is a broken connection.
type Answer = Option<(u16, &'static str)>;

/// A connection that returns these answers in order.
#[derive(Clone, Debug)]
struct Answers(Arc<Mutex<VecDeque<Answer>>>);

impl HttpConnector for Answers {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().flatten();
        HttpConnectorFuture::ready(match answer {
            Some((status, body)) => Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))),
            None => Err(ConnectorError::io("broken".into())),
        })
    }
}

fn client(answers: &[Answer], identified: bool) -> SdkClient {
    let answers = Answers(Arc::new(Mutex::new(answers.iter().copied().collect())));
    let http: SharedHttpClient = http_client_fn(move |_, _| SharedHttpConnector::new(answers.clone()));
    let someone = Credentials::new("key", "secret", None, None, "test");
    let mut config = SdkConfig::builder();
    config.set_credentials_provider(identified.then(|| SharedCredentialsProvider::new(someone)));
    let config = config
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-west-2"))
        .retry_config(
            RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1)),
        )
        .http_client(http)
        .build();
    SdkClient::of(&config, true, Arc::new(TickingClock::default())).unwrap()
}

/// One line for each figure: name, labels, value.
fn figure_lines(client: &SdkClient) -> Vec<String> {
    let line = |figure: Figure| {
        let labels: Vec<&str> = figure.labels.iter().map(|label| &**label).collect();
        let name = figure.family.name.trim_start_matches("aws_sdk_go_request_");
        format!("{name} {} {}", labels.join("/"), figure.value.unwrap_or(f64::NAN))
    };
    client.figures().into_iter().map(line).collect()
}

const EMPTY: &str = "<DescribeSubnetsResponse><subnetSet/></DescribeSubnetsResponse>";
const THROTTLED: &str = "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>m</Message></Error></Errors></Response>";
const DENIED: &str = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>m</Message></Error></Errors></Response>";

#[tokio::test]
async fn an_answered_request() {
    let client = client(&[Some((200, EMPTY))], true);
    client.subnets(&[]).await.unwrap();
    let of = "EC2/DescribeSubnets/200";
    assert_eq!(
        figure_lines(&client),
        [
            format!("attempt_total {of} 1"),
            format!("total {of} 1"),
            format!("attempt_duration_seconds {of} 1"),
            format!("duration_seconds {of} 3"),
            format!("retry_count {of} 0"),
        ]
    );
    assert_eq!(figure_lines(&client), [""; 0], "figures are exposed once");
}

#[tokio::test]
async fn a_throttled_and_retried_request() {
    let client = client(&[Some((503, THROTTLED)), None, Some((200, EMPTY))], true);
    client.subnets(&[]).await.unwrap();
    let of = "EC2/DescribeSubnets";
    assert_eq!(
        figure_lines(&client),
        [
            format!("attempt_total {of}/0 1"),
            format!("attempt_total {of}/200 1"),
            format!("attempt_total {of}/503 1"),
            format!("total {of}/200 1"),
            format!("attempt_duration_seconds {of}/503 1"),
            format!("attempt_duration_seconds {of}/0 1"),
            format!("attempt_duration_seconds {of}/200 1"),
            format!("duration_seconds {of}/200 7"),
            format!("retry_count {of}/200 2"),
        ]
    );
}

#[tokio::test]
async fn a_refused_request_is_counted_by_status() {
    let client = client(&[Some((403, DENIED))], true);
    client.subnets(&[]).await.unwrap_err();
    let counted = figure_lines(&client);
    assert_eq!(counted[..2], ["attempt_total EC2/DescribeSubnets/403 1", "total EC2/DescribeSubnets/403 1"]);
}

#[tokio::test]
async fn a_request_without_credentials_is_not_sent() {
    let client = client(&[], false);
    client.parameter("/aws/service/x").await.unwrap_err();
    let counted = figure_lines(&client);
    assert!(counted.contains(&"total SSM/GetParameter/0 1".to_owned()), "{counted:?}");
}
