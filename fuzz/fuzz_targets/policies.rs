//! IAM policies as `iam check` reads them: whatever they are, they are read or refused, and reading one twice grants nothing more.
#![no_main]

use fleetwright_aws_tools::iam::{Place, UNDECIDED_MAX, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(checked) = check(&[text], &Place::default(), |_| true) else { return };
    assert!(checked.undecided.len() <= UNDECIDED_MAX);
    assert_eq!(check(&[text, text], &Place::default(), |_| true).expect("it was read"), checked);
});
