//! The command lines of `audit`, `iam check` and `prices export`.

use std::path::PathBuf;

use crate::cli::TableOrJson;

/// Options of `audit`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AuditOptions {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// Tools for permissions.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Iam {
    /// Checks that the IAM policies grant every action that the configuration requires. Fails if launching nodes needs a missing one.
    Check(IamCheckOptions),
}

/// Options of `iam check`. It reads the controller's settings: what is switched off needs no permissions.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IamCheckOptions {
    /// Policies to read, as JSON; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required_unless_present = "role")]
    pub(crate) files: Vec<PathBuf>,
    /// The controller's role: its policies are read from IAM.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) role: Option<String>,
    /// The region of the controller. With --role it defaults to that of the environment; otherwise regions are not compared.
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// Tools for prices.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Prices {
    /// Writes the prices of the region to a file for PRICES_FILE, for networks without access to the Pricing API.
    Export(PricesExportOptions),
}

/// Options of `prices export`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PricesExportOptions {
    /// File to write. Defaults to standard output.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
