//! Documents of AWS' price list: each has an instance type with a price above zero, or is none.
#![no_main]

use fleetwright_aws::prices::product;
use fleetwright_core::model::Price;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((instance_type, price)) = product(text) {
        assert!(price > Price::ZERO, "{instance_type}");
    }
});
