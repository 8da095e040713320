//! Scenarios and property runs: what is played in simulated worlds, and what must hold in them.
//!
//! - [`scenario`]: documents that say what a world holds, what happens to it, and what is expected.
//! - [`seeds`]: property runs, one seed each, watched by independent checks; and the planted bugs that they must catch.
//! - [`region`]: the AWS provider over a region in memory, as the cloud of a world.

pub mod region;
pub mod scenario;
pub mod seeds;

pub use region::Region;
