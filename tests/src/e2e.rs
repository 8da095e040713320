//! The end-to-end tier: the operator and the fake cloud as processes of their own, against an API server of its own.
//!
//! `--tier kube` starts etcd, kube-apiserver, kube-scheduler and kube-controller-manager; `--tier fake-kube` starts
//! `fleetwright fake-kube` in their place. The cases are the same, so that the two servers are compared with each other.
//! Each has a namespace and NodePools of its own and has to leave the fleet empty.

mod arguments;
mod assets;
mod case;
mod cases;
mod change;
mod cloud;
mod columns;
mod control_plane;
mod credentials;
mod disruption;
mod fleet;
mod foreseen;
mod history;
mod installation;
mod kubectl;
mod ledger;
mod manifests;
mod operator;
mod price;
pub mod process;
mod proxy;
mod refusal;
pub mod rest;
mod runner;
mod schema;
mod server;
mod speed;
mod timeline;
mod trap;
mod view;
mod watches;
mod world;

/// What the judge of `cargo xtask oracle` shares with this tier.
pub(crate) mod judge {
    pub(crate) use super::assets::Assets;
    pub(crate) use super::cloud::CloudPace;
    pub(crate) use super::control_plane::Servers;
    pub(crate) use super::credentials::Accounts;
    pub(crate) use super::disruption::{DisruptionFault, DisruptionVerdict, FaultClass, judge};
    pub(crate) use super::fleet::{is_true, name};
    pub(crate) use super::installation::{Installation, parse};
    pub(crate) use super::process::Process;
    pub(crate) use super::proxy::{Proxy, Upstream};
    pub(crate) use super::server::connect;
    pub(crate) use super::timeline::Recorder;
    pub(crate) use super::view::ReadView;
    pub(crate) use super::world::LaneWorld;
}

pub use arguments::{Arguments, Environment, Tier};
pub use case::Checks;
pub use installation::objects;
pub use runner::{interrupted, run};
