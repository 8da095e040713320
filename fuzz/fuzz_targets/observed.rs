//! Observations of nodes in an annotation of a NodePool, which anybody may have edited: invalid entries are ignored, the rest has a bound, and is written
//! as text that reads the same.
#![no_main]

use fleetwright_core::model::Observed;
use fleetwright_state::observed::{read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let observed = read(text);
    assert!(observed.smaller.len() <= Observed::MOST && observed.taints.len() <= Observed::MOST);
    let again = write(&observed).map(|written| read(&written)).unwrap_or_default();
    assert_eq!(again, observed);
});
