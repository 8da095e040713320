//! Scenarios and property runs: what runs in the simulator, and what must hold there.
//!
//! - [`realized`]: the price of a fleet as realized, against the price planned at once.
//! - `scenario`: documents with objects, steps and expectations. Only with the feature `documents`.
//! - [`seeds`]: property runs over any cloud, one per seed, with independent checks; and the planted bugs that they must catch.

pub mod realized;
#[cfg(feature = "documents")]
pub mod region;
#[cfg(feature = "documents")]
pub mod scenario;
pub mod seeds;

#[cfg(feature = "documents")]
pub use region::Region;
