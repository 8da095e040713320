//! The end of Nodes: the finalizer that drains them, and the queue by which pods leave.

mod eviction;
mod node;

pub use eviction::EvictionQueue;
pub(crate) use eviction::NAME as EVICTION_QUEUE;
pub use node::NodeTermination;
