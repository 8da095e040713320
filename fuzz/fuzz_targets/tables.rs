//! Files of prices and of instance types: whatever they are, they are read or refused.
#![no_main]

use fleetwright_aws::{offline::Table, prices};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (prices::parse(text, "us-east-1"), Table::parse(text));
});
