//! Parsing, hashing and validation of the block.

use rstest::rstest;
use serde_json::json;

use super::*;

fn config(value: Value) -> KubeletConfig {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_typed_block_of_earlier_versions_is_read() {
    let parsed = config(json!({
        "clusterDNS": ["10.0.0.10"], "maxPods": 42, "podsPerCore": 4, "cpuCFSQuota": false,
        "systemReserved": {"cpu": "100m"}, "kubeReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "5%"}, "evictionSoft": {"memory.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m0s"}, "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
    }));
    assert_eq!(validate(&parsed), []);
    let parsed = parsed.parse().unwrap();
    assert_eq!(parsed.max_pods_count(), Some(42));
    assert_eq!(parsed.cpu_cfs_quota, Some(false));
    assert_eq!(parsed.eviction_soft_grace_period.unwrap()["memory.available"], "1m0s");
    let expression = config(json!({"maxPods": "default_enis * 4"}));
    assert_eq!(expression.parse().unwrap().max_pods, Some(MaxPods::Expression("default_enis * 4".into())));
    assert_eq!(validate(&expression), []);
    assert!(config(json!({"podsPerCore": "many"})).parse().is_err());
}

#[test]
fn unmanaged_fields_are_listed() {
    let block =
        config(json!({"maxPods": 1, "topologyManagerPolicy": "best-effort", "cpuManagerPolicy": "static"}));
    let names: Vec<&str> = block.unmanaged_fields().collect();
    assert_eq!(names, ["cpuManagerPolicy", "topologyManagerPolicy"]);
}

#[test]
fn json_equals_gos_encoding() {
    let block = config(
        json!({"maxPods": "a < b && b > c ? 1 : 2", "evictionHard": {"b": "1", "a": "2"}, "z": [1, 2.0, null]}),
    );
    assert_eq!(
        block.go_json(),
        r#"{"evictionHard":{"a":"2","b":"1"},"maxPods":"a \u003c b \u0026\u0026 b \u003e c ? 1 : 2","z":[1,2,null]}"#
    );
    assert_eq!(KubeletConfig::default().go_json(), "{}");
}

#[rstest]
#[case::unknown(json!({"maxPod": 1}), "spec.kubelet.maxPod: is not a field")]
#[case::unknown_below(json!({"memorySwap": {"swap": "x"}}), "spec.kubelet.memorySwap.swap: is not a field")]
#[case::wrong_type(json!({"podsPerCore": "4"}), "podsPerCore: must be a whole number of 32 bits")]
#[case::too_large(json!({"podsPerCore": 3_000_000_000_i64}), "podsPerCore: must be a whole number of 32 bits")]
#[case::no_float(json!({"maxPods": 1.5}), "maxPods: must be a whole number of 32 bits")]
#[case::wrong_item(json!({"clusterDNS": ["a", 1]}), "clusterDNS[1]: must be a string")]
#[case::wrong_value(json!({"featureGates": {"A": "true"}}), "featureGates[A]: must be true or false")]
#[case::duration(json!({"shutdownGracePeriod": "soon"}), "shutdownGracePeriod: must be a duration")]
#[case::owned(json!({"registerWithTaints": []}), "registerWithTaints: cannot be set")]
#[case::signal(json!({"evictionHard": {"disk": "5%"}}), "evictionHard[disk]: is not an eviction signal")]
#[case::threshold(json!({"evictionHard": {"memory.available": "101%"}}), "must be a percentage from 0% to 100%")]
#[case::threshold_text(json!({"evictionHard": {"memory.available": "much"}}), "must be a percentage from 0% to 100%")]
#[case::negative(json!({"evictionHard": {"memory.available": "-5Mi"}}), "evictionHard[memory.available]: must not be negative")]
#[case::no_grace(json!({"evictionSoft": {"memory.available": "5%"}}), "has no matching evictionSoftGracePeriod")]
#[case::no_soft(json!({"evictionSoftGracePeriod": {"memory.available": "5s"}}), "has no matching evictionSoft")]
#[case::reserved(json!({"kubeReserved": {"gpu": "1"}}), "kubeReserved[gpu]: cannot be reserved")]
#[case::reserved_negative(json!({"systemReserved": {"cpu": "-1"}}), "systemReserved[cpu]: must not be negative")]
#[case::percent(json!({"imageGCHighThresholdPercent": 101}), "imageGCHighThresholdPercent: must be between 0 and 100")]
#[case::order(json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}), "must be greater than")]
#[case::null_in_a_map(json!({"evictionHard": {"memory.available": null}}), "a null within a list or a map")]
#[case::null_in_a_list(json!({"clusterDNS": [null]}), "a null within a list or a map")]
#[case::pods(json!({"maxPods": -1}), "maxPods: must not be negative")]
fn refused(#[case] block: Value, #[case] expected: &str) {
    let problems = validate(&config(block));
    assert!(problems.iter().any(|problem| problem.to_string().contains(expected)), "{problems:?}");
}

#[rstest]
#[case(json!({"maxPods": null, "evictionHard": null, "clusterDNS": null, "cpuCFSQuota": null}))]
#[case(json!({"kubeReserved": {"cpu": "vcpus * 10", "memory": "100Mi", "pid": "100"}}))]
#[case(json!({"evictionHard": {"memory.available": "0%", "nodefs.available": "1e3", "pid.available": "99.5%"}}))]
#[case(json!({"topologyManagerPolicy": "best-effort", "featureGates": {"A": true}, "authentication": {"webhook": {"cacheTTL": "2m"}}}))]
#[case(json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "memoryThrottlingFactor": 0.5}))]
#[case(json!({"shutdownGracePeriodByPodPriority": [{"priority": 1, "shutdownGracePeriodSeconds": 10}]}))]
fn accepted(#[case] block: Value) {
    let problems = validate(&config(block));
    assert_eq!(problems, []);
}
