//! The hashes equal those of Karpenter, and hashes of other versions are updated.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const CA: &str = "test-ca-bundle";

fn base() -> Value {
    json!({
        "role": "role-1",
        "tags": {"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": {
            "httpEndpoint": "disabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1,
            "httpTokens": "optional",
        },
        "blockDeviceMappings": [
            {"deviceName": "map-device-1", "ebs": {
                "deleteOnTermination": false, "encrypted": false, "iops": 0, "kmsKeyID": "fakeKMSKeyID",
                "snapshotID": "fakeSnapshot", "throughput": 0, "volumeSize": "2G", "volumeType": "standard",
            }},
            {"deviceName": "map-device-2"},
        ],
        "userData": "userdata-test-1",
    })
}

fn hash(spec: &Value) -> String {
    serde_json::from_value::<Ec2NodeClassSpec>(spec.clone()).unwrap().drift_hash(CA)
}

/// The hash after edits at JSON pointers; null removes a field.
fn edited(edits: &[(&str, Value)]) -> String {
    let mut spec = base();
    for (at, value) in edits {
        let (parent, key) = at.rsplit_once('/').unwrap();
        let parent = spec.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        if value.is_null() {
            parent.remove(key);
        } else {
            parent.insert(key.to_owned(), value.clone());
        }
    }
    hash(&spec)
}

const BASE: &str = "11148166120438674859";

#[rstest]
#[case("/userData", json!("userdata-test-2"), "11774429238106843388")]
#[case("/tags/keyTag-test-3", json!("valueTag-test-3"), "9327338697296909506")]
#[case("/context", json!("context-2"), "2279761750428738028")]
#[case("/detailedMonitoring", json!(true), "1936848126751988570")]
#[case("/instanceStorePolicy", json!("RAID0"), "16697988646989909967")]
#[case("/associatePublicIPAddress", json!(true), "16141801171825097963")]
#[case("/metadataOptions/httpEndpoint", json!("enabled"), "14969742554812447671")]
#[case("/metadataOptions/httpProtocolIPv6", json!("enabled"), "1581716956216772561")]
#[case("/metadataOptions/httpPutResponseHopLimit", json!(10), "14046948658064232764")]
#[case("/metadataOptions/httpTokens", json!("required"), "1346719102507290084")]
#[case("/enclaveOptions", json!({"enabled": true}), "7236976372141148292")]
#[case("/enclaveOptions", json!({"enabled": false}), "12655667132181172925")]
#[case("/connectionTracking", json!({"tcpEstablishedTimeout": 300}), "1619669030802245540")]
#[case("/connectionTracking", json!({"udpStreamTimeout": 120}), "13743705849402595405")]
#[case("/connectionTracking", json!({"udpTimeout": 45}), "17941926745862994490")]
#[case("/cpuOptions", json!({"nestedVirtualization": "enabled"}), "6157846767212910604")]
#[case("/blockDeviceMappings/0/ebs/volumeSize", json!("10G"), "10372902467896351912")]
#[case("/amiSelectorTerms", json!([{"tags": {"": "ami-test-value"}}]), BASE)]
#[case("/subnetSelectorTerms", json!([{"tags": {"subnet-test-key": "subnet-test-value"}}]), BASE)]
#[case("/securityGroupSelectorTerms", json!([{"tags": {"k": "v"}}]), BASE)]
#[case("/capacityReservationSelectorTerms", json!([{"tags": {"k": "v"}}]), BASE)]
#[case("/ipPrefixCount", json!(4), BASE)]
fn equals_karpenters_hash(#[case] at: &str, #[case] value: Value, #[case] expected: &str) {
    assert_eq!(hash(&base()), BASE);
    assert_eq!(edited(&[(at, value)]), expected);
}

/// Changes to the first mapping.
#[rstest]
#[case(json!({"deviceName": "map-device-test-3"}), "8979166653850509463")]
#[case(json!({"rootVolume": true}), "8875796205856543692")]
#[case(json!({"ebs": {"deleteOnTermination": true}}), "1470935115846151531")]
#[case(json!({"ebs": {"encrypted": true}}), "5252376125396833097")]
#[case(json!({"ebs": {"iops": 10}}), "11651419893470054855")]
#[case(json!({"ebs": {"kmsKeyID": "test"}}), "1488385067008138755")]
#[case(json!({"ebs": {"snapshotID": "test"}}), "12786013539168652330")]
#[case(json!({"ebs": {"throughput": 10}}), "1873429003468556999")]
#[case(json!({"ebs": {"volumeType": "io1"}}), "6743466905516550702")]
fn equals_karpenters_hash_of_mappings(#[case] edit: Value, #[case] expected: &str) {
    let mut first = base()["blockDeviceMappings"][0].clone();
    merge(&mut first, &edit);
    let second = base()["blockDeviceMappings"][1].clone();
    assert_eq!(edited(&[("/blockDeviceMappings", json!([first, second]))]), expected);
}

fn merge(into: &mut Value, edit: &Value) {
    for (key, value) in edit.as_object().unwrap() {
        if value.is_object() {
            merge(&mut into[key], value);
        } else {
            into[key] = value.clone();
        }
    }
}

#[test]
fn instance_profile_instead_of_the_role() {
    let found = edited(&[("/role", Value::Null), ("/instanceProfile", json!("test-instance-profile"))]);
    assert_eq!(found, "10323991363677716244");
}

#[test]
fn order_of_mappings_does_not_matter() {
    let mut spec = base();
    spec["blockDeviceMappings"].as_array_mut().unwrap().reverse();
    assert_eq!(hash(&spec), BASE);
}

/// The resolved family is hashed: setting the alias's family explicitly changes nothing.
#[test]
fn a_named_family_equals_its_alias() {
    let alias = json!([{"alias": "al2023@latest"}]);
    let by_alias = edited(&[("/amiSelectorTerms", alias.clone())]);
    assert_eq!(edited(&[("/amiSelectorTerms", alias.clone()), ("/amiFamily", json!("AL2023"))]), by_alias);
    assert_ne!(edited(&[("/amiSelectorTerms", alias), ("/amiFamily", json!("Custom"))]), by_alias);
}

/// An absent block, an empty block and a block with a field have different hashes.
#[test]
fn the_kubelet_block_is_hashed() {
    let hashes = [Value::Null, json!({}), json!({"maxPods": 10}), json!({"maxPods": 11})]
        .map(|block| edited(&[("/kubelet", block)]));
    assert_eq!(hashes[0], BASE);
    let distinct: std::collections::BTreeSet<&String> = hashes.iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn the_certificate_authority_is_hashed() {
    let spec: Ec2NodeClassSpec = serde_json::from_value(base()).unwrap();
    assert_ne!(spec.drift_hash("other"), spec.drift_hash(CA));
}

#[rstest]
#[case("1024Gi", "1Ti")]
#[case("100Gi", "100Gi")]
#[case("1000G", "1T")]
#[case("2048Gi", "2Ti")]
#[case("1Ti", "1Ti")]
#[case("1000Gi", "1000Gi")]
#[case("nonsense", "nonsense")]
fn sizes_are_canonical(#[case] size: &str, #[case] expected: &str) {
    assert_eq!(canonical(size), expected);
}

/// Hashes of version `v5` that Karpenter 1.14.1 itself computes: the kubelet block is typed there.
#[rstest]
#[case(Value::Null, "2608468723537941485")]
#[case(json!({}), "9132084221950747289")]
#[case(json!({"clusterDNS": ["10.0.0.10", "fd00::a"]}), "3688422241847056942")]
#[case(json!({"clusterDNS": []}), "4788381968450167735")]
#[case(json!({"maxPods": 110}), "11360241729105732889")]
#[case(json!({"maxPods": 0}), "8478153666724512868")]
#[case(json!({"podsPerCore": 4}), "1236017599856140856")]
#[case(json!({"systemReserved": {"cpu": "100m", "memory": "1Gi"}}), "8033913829019991493")]
#[case(json!({"systemReserved": {}}), "6184500098771739283")]
#[case(json!({"kubeReserved": {"cpu": "200m"}}), "5359006863572404187")]
#[case(json!({"evictionHard": {"memory.available": "5%"}}), "12753770567215897214")]
#[case(json!({"evictionSoft": {"memory.available": "10%"}}), "164823487367964322")]
#[case(json!({"evictionSoftGracePeriod": {"memory.available": "1m30s", "nodefs.available": "0s"}}), "8426412689032570852")]
#[case(json!({"evictionMaxPodGracePeriod": 60}), "10068733446136710126")]
#[case(json!({"imageGCHighThresholdPercent": 85}), "7914872044918986530")]
#[case(json!({"imageGCLowThresholdPercent": 80}), "11792535224113331648")]
#[case(json!({"cpuCFSQuota": false}), "14624606271090224580")]
#[case(json!({"cpuCFSQuota": true}), "15205121030449057671")]
#[case(json!({"clusterDNS": ["10.0.0.10"], "maxPods": 58, "kubeReserved": {"cpu": "1"}, "evictionSoftGracePeriod": {"memory.available": "2m"}, "cpuCFSQuota": true}), "12388095468454648428")]
fn equals_karpenters_older_hash(#[case] kubelet: Value, #[case] expected: &str) {
    let mut spec = base();
    if !kubelet.is_null() {
        spec["kubelet"] = kubelet;
    }
    assert_eq!(older(&spec).as_deref(), Some(expected));
    // 1.14 knows neither of them.
    spec["enclaveOptions"] = json!({"enabled": true});
    spec["kubelet"]["registryPullQPS"] = json!(5);
    let with_block = older(&spec);
    spec.as_object_mut().unwrap().remove("enclaveOptions");
    assert_eq!(older(&spec), with_block);
}

fn older(spec: &Value) -> Option<String> {
    let class = Ec2NodeClass::new("a", serde_json::from_value(spec.clone()).unwrap());
    class.drift_hash_of(HASH_VERSION_OF_1_14, CA)
}

#[test]
fn what_karpenter_1_14_cannot_read_has_no_older_hash() {
    let mut spec = base();
    spec["kubelet"] = json!({"maxPods": "cpu * 10"});
    assert_eq!(older(&spec), None);
    spec["kubelet"] = json!({"evictionSoftGracePeriod": {"memory.available": "soon"}});
    assert_eq!(older(&spec), None);
    let class = Ec2NodeClass::new("a", serde_json::from_value(base()).unwrap());
    assert_eq!(class.drift_hash_of("v6", CA), Some(BASE.to_owned()));
    assert_eq!(class.drift_hash_of("v4", CA), None);
}

proptest! {
    /// A serialization round trip changes no hash: objects that pass through another client do not drift.
    #[test]
    fn survives_a_round_trip(key in "[a-z]{1,8}", value in ".{0,8}", size in 1_u32..4000, root in any::<bool>()) {
        let mut spec = base();
        spec["tags"][key] = json!(value);
        spec["blockDeviceMappings"][1] = json!({"deviceName": "d", "rootVolume": root, "ebs": {"volumeSize": format!("{size}Gi")}});
        let read: Ec2NodeClassSpec = serde_json::from_value(spec.clone()).unwrap();
        let again: Ec2NodeClassSpec = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        prop_assert_eq!(read.drift_hash(CA), again.drift_hash(CA));
        prop_assert_eq!(hash(&spec), again.drift_hash(CA));
    }
}
