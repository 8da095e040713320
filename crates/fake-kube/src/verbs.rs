//! The verbs.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod shape;
pub(crate) mod update;
