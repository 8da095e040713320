//! The HTTP proxy for the API server, from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, as in Go's clients.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy for requests to `target` by the environment variables, with their credentials; none for
/// loopback addresses and those in `NO_PROXY`.
///
/// # Errors
/// If a variable is not a URL; names it.
pub(crate) fn from_environment(
    target: &Uri,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let first = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, env(name).filter(|text| !text.is_empty())?)))
    };
    let variable = match target.scheme_str() {
        Some("https") => first(["HTTPS_PROXY", "https_proxy"]),
        Some("http") => first(["HTTP_PROXY", "http_proxy"]),
        _ => None,
    };
    let Some((name, text)) = variable else { return Ok(None) };
    // In Go, a proxy without a scheme is an HTTP proxy.
    let url = if text.contains("://") { text } else { format!("http://{text}") };
    let proxy: Uri =
        url.parse().map_err(|error| format!("{name}: {error}: give a URL such as http://proxy:3128"))?;
    let direct = first(["NO_PROXY", "no_proxy"]).map(|(_, text)| text).unwrap_or_default();
    // The matcher accepts an asterisk for names only.
    let all_direct = direct.split(',').any(|entry| entry.trim() == "*");
    if all_direct || is_loopback(target.host().unwrap_or_default()) {
        return Ok(None);
    }
    let matcher = Matcher::builder().all(url).no(direct).build();
    Ok(matcher.intercept(target).is_some().then_some(proxy))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    //! Which requests go through which proxy.
    use rstest::rstest;

    use super::*;

    const IN_CLUSTER: &str = "https://172.20.0.1:443/";

    #[rstest]
    #[case::none(IN_CLUSTER, &[], None)]
    #[case::https(IN_CLUSTER, &[("HTTPS_PROXY", "http://proxy:3128")], Some("http://proxy:3128/"))]
    #[case::lower_case(IN_CLUSTER, &[("https_proxy", "http://proxy:3128")], Some("http://proxy:3128/"))]
    #[case::of_the_other_scheme(IN_CLUSTER, &[("HTTP_PROXY", "http://proxy:3128")], None)]
    #[case::without_a_scheme(IN_CLUSTER, &[("HTTPS_PROXY", "proxy:3128")], Some("http://proxy:3128/"))]
    #[case::with_credentials(IN_CLUSTER, &[("HTTPS_PROXY", "http://me:pw@proxy:3128")], Some("http://me:pw@proxy:3128/"))]
    #[case::address_is_direct(IN_CLUSTER, &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "10.0.0.1,172.20.0.1")], None)]
    #[case::network_is_direct(IN_CLUSTER, &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "172.20.0.0/16")], None)]
    #[case::all_is_direct(IN_CLUSTER, &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "*")], None)]
    #[case::domain_is_direct("https://abc.gr7.eu-west-1.eks.amazonaws.com/", &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", ".amazonaws.com")], None)]
    #[case::others_are_not(IN_CLUSTER, &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "proxy,10.0.0.0/8")], Some("http://proxy:3128/"))]
    #[case::loopback("https://127.0.0.1:6443/", &[("HTTPS_PROXY", "http://proxy:3128")], None)]
    #[case::loopback_ipv6("https://[::1]:6443/", &[("HTTPS_PROXY", "http://proxy:3128")], None)]
    #[case::empty(IN_CLUSTER, &[("HTTPS_PROXY", "")], None)]
    fn requests_go_through_the_proxy(
        #[case] target: &str,
        #[case] env: &[(&str, &str)],
        #[case] expected: Option<&str>,
    ) {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let proxy = from_environment(&target.parse().unwrap(), env).unwrap();
        assert_eq!(proxy.map(|uri| uri.to_string()).as_deref(), expected);
    }

    #[test]
    fn a_variable_that_is_no_url_is_named() {
        let env = |name: &str| (name == "HTTPS_PROXY").then(|| "http://pro xy".to_owned());
        let error = from_environment(&IN_CLUSTER.parse().unwrap(), env).unwrap_err();
        assert!(error.starts_with("HTTPS_PROXY: "), "{error}");
    }
}
