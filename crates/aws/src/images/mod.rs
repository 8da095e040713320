//! Images: which SSM parameters and queries a class's selectors stand for, which of the answers count, and which image each
//! instance type runs.

mod alias;
mod map;
mod parameters;
mod resolve;
mod select;

pub use alias::{AliasProblem, Parameter, Variant, parameters};
pub use map::{Choice, choose, demands};
pub use parameters::{Parameters, Source};
pub use resolve::{ImageError, Lookup, Resolved, resolve};
pub use select::{Candidate, select, variant_of_name};
