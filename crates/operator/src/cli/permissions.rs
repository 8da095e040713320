//! Options of `permissions`.

/// Options of `permissions`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PermissionsOptions {
    /// The cloud whose NodeClasses the operator follows.
    #[arg(long)]
    pub(crate) cloud: String,
    /// The namespace of the operator. Without it, its name.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// The name of the operator. Without it, that of the binary.
    #[arg(long)]
    pub(crate) name: Option<String>,
}
