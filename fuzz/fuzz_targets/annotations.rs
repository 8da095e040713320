//! What an earlier process wrote, and anybody may have edited: prices on an EC2NodeClass, launch loops on a NodePool. What is kept of it is written as
//! text that reads the same.
#![no_main]

use fleetwright_aws::prices::{Prices, keep};
use fleetwright_state::launch_loops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let records = launch_loops::read(text);
    if let Some(written) = launch_loops::write(records.clone()) {
        assert_eq!(launch_loops::read(&written).len(), records.len(), "{written}");
    }
    let _ = launch_loops::read_keys(text);
    let now = jiff::Timestamp::MAX;
    let mut prices = Prices::default();
    prices.restore(text, "us-east-1", now);
    if let Some(written) = keep(&prices, "us-east-1", usize::MAX) {
        let mut again = Prices::default();
        again.restore(&written, "us-east-1", now);
        assert_eq!(keep(&again, "us-east-1", usize::MAX), Some(written));
    }
});
