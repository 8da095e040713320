//! An in-memory Kubernetes API server behind a real `kube::Client`.

pub mod registry;
pub mod schema;
pub mod view;
