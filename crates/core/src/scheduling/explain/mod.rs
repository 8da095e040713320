//! A finished pass as a plan: what it places, why pods are left, and what it must cost at least. Reads only.

pub(crate) mod finish;
pub(crate) mod lower_bound;
mod near;
mod nodes;
mod unplaced;
