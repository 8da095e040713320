//! A finished pass as a plan: placements, reasons of unschedulable pods, and the lower bound on the price. Reads only.

pub(crate) mod finish;
pub(crate) mod lower_bound;
mod nearest;
mod nodes;
mod unplaced;
