//! What a request asks for: service and action, by whom, and with which parameters.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, Method};
use jiff::Timestamp;
use serde_json::Value;

/// Parameters of the query protocol, as flat as they are sent.
pub type Params = BTreeMap<String, String>;

/// A request to AWS.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The service as signatures name it: `ec2`, `iam`, `ssm`.
    pub service: String,
    /// The action as IAM names it: `DescribeSubnets`.
    pub action: String,
    /// Who asks.
    pub access_key: String,
    /// The path, without the query.
    pub path: String,
    /// When the caller signed it, by the caller's clock; `None` without such a header.
    pub signed: Option<Timestamp>,
    /// Parameters of the query protocol (EC2, IAM).
    pub params: Params,
    /// The body of the JSON protocols (SSM, SQS, the price list).
    pub json: Value,
    /// What was answered; zero while nothing is.
    pub status: u16,
}

/// Beginnings of the names of actions that change nothing.
const READING: [&str; 5] = ["Describe", "Get", "List", "Receive", "Simulate"];

impl Call {
    /// Reads a request.
    #[must_use]
    pub fn of(method: &Method, path: &str, headers: &HeaderMap, body: &[u8]) -> Self {
        let (access_key, service) = scope(headers);
        let params = decode(&String::from_utf8_lossy(body));
        let target = headers.get("x-amz-target").and_then(|value| value.to_str().ok());
        let action = match (target, params.get("Action")) {
            (Some(target), _) => target.rsplit('.').next().unwrap_or_default().to_owned(),
            (None, Some(action)) => action.clone(),
            (None, None) => of_path(method, path),
        };
        let json = serde_json::from_slice(body).unwrap_or_default();
        let path = path.to_owned();
        Self { service, action, access_key, path, signed: signed(headers), params, json, status: 0 }
    }

    /// A parameter of the query protocol; empty if absent.
    #[must_use]
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// Whether it would change something: dry runs, reading and the handling of messages do not.
    #[must_use]
    pub fn mutates(&self) -> bool {
        let reads = READING.iter().any(|begin| self.action.starts_with(begin));
        !reads && self.service != "sqs" && !self.is_dry_run()
    }

    /// Whether it is a dry run.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.params.get("DryRun").is_some_and(|value| value == "true")
    }

    /// The tags that the request has for resources of a kind.
    #[must_use]
    pub fn tags(&self, kind: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for place in groups(&self.params, "TagSpecification.") {
            if self.params.get(&format!("{place}ResourceType")).map(String::as_str) != Some(kind) {
                continue;
            }
            found.extend(tag_pairs(&self.params, &format!("{place}Tag.")));
        }
        found
    }
}

/// The beginnings `<prefix><n>.` of parameters, in the order of their numbers.
#[must_use]
pub fn groups(params: &Params, prefix: &str) -> Vec<String> {
    let number = |key: &String| key.strip_prefix(prefix)?.split('.').next()?.parse::<u32>().ok();
    let numbers: BTreeSet<u32> = params.keys().filter_map(number).collect();
    numbers.into_iter().map(|number| format!("{prefix}{number}.")).collect()
}

/// The tags `<prefix><n>.Key` with their values.
#[must_use]
pub fn tag_pairs(params: &Params, prefix: &str) -> BTreeMap<String, String> {
    let part = |key: String| params.get(&key).cloned().unwrap_or_default();
    let pair = |place: &String| (part(format!("{place}Key")), part(format!("{place}Value")));
    groups(params, prefix).iter().map(pair).collect()
}

/// `X-Amz-Date: 20260101T000000Z`.
fn signed(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get("x-amz-date")?.to_str().ok()?;
    let part = |range: std::ops::Range<usize>| text.get(range);
    let (date, time) = (part(0..8)?, part(9..15)?);
    let [year, month, day] = [date.get(0..4)?, date.get(4..6)?, date.get(6..8)?];
    let [hour, minute, second] = [time.get(0..2)?, time.get(2..4)?, time.get(4..6)?];
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z").parse().ok()
}

/// Access key and service of a signature: `Credential=<key>/<date>/<region>/<service>/aws4_request`.
fn scope(headers: &HeaderMap) -> (String, String) {
    let signature = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let credential = signature.split_once("Credential=").map_or("", |(_, rest)| rest);
    let parts: Vec<&str> = credential.split([',', ' ']).next().unwrap_or_default().split('/').collect();
    let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
    (part(0), part(3))
}

/// The actions of the services that go by paths.
fn of_path(method: &Method, path: &str) -> String {
    let action = match (method.as_str(), path.split('/').nth(1).unwrap_or_default()) {
        ("GET", "clusters") => "DescribeCluster",
        ("GET", "managedresources") => "GetManagedResource",
        _ => "Unknown",
    };
    action.to_owned()
}

/// Parses a form. Any other body has no parameters.
#[must_use]
pub fn decode(form: &str) -> Params {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (plain(key), plain(value))).collect()
}

fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..2).filter(|_| first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => bytes.push(if first == b'+' { b' ' } else { first }),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes a form.
#[must_use]
pub fn encode<'a>(params: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs = params.into_iter().map(|(key, value)| format!("{}={}", coded(key), coded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn coded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn each_protocol_names_its_action() {
        let signed =
            "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-west-2/ec2/aws4_request, SignedHeaders=host";
        let ec2 = Call::of(
            &Method::POST,
            "/",
            &headers(&[("authorization", signed)]),
            b"Action=CreateFleet&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a%2Fb&TagSpecification.1.Tag.1.Value=c+d",
        );
        assert_eq!(
            (ec2.service.as_str(), ec2.action.as_str(), ec2.access_key.as_str()),
            ("ec2", "CreateFleet", "KEY")
        );
        assert_eq!(ec2.tags("instance"), BTreeMap::from([("a/b".to_owned(), "c d".to_owned())]));
        assert!(ec2.mutates() && ec2.tags("volume").is_empty());
        let dated = headers(&[("x-amz-date", "20260102T030405Z")]);
        let dated = Call::of(&Method::GET, "/clusters/prod", &dated, b"");
        assert_eq!(dated.signed, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert_eq!((dated.path.as_str(), ec2.signed), ("/clusters/prod", None));
        let ssm = Call::of(
            &Method::POST,
            "/",
            &headers(&[("x-amz-target", "AmazonSSM.GetParameter")]),
            br#"{"Name": "/a"}"#,
        );
        assert_eq!((ssm.action.as_str(), ssm.json["Name"].as_str()), ("GetParameter", Some("/a")));
        let eks = Call::of(&Method::GET, "/clusters/prod", &HeaderMap::new(), b"");
        assert_eq!((eks.action.as_str(), eks.mutates()), ("DescribeCluster", false));
    }

    #[test]
    fn forms_come_back_as_they_were() {
        let params: Params =
            [("a b", "ü&=%"), ("c", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(decode(&encode(&params)), params);
        assert_eq!(
            decode("a=%zz&b=%4"),
            [("a", "%zz"), ("b", "%4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
        );
        assert!(decode("no form").is_empty());
    }

    #[test]
    fn dry_runs_and_messages_change_nothing() {
        for (service, action, dry, mutates) in [
            ("ec2", "RunInstances", "true", false),
            ("ec2", "RunInstances", "false", true),
            ("sqs", "DeleteMessageBatch", "false", false),
            ("iam", "ListInstanceProfiles", "false", false),
            ("ec2", "DeleteLaunchTemplate", "false", true),
        ] {
            let params = Params::from([("DryRun".to_owned(), dry.to_owned())]);
            let call =
                Call { service: service.to_owned(), action: action.to_owned(), params, ..Call::default() };
            assert_eq!(call.mutates(), mutates, "{service} {action} {dry}");
        }
    }

    #[test]
    fn groups_are_in_the_order_of_their_numbers() {
        let params = decode("A.10.X=1&A.2.X=1&A.2.Y=1&B.1.X=1&A.x=1");
        assert_eq!(groups(&params, "A."), ["A.2.", "A.10."]);
    }
}
