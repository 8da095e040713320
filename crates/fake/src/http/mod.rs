//! The fake cloud in another process: its calls as JSON over HTTP.
//!
//! | call | body | answer |
//! |---|---|---|
//! | `GET /healthz` | | `ok` |
//! | `GET /catalog` | | `{"vocabulary", "instanceTypes": [...]}` in the format of the kwok provider's file |
//! | `GET /instances?clusterUid=UID&after=ID` | | a page of that cluster's instances: `{"instances": [...], "next": ID}`, the last without `next` |
//! | `GET /instances/{id}` | | one instance; the id percent-encoded |
//! | `POST /launch`, `POST /terminate` | the calls of [`crate::api`] | their answers |
//! | `POST /faults` | a list of faults | nothing |
//! | `DELETE /faults` | | nothing |
//!
//! Errors are an [`crate::api::ApiError`] with the corresponding status.

mod client;
mod server;

pub use client::HttpCloud;
pub use server::{router, serve};
