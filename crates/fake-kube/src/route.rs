//! Paths and query parameters of the Kubernetes API.

use http::Method;

use crate::status::ApiError;

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A resource, an object or a subresource.
    Resource(ResourcePath),
    /// `/api`, `/apis`, `/api/v1`, `/apis/<group>`, `/apis/<group>/<version>`: the segments.
    Discovery(Vec<String>),
    /// `/openapi/…`: the segments after it.
    OpenApi(Vec<String>),
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz` and what is below.
    Health,
}

/// A path of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// API group.
    pub(crate) group: String,
    /// Version.
    pub(crate) version: String,
    /// Namespace; empty when the path has none.
    pub(crate) namespace: String,
    /// Plural.
    pub(crate) plural: String,
    /// Name; empty for a collection.
    pub(crate) name: String,
    /// Subresource; empty when the path has none.
    pub(crate) subresource: String,
}

impl Route {
    /// Parses a path.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["version"] => Some(Self::Version),
            ["healthz" | "livez" | "readyz", ..] => Some(Self::Health),
            ["openapi", rest @ ..] => {
                Some(Self::OpenApi(rest.iter().map(|part| (*part).to_owned()).collect()))
            }
            ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _] => Some(Self::Discovery(segments)),
            ["api", version, rest @ ..] => resource("", version, rest).map(Self::Resource),
            ["apis", group, version, rest @ ..] => resource(group, version, rest).map(Self::Resource),
            _ => None,
        }
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<ResourcePath> {
    let (namespace, plural, name, subresource) = match rest {
        [plural] => ("", *plural, "", ""),
        ["namespaces", name] => ("", "namespaces", *name, ""),
        ["namespaces", name, sub @ ("status" | "finalize")] => ("", "namespaces", *name, *sub),
        ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
        ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
        ["namespaces", namespace, plural, name, sub] => (*namespace, *plural, *name, *sub),
        [plural, name] => ("", *plural, *name, ""),
        [plural, name, sub] => ("", *plural, *name, *sub),
        _ => return None,
    };
    let own = str::to_owned;
    Some(ResourcePath {
        group: own(group),
        version: own(version),
        namespace: own(namespace),
        plural: own(plural),
        name: own(name),
        subresource: own(subresource),
    })
}

/// Decodes percent encoding.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut index) = (Vec::with_capacity(bytes.len()), 0);
    while index < bytes.len() {
        let escaped = (bytes[index] == b'%')
            .then(|| text.get(index + 1..index + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                decoded.push(byte);
                index += 3;
            }
            None => {
                decoded.push(bytes[index]);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Query parameters in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// The first value of a parameter; empty if absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value.as_str())
    }

    /// Whether a parameter is present.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// A parameter that is `true` or `1`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), "true" | "1" | "True") || (self.has(key) && self.text(key).is_empty())
    }

    /// An integer parameter.
    ///
    /// # Errors
    /// 400 with the parameter.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.text(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("invalid value {text:?} for the query parameter {key}"))
            }),
        }
    }
}

/// The verb of RBAC and audit.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Option<&'static str> {
    let single = !path.name.is_empty();
    Some(match (method, single) {
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) if query.flag("watch") => "watch",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, true) => "update",
        (&Method::PATCH, true) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_resources() {
        for (path, group, namespace, plural, name, sub) in [
            ("/api/v1/pods", "", "", "pods", "", ""),
            ("/api/v1/namespaces/a", "", "", "namespaces", "a", ""),
            ("/api/v1/namespaces/a/finalize", "", "", "namespaces", "a", "finalize"),
            ("/api/v1/namespaces/a/pods/b/eviction", "", "a", "pods", "b", "eviction"),
            ("/apis/karpenter.sh/v1/nodepools/x/status", "karpenter.sh", "", "nodepools", "x", "status"),
            ("/apis/rbac/v1/clusterroles/system%3Aadmin", "rbac", "", "clusterroles", "system:admin", ""),
        ] {
            let Some(Route::Resource(found)) = Route::parse(path) else { panic!("{path} is a resource") };
            let found = (&*found.group, &*found.namespace, &*found.plural, &*found.name, &*found.subresource);
            assert_eq!(found, (group, namespace, plural, name, sub), "{path}");
        }
        assert_eq!(Route::parse("/nothing"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=app%3Dweb%2Ctier+in+%28a%29&watch=1&limit=x");
        assert_eq!(query.text("labelSelector"), "app=web,tier in (a)");
        assert!(query.flag("watch"));
        assert!(query.number("limit").is_err());
    }
}
