//! Scenarios and property runs: what runs in the simulator, and what must hold there.
//!
//! - [`scenario`]: documents with objects, steps and expectations.
//! - [`seeds`]: property runs, one per seed, with independent checks; and the planted bugs that they must catch.

pub mod region;
pub mod scenario;
pub mod seeds;

pub use region::Region;
