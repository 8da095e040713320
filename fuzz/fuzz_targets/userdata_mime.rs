//! A class's user data as a MIME archive: whatever it is, merging it ends, and what comes of it can be merged again.
#![no_main]

use fleetwright_aws::userdata::{Bootstrap, render};
use fleetwright_aws_api::Family;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let archive = format!("MIME-Version: 1.0\n{text}");
    for family in [Family::Al2, Family::Al2023] {
        let of = |custom| Bootstrap {
            cluster_name: "cluster",
            endpoint: "https://cluster",
            service_cidr: Some("10.100.0.0/16"),
            custom: Some(custom),
            ..Bootstrap::default()
        };
        let Ok(merged) = render(family, &of(&archive)) else { continue };
        // The second merge adds our part again, so it may only fail for its size.
        if merged.text.len() < 8 * 1024 {
            assert!(render(family, &of(&merged.text)).is_ok(), "{}", merged.text);
        }
    }
});
