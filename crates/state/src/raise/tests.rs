//! What is written.
