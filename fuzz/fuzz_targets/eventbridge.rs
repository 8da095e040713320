//! A message of the interruption queue: whatever it is, it is read or refused.
#![no_main]

use fleetwright_aws::interruption::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(notice) = parse(text) {
        assert!(notice.instances.len() <= 1000);
        assert!(notice.instances.iter().map(String::len).sum::<usize>() <= text.len());
    }
});
