//! Karpenter's order: one request, pod by pod.
//!
//! - `request_queue`: the classes of the pods, and their order.
//! - `pass`: the state of a pass; `place`: pod by pod; `on_node`, `on_new_claim`: what takes one.
//! - `candidate_order`: which new NodeClaim is tried first.

pub(crate) mod candidate_order;
pub(crate) mod on_new_claim;
pub(crate) mod on_node;
pub(crate) mod pass;
pub(crate) mod place;
pub(crate) mod request_queue;
