//! What clients are shown about resources and objects: tables, discovery and OpenAPI documents.

pub mod discovery;
pub mod openapi;
pub mod table;
