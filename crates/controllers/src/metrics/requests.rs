//! Metrics of calls to the API server, under the names of Karpenter's client, and the client wrapper that updates them.

use std::{sync::Arc, time::Duration};

use fleetwright_core::clock::SharedClock;
use kube::Client;

use super::{Family, Metrics};

/// Calls by status and method.
pub const TOTAL: Family = Family::counter(
    "client_go_request_total",
    &["code", "method"],
    "Number of HTTP requests to the API server, by status code and method",
);
/// Calls by status, method and host.
pub const REST: Family = Family::counter(
    "rest_client_requests_total",
    &["code", "method", "host"],
    "Number of HTTP requests, partitioned by status code, method, and host",
);
/// Duration of calls until the response begins.
pub const DURATION: Family = Family::histogram(
    "client_go_request_duration_seconds",
    &["verb", "group", "version", "kind", "subresource"],
    &[
        0.001,
        0.0015,
        0.002_25,
        0.003_375,
        0.005_062_5,
        0.007_594,
        0.011_391,
        0.017_086,
        0.025_629,
        0.038_443,
        0.057_665,
        0.086_498,
        0.129_746,
        0.194_62,
        0.291_929,
        0.437_894,
        0.656_841,
        0.985_261,
        1.477_892,
        2.216_838,
    ],
    "Latency of requests to the API server, by verb, group, version, kind and subresource",
);

/// A client whose calls are measured.
pub(crate) fn metered(inner: Client, metrics: Arc<Metrics>, clock: SharedClock, host: Arc<str>) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, metrics, clock, host) = (inner.clone(), metrics.clone(), clock.clone(), host.clone());
        async move {
            let method = request.method().as_str().to_owned();
            let target = Target::of(request.uri().path());
            let verb = target.verb(&method, request.uri().query().unwrap_or_default());
            let began = clock.now();
            let answer = client.send(request).await;
            let took = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default();
            let labels = [verb, &target.group, &target.version, &target.kind, &target.subresource];
            metrics.observe(&DURATION, &labels, took.as_secs_f64());
            let code = answer
                .as_ref()
                .map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_u16().to_string());
            metrics.inc(&TOTAL, &[&code, &method]);
            metrics.inc(&REST, &[&code, &method, &host]);
            answer
        }
    });
    Client::new(service, namespace)
}

/// The resource that an API path names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Target {
    group: String,
    version: String,
    /// The resource as in the path: `nodeclaims`.
    kind: String,
    /// Whether the path names one object.
    is_named: bool,
    subresource: String,
}

impl Target {
    /// Parses `/api/v1/…` and `/apis/GROUP/VERSION/…`; all parts are empty for any other path.
    fn of(path: &str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let (group, version) = match parts.next() {
            Some("api") => (None, parts.next()),
            Some("apis") => (parts.next(), parts.next()),
            _ => return Self::default(),
        };
        let rest: Vec<&str> = parts.collect();
        // A namespace is itself the resource if the path ends there.
        let rest = match &*rest {
            ["namespaces", _, below @ ..]
                if !below.is_empty() && !matches!(below, ["status" | "finalize"]) =>
            {
                below
            }
            all => all,
        };
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        Self {
            group: text(group),
            version: text(version),
            kind: text(rest.first().copied()),
            is_named: rest.len() > 1,
            subresource: text(rest.get(2).copied()),
        }
    }
}

impl Target {
    /// What a request does, as Kubernetes' clients in Go name it.
    fn verb(&self, method: &str, query: &str) -> &'static str {
        let watches = || query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        match method {
            "GET" if watches() => "WATCH",
            "GET" if self.is_named || self.kind.is_empty() => "GET",
            "GET" => "LIST",
            "POST" => "CREATE",
            "PUT" => "UPDATE",
            "PATCH" => "PATCH",
            "DELETE" if self.is_named => "DELETE",
            "DELETE" => "DELETECOLLECTION",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    //! Paths.
    use rstest::rstest;

    use super::Target;

    #[rstest]
    #[case("/api/v1/pods", "/v1/pods/")]
    #[case("/api/v1/namespaces/x", "/v1/namespaces/")]
    #[case("/api/v1/namespaces/x/status", "/v1/namespaces/status")]
    #[case("/api/v1/namespaces/default/pods/a/eviction", "/v1/pods/eviction")]
    #[case("/apis/karpenter.sh/v1/nodeclaims/a/status", "karpenter.sh/v1/nodeclaims/status")]
    #[case("/version", "///")]
    fn paths(#[case] path: &str, #[case] expected: &str) {
        let Target { group, version, kind, subresource, .. } = Target::of(path);
        assert_eq!(format!("{group}/{version}/{kind}/{subresource}"), expected);
    }

    #[rstest]
    #[case("GET", "/api/v1/pods", "watch=true&resourceVersion=1", "WATCH")]
    #[case("GET", "/api/v1/pods", "limit=500", "LIST")]
    #[case("GET", "/api/v1/namespaces/default/pods", "", "LIST")]
    #[case("GET", "/api/v1/namespaces/x", "", "GET")]
    #[case("GET", "/version", "", "GET")]
    #[case("POST", "/api/v1/namespaces/default/pods/a/eviction", "", "CREATE")]
    #[case("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "", "UPDATE")]
    #[case("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a/status", "", "PATCH")]
    #[case("DELETE", "/apis/karpenter.sh/v1/nodeclaims/a", "", "DELETE")]
    #[case("DELETE", "/apis/karpenter.sh/v1/nodeclaims", "", "DELETECOLLECTION")]
    fn verbs(#[case] method: &str, #[case] path: &str, #[case] query: &str, #[case] expected: &str) {
        assert_eq!(Target::of(path).verb(method, query), expected);
    }
}
