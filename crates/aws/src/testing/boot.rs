//! The node that boots on an instance: it reads its user data as the image's bootstrap does, and joins the cluster that they name.
//!
//! An oracle for user data: it shares no code with their generation, and uses no other information from the provider.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleetwright_core::model::{Quantity, Resources, Taint, TaintEffect};
use serde_json::Value;

use crate::calls::{Image, InstanceInfo, InstanceTypeDescription};

const MIB: i64 = 1 << 20;
/// The root volume of every image in the fake region.
const DISK: i64 = 20 << 30;

/// An instance as a node.
#[derive(Clone, Debug)]
pub struct BootedInstance {
    /// The instance.
    pub instance: InstanceInfo,
    /// Address of the API server that it joins.
    pub endpoint: String,
    /// Labels that its kubelet registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that its kubelet registers with.
    pub taints: Vec<Taint>,
    /// `amd64` or `arm64`.
    pub architecture: &'static str,
    /// The capacity that the kubelet detects.
    pub capacity: Resources,
    /// The allocatable resources.
    pub allocatable: Resources,
}

/// The configuration that a bootstrap program reads from user data.
#[derive(Debug, Default, PartialEq)]
struct BootConfig {
    endpoint: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    pods: i64,
    reserved: BTreeMap<String, String>,
}

/// Boots an instance. `None` if the image's bootstrap cannot use the user data: then no node joins.
pub(super) fn boot(
    instance: &InstanceInfo,
    user_data: &str,
    instance_type: &InstanceTypeDescription,
    image: &Image,
    memory_percent: i64,
) -> Option<BootedInstance> {
    let text = String::from_utf8(STANDARD.decode(user_data).ok()?).ok()?;
    let config = if image.name.starts_with("bottlerocket-") { settings(&text)? } else { node_config(&text)? };
    // A kernel of another architecture does not boot.
    let architecture = if image.architecture == "arm64" { "arm64" } else { "amd64" };
    if !instance_type.architectures.contains(&image.architecture) {
        return None;
    }
    let memory = instance_type.memory_mib.saturating_mul(MIB) / 100 * memory_percent;
    let mut capacity = Resources::of(instance_type.vcpus.saturating_mul(1000), memory)
        .with("ephemeral-storage", DISK)
        .with("pods", config.pods);
    // Drivers are part of the image.
    if image.name.contains("nvidia") {
        let gpus =
            instance_type.gpus.iter().filter(|gpu| gpu.manufacturer == "NVIDIA").map(|gpu| gpu.count).sum();
        capacity = capacity.with("nvidia.com/gpu", gpus);
    }
    let reserved = |name: &str| config.reserved.get(name).and_then(|text| text.parse::<Quantity>().ok());
    let cpu = reserved("cpu").map_or_else(|| default_cpu(instance_type.vcpus), Quantity::milli_ceil);
    let kubelet = reserved("memory").map_or((11 * config.pods + 255) * MIB, Quantity::units_ceil);
    let mut allocatable = capacity.clone();
    allocatable.set(&"cpu".into(), capacity.cpu() - cpu);
    allocatable.set(&"memory".into(), memory - kubelet - 100 * MIB);
    allocatable.set(&"ephemeral-storage".into(), DISK / 10 * 9 - 1024 * MIB);
    Some(BootedInstance {
        instance: instance.clone(),
        endpoint: config.endpoint,
        labels: config.labels,
        taints: config.taints,
        architecture,
        capacity,
        allocatable,
    })
}

/// The CPU that EKS' images reserve, in millicores: 60 of the first core, 10 of the second, 5 of the third and fourth each, and 2.5 of
/// each further one.
fn default_cpu(vcpus: i64) -> i64 {
    60 + 10 * (vcpus - 1).clamp(0, 1) + 5 * (vcpus - 2).clamp(0, 2) + 5 * (vcpus - 4).max(0) / 2
}

fn texts(table: Option<&toml::Value>) -> BTreeMap<String, String> {
    let pairs = table.and_then(toml::Value::as_table).into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Bottlerocket's `settings.kubernetes`.
fn settings(text: &str) -> Option<BootConfig> {
    let root: toml::Table = text.parse().ok()?;
    let kubernetes = root.get("settings")?.get("kubernetes")?;
    let mut taints = Vec::new();
    for (key, values) in kubernetes.get("node-taints").and_then(toml::Value::as_table).into_iter().flatten() {
        for value in values.as_array().into_iter().flatten().filter_map(toml::Value::as_str) {
            let (value, effect) = value.rsplit_once(':')?;
            taints.push(Taint::new(key.as_str(), value, TaintEffect::parse(effect)?));
        }
    }
    Some(BootConfig {
        endpoint: kubernetes.get("api-server")?.as_str()?.to_owned(),
        labels: texts(kubernetes.get("node-labels")),
        taints,
        pods: kubernetes.get("max-pods")?.as_integer()?,
        reserved: texts(kubernetes.get("kube-reserved")),
    })
}

/// The last NodeConfig of a MIME archive: in nodeadm, later ones take precedence.
fn node_config(text: &str) -> Option<BootConfig> {
    let boundary = text.split_once("boundary=\"")?.1.split('"').next()?;
    let delimiter = format!("--{boundary}\n");
    let parts = text.split(delimiter.as_str()).filter_map(|part| part.split_once("\n\n"));
    let is_config =
        |headers: &str| headers.lines().any(|line| line == "Content-Type: application/node.eks.aws");
    let (_, content) = parts.filter(|(headers, _)| is_config(headers)).last()?;
    let content = content.split(&format!("--{boundary}--")).next()?;
    let config: Value = serde_saphyr::from_str(content).ok()?;
    let kubelet = config.pointer("/spec/kubelet")?;
    let of = |taint: &Value| {
        let part = |key: &str| taint.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Taint::new(part("key"), part("value"), TaintEffect::parse(part("effect"))?))
    };
    let taints = kubelet.pointer("/config/registerWithTaints").and_then(Value::as_array);
    let flags = kubelet.get("flags").and_then(Value::as_array).into_iter().flatten();
    let labels =
        flags.filter_map(|flag| flag.as_str()?.strip_prefix("--node-labels=")).next().unwrap_or_default();
    let pairs = labels.trim_matches('"').split(',').filter_map(|pair| pair.split_once('='));
    let reserved = kubelet.pointer("/config/kubeReserved").and_then(Value::as_object).into_iter().flatten();
    Some(BootConfig {
        endpoint: config.pointer("/spec/cluster/apiServerEndpoint")?.as_str()?.to_owned(),
        labels: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        taints: taints.into_iter().flatten().map(of).collect::<Option<_>>()?,
        pods: kubelet.pointer("/config/maxPods")?.as_i64()?,
        reserved: reserved
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    //! Reads real user data.
    use super::*;

    #[test]
    fn both_families_are_understood() {
        let nodeadm = node_config(include_str!("../userdata/golden/al2023-yaml.txt")).unwrap();
        let bottlerocket = settings(include_str!("../userdata/golden/bottlerocket-toml.txt")).unwrap();
        for config in [&nodeadm, &bottlerocket] {
            assert_eq!((config.endpoint.as_str(), config.pods), ("https://test-cluster", 110));
            assert_eq!(config.labels["karpenter.sh/capacity-type"], "on-demand");
            let unregistered = Taint::new("karpenter.sh/unregistered", "", TaintEffect::NoExecute);
            assert!(config.taints.contains(&unregistered), "{config:?}");
        }
        assert_eq!(bottlerocket.labels["custom-node-label"], "custom");
        assert_eq!(node_config("#!/bin/sh"), None);
        assert_eq!(settings("settings = 1"), None);
    }
}
