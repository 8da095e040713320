//! The tools that read the AWS account: `audit`, `iam` and `prices`. Their work is in [`crate::account`], which only builds with the SDK have.

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, Subcommand as _};

#[cfg(not(feature = "aws"))]
use self::{without_sdk as audit, without_sdk as iam_check, without_sdk as prices_export};
use super::options::{AuditOptions, Iam, Prices};
#[cfg(feature = "aws")]
use crate::account::{audit, iam_check, prices_export};
use crate::{settings::Values, tool::CloudTool};

/// `audit`: lists the resources of the account that carry the cluster's name.
pub struct AwsAudit;

/// `iam`: the permissions of the controller.
pub struct AwsIam;

/// `prices`: prices of instance types.
pub struct AwsPrices;

impl CloudTool for AwsAudit {
    fn command(&self) -> Command {
        let about = "AWS: lists the resources of the account that carry the cluster's name, by owner. Changes nothing";
        AuditOptions::augment_args(Command::new("audit")).about(about)
    }

    fn settings(&self) -> &'static [&'static str] {
        &["CLUSTER_NAME", "CLUSTER_CA_BUNDLE", "ISOLATED_VPC"]
    }

    fn run(&self, arguments: &ArgMatches, values: &Values) -> anyhow::Result<()> {
        audit(&AuditOptions::from_arg_matches(arguments)?, values)
    }
}

impl CloudTool for AwsIam {
    fn command(&self) -> Command {
        let command = Command::new("iam").subcommand_required(true).arg_required_else_help(true);
        Iam::augment_subcommands(command).about("AWS: the permissions of the controller")
    }

    fn settings(&self) -> &'static [&'static str] {
        &["CLUSTER_NAME", "FEATURE_GATES", "ISOLATED_VPC", "INTERRUPTION_QUEUE", "ENABLE_ZONAL_SHIFT"]
    }

    fn run(&self, arguments: &ArgMatches, values: &Values) -> anyhow::Result<()> {
        let Iam::Check(options) = Iam::from_arg_matches(arguments)?;
        iam_check(&options, values)
    }
}

impl CloudTool for AwsPrices {
    fn command(&self) -> Command {
        let command = Command::new("prices").subcommand_required(true).arg_required_else_help(true);
        Prices::augment_subcommands(command).about("AWS: prices of instance types")
    }

    fn run(&self, arguments: &ArgMatches, values: &Values) -> anyhow::Result<()> {
        let Prices::Export(options) = Prices::from_arg_matches(arguments)?;
        prices_export(&options, values)
    }
}

/// Stands for the work of the tools in a build without the SDK.
#[cfg(not(feature = "aws"))]
fn without_sdk<T>(_options: &T, _values: &Values) -> anyhow::Result<()> {
    anyhow::bail!(
        "this binary is built without AWS: build it with `cargo build --release -p fleetwright-operator --features aws`"
    )
}
