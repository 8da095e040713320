//! The AWS provider's logic, on request and response types of its own: no AWS SDK.
//!
//! [`calls`] is the seam: everything that is asked of AWS, behind one trait. What is decided from the answers is pure and
//! stands in a module for each question.

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
pub mod nodeclass;
pub mod observed;
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
pub use provider::{AwsProvider, Classes};
pub use settings::Settings;
