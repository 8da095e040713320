//! A class's user data as a NodeConfig in YAML or JSON: whatever it is, it stays as it is, beside ours.
#![no_main]

use fleetwright_aws::userdata::{Bootstrap, render};
use fleetwright_aws_api::Family;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let custom = format!("apiVersion: node.eks.aws/v1alpha1\n{text}");
    let bootstrap = Bootstrap {
        cluster_name: "cluster",
        endpoint: "https://cluster",
        service_cidr: Some("10.100.0.0/16"),
        custom: Some(&custom),
        ..Bootstrap::default()
    };
    if let Ok(merged) = render(Family::Al2023, &bootstrap) {
        assert!(merged.text.contains(&custom.replace('\r', "")), "{}", merged.text);
        assert!(merged.text.contains("# Karpenter Generated NodeConfig"));
    }
});
