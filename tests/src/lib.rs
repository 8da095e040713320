//! Scenarios, conformance and end-to-end cases.

pub mod e2e;
pub mod oracle;
