//! EC2's instance types without a connection to AWS: a built-in table or one from a file, and the catalogue of an EC2NodeClass from it.
//!
//! - [`table`]: reads and writes tables of instance types.
//! - [`tokens`]: one instance type as text.
//! - [`class`]: the catalogue of an EC2NodeClass, by the provider's own code.

mod class;
mod table;
#[cfg(test)]
mod tests;
mod tokens;

pub use class::{FoundReservations, OfflineClass, catalog};
pub use table::{Table, TableError, region_of_zone};
