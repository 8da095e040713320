//! An in-memory Kubernetes API server behind a real `kube::Client`, optionally on a port for kubectl.
//!
//! [`Server::service`] is a tower service: `kube::Client::new(server.service(), "default")` talks to it
//! without a socket, so that it works under paused tokio time and answers deterministically: names and
//! UIDs come from the seed of the [`Config`], timestamps from its clock. [`Server::listen`] serves the same
//! over HTTP.
//!
//! A request passes through `request`, which parses it, and `dispatch`, which finds its resource in the `registry` and calls one of the
//! `verbs` on the `cluster`, which stores objects, counts revisions and keeps the history for `watch`; `gc` runs the garbage collectors
//! of a cluster at the end of each request.

mod admission;
mod body;
mod boot;
mod cluster;
mod config;
mod crds;
mod direct;
mod dispatch;
mod events;
mod faults;
mod finalizers;
mod gc;
mod info;
mod lines;
mod listen;
mod managed;
mod manager;
mod object;
mod patch;
mod propagation;
mod protobuf;
mod quantity;
mod registry;
mod request;
mod route;
mod seeded;
mod selector;
mod server;
mod service;
mod status;
mod store;
mod subresource;
mod typed;
mod validate;
mod verbs;
pub mod view;
mod view_of;
mod watch;

pub use body::ReplyBody;
pub use config::{Audit, Clock, Config};
pub use faults::{Answer, Fault, Faults, Request, WatchFault};
pub use listen::Listening;
pub use registry::ResourceInfo;
pub use server::{Counters, Server, Service};
pub use status::{ApiError, Cause};
