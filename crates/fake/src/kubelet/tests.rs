//! Placeholder tests.
