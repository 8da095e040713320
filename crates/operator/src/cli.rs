//! The command line: subcommands are tools; without one, this is the controller with Karpenter's flags.

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{Arg, Command, Parser, Subcommand, ValueEnum};
use fleetwright_controllers::settings::SolveEffort;

use crate::settings::table::{Kind, SETTINGS};

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run the controller with these flags, by name without dashes.
    Controller(BTreeMap<String, String>),
    /// Run a tool; one that decides as the controller would, with these of the controller's flags.
    Tool(Tool, BTreeMap<String, String>),
}

/// A node autoscaler for Kubernetes that speaks Karpenter's API. Without a subcommand it is the controller:
/// see `fleetwright --help` for its flags.
#[derive(Debug, Parser)]
#[command(name = "fleetwright", version, disable_help_subcommand = true)]
struct Tools {
    #[command(subcommand)]
    tool: Tool,
}

/// The tools around the controller.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Shows the whole flow on this node: no cluster, no Docker, no cloud account.
    Demo(Demo),
    /// Shows what would be launched for the pods that wait, by the controller's own code, and does nothing.
    Plan(PlanOptions),
    /// Shows what disruption would do now, and what keeps each node, by the controller's own code, and does nothing.
    Disrupt(DisruptOptions),
    /// Explains a decision.
    #[command(subcommand)]
    Explain(Explain),
    /// AWS: lists what in the account carries the cluster's name, by who owns it, and changes nothing.
    Audit(AuditOptions),
    /// AWS: the rights of the controller.
    #[command(subcommand)]
    Iam(Iam),
    /// AWS: prices of instance types.
    #[command(subcommand)]
    Prices(Prices),
    /// Prints the custom resource definitions for `kubectl apply -f -`.
    Crds {
        /// Whose label rules and node class to include.
        #[arg(long, value_enum, default_value_t = Cloud::Fake)]
        cloud: Cloud,
    },
    /// Runs the fake cloud and its kubelets as a process of their own, which survives the controller.
    FakeCloud(FakeCloud),
    /// Runs the embedded Kubernetes API server with a scheduler and workload controllers.
    FakeKube(FakeKube),
}

/// Options of `demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// How much faster than the wall clock time passes.
    #[arg(long, default_value_t = 60.0, value_parser = positive)]
    pub(crate) speed: f64,
    /// Stop after so much virtual time (a duration such as 10m).
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) run_for: Option<std::time::Duration>,
    /// Stop as soon as nothing changes any more.
    #[arg(long)]
    pub(crate) until_settled: bool,
    /// Keep serving afterwards, until Ctrl-C.
    #[arg(long)]
    pub(crate) serve: bool,
    /// `text`, or `json`: virtual time as fast as it goes, no port, one report at the end.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Manifests to apply instead of the shipped examples.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Which built-in instance types the cloud has.
    #[arg(long, value_enum, default_value_t = Catalog::Realistic)]
    pub(crate) catalog: Catalog,
    /// Instance types as Karpenter's kwok provider reads them, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance_types: Option<PathBuf>,
    /// Where the API server listens.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Where the kubeconfig is written; by default a file in the temporary directory, removed at the end.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// Options of `plan`. The controller's settings count here too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlanOptions {
    /// Manifests or dumps to read instead of the cluster of the kubeconfig; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// How pods become nodes.
    #[arg(long, value_enum, default_value_t = PackerName::LeastCost)]
    pub(crate) packer: PackerName,
    /// How long to improve the first plan: a time such as 500ms, or rounds such as 2000it, which are reproducible.
    #[arg(long, default_value = "500ms", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// How the plan is printed.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
    /// The seed of generated names.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Options of `disrupt`. The controller's settings count here too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DisruptOptions {
    /// Manifests or dumps to read instead of the cluster of the kubeconfig; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The moment to decide at, such as 2026-01-31T12:00:00Z; by default now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// Ask only this method (may be repeated): emptiness, static-drift, drift, expiration, multi-node-consolidation,
    /// single-node-consolidation, n-to-m-consolidation.
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Vec<String>,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// What to explain.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Explain {
    /// Lists everything that keeps a node from being disrupted, with owner and end.
    Node(ExplainOptions),
}

/// Options of `explain node`. The controller's settings count here too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainOptions {
    /// The Node or NodeClaim.
    pub(crate) name: String,
    /// Manifests or dumps to read instead of the cluster of the kubeconfig; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The moment to judge at, such as 2026-01-31T12:00:00Z; by default now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// Options of `audit`. The controller's settings count here too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AuditOptions {
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// What to do about rights.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Iam {
    /// Lists rights that the controller needs by its settings and that no policy gives; fails where nodes need one of them.
    Check(IamCheckOptions),
}

/// Options of `iam check`. The controller's settings count here too: what is switched off needs no rights.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IamCheckOptions {
    /// Policies to read, as JSON; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required_unless_present = "role")]
    pub(crate) files: Vec<PathBuf>,
    /// The controller's role, whose policies IAM is asked for.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) role: Option<String>,
    /// The region that the controller works in; with a role by default that of the environment, else it is not compared.
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}

/// What to do about prices.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Prices {
    /// Writes the prices of the region to a file that PRICES_FILE reads, for networks that cannot ask for them.
    Export(PricesExportOptions),
}

/// Options of `prices export`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PricesExportOptions {
    /// Where to write; by default standard output.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// How pods become nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PackerName {
    /// The cheapest plan that can be found in time.
    LeastCost,
    /// Karpenter's placement order.
    Compatible,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOrJson {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Options of `fake-cloud`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FakeCloud {
    /// Where its HTTP API listens.
    #[arg(long, default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// The cluster that its nodes join; by default as kubectl finds it.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Which built-in instance types it has.
    #[arg(long, value_enum, default_value_t = Catalog::Kwok)]
    pub(crate) catalog: Catalog,
    /// Instance types as Karpenter's kwok provider reads them, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance_types: Option<PathBuf>,
    /// How long a launch call takes.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) launch_latency: std::time::Duration,
    /// How long a node takes from launch to joining.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) boot_latency: std::time::Duration,
    /// How long a node takes from joining until it is ready.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(crate) ready_latency: std::time::Duration,
    /// How long a node takes to end; by default between 8s and 60s, at random.
    #[arg(long, value_parser = duration)]
    pub(crate) terminate_latency: Option<std::time::Duration>,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Options of `fake-kube`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FakeKube {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    /// Where the kubeconfig for it is written.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The seed of names and UIDs.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// A cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cloud {
    /// The in-memory cloud.
    Fake,
    /// AWS.
    Aws,
}

/// Built-in instance types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Catalog {
    /// Karpenter's kwok provider's generic types.
    Kwok,
    /// Types in the shape of current EC2 families.
    Realistic,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    let parsed = fleetwright_api::duration::parse(text).map_err(|error| error.to_string())?;
    std::time::Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}

/// `500ms`, or `2000it`.
fn budget(text: &str) -> Result<SolveEffort, String> {
    match text.strip_suffix("it") {
        Some(rounds) => rounds
            .parse()
            .map(SolveEffort::Iterations)
            .map_err(|_| "it takes a number such as 2000it".to_owned()),
        None => duration(text).map(SolveEffort::Time),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "it takes a number such as 60".to_owned())?;
    if speed.is_finite() && (0.01..=10_000.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("it must lie between 0.01 and 10000".to_owned())
    }
}

/// Reads the command line.
///
/// # Errors
/// clap's, which prints itself; help and version come this way too.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut tools = <Tools as clap::CommandFactory>::command();
    for (path, shown) in WITH_SETTINGS {
        tools = tools.mut_subcommand(path[0], |tool| match path.get(1) {
            None => with_settings(tool, Some(shown)),
            Some(inner) => tool.mut_subcommand(inner, |inner| with_settings(inner, Some(shown))),
        });
    }
    let first = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    if tools.get_subcommands().any(|tool| tool.get_name() == first) {
        let matches = tools.try_get_matches_from(args)?;
        let tool = <Tools as clap::FromArgMatches>::from_arg_matches(&matches)?.tool;
        let mut names = Vec::new();
        let mut inner = &matches;
        while let Some((name, deeper)) = inner.subcommand() {
            names.push(name);
            inner = deeper;
        }
        let settled = WITH_SETTINGS.iter().any(|(path, _)| **path == *names);
        let flags = if settled { flags(inner) } else { BTreeMap::new() };
        return Ok(Invocation::Tool(tool, flags));
    }
    let matches = controller_command(tools).try_get_matches_from(args.into_iter().map(double_dash))?;
    Ok(Invocation::Controller(flags(&matches)))
}

/// Tools that do as the controller would, and its settings that matter to them; the others are accepted there and not shown.
const WITH_SETTINGS: [(&[&str], &[&str]); 6] = [
    (&["plan"], &DECISIVE),
    (&["disrupt"], &DECISIVE),
    (&["explain", "node"], &DECISIVE),
    (&["audit"], &["CLUSTER_NAME", "CLUSTER_CA_BUNDLE", "ISOLATED_VPC"]),
    (
        &["iam", "check"],
        &["CLUSTER_NAME", "FEATURE_GATES", "ISOLATED_VPC", "INTERRUPTION_QUEUE", "ENABLE_ZONAL_SHIFT"],
    ),
    (&["prices", "export"], &[]),
];

/// Settings that matter to a decision.
const DECISIVE: [&str; 7] = [
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "IGNORE_DRA_REQUESTS",
    "FEATURE_GATES",
    "SCHEDULER_CONFIG",
    "INSTANCE_TYPES_FILE_PATH",
    "CATALOG",
];

/// The settings that were given as flags.
fn flags(matches: &clap::ArgMatches) -> BTreeMap<String, String> {
    let given = SETTINGS.iter().filter_map(|setting| {
        let value = matches.get_one::<String>(&setting.flag())?;
        Some((setting.flag(), value.clone()))
    });
    given.collect()
}

/// The controller's own command: a flag for each setting; the tools are listed in its help.
fn controller_command(tools: Command) -> Command {
    let mut listed = String::from("Tools (see `fleetwright TOOL --help`):\n");
    for tool in tools.get_subcommands() {
        let about = tool.get_about().map(ToString::to_string).unwrap_or_default();
        listed.push_str(&format!("  {:<12} {about}\n", tool.get_name()));
    }
    let about = tools.get_about().cloned().unwrap_or_default();
    let command =
        Command::new("fleetwright").version(env!("CARGO_PKG_VERSION")).about(about).after_help(listed);
    with_settings(command, None)
}

/// A command with a flag for each setting; where only some are of interest, the others are hidden.
fn with_settings(command: Command, shown: Option<&[&str]>) -> Command {
    SETTINGS.iter().fold(command, |command, setting| {
        let mut arg = Arg::new(setting.flag()).long(setting.flag()).value_name("VALUE");
        if setting.kind == Kind::Bool {
            // As with Go's flags, a bare switch means true; a value needs the equals sign.
            arg = arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_name("true|false");
        }
        if setting.env == "INSTANCE_TYPES_FILE_PATH" {
            arg = arg.visible_alias("instance-types");
        }
        let default =
            if setting.default.is_empty() { String::new() } else { format!(", default {}", setting.default) };
        let arg = arg.hide(shown.is_some_and(|shown| !shown.contains(&setting.env)));
        command.arg(arg.help(format!("{} [env {}{default}]", setting.help, setting.env)))
    })
}

/// Go's flags may be written with one dash.
fn double_dash(arg: OsString) -> OsString {
    match arg.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(rest) if rest.len() > 1 && !rest.starts_with('-') => format!("--{rest}").into(),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    //! Controller mode, Go-style flags, tools.
    use super::*;

    fn flags(args: &[&str]) -> BTreeMap<String, String> {
        let args = ["fleetwright"].iter().chain(args).map(OsString::from);
        match parse(args).unwrap() {
            Invocation::Controller(flags) => flags,
            Invocation::Tool(tool, _) => panic!("{tool:?}"),
        }
    }

    #[test]
    fn go_style_flags() {
        let flags = flags(&[
            "-metrics-port=1",
            "--health-probe-port",
            "2",
            "-disable-leader-election",
            "--ignore-dra-requests=false",
        ]);
        let pairs: Vec<(&str, &str)> = flags.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(
            pairs,
            [
                ("disable-leader-election", "true"),
                ("health-probe-port", "2"),
                ("ignore-dra-requests", "false"),
                ("metrics-port", "1")
            ]
        );
    }

    #[test]
    fn tools_and_errors() {
        assert!(matches!(
            parse(["fleetwright", "demo", "--speed", "1"].map(OsString::from)),
            Ok(Invocation::Tool(Tool::Demo(_), _))
        ));
        for bad in [
            &["demo", "--speed", "0"][..],
            &["nonsense"],
            &["--no-such-flag"],
            &["demo", "--for", "5"],
            &["iam", "check"],
            &["iam", "check", "--role", "a", "-f", "b"],
            &["prices"],
        ] {
            assert!(parse(["fleetwright"].iter().chain(bad).map(OsString::from)).is_err(), "{bad:?}");
        }
        <Tools as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn tools_take_the_controller_s_settings() {
        for args in [
            &["plan", "--cluster-name", "prod"][..],
            &["explain", "node", "n", "--cluster-name=prod"],
            &["audit", "-o", "json", "--cluster-name", "prod"],
            &["iam", "check", "-f", "policy.json", "--cluster-name", "prod"],
            &["prices", "export", "--cluster-name", "prod"],
        ] {
            let all = ["fleetwright"].iter().chain(args).map(OsString::from);
            let Ok(Invocation::Tool(_, flags)) = parse(all) else { panic!("{args:?}") };
            assert_eq!(flags.get("cluster-name").map(String::as_str), Some("prod"), "{args:?}");
        }
    }
}
