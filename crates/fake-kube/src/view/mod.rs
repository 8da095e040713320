//! The views of resources and objects that clients request: tables, discovery and OpenAPI documents.

pub mod discovery;
pub mod openapi;
#[cfg(test)]
mod samples;
pub mod table;
