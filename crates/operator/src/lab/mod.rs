//! The lab: the fake cloud, the in-memory API server and the demo. A release build has none of it.

mod catalogue;
mod cloud;
mod demo;
mod kube;
pub(crate) mod pace;
pub(crate) mod screen;

pub use catalogue::FakeCatalogue;
pub use cloud::FakeCloud;
pub(crate) use cloud::serve as serve_cloud;
pub(crate) use demo::run as demo;
pub(crate) use kube::serve as serve_kube;
