//! Options of the tools that decide as the controller does: `plan`, `disrupt` and `explain`.

use std::path::PathBuf;

use clap::Subcommand;
use fleetwright_controllers::settings::SolveEffort;

use super::budget;
use crate::{
    catalogue::CatalogueOptions,
    input::{
        select::{InputOptions, SelectOptions},
        workloads::Replicas,
    },
    plan::FailIf,
    sheet::Format,
};

/// Options of `plan`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlanOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The pods to plan.
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    /// Give a workload another number of pods, such as web=40 (may be repeated).
    #[arg(long, value_name = "[NAMESPACE/]NAME=COUNT", value_parser = Replicas::parse)]
    pub(crate) replicas: Vec<Replicas>,
    /// Apply these objects over the input, and compare the plans: nodes, dollars per month, pods that move, unschedulable pods.
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub(crate) what_if: Vec<PathBuf>,
    /// End with status 6 if this holds, such as 'unschedulable>0 || cost>+5%'. Figures: unschedulable, cost, nodes, new-nodes, moved.
    #[arg(long, value_name = "CONDITION", value_parser = FailIf::parse)]
    pub(crate) fail_if: Option<FailIf>,
    /// How long to improve the first plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "500ms", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// The seed of generated names.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

impl PlanOptions {
    /// The options of a plan that another tool makes.
    pub(crate) fn of_tool(budget: SolveEffort, catalogue: CatalogueOptions) -> Self {
        Self {
            input: InputOptions::default(),
            select: SelectOptions::default(),
            replicas: Vec::new(),
            what_if: Vec::new(),
            fail_if: None,
            budget,
            output: Format::default(),
            seed: 1,
            catalogue,
        }
    }
}

/// Options of `disrupt`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DisruptOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The nodes to list; commands and budgets are always those of the whole cluster.
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    /// The time of the decision, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// Use only these disruption methods, separated by commas (may be repeated): emptiness, static-drift, drift, expiration, multi-node-consolidation,
    /// single-node-consolidation, n-to-m-consolidation.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) method: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// What to explain.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Explain {
    /// Lists the disruption blockers of a node, with the owner and the end of each.
    Node(ExplainOptions),
    /// Explains where a pod can run: what each constraint leaves of the instance types, why nodes refuse it, what would help and
    /// what its constraints cost.
    Pod(ExplainOptions),
    /// Explains an instance type: which NodePools allow it, its offerings, and why planned nodes are of this or another type.
    Type(ExplainOptions),
    /// Explains a NodePool: what its requirements leave of the instance types, its limits, nodes and cost.
    #[command(name = "nodepool")]
    NodePool(ExplainOptions),
    /// Explains a decision of a recording: what was chosen, what came of it, and its pod or node in the cluster as it was then.
    Decision(DecisionExplainOptions),
}

/// Options of `explain decision`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DecisionExplainOptions {
    /// The id of the decision, as in the annotation `fleetwright.dev/decision` of NodeClaims and events.
    pub(crate) id: String,
    /// The recording: a file, or a folder of RECORD_DIR.
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub(crate) recording: PathBuf,
    /// How long to improve each plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "200it", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// Options of `explain`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainOptions {
    /// The object: a Node or NodeClaim, a pod as [NAMESPACE/]NAME, an instance type, a NodePool.
    pub(crate) name: String,
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The namespace of the pod, if its name has none.
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The time of the evaluation, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// How long to improve each plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "200it", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}
