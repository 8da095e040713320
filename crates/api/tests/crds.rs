//! The generated definitions as an API server would apply them: committed files, defaults, constraints and CEL rules.

#[path = "crds/nodeclaim.rs"]
mod nodeclaim;
#[path = "crds/nodepool.rs"]
mod nodepool;
#[path = "crds/others.rs"]
mod others;
#[path = "crds/review.rs"]
mod review;
#[path = "crds/round_trip.rs"]
mod round_trip;

use std::path::Path;

use fleetwright_api::crd;
use serde_json::Value;

/// The files under `deploy/fake-cloud/crds` match the types.
#[test]
fn committed_files_are_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/fake-cloud/crds");
    let drifts = fleetwright_api::generate(&crd::kwok(), &dir, true).unwrap();
    assert!(drifts.is_empty(), "run `cargo xtask generate`: {drifts:?}");
}

/// Every CEL rule of every definition compiles, and their number is known.
#[test]
fn every_rule_compiles() {
    fn count(value: &Value) -> usize {
        match value {
            Value::Object(map) => {
                let here = map.get("x-kubernetes-validations").and_then(Value::as_array).map_or(0, Vec::len);
                here + map.values().map(count).sum::<usize>()
            }
            Value::Array(items) => items.iter().map(count).sum(),
            _ => 0,
        }
    }
    let mut found = Vec::new();
    for crd in crd::kwok() {
        let kind = &crd.spec.names.kind;
        let schema = review::schema(kind);
        let compiled = kube_cel::compile_schema(&schema);
        assert!(!compiled.has_errors(), "{kind}: {:?}", compiled.compilation_errors());
        found.push(format!("{kind} {}", count(&schema)));
    }
    assert_eq!(
        found,
        ["KWOKNodeClass 0", "CapacityBuffer 2", "NodeClaim 10", "NodeOverlay 7", "NodePool 19"]
    );
}
