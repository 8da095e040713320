//! Options of `compat`.

use std::path::PathBuf;

use clap::Subcommand;
use fleetwright_controllers::settings::SolveEffort;

use super::{TableOrJson, budget};
use crate::{catalogue::CatalogueOptions, input::select::InputOptions};

/// Options of `compat`, beside the controller's settings, which are those of the running Deployment where no flag says otherwise.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CompatOptions {
    /// What to do instead of the checks.
    #[command(subcommand)]
    pub(crate) tool: Option<CompatTool>,
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The time of the decision, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// AWS: policies of the controller's role, as JSON (may be repeated); checked as by `iam check`.
    #[arg(long, value_name = "FILE")]
    pub(crate) iam_policy: Vec<PathBuf>,
    /// How long to improve a plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "500ms", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// What `compat` does instead of the checks.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CompatTool {
    /// Lists the annotations, conditions and finalizers of Fleetwright on objects, for a cluster that went back to Karpenter.
    Clean(CleanOptions),
}

/// Options of `compat clean`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CleanOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// Remove them from the cluster.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Also annotations that users set.
    #[arg(long)]
    pub(crate) all: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

#[cfg(test)]
mod tests {
    //! The cluster that is read.
    use super::{
        super::{Interface, Invocation, Tool, parse},
        *,
    };

    #[test]
    fn the_cluster_is_that_of_the_options() {
        for tool in [&["compat"][..], &["compat", "clean"]] {
            let with = |more: &[&str]| {
                let args = [&["fleetwright"], tool, more].concat();
                parse(args.into_iter().map(Into::into), &Interface::plain())
            };
            let Invocation::Tool(Tool::Compat(options), _) =
                with(&["--kubeconfig", "k", "--context", "c"]).unwrap()
            else {
                panic!("{tool:?}")
            };
            let input = match options.tool {
                Some(CompatTool::Clean(clean)) => clean.input,
                None => options.input,
            };
            assert_eq!(
                (input.kubeconfig, input.context),
                (Some("k".into()), Some("c".to_owned())),
                "{tool:?}"
            );
            assert!(with(&["-f", "dump.json", "--context", "c"]).is_err(), "{tool:?}");
        }
    }
}
