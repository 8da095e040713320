//! Bottlerocket: TOML settings. The class's settings are kept, except those of Kubernetes that Fleetwright sets.

use std::collections::BTreeMap;

use fleetwright_aws_api::ec2nodeclass::{Ami, Ec2NodeClassSpec};
use toml::{Table, Value};

use super::{Bootstrap, UserData, UserDataError, dns, grace_periods};

/// The settings that Bottlerocket supports below `settings.kubernetes`. It rejects a whole document for one unknown setting, so others
/// are dropped.
pub(super) const KNOWN: &[&str] = &[
    "allowed-unsafe-sysctls",
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "container-log-max-files",
    "container-log-max-size",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "cpu-cfs-quota-enforced",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "credential-providers",
    "device-ownership-from-security-context",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-max-pod-grace-period",
    "eviction-soft",
    "eviction-soft-grace-period",
    "hostname-override-source",
    "ids-per-pod",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "log-level",
    "max-pods",
    "memory-manager-policy",
    "memory-manager-reserved-memory",
    "node-labels",
    "node-taints",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
    "seccomp-default",
    "server-tls-bootstrap",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "single-process-oom-kill",
    "static-pods",
    "system-reserved",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "topology-manager-scope",
    "hostname-override",
    "node-ip",
];

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<UserData, UserDataError> {
    let unreadable = |why: String| UserDataError::Unreadable { form: "Bottlerocket's TOML settings", why };
    let custom = bootstrap.custom.unwrap_or_default();
    let mut root: Table =
        custom.parse().map_err(|error: toml::de::Error| unreadable(error.message().to_owned()))?;
    let settings =
        table(&mut root, "settings").ok_or_else(|| unreadable("settings is not a table".to_owned()))?;
    let kubernetes = table(settings, "kubernetes")
        .ok_or_else(|| unreadable("settings.kubernetes is not a table".to_owned()))?;
    let dropped: Vec<String> =
        kubernetes.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
    kubernetes.retain(|key, _| KNOWN.contains(&key));
    decide(kubernetes, bootstrap);
    if bootstrap.raid0
        && let Some(commands) = table(settings, "bootstrap-commands")
    {
        commands.insert("000-mount-instance-storage".to_owned(), mount(bootstrap.bind_by_default));
    }
    let text = toml::to_string(&root).map_err(|error| unreadable(error.to_string()))?;
    let dropped = dropped.into_iter().map(|key| format!("settings.kubernetes.{key}")).collect();
    Ok(UserData { text, dropped })
}

/// The table under a key, created if absent; `None` if the key has another type.
fn table<'a>(parent: &'a mut Table, key: &str) -> Option<&'a mut Table> {
    parent.entry(key.to_owned()).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

fn texts(map: &BTreeMap<String, String>) -> Value {
    Value::Table(map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect())
}

/// Sets what the class cannot set, or sets elsewhere.
fn decide(kubernetes: &mut Table, bootstrap: &Bootstrap<'_>) {
    let parsed = &bootstrap.parsed;
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            kubernetes.insert(key.to_owned(), value);
        }
    };
    let certificate = (!bootstrap.ca_bundle.is_empty()).then(|| Value::from(bootstrap.ca_bundle));
    put("cluster-name", Some(Value::from(bootstrap.cluster_name)));
    put("api-server", Some(Value::from(bootstrap.endpoint)));
    put("cluster-certificate", certificate);
    put("max-pods", parsed.max_pods_count().map(|pods| Value::from(i64::from(pods))));
    put("cluster-dns-ip", dns(bootstrap).map(Value::from));
    put("system-reserved", parsed.system_reserved.as_ref().map(texts));
    put("kube-reserved", parsed.kube_reserved.as_ref().map(texts));
    put("eviction-hard", parsed.eviction_hard.as_ref().map(texts));
    put("eviction-soft", parsed.eviction_soft.as_ref().map(texts));
    put("eviction-soft-grace-period", grace_periods(parsed).as_ref().map(texts));
    let seconds = parsed.eviction_max_pod_grace_period.map(|seconds| Value::from(i64::from(seconds)));
    put("eviction-max-pod-grace-period", seconds);
    let percent = |value: Option<i32>| value.map(|value| Value::from(value.to_string()));
    put("image-gc-high-threshold-percent", percent(parsed.image_gc_high_threshold_percent));
    put("image-gc-low-threshold-percent", percent(parsed.image_gc_low_threshold_percent));
    put("cpu-cfs-quota-enforced", parsed.cpu_cfs_quota.map(Value::from));
    let mut taints: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for taint in &bootstrap.taints {
        let text = format!("{}:{}", taint.value, taint.effect.as_str());
        taints.entry(taint.key.to_string()).or_default().push(Value::from(text));
    }
    let taints = taints.into_iter().map(|(key, values)| (key, Value::Array(values))).collect();
    put("node-taints", Some(Value::Table(taints)));
    if let Some(labels) = table(kubernetes, "node-labels") {
        let ours = bootstrap.labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        labels.extend(ours);
    }
}

/// The command that formats the instance store as one file system and binds the containers' directories to it.
fn mount(by_default: bool) -> Value {
    let words = |words: &[&str]| Value::Array(words.iter().map(|word| Value::from(*word)).collect());
    let bind: &[&str] = if by_default {
        &["apiclient", "ephemeral-storage", "bind"]
    } else {
        &[
            "apiclient",
            "ephemeral-storage",
            "bind",
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ]
    };
    let commands = Value::Array(vec![words(&["apiclient", "ephemeral-storage", "init"]), words(bind)]);
    let entries = [("commands", commands), ("essential", Value::from(true)), ("mode", Value::from("always"))];
    Value::Table(entries.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
}

/// Whether a class's images bind their usual directories by default: from version 1.46 on. The version is the alias', else that in a
/// term's name, else that in an image name of the status.
#[must_use]
pub fn mounts_by_default(spec: &Ec2NodeClassSpec, amis: &[Ami]) -> bool {
    if let Some(alias) = spec.alias() {
        return alias.is_latest() || is_new(&alias.version);
    }
    let of_terms = spec.ami_selector_terms.iter().filter_map(|term| term.name.as_deref());
    let named = |id: &&str| amis.iter().find(|ami| ami.id == **id).map(|ami| ami.name.as_str());
    let of_ids = spec.ami_selector_terms.iter().filter_map(|term| term.id.as_deref());
    let of_ids: Vec<&str> = of_ids.filter_map(|id| named(&id)).collect();
    let resolved = amis.iter().map(|ami| ami.name.as_str()).filter(|name| name.contains("bottlerocket"));
    let version = of_terms.chain(of_ids).chain(resolved).find_map(version_in);
    version.is_some_and(is_new)
}

/// The version in an image's name, such as `bottlerocket-aws-k8s-1.35-x86_64-v1.46.0-abcdef`.
fn version_in(name: &str) -> Option<&str> {
    name.split('-').find(|part| {
        part.strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('.'))
    })
}

fn is_new(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (1, 46),
        _ => false,
    }
}
