//! A class's user data as Bottlerocket's settings: whatever they are, merging them ends, and says the same the second time.
#![no_main]

use fleetwright_aws::userdata::{Bootstrap, render};
use fleetwright_aws_api::Family;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let of = |custom| Bootstrap {
        cluster_name: "cluster",
        endpoint: "https://cluster",
        custom: Some(custom),
        raid0: text.len() % 2 == 0,
        ..Bootstrap::default()
    };
    if let Ok(merged) = render(Family::Bottlerocket, &of(text)) {
        let again = render(Family::Bottlerocket, &of(&merged.text)).expect("what we write can be read");
        assert_eq!(again.text, merged.text);
        assert!(again.dropped.is_empty());
    }
});
