//! The operator as a library: the controller and the tools, for the clouds that a binary registers.
//!
//! [`Operator`] is the entry point. The binary `fleetwright` registers the clouds of this repository with it, as a third party
//! registers its own:
//!
//! ```no_run
//! # use std::{process::ExitCode, sync::Arc};
//! # use fleetwright_core::cloud::CloudProvider;
//! use fleetwright_operator::{CloudConnector, Environment, Operator, async_trait};
//!
//! struct Acme;
//!
//! #[async_trait]
//! impl CloudConnector for Acme {
//!     async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
//!         # let _ = environment;
//!         anyhow::bail!("return a provider over the API of the cloud")
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     Operator::new("acme-autoscaler", "1.0.0").cloud("acme", Acme).main(std::env::args_os())
//! }
//! ```
//!
//! The default feature `lab` adds the simulation: the cloud `fake`, and the commands `demo`, `fake-cloud` and `fake-kube`. The
//! default feature `ec2` lets the tools answer for EC2NodeClasses without a connection to AWS, the feature `aws` adds the cloud `aws` and
//! its tools, the feature `otel` the export of traces. An operator of another cloud depends on this crate without default features.

#[cfg(feature = "aws")]
mod account;
#[cfg(feature = "aws")]
mod authority;
#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "ec2")]
mod base64;
mod catalogue;
mod cli;
mod clock;
mod compat;
mod controller;
mod crds;
mod decisions;
mod devices;
mod disrupt;
mod dump;
#[cfg(feature = "ec2")]
mod ec2;
mod explain;
mod export;
mod figures;
mod fleet;
mod http;
mod input;
mod invoke;
mod kube_client;
#[cfg(feature = "lab")]
mod lab;
mod lint;
mod logging;
mod operator;
mod otel;
mod outcome;
mod permissions;
mod plan;
mod planned;
mod process;
mod proxy;
mod recording;
#[cfg(feature = "lab")]
mod replay;
mod report;
#[cfg(test)]
mod scenarios;
mod settings;
mod shadow;
mod sheet;
mod signals;
mod tool;
mod top;
mod ui;

// The versions of foreign crates that occur in signatures.
pub use anyhow;
pub use async_trait::async_trait;
pub use clap;
pub use k8s_openapi;
pub use kube;
pub use serde_json;

pub use fleetwright_controllers::{
    classes::follow,
    runtime::{Controller, Ctx},
};

#[cfg(feature = "aws")]
pub use aws::AwsCloud;
pub use catalogue::{CatalogueOptions, ClassChange, ClassOffer, ClassRequest, MovingImage, OfflineCatalogue};
pub use clock::SystemClock;
pub use compat::{CloudCompat, ClusterObjects, DriftHash, Finding, Severity};
#[cfg(feature = "ec2")]
pub use ec2::{AwsAudit, AwsIam, AwsPrices, Ec2Catalogue, Ec2Compat};
#[cfg(feature = "lab")]
pub use lab::{FakeCatalogue, FakeCloud};
pub use operator::{CloudConnector, Environment, Operator};
pub use settings::{
    Values,
    table::{Setting, SettingKind},
};
pub use tool::CloudTool;
