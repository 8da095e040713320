//! The binary `fleetwright`: the operator with the clouds of this build.

use std::process::ExitCode;

use fleetwright_operator::Operator;

fn main() -> ExitCode {
    let operator = Operator::new("fleetwright", env!("CARGO_PKG_VERSION"));
    #[cfg(feature = "lab")]
    let operator = operator
        .cloud("fake", fleetwright_operator::FakeCloud)
        .catalogue(fleetwright_operator::FakeCatalogue);
    #[cfg(feature = "aws")]
    let operator = operator.cloud("aws", fleetwright_operator::AwsCloud);
    // Definitions and instance types need no SDK.
    #[cfg(feature = "ec2")]
    let operator = operator
        .catalogue(fleetwright_operator::Ec2Catalogue::default())
        .compat(fleetwright_operator::Ec2Compat)
        .tool(fleetwright_operator::AwsAudit)
        .tool(fleetwright_operator::AwsIam)
        .tool(fleetwright_operator::AwsPrices);
    operator.definitions("aws", fleetwright_aws_api::crds).default_cloud("aws").main(std::env::args_os())
}
