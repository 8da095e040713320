//! The command line of `catalog`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::catalogue::CatalogueOptions;

/// Tools for catalogues of instance types.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CatalogTool {
    /// Writes the catalogue that `--catalog` names as a file for `--instance-types`.
    Export(CatalogExportOptions),
}

/// Options of `catalog export`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CatalogExportOptions {
    /// File to write. Defaults to standard output.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Which region.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}
