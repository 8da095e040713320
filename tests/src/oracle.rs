//! kube-scheduler as the judge of plans: generated clusters, the planner's NodeClaims as nodes of a real control plane, and the
//! real kube-scheduler, which binds the pods or says why not. And of disruption: the operator acts, and the load goes down.

mod api;
mod arguments;
mod catalogue;
mod control_plane;
mod daemons;
mod dice;
mod disruption;
mod extender;
mod feature;
mod file;
mod generator;
mod judge;
mod known;
mod launch;
mod node;
mod planner;
mod plant;
mod report;
mod run;
mod shrink;

pub use arguments::Arguments;
pub use run::run;
