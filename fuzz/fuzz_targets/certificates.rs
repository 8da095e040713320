//! Bundles of certificate authorities, of the API server and of EKS: read or refused. Comments and order do not matter, and what proves an identity proves it
//! both ways.
#![no_main]

use fleetwright_aws::authority::{certificates, compare};
use fleetwright_core::cloud::Identity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Two bundles, with NUL between them.
    let (ours, theirs) = text.split_once('\0').unwrap_or((text, text));
    match certificates(ours) {
        Ok(found) => {
            assert!(!found.is_empty() && found.iter().all(|der| der.first() == Some(&0x30)));
            assert_eq!(compare("cluster", ours, ours), Identity::Proven);
            if ours.contains("-----BEGIN CERTIFICATE-----") {
                assert_eq!(certificates(&format!("# comment\n{ours}\n{ours}")), Ok(found));
            }
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let proven = |ours, theirs| compare("cluster", ours, theirs) == Identity::Proven;
    if !(ours.trim().is_empty() || theirs.trim().is_empty()) {
        assert_eq!(proven(ours, theirs), proven(theirs, ours));
    }
});
