//! Scenarios, conformance and end-to-end cases.
