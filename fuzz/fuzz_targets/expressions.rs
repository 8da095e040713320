//! Expressions of the kubelet block, which are CEL: each is refused, or has a value for an instance type, or fails with a reason.
#![no_main]

use fleetwright_aws::instancetype::expressions::{Expression, Variables};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let variables = Variables {
        vcpus: 4,
        memory_mib: 16_384,
        default_enis: 4,
        ips_per_eni: 15,
        max_pods: 58,
        instance_type: "m5.xlarge".to_owned(),
    };
    match Expression::compile(text) {
        Ok(expression) => {
            if let Err(why) = expression.evaluate(&variables) {
                assert!(!why.to_string().is_empty());
            }
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
});
