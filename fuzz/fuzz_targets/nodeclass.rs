//! EC2NodeClasses as the API server returns them: whatever the CRD lets through is read or refused, validated with a reason, and hashed, and what is read is
//! written as an object with the same hashes.
#![no_main]

use fleetwright_aws::Settings;
use fleetwright_aws::nodeclass::{ConditionOutcome, validate};
use fleetwright_aws_api::Ec2NodeClass;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(class) = serde_json::from_slice::<Ec2NodeClass>(data) else { return };
    let settings = Settings { node_class_cel: true, ..Settings::new("cluster", "us-east-1") };
    match validate(&class.spec, &settings).outcome {
        ConditionOutcome::True => {}
        ConditionOutcome::False { reason, message } | ConditionOutcome::Limited { reason, message } => {
            assert!(!reason.is_empty() && !message.is_empty());
        }
        other => panic!("validation makes no calls: {other:?}"),
    }
    let written = serde_json::to_vec(&class).expect("what was read can be written");
    let again: Ec2NodeClass = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again.spec, class.spec);
    assert_eq!(again.status, class.status);
    for version in ["v5", "v6"] {
        assert_eq!(again.drift_hash_of(version, "ca"), class.drift_hash_of(version, "ca"));
    }
});
