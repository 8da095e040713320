//! Subresources that are more than a part of their object.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod token;
