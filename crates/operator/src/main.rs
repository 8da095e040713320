//! The binary `fleetwright`.
fn main() {}
