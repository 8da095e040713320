//! The generated definitions as an API server would apply them: committed files, defaults, constraints and CEL rules.

#[path = "crds/review.rs"]
mod review;

use std::path::Path;

/// The files under `deploy/crds` say what the types say.
#[test]
fn committed_files_are_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let drifts = fleetwright_api::generate(&dir, true).unwrap();
    assert!(drifts.is_empty(), "run `cargo xtask generate`: {drifts:?}");
}
