//! What clients are shown about resources and objects: tables, discovery and OpenAPI documents.

pub mod discovery;
pub mod openapi;
#[cfg(test)]
mod samples;
pub mod table;
