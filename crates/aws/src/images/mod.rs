//! Images: resolves an EC2NodeClass's selectors to SSM parameters and queries, selects from the results, and maps images to instance
//! types.

mod alias;
mod map;
mod parameters;
mod resolve;
mod select;

pub use alias::{AliasProblem, Parameter, Variant, parameters};
pub use map::{ImageChoice, choose, demands};
pub use parameters::{ParameterSource, Parameters};
pub use resolve::{ImageError, Lookup, Resolved, resolve};
pub use select::{Candidate, select, variant_of_name};
