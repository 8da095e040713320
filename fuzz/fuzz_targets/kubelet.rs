//! The kubelet block of an EC2NodeClass, which the CRD leaves open: what validation accepts can be read and is in the user data of every family, and its
//! canonical JSON is JSON.
#![no_main]

use std::collections::BTreeMap;

use fleetwright_aws::userdata::{Bootstrap, render};
use fleetwright_aws_api::Family;
use fleetwright_aws_api::kubelet::{KubeletConfig, go_duration, validate};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(block) = serde_json::from_slice::<KubeletConfig>(data) else { return };
    let written = block.go_json();
    let again: BTreeMap<String, Value> = serde_json::from_str(&written).expect("canonical JSON is JSON");
    assert!(again.keys().eq(block.0.keys()), "{written}");
    for text in block.0.values().filter_map(Value::as_str) {
        assert_eq!(go_duration(&go_duration(text)), go_duration(text));
    }
    let parsed = block.parse();
    if !validate(&block).is_empty() {
        return;
    }
    let parsed = parsed.expect("what is valid can be read");
    for family in [Family::Al2, Family::Al2023, Family::Bottlerocket, Family::Windows2022, Family::Custom] {
        let (kubelet, parsed) = (block.clone(), parsed.clone());
        let bootstrap = Bootstrap {
            cluster_name: "cluster",
            endpoint: "https://cluster",
            service_cidr: Some("10.100.0.0/16"),
            kubelet,
            parsed,
            ..Bootstrap::default()
        };
        assert!(render(family, &bootstrap).is_ok(), "{family:?}");
    }
});
