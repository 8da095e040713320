//! Golden user data: every family with every option, compared byte by byte. A file is named after its family and option; the Windows
//! families differ only in their images and share theirs. `UPDATE_GOLDEN=1` rewrites the files; review the difference.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fleetwright_core::{
    cloud,
    model::{NodeClaim, NodeClassRef, TaintEffect, labels::UNREGISTERED_TAINT},
};
use serde_json::json;

use super::{tests::claim_labels, *};

const WINDOWS: &[Family] = &[Family::Windows2019, Family::Windows2022, Family::Windows2025];
const SHELL: &str = "#!/bin/bash\necho \"Running custom user data script\"\n";
const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 42\n";
const TWO_NODE_CONFIGS: &str = "---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 42\n---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: |\n      [plugins]\n";
const NODE_CONFIG_JSON: &str = "{\"apiVersion\": \"node.eks.aws/v1alpha1\", \"kind\": \"NodeConfig\", \"spec\": {\"kubelet\": {\"config\": {\"maxPods\": 42}}}}";
/// Every form of a part: a script with its own headers, a NodeConfig, a cloud-config, and a missing final boundary.
const MIME: &str = "Content-Type: multipart/mixed; boundary=\"BOUNDARY\"\r\nMIME-Version: 1.0\r\n\r\nfor people only\r\n--BOUNDARY\r\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\r\nContent-Disposition: attachment; filename=\"one.sh\"\r\n\r\n#!/bin/bash\r\necho one\r\n\r\n--BOUNDARY\r\nContent-Type: application/node.eks.aws\r\n\r\napiVersion: node.eks.aws/v1alpha1\r\nkind: NodeConfig\r\n--BOUNDARY\r\nContent-Type: text/cloud-config\r\n\r\n#cloud-config\r\nruncmd:\r\n- echo two\r\n--BOUNDARY--";
const TOML: &str = "[settings.kubernetes]\nunknown-setting = 'unknown'\napi-server = 'replaceme'\ncluster-certificate = 'replaceme'\ncluster-name = 'replaceme'\ncluster-dns-ip = ['8.8.8.8', '8.8.4.4']\ncloud-provider = 'external'\nmax-pods = 9999999999\n[settings.kubernetes.eviction-hard]\n'memory.available' = '12%'\n[settings.kubernetes.node-labels]\ncustom-node-label = 'custom'\n'karpenter.sh/nodepool' = 'should-be-overridden'\n[settings.kubernetes.node-taints]\nreplace = ['me:Schedule']\n[settings.kubernetes.static-pods.agent]\nenabled = true\nmanifest = 'eA=='\n[settings.kubernetes.credential-providers.ecr]\nenabled = true\nimage-patterns = ['*.amazonaws.com']\n[settings.bootstrap-commands.100-mine]\ncommands = [['apiclient', 'set', 'motd=hi']]\nessential = false\nmode = 'once'\n[settings.network]\nhostname = 'test.local'\nhosts = [['10.0.0.0', ['test.example.com', 'test1.example.com']]]\n[settings.ntp]\ntime-servers = ['169.254.169.123']\n";
const POWERSHELL: &str =
    "Write-Host \"Running custom user data script\"\nWrite-Host \"Finished running custom user data script\"";

/// The input of one node.
#[derive(Clone)]
struct Given {
    kubelet: Value,
    resolved: ResolvedKubelet,
    own: Vec<Taint>,
    startup: Vec<Taint>,
    dns: &'static str,
    cidr: &'static str,
    raid0: bool,
    bind_by_default: bool,
    custom: Option<&'static str>,
}

fn given() -> Given {
    Given {
        kubelet: json!({}),
        resolved: ResolvedKubelet { pods: 110, kube_reserved: None, system_reserved: None },
        own: Vec::new(),
        startup: Vec::new(),
        dns: "10.0.100.10",
        cidr: "10.100.0.0/16",
        raid0: false,
        bind_by_default: false,
        custom: None,
    }
}

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

/// Every field that all families support, one that only AL2023 does, and evaluated expressions.
fn whole_kubelet() -> Given {
    let map = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    let kubelet = json!({
        "clusterDNS": ["10.0.100.11", "10.0.100.12"],
        "cpuCFSQuota": false,
        "evictionHard": {"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "10%"},
        "evictionMaxPodGracePeriod": 60,
        "evictionSoft": {"memory.available": "200Mi", "nodefs.available": "15%"},
        "evictionSoftGracePeriod": {"memory.available": "90s", "nodefs.available": "1h"},
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 70,
        "kubeReserved": {"cpu": "vcpus * 10", "memory": "100Mi"},
        "maxPods": "enis * 10",
        "podsPerCore": 2,
        "systemReserved": {"cpu": "100m", "ephemeral-storage": "1Gi", "memory": "1Gi", "pid": "1000"},
        "topologyManagerPolicy": "best-effort",
    });
    let system = [("cpu", "100m"), ("ephemeral-storage", "1Gi"), ("memory", "1Gi"), ("pid", "1000")];
    let resolved = ResolvedKubelet {
        pods: 30,
        kube_reserved: map(&[("cpu", "20m"), ("memory", "100Mi")]),
        system_reserved: map(&system),
    };
    Given { kubelet, resolved, ..given() }
}

/// The options of every family, by name.
fn options() -> Vec<(&'static str, Given)> {
    let own = vec![
        taint("dedicated", "gpu", TaintEffect::NoSchedule),
        taint("dedicated", "gpu", TaintEffect::NoExecute),
        taint("bare", "", TaintEffect::PreferNoSchedule),
    ];
    let startup = vec![taint("node.cilium.io/agent-not-ready", "true", TaintEffect::NoSchedule)];
    let unregistered = vec![taint(UNREGISTERED_TAINT, "", TaintEffect::NoExecute)];
    let pods = ResolvedKubelet { pods: 4, ..given().resolved };
    vec![
        ("plain", given()),
        ("raid0", Given { raid0: true, ..given() }),
        ("ipv6", Given { dns: "fd30:1c53:5f8a::a", cidr: "fd30:1c53:5f8a::/108", ..given() }),
        ("taints", Given { own, startup, ..given() }),
        // The taint of an unregistered node appears once, whichever source sets it.
        ("taints-unregistered", Given { startup: unregistered, ..given() }),
        ("kubelet", whole_kubelet()),
        // A cache on each node, such as NodeLocal DNSCache.
        ("dns-local", Given { kubelet: json!({"clusterDNS": ["169.254.20.10"]}), ..given() }),
        ("max-pods", Given { kubelet: json!({"maxPods": 4}), resolved: pods, ..given() }),
    ]
}

/// The options of one family.
fn own_options(family: Family) -> Vec<(&'static str, Given)> {
    let custom = |text: &'static str| Given { custom: Some(text), ..given() };
    match family {
        Family::Al2 => vec![("mime", custom(MIME)), ("shell", custom(SHELL)), ("empty", custom(""))],
        Family::Al2023 => vec![
            ("mime", custom(MIME)),
            ("shell", custom(SHELL)),
            ("yaml", custom(NODE_CONFIG)),
            ("yaml-documents", custom(TWO_NODE_CONFIGS)),
            ("json", custom(NODE_CONFIG_JSON)),
            ("empty", custom("")),
        ],
        Family::Bottlerocket => vec![
            ("raid0-by-default", Given { raid0: true, bind_by_default: true, ..given() }),
            ("toml", custom(TOML)),
            ("toml-raid0", Given { raid0: true, custom: Some(TOML), ..given() }),
            ("toml-kubelet", Given { custom: Some(TOML), ..whole_kubelet() }),
        ],
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
            vec![("powershell", custom(POWERSHELL))]
        }
        Family::Custom => vec![("shell", custom(SHELL))],
    }
}

fn rendered(family: Family, given: &Given) -> String {
    let mut claim = claim_labels();
    claim.insert("node-restriction.kubernetes.io/team".into(), "a".into());
    let config: KubeletConfig = serde_json::from_value(given.kubelet.clone()).unwrap();
    let (kubelet, parsed) = resolve(&config, &config.parse().unwrap(), &given.resolved, Some(given.dns));
    let class = NodeClassRef { group: "".into(), kind: "".into(), name: "".into() };
    let born = cloud::bootstrap(&NodeClaim {
        labels: claim,
        taints: given.own.clone(),
        startup_taints: given.startup.clone(),
        ..NodeClaim::new("a", class, jiff::Timestamp::UNIX_EPOCH)
    });
    let bootstrap = Bootstrap {
        cluster_name: "test-cluster",
        endpoint: "https://test-cluster",
        ca_bundle: "Y2EtYnVuZGxlCg==",
        service_cidr: Some(given.cidr),
        kubelet,
        parsed,
        taints: born.taints,
        labels: labels(&born.labels, "on-demand", family),
        custom: given.custom,
        raid0: given.raid0,
        bind_by_default: given.bind_by_default,
    };
    render(family, &bootstrap).unwrap().text
}

#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites what is expected")]
fn updates() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

#[test]
fn every_family_with_every_option() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/userdata/golden");
    let update = updates();
    let named = |family: Family| match family {
        Family::Al2 => "al2",
        Family::Al2023 => "al2023",
        Family::Bottlerocket => "bottlerocket",
        Family::Custom => "custom",
        family if WINDOWS.contains(&family) => "windows",
        family => panic!("{family:?} has no golden files"),
    };
    let mut seen = BTreeSet::new();
    for family in Family::ALL {
        for (option, given) in options().into_iter().chain(own_options(family)) {
            let file = format!("{}-{option}.txt", named(family));
            let (path, found) = (folder.join(&file), rendered(family, &given));
            if update {
                std::fs::write(&path, &found).unwrap();
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, expected, "{family:?}: {file}");
            seen.insert(file);
        }
    }
    let there = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = there.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(there, seen, "every file is used");
}
