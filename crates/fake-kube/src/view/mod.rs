//! What clients are shown: tables, discovery and OpenAPI documents.
