//! From a NodeClaim to EC2 requests: which offerings remain, and in which launch templates, subnets and fleets.

mod addresses;
mod errors;
mod filter;
mod fleet;
mod overlaid;
mod template;
#[cfg(test)]
mod tests;

pub use addresses::Addresses;
pub(crate) use errors::TEMPLATE_QUOTA;
pub use errors::{Effect, call_error, effects, is_without_role, is_without_template, launch_error, reason};
pub use filter::{Candidate, Filtered, candidates};
pub use fleet::{FleetPlan, FleetPlanInput, plan, request, token};
pub use overlaid::overlaid;
pub use template::{
    TEMPLATE_PREFIX, TemplateGroup, TemplateInput, group_of, has_metadata_ipv6, template_data, template_name,
};
