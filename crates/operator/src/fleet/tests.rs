//! A fleet with one of everything, and what its report says.

use std::path::PathBuf;

use super::*;
use crate::scenarios;

/// The dump that tests of the fleet and of the view share.
pub(crate) fn dump() -> PathBuf {
    scenarios::from_root("tests/scenarios/top/fleet.yaml")
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<FleetReport>("top.schema.json");
}
