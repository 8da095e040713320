//! The kubelet block of an EC2NodeClass: an open object; some fields are parsed, all are validated.

mod fields;
mod validation;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use validation::{Problem, validate};

/// `spec.kubelet`: any field of Kubernetes' KubeletConfiguration, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KubeletConfig(pub BTreeMap<String, Value>);

/// `maxPods`: a number, or a CEL expression that is evaluated for each instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(untagged)]
pub enum MaxPods {
    /// A number.
    Count(i32),
    /// An expression.
    Expression(String),
}

/// The fields of the kubelet block that scheduling and user data depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParsedKubelet {
    /// Addresses of the cluster's DNS.
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Option<Vec<String>>,
    /// Most pods on a node.
    pub max_pods: Option<MaxPods>,
    /// Most pods per core.
    pub pods_per_core: Option<i32>,
    /// Resources reserved for the system; values may be expressions.
    pub system_reserved: Option<BTreeMap<String, String>>,
    /// Resources reserved for Kubernetes; values may be expressions.
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// Thresholds of hard eviction.
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Thresholds of soft eviction.
    pub eviction_soft: Option<BTreeMap<String, String>>,
    /// How long a soft threshold is tolerated.
    pub eviction_soft_grace_period: Option<BTreeMap<String, String>>,
    /// Longest termination grace period on soft eviction, in seconds.
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage in percent above which images are garbage-collected.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage in percent down to which images are garbage-collected.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether CPU limits are enforced by CFS quota.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: Option<bool>,
}

/// The fields of [`ParsedKubelet`]: applied by every family with a kubelet configuration.
pub const MANAGED_FIELDS: [&str; 12] = [
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];

/// Why the kubelet block cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.kubelet: {0}")]
pub struct KubeletError(String);

impl KubeletConfig {
    /// Parses the fields that decisions depend on.
    ///
    /// # Errors
    /// If one of them has another type.
    pub fn parse(&self) -> Result<ParsedKubelet, KubeletError> {
        let known = self.0.iter().filter(|(key, _)| MANAGED_FIELDS.contains(&key.as_str()));
        let object: Value = known.map(|(key, value)| (key.clone(), value.clone())).collect();
        serde_json::from_value(object).map_err(|error| KubeletError(error.to_string()))
    }

    /// Names of fields that only families with a full kubelet configuration apply.
    pub fn unmanaged_fields(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|key| !MANAGED_FIELDS.contains(key))
    }

    /// The block as Go's encoder writes it: keys sorted, HTML escaped. This form is hashed.
    #[must_use]
    pub fn go_json(&self) -> String {
        let mut text = String::new();
        write_object(self.0.iter(), &mut text);
        text
    }
}

fn write_object<'a>(entries: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut String) {
    let sorted: BTreeMap<&String, &Value> = entries.collect();
    out.push('{');
    for (at, (key, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(key, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => write_object(map.iter(), out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_text(text, out),
        // The API server stores a whole number without its decimal point.
        Value::Number(number) => {
            let text = number.to_string();
            out.push_str(text.strip_suffix(".0").unwrap_or(&text));
        }
        Value::Bool(_) | Value::Null => out.push_str(&value.to_string()),
    }
}

fn write_text(text: &str, out: &mut String) {
    for c in Value::from(text).to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
}

/// A duration in Go's format (`90s` becomes `1m30s`), as nodes are configured; other text is returned unchanged.
#[must_use]
pub fn go_duration(text: &str) -> String {
    fleetwright_api::duration::parse(text).map_or_else(|_| text.to_owned(), fleetwright_api::duration::format)
}

impl ParsedKubelet {
    /// The number of pods, if it is a number.
    #[must_use]
    pub fn max_pods_count(&self) -> Option<i32> {
        match self.max_pods {
            Some(MaxPods::Count(count)) => Some(count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
