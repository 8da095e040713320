//! Options of `dump`.

use std::path::PathBuf;

use crate::input::select::InputOptions;

/// Options of `dump`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DumpOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// File to write, which only its owner may read. Defaults to standard output.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Add what `compat` reads: definitions, permissions, webhooks, leases, images, service accounts, and the settings of the controller.
    #[arg(long, conflicts_with = "anonymize")]
    pub(crate) compat: bool,
    /// Replace names, UIDs, label keys and label values by words that say nothing. Types, zones and figures stay, and plans are the same.
    #[arg(long)]
    pub(crate) anonymize: bool,
    /// Anonymize a recording of RECORD_DIR in place of objects: a file, or a folder of them. `replay` reads the copy.
    #[arg(long, value_name = "FILE_OR_DIR", requires = "anonymize", conflicts_with_all = ["files", "kubeconfig", "context"])]
    pub(crate) recording: Option<PathBuf>,
    /// The key of the hashes of --anonymize: with the same key, the words of two dumps have the same hashes. Defaults to a random one.
    #[arg(long, value_name = "TEXT", requires = "anonymize")]
    pub(crate) key: Option<String>,
}
