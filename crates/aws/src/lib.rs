//! The AWS provider's logic, on its own request and response types: no AWS SDK.
//!
//! [`calls`] is the seam: all calls to AWS, behind one trait. Decisions from the answers are pure, one module per question.

pub mod authority;
pub mod batch;
pub mod cache;
pub mod calls;
pub mod digest;
pub mod drift;
pub mod families;
pub mod figures;
pub mod foreign;
pub mod images;
pub mod instancetype;
pub mod interruption;
pub mod launch;
mod lists;
pub mod nodeclass;
pub mod offline;
mod pace;
pub mod permissions;
pub mod prices;
pub mod provider;
pub mod recent;
pub mod schema;
pub mod settings;
pub mod shift;
pub mod tags;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unavailable;
pub mod userdata;

pub use fleetwright_core::clock::SharedClock;
pub use provider::{AwsProvider, Classes, node_classes, set_class};
pub use settings::Settings;
