//! The page of a fleet: `/ui` on the metrics port of a controller, and the file that `fleetwright report` writes.
//!
//! - [`document`]: the data of the page, as JSON.
//! - [`funnels`]: what each constraint of unschedulable pods leaves of the instance types.
//! - [`html`]: markup, style and script, in parts for the endpoint and as one file.
//! - [`pods`]: the pods of one node.
//! - [`endpoint`]: the routes, off by default, which only read.
//!
//! The page has no build step and nothing from elsewhere. Object text reaches the document as text nodes alone; a Content Security Policy
//! refuses every script but this one, and Trusted Types refuse strings as markup.

pub(crate) mod document;
mod endpoint;
mod funnels;
pub(crate) mod html;
mod pods;
#[cfg(test)]
mod tests;

pub(crate) use self::{endpoint::routes, funnels::of as funnels};
