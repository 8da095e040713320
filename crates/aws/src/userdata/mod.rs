//! User data: how a new instance joins the cluster, in the format of its image family, merged with the class's user data.

mod bottlerocket;
mod linux;
mod mime;
mod nodeadm;
mod windows;
mod yaml;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleetwright_aws_api::{Family, KubeletConfig, MaxPods, ParsedKubelet};
use fleetwright_core::cloud::{is_label_of_kubelet, taint_flag};
use fleetwright_core::model::{Labels, Taint};
use serde_json::Value;

pub use bottlerocket::mounts_by_default;

use crate::instancetype::ResolvedKubelet;

/// EC2's limit for user data in bytes, before base64.
pub const SIZE_MAX: usize = 16_384;

/// The size in bytes from which a warning is reported: 90 % of the limit.
pub const SIZE_WARNING: usize = SIZE_MAX / 10 * 9;

/// Why user data cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The class's user data cannot be parsed.
    #[error("spec.userData cannot be read as {form}: {why}")]
    Unreadable {
        /// The expected format.
        form: &'static str,
        /// The error.
        why: String,
    },
    /// Larger than EC2's limit.
    #[error(
        "user data is {size} bytes, and {SIZE_MAX} is the most: shorten spec.userData, or fetch parts of it at boot"
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// The service CIDR is not known (yet).
    #[error("the cluster's service CIDR is not known")]
    NoCidr,
}

/// The configuration of an instance.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap<'a> {
    /// Name of the cluster.
    pub cluster_name: &'a str,
    /// Address of the API server.
    pub endpoint: &'a str,
    /// Its certificate authority, base64; empty if unknown.
    pub ca_bundle: &'a str,
    /// The service CIDR, for AL2023.
    pub service_cidr: Option<&'a str>,
    /// The kubelet block, resolved.
    pub kubelet: KubeletConfig,
    /// Its fields that every family supports.
    pub parsed: ParsedKubelet,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// The class's user data.
    pub custom: Option<&'a str>,
    /// Whether the instance store's disks become one RAID 0 volume.
    pub raid0: bool,
    /// Whether Bottlerocket binds its usual directories by default.
    pub bind_by_default: bool,
}

/// User data, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    /// The text, as the instance sees it.
    pub text: String,
    /// Unknown settings of the class, which were dropped.
    pub dropped: Vec<String>,
}

impl UserData {
    /// The text as base64, for a launch template.
    #[must_use]
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.text)
    }
}

/// Writes the user data of a family.
///
/// # Errors
/// If the class's part cannot be parsed, a required value is unknown, or the result is too large.
pub fn render(family: Family, bootstrap: &Bootstrap<'_>) -> Result<UserData, UserDataError> {
    let plain = |text: String| UserData { text, dropped: Vec::new() };
    let data = match family {
        Family::Al2 => plain(linux::render(bootstrap)?),
        Family::Al2023 => plain(nodeadm::render(bootstrap)?),
        Family::Bottlerocket => bottlerocket::render(bootstrap)?,
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => plain(windows::render(bootstrap)),
        Family::Custom => plain(bootstrap.custom.unwrap_or_default().to_owned()),
    };
    match data.text.len() {
        size if size > SIZE_MAX => Err(UserDataError::TooLarge { size }),
        _ => Ok(data),
    }
}

/// Checks a class's own part: returns the settings in it that are dropped.
///
/// # Errors
/// If it cannot be parsed, or is too large without additions.
pub fn check(family: Family, custom: &str) -> Result<Vec<String>, UserDataError> {
    let service_cidr = Some("10.0.0.0/16");
    let data = render(family, &Bootstrap { custom: Some(custom), service_cidr, ..Bootstrap::default() })?;
    Ok(data.dropped)
}

/// The kubelet block for a node of one instance type: pods as a number, reserved values evaluated, the cluster's DNS unless the class
/// sets it.
#[must_use]
pub fn resolve(
    config: &KubeletConfig,
    parsed: &ParsedKubelet,
    resolved: &ResolvedKubelet,
    cluster_dns: Option<&str>,
) -> (KubeletConfig, ParsedKubelet) {
    let mut config = config.clone();
    let mut parsed = parsed.clone();
    let pods = i32::try_from(resolved.pods).unwrap_or(i32::MAX);
    parsed.max_pods = Some(MaxPods::Count(pods));
    config.0.insert("maxPods".to_owned(), Value::from(pods));
    parsed.kube_reserved.clone_from(&resolved.kube_reserved);
    parsed.system_reserved.clone_from(&resolved.system_reserved);
    let reserved = [("kubeReserved", &resolved.kube_reserved), ("systemReserved", &resolved.system_reserved)];
    for (field, map) in reserved {
        if let Some(map) = map {
            let object: Value =
                map.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
            config.0.insert(field.to_owned(), object);
        }
    }
    let named = parsed.cluster_dns.as_ref().is_some_and(|addresses| !addresses.is_empty());
    if let (false, Some(address)) = (named, cluster_dns) {
        parsed.cluster_dns = Some(vec![address.to_owned()]);
        config.0.insert("clusterDNS".to_owned(), Value::from(vec![address.to_owned()]));
    }
    (config, parsed)
}

/// The labels that a node registers with: those of its [`fleetwright_core::cloud::bootstrap`] and the capacity type, without those that the
/// API server refuses from a kubelet.
#[must_use]
pub fn labels(born: &Labels, capacity_type: &str, family: Family) -> BTreeMap<String, String> {
    let text = |(key, value): (&fleetwright_core::model::Str, &fleetwright_core::model::Str)| {
        (key.to_string(), value.to_string())
    };
    let mut all: BTreeMap<String, String> = born.iter().map(text).collect();
    all.insert(fleetwright_core::model::labels::CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family != Family::Custom {
        all.insert("karpenter.sh/do-not-sync-taints".to_owned(), "true".to_owned());
    }
    all.retain(|key, _| is_label_of_kubelet(key));
    all
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn label_flag(labels: &BTreeMap<String, String>) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(format!("--node-labels={}", quoted(&pairs.join(","))))
}

/// The kubelet's flags, in a fixed order, maps by key.
fn kubelet_flags(bootstrap: &Bootstrap<'_>) -> Vec<String> {
    let parsed = &bootstrap.parsed;
    let taints: Vec<String> = bootstrap.taints.iter().map(taint_flag).collect();
    let mut flags: Vec<String> = label_flag(&bootstrap.labels).into_iter().collect();
    flags.push(format!("--register-with-taints={}", quoted(&taints.join(","))));
    let mut number = |name: &str, value: Option<i32>| {
        flags.extend(value.map(|value| format!("--{name}={value}")));
    };
    number("max-pods", parsed.max_pods_count());
    number("pods-per-core", parsed.pods_per_core);
    let mut map = |name: &str, values: &Option<BTreeMap<String, String>>, between: char| {
        let pairs: Vec<String> =
            values.iter().flatten().map(|(key, value)| format!("{key}{between}{value}")).collect();
        if !pairs.is_empty() {
            flags.push(format!("--{name}={}", quoted(&pairs.join(","))));
        }
    };
    map("system-reserved", &parsed.system_reserved, '=');
    map("kube-reserved", &parsed.kube_reserved, '=');
    map("eviction-hard", &parsed.eviction_hard, '<');
    map("eviction-soft", &parsed.eviction_soft, '<');
    map("eviction-soft-grace-period", &grace_periods(parsed), '=');
    let mut number = |name: &str, value: Option<i32>| {
        flags.extend(value.map(|value| format!("--{name}={value}")));
    };
    number("eviction-max-pod-grace-period", parsed.eviction_max_pod_grace_period);
    number("image-gc-high-threshold", parsed.image_gc_high_threshold_percent);
    number("image-gc-low-threshold", parsed.image_gc_low_threshold_percent);
    flags.extend(parsed.cpu_cfs_quota.map(|quota| format!("--cpu-cfs-quota={quota}")));
    flags
}

fn grace_periods(parsed: &ParsedKubelet) -> Option<BTreeMap<String, String>> {
    let periods = parsed.eviction_soft_grace_period.as_ref()?;
    let go =
        |(key, value): (&String, &String)| (key.clone(), fleetwright_aws_api::kubelet::go_duration(value));
    Some(periods.iter().map(go).collect())
}

fn dns<'a>(bootstrap: &'a Bootstrap<'_>) -> Option<&'a str> {
    bootstrap.parsed.cluster_dns.as_ref()?.first().map(String::as_str)
}

#[cfg(test)]
mod any_input;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod merges;
#[cfg(test)]
mod tests;
