//! The HTTP client of all services: the proxy and certificate authorities of the environment, which the SDK does not read by itself.

use aws_sdk_ec2::config::SharedHttpClient;
use aws_smithy_http_client::{
    Builder, Connector,
    proxy::ProxyConfig,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};

/// Hosts that are never reached through a proxy: instance metadata, and the credentials of pods and containers.
const DIRECT: [&str; 5] =
    ["169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"];

/// What every PEM certificate begins with.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// A variable of the environment that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The proxy is no URL.
    #[error("{variable}: {why}: give a URL such as http://proxy:3128")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// Why.
        why: String,
    },
    /// The file of certificate authorities cannot be used.
    #[error("AWS_CA_BUNDLE: {path}: {why}: give a file of PEM certificates")]
    Bundle {
        /// The path.
        path: String,
        /// Why.
        why: String,
    },
}

/// A client with the settings of `env`: `HTTPS_PROXY` and `NO_PROXY` (or in lower case), and `AWS_CA_BUNDLE`, whose authorities are trusted
/// beside those of the system. Endpoints without TLS, as those of instance metadata, are reached directly.
///
/// # Errors
/// Names the variable that cannot be used.
pub(crate) fn client(env: impl Fn(&str) -> Option<String>) -> Result<SharedHttpClient, HttpError> {
    let mut trusted = TrustStore::default();
    if let Some(bundle) = bundle(&env)? {
        trusted = trusted.with_pem_certificate(bundle);
    }
    let context = TlsContext::builder().with_trust_store(trusted).build();
    let context = context.map_err(|error| HttpError::Bundle {
        path: env("AWS_CA_BUNDLE").unwrap_or_default(),
        why: error.to_string(),
    })?;
    let proxy = proxy(&env)?;
    Ok(Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder()
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .tls_context(context.clone())
            .proxy_config(proxy.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(|components| components.sleep_impl()));
        connector.build()
    }))
}

/// The first variable that is set to something.
fn first(env: impl Fn(&str) -> Option<String>, names: [&'static str; 2]) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| Some((name, env(name).filter(|text| !text.is_empty())?)))
}

/// The content of `AWS_CA_BUNDLE`; `None` if it is not set.
fn bundle(env: &impl Fn(&str) -> Option<String>) -> Result<Option<Vec<u8>>, HttpError> {
    let Some(path) = env("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let read = std::fs::read(&path).map_err(|error| error.to_string()).and_then(|content| {
        let there = content.windows(BEGIN.len()).any(|text| text == BEGIN);
        if there { Ok(content) } else { Err("it has no certificate".to_owned()) }
    });
    read.map(Some).map_err(|why| HttpError::Bundle { path, why })
}

/// The proxy for HTTPS, with the hosts that are reached directly.
fn proxy(env: &impl Fn(&str) -> Option<String>) -> Result<ProxyConfig, HttpError> {
    let Some((variable, url)) = first(env, ["HTTPS_PROXY", "https_proxy"]) else {
        return Ok(ProxyConfig::disabled());
    };
    // Go takes a proxy without a scheme as one that speaks HTTP.
    let url = if url.contains("://") { url } else { format!("http://{url}") };
    let proxy = ProxyConfig::https(url);
    let proxy = proxy.map_err(|error| HttpError::Proxy { variable, why: error.to_string() })?;
    let listed = first(env, ["NO_PROXY", "no_proxy"]).map(|(_, hosts)| hosts);
    // As in Go, an asterisk is every host. The matcher of the client takes it for every name, and for no address.
    if listed.as_deref().is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*")) {
        return Ok(ProxyConfig::disabled());
    }
    let direct: Vec<&str> = listed.as_deref().into_iter().chain(DIRECT).collect();
    Ok(proxy.no_proxy(direct.join(",")))
}

#[cfg(test)]
mod tests {
    //! What the environment may say.
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<SharedHttpClient, HttpError> {
        client(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_that_cannot_be_used_are_named() {
        assert!(of(&[]).is_ok());
        assert!(of(&[("https_proxy", "proxy:3128"), ("NO_PROXY", "*.internal,10.0.0.0/8")]).is_ok());
        let wrong = of(&[("HTTPS_PROXY", "http://pro xy")]).unwrap_err().to_string();
        assert!(
            wrong.starts_with("HTTPS_PROXY: ") && wrong.ends_with("give a URL such as http://proxy:3128"),
            "{wrong}"
        );
        for path in ["/nowhere/ca.pem", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            let wrong = of(&[("AWS_CA_BUNDLE", path)]).unwrap_err().to_string();
            assert!(wrong.starts_with(&format!("AWS_CA_BUNDLE: {path}: ")), "{wrong}");
        }
    }

    /// Who is asked first by a call to `endpoint`: `Some` is the request to the proxy, `None` says that it is not asked.
    async fn proxied(endpoint: &str, no_proxy: &str) -> Option<String> {
        use aws_sdk_ec2::config::{
            BehaviorVersion, Credentials, Region, retry::RetryConfig, timeout::TimeoutConfig,
        };
        let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", proxy.local_addr().unwrap());
        // Addresses of instance metadata are nowhere, or do not answer.
        let limits = TimeoutConfig::builder().operation_timeout(Duration::from_secs(1));
        let config = aws_sdk_ec2::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("k", "s", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .timeout_config(limits.build())
            .http_client(of(&[("HTTPS_PROXY", &url), ("NO_PROXY", no_proxy)]).unwrap());
        let config = if endpoint.is_empty() { config } else { config.endpoint_url(endpoint) };
        let client = aws_sdk_ec2::Client::from_conf(config.build());
        let asked = async {
            let (mut connection, _) = proxy.accept().await.unwrap();
            let mut asked = vec![0; 64];
            let read = connection.read(&mut asked).await.unwrap();
            String::from_utf8_lossy(&asked[..read]).into_owned()
        };
        tokio::select! {
            asked = asked => Some(asked),
            answer = client.describe_subnets().send() => {
                assert!(answer.is_err(), "no endpoint answers");
                None
            }
        }
    }

    /// A call through the proxy asks it for a tunnel.
    #[tokio::test]
    async fn services_are_called_through_the_proxy() {
        let asked = proxied("", "").await.unwrap();
        assert!(asked.starts_with("CONNECT ec2.eu-west-1.amazonaws.com:443 "), "{asked}");
    }

    /// Those of `NO_PROXY` and the addresses that only this host or pod reaches, over TLS or not, and beside `NO_PROXY`.
    #[tokio::test]
    async fn some_hosts_are_asked_past_the_proxy() {
        // Nothing listens there: the port is that of a listener that is gone.
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let local = format!("https://{gone}");
        for (no_proxy, direct) in [
            ("127.0.0.1", true),
            ("127.0.0.0/8", true),
            ("*", true),
            ("elsewhere, 127.0.0.1", true),
            ("", false),
            ("10.0.0.0/8,.internal", false),
        ] {
            assert_eq!(proxied(&local, no_proxy).await.is_none(), direct, "NO_PROXY={no_proxy}");
        }
        for host in
            ["169.254.169.254", "[fd00:ec2::254]", "169.254.170.23", "[fd00:ec2::23]", "169.254.170.2"]
        {
            for scheme in ["http", "https"] {
                for no_proxy in ["", "10.0.0.0/8"] {
                    let asked = proxied(&format!("{scheme}://{host}"), no_proxy).await;
                    assert_eq!(asked, None, "{scheme}://{host} NO_PROXY={no_proxy}");
                }
            }
        }
        let other = proxied("https://169.254.1.1", "").await.unwrap();
        assert!(other.starts_with("CONNECT 169.254.1.1:443 "), "{other}");
    }
}
