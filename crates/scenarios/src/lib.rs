//! Scenarios and property runs: what runs in the simulator, and what must hold there.
//!
//! - [`realized`]: the price of a fleet as realized, against the price planned at once.
//! - [`scenario`]: documents with objects, steps and expectations.
//! - [`seeds`]: property runs, one per seed, with independent checks; and the planted bugs that they must catch.

pub mod realized;
pub mod region;
pub mod scenario;
pub mod seeds;

pub use region::Region;
