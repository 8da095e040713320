//! Golden user data of each family, merging, and rejected input.

use fleetwright_core::model::{TaintEffect, labels::UNREGISTERED_TAINT};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// Labels of a NodeClaim: some that the node sets itself, and one of users.
pub(super) fn claim_labels() -> Labels {
    [
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("karpenter.sh/nodepool", "default"),
        ("testing/cluster", "unspecified"),
        ("kubernetes.io/arch", "amd64"),
        ("kops.k8s.io/gpu", "1"),
    ]
    .map(|(key, value)| (key.into(), value.into()))
    .into()
}

pub(super) fn bootstrap(custom: Option<&str>) -> Bootstrap<'_> {
    let config = KubeletConfig::default();
    let resolved = ResolvedKubelet { pods: 110, kube_reserved: None, system_reserved: None };
    let (kubelet, parsed) = resolve(&config, &ParsedKubelet::default(), &resolved, Some("10.0.100.10"));
    Bootstrap {
        cluster_name: "test-cluster",
        endpoint: "https://test-cluster",
        ca_bundle: "Y2EtYnVuZGxlCg==",
        service_cidr: Some("10.100.0.0/16"),
        kubelet,
        parsed,
        taints: vec![Taint::new(UNREGISTERED_TAINT, "", TaintEffect::NoExecute)],
        labels: labels(&claim_labels(), "on-demand", Family::Al2023),
        custom,
        ..Bootstrap::default()
    }
}

fn text(family: Family, bootstrap: &Bootstrap<'_>) -> String {
    render(family, bootstrap).unwrap().text
}

/// The order of an archive's headers does not matter, and a script becomes one part.
#[rstest]
#[case::archive(
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\n\n--BOUNDARY\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho \"Running custom user data script\"\n\n--BOUNDARY--"
)]
#[case::content_type_first(
    "Content-Type: multipart/mixed; boundary=\"BOUNDARY\"\r\nMIME-Version: 1.0\r\n\r\n--BOUNDARY\r\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\r\n\r\n#!/bin/bash\r\necho \"Running custom user data script\"\r\n\r\n--BOUNDARY--"
)]
#[case::script("#!/bin/bash\necho \"Running custom user data script\"\n")]
fn forms_of_one_script(#[case] custom: &str) {
    assert_eq!(text(Family::Al2, &bootstrap(Some(custom))), include_str!("golden/al2-shell.txt"));
}

#[test]
fn bottlerocket_reports_dropped_settings() {
    let custom = "[settings.kubernetes]\n\"unknown-setting\" = \"unknown\"\napi-server = 'replaceme'\n[settings.kubernetes.labels]\n\"replace\" = \"me\"\n";
    let data = render(Family::Bottlerocket, &bootstrap(Some(custom))).unwrap();
    assert_eq!(data.dropped, ["settings.kubernetes.labels", "settings.kubernetes.unknown-setting"]);
}

#[rstest]
#[case("bottlerocket@latest", true)]
#[case("bottlerocket@v1.46.0", true)]
#[case("bottlerocket@1.45.9", false)]
#[case("bottlerocket@v2.0.0", true)]
fn versions_that_bind_by_themselves(#[case] alias: &str, #[case] expected: bool) {
    let spec = serde_json::from_value(json!({"amiSelectorTerms": [{"alias": alias}]})).unwrap();
    assert_eq!(mounts_by_default(&spec, &[]), expected);
}

#[test]
fn every_flag_of_the_kubelet_in_its_order() {
    let config: KubeletConfig = serde_json::from_value(json!({
        "maxPods": 10, "podsPerCore": 2, "systemReserved": {"memory": "1Gi", "cpu": "100m"}, "kubeReserved": {"cpu": "1"},
        "evictionHard": {"memory.available": "5%"}, "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "90s"}, "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 70, "cpuCFSQuota": false,
    }))
    .unwrap();
    let mut given = bootstrap(None);
    given.parsed = config.parse().unwrap();
    let flags = kubelet_flags(&given);
    assert_eq!(
        flags[1..],
        [
            "--register-with-taints=\"karpenter.sh/unregistered:NoExecute\"",
            "--max-pods=10",
            "--pods-per-core=2",
            "--system-reserved=\"cpu=100m,memory=1Gi\"",
            "--kube-reserved=\"cpu=1\"",
            "--eviction-hard=\"memory.available<5%\"",
            "--eviction-soft=\"memory.available<10%\"",
            "--eviction-soft-grace-period=\"memory.available=1m30s\"",
            "--eviction-max-pod-grace-period=60",
            "--image-gc-high-threshold=80",
            "--image-gc-low-threshold=70",
            "--cpu-cfs-quota=false",
        ]
    );
}

#[test]
fn the_raw_kubelet_block_reaches_al2023_whole() {
    let config: KubeletConfig = serde_json::from_value(json!({
        "topologyManagerPolicy": "best-effort", "featureGates": {"A": true}, "evictionHard": {"memory.available": "5%"},
        "podCIDR": "yes", "shutdownGracePeriod": "30s", "port": 10250, "memoryThrottlingFactor": 0.5, "staticPodPath": "",
        "kubeReserved": {"cpu": "vcpus * 2"},
    }))
    .unwrap();
    let reserved: BTreeMap<String, String> = [("cpu".to_owned(), "20m".to_owned())].into();
    let resolved = ResolvedKubelet { pods: 30, kube_reserved: Some(reserved), system_reserved: None };
    let (kubelet, parsed) = resolve(&config, &config.parse().unwrap(), &resolved, Some("fd00::a"));
    let given = Bootstrap { kubelet, parsed, ..bootstrap(None) };
    let text = text(Family::Al2023, &given);
    let expected = "    config:\n      clusterDNS:\n      - fd00::a\n      evictionHard:\n        memory.available: 5%\n      featureGates:\n        A: true\n      kubeReserved:\n        cpu: 20m\n      maxPods: 30\n      memoryThrottlingFactor: 0.5\n      podCIDR: \"yes\"\n      port: 10250\n      registerWithTaints:\n      - effect: NoExecute\n        key: karpenter.sh/unregistered\n      shutdownGracePeriod: 30s\n      staticPodPath: \"\"\n      topologyManagerPolicy: best-effort\n";
    assert!(text.contains(expected), "{text}");
    assert!(linux::render(&given).unwrap().contains("--ip-family ipv6"));
}

#[rstest]
#[case(Family::Al2, "Content-Type: text/plain\n\nx")]
#[case(Family::Al2, "MIME-Version: 1.0\n\nx")]
#[case(Family::Al2023, "Content-Type: multipart/mixed\n\nx")]
#[case(Family::Bottlerocket, "settings = 1")]
#[case(Family::Bottlerocket, "[settings]\nkubernetes = 'x'")]
#[case(Family::Bottlerocket, "not toml")]
fn what_cannot_be_read_is_refused(#[case] family: Family, #[case] custom: &str) {
    let found = render(family, &bootstrap(Some(custom)));
    assert!(matches!(found, Err(UserDataError::Unreadable { .. })), "{found:?}");
}

#[test]
fn too_large_or_unknown_input_is_refused() {
    let long = "#".repeat(SIZE_MAX + 1);
    let found = render(Family::Custom, &bootstrap(Some(&long)));
    assert_eq!(found, Err(UserDataError::TooLarge { size: SIZE_MAX + 1 }));
    let unknown = Bootstrap { service_cidr: None, ..bootstrap(None) };
    assert_eq!(render(Family::Al2023, &unknown), Err(UserDataError::NoCidr));
    assert!(render(Family::Custom, &bootstrap(None)).unwrap().text.is_empty());
}

#[test]
fn yaml_is_read_back_as_written() {
    for value in [
        json!({"a": [1, {"b": [], "c": {}}, [true, null]], "d": "x: y", "e": "- f", "g": "#h", "1": "2", "i": "no"}),
        json!({"text": "line\nbreak", "quote": "'\"", "float": "1e3", "hex": "0x1F", "time": "12:30", "dash": "--- x"}),
        json!({"empty": "", "colon": "a:", "bool": "True", "version": "1.2.3", "plain": "/a/b-c_d+e"}),
    ] {
        let written = yaml::write(&value);
        let read: Value = serde_saphyr::from_str(&written).unwrap();
        assert_eq!(read, value, "{written}");
    }
}

proptest! {
    /// No input causes a panic, and only parsable input is merged.
    #[test]
    fn any_input_is_accepted_or_refused(custom in ".{0,200}") {
        for family in Family::ALL {
            let _ = render(family, &bootstrap(Some(&custom)));
            let _ = render(family, &bootstrap(Some(&format!("Content-Type: {custom}"))));
        }
    }
}
