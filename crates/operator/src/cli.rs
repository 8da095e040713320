//! The command line: subcommands are tools; without one, this is the controller with Karpenter's flags.

mod catalogue;
mod compat;
mod decide;
mod decisions;
#[cfg(test)]
#[cfg(all(feature = "lab", feature = "ec2"))]
mod documented;
mod dump;
pub(crate) mod house;
mod lint;
mod permissions;
#[cfg(feature = "lab")]
mod replay;
mod report;
mod shadow;
mod top;

#[cfg(feature = "lab")]
use std::net::SocketAddr;
use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{Arg, ArgMatches, Command, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use fleetwright_controllers::settings::SolveEffort;

#[cfg(feature = "lab")]
pub(crate) use self::replay::{ReplayFormat, ReplayOptions};
pub(crate) use self::{
    catalogue::{CatalogExportOptions, CatalogTool},
    compat::{CleanOptions, CompatOptions, CompatTool},
    decide::{DecisionExplainOptions, DisruptOptions, Explain, ExplainOptions, PlanOptions},
    decisions::{DecisionsFormat, DecisionsOptions},
    dump::DumpOptions,
    lint::{FailOn, LintFormat, LintOptions},
    permissions::PermissionsOptions,
    report::{ReportOptions, ReportOutput},
    shadow::{ReportFormat, ShadowReportOptions, ShadowTool},
    top::TopOptions,
};
#[cfg(test)]
use crate::settings::table::SETTINGS;
use crate::{
    settings::table::{Setting, SettingKind},
    tool::CloudTool,
};

/// The parsed command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run the controller with these flags, by name without dashes.
    Controller(BTreeMap<String, String>),
    /// Run a tool; one that decides as the controller does gets these of the controller's flags.
    Tool(Tool, BTreeMap<String, String>),
    /// Run the tool of a cloud with this place in [`Interface::tools`], with its arguments and settings.
    CloudTool(usize, ArgMatches, BTreeMap<String, String>),
}

/// The parts of the command line that depend on the binary.
pub(crate) struct Interface<'a> {
    /// The name of the binary.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// All settings.
    pub(crate) settings: &'a [Setting],
    /// The tools of its clouds.
    pub(crate) tools: &'a [Box<dyn CloudTool>],
    /// The clouds that have custom resource definitions, the default one first.
    pub(crate) described: Vec<&'static str>,
}

#[cfg(test)]
impl Interface<'static> {
    /// A binary with one cloud and no settings of its own.
    pub(crate) fn plain() -> Self {
        Self { name: "fleetwright", version: "0", settings: SETTINGS, tools: &[], described: vec!["fake"] }
    }
}

/// A node autoscaler for Kubernetes that implements Karpenter's API. Without a subcommand it runs the controller.
#[derive(Debug, Parser)]
#[command(disable_help_subcommand = true)]
struct Tools {
    /// When output has colors; NO_COLOR is respected.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: house::Color,
    #[command(subcommand)]
    tool: Tool,
}

/// The tools around the controller.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Simulates a cluster and a cloud in this process, with the controller: no cluster, no Docker, no cloud account.
    #[cfg(feature = "lab")]
    Demo(Demo),
    /// Shows nodes, cost, pending pods with the reason, NodeClaims in flight, disruptions and decisions, live in the terminal. Reads only.
    Top(TopOptions),
    /// Dry run: the NodeClaims that would be created for pending pods.
    Plan(PlanOptions),
    /// Dry run: the nodes that would be disrupted now, and why the others are not.
    Disrupt(DisruptOptions),
    /// Writes a page of the fleet: cost by NodePool, namespace and label, what is unused, the cheapest plan for the same pods, and what
    /// blocks the saving.
    Report(ReportOptions),
    /// Finds mistakes in NodePools, NodeClasses, workloads and budgets, in files or in the cluster.
    Lint(LintOptions),
    /// Checks whether a cluster of Karpenter can move to Fleetwright, and what changes. Reads only.
    Compat(CompatOptions),
    /// Reports of shadow mode: what Karpenter did, and what Fleetwright would have done.
    #[command(subcommand)]
    Shadow(ShadowTool),
    /// What the controller decided, on what, and what came of it.
    Decisions(DecisionsOptions),
    /// Writes what the tools read of a cluster as one file for `-f`: only fields that decisions read.
    Dump(DumpOptions),
    /// Plays what was recorded of a cluster in virtual time, and compares settings: nodes, dollars, disruptions, waiting pods.
    #[cfg(feature = "lab")]
    Replay(ReplayOptions),
    /// Explains a decision.
    #[command(subcommand)]
    Explain(Explain),
    /// Catalogues of instance types.
    #[command(subcommand)]
    Catalog(CatalogTool),
    /// Prints version, commit, features and the level of Karpenter.
    Version(house::VersionOptions),
    /// Prints a completion script for a shell.
    Completion(house::CompletionOptions),
    /// Prints manual pages.
    Man(house::ManOptions),
    /// Prints the custom resource definitions for `kubectl apply -f -`.
    Crds {
        /// The cloud whose NodeClass and label rules are included.
        #[arg(long)]
        cloud: String,
    },
    /// Prints the service account of an operator and its permissions for `kubectl apply -f -`.
    Permissions(PermissionsOptions),
    /// Runs the fake cloud and its kubelets in a process of their own, which outlives the controller.
    #[cfg(feature = "lab")]
    FakeCloud(FakeCloud),
    /// Runs the Kubernetes API server in memory, with a scheduler and workload controllers.
    #[cfg(feature = "lab")]
    FakeKube(FakeKube),
}

/// Options of `demo`.
#[cfg(feature = "lab")]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// How much faster than the wall clock time passes.
    #[arg(long, default_value_t = 60.0, value_parser = positive)]
    pub(crate) speed: f64,
    /// Stop after this much virtual time (a duration such as 10m).
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) run_for: Option<std::time::Duration>,
    /// Stop when the simulated cluster is stable.
    #[arg(long)]
    pub(crate) until_stable: bool,
    /// Keep serving afterwards, until Ctrl-C.
    #[arg(long)]
    pub(crate) serve: bool,
    /// `text`; or `json`: one report at the end, virtual time as fast as possible, no API server on a port.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Manifests to apply instead of the shipped examples.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The built-in instance types of the cloud.
    #[arg(long, value_enum, default_value_t = Catalog::Realistic)]
    pub(crate) catalog: Catalog,
    /// Instance types as Karpenter's kwok provider reads them, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance_types: Option<PathBuf>,
    /// Record what a terminal would show: `.cast` for asciinema, `.svg` for a page. Time is virtual, and the same seed gives the same file.
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    pub(crate) record: Option<PathBuf>,
    /// Address on which the API server listens.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Address on which the page of the fleet is served, as /ui.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ui: Option<SocketAddr>,
    /// File for the kubeconfig. Defaults to a file in the temporary directory, which is removed at the end.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
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
#[cfg(feature = "lab")]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FakeCloud {
    /// Address on which its HTTP API listens.
    #[arg(long, default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// The kubeconfig of the cluster that its nodes join. Defaults to the one that kubectl uses.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The built-in instance types.
    #[arg(long, value_enum, default_value_t = Catalog::Kwok)]
    pub(crate) catalog: Catalog,
    /// Instance types as Karpenter's kwok provider reads them, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance_types: Option<PathBuf>,
    /// How long an instance takes from the launch call until it runs: a duration, or a range such as 2s-12s to draw from.
    #[arg(long, default_value = "1s")]
    pub(crate) launch_latency: fleetwright_fake::Latency,
    /// How long an instance takes from then to registration, likewise.
    #[arg(long, default_value = "30s")]
    pub(crate) boot_latency: fleetwright_fake::Latency,
    /// How long a node takes from registration to Ready.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(crate) ready_latency: std::time::Duration,
    /// How long an instance takes to terminate, likewise.
    #[arg(long, default_value = "8s-60s")]
    pub(crate) terminate_latency: fleetwright_fake::Latency,
    /// Follows nodes of Karpenter's kwok provider in the same cluster: they become instances, and end with their Node and NodeClaim.
    #[arg(long)]
    pub(crate) follow_kwok: bool,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Options of `fake-kube`.
#[cfg(feature = "lab")]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FakeKube {
    /// Address on which it listens.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    /// File for its kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The seed of names and UIDs.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Built-in instance types.
#[cfg(feature = "lab")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Catalog {
    /// Karpenter's kwok provider's generic types.
    Kwok,
    /// Types in the shape of current EC2 families.
    Realistic,
}

/// How the demo prints its result.
#[cfg(feature = "lab")]
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

#[cfg(feature = "lab")]
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
pub(crate) fn parse(
    args: impl IntoIterator<Item = OsString>,
    interface: &Interface<'_>,
) -> Result<Invocation, clap::Error> {
    let args = house::normalized(house::colored(args.into_iter().collect()));
    let mut tools = command(interface);
    let first = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    if tools.get_subcommands().any(|tool| tool.get_name() == first) {
        let of_cloud = interface.tools.iter().position(|tool| tool.command().get_name() == first);
        let matches = tools.try_get_matches_from(args)?;
        let flags = settings_of(&matches, interface);
        return match (of_cloud, matches.subcommand()) {
            (Some(at), Some((_, arguments))) => Ok(Invocation::CloudTool(at, arguments.clone(), flags)),
            _ => <Tools as clap::FromArgMatches>::from_arg_matches(&matches)
                .map(|Tools { tool, .. }| Invocation::Tool(tool, flags)),
        };
    }
    if !first.is_empty() && !first.starts_with('-') {
        return Err(house::unknown_tool(&mut tools, first));
    }
    let matches =
        controller_command(tools, interface).try_get_matches_from(args.into_iter().map(double_dash))?;
    Ok(Invocation::Controller(flags(&matches, interface)))
}

/// The command with all tools and their settings.
pub(crate) fn command(interface: &Interface<'_>) -> Command {
    // `mut_subcommand` would move them to the end.
    let tools = tools(interface).mut_subcommands(|tool| match tool.get_name() {
        "catalog" => with_settings(tool, interface, &|setting| setting.env == "CATALOG"),
        name if DECIDING.contains(&name) => with_settings(tool, interface, &|setting| setting.decides),
        _ => tool,
    });
    interface.tools.iter().fold(tools, |tools, tool| {
        let shown = |setting: &Setting| tool.settings().contains(&setting.env);
        tools.subcommand(with_settings(tool.command(), interface, &shown))
    })
}

/// The command with all tools, by the name of the binary.
fn tools(interface: &Interface<'_>) -> Command {
    let tools = <Tools as clap::CommandFactory>::command().name(interface.name);
    let tools = tools.bin_name(interface.name).version(interface.version);
    let of_cloud = |tool: Command| {
        tool.mut_arg("cloud", |cloud| {
            let cloud = cloud.value_parser(PossibleValuesParser::new(&interface.described));
            match interface.described.first() {
                Some(first) => cloud.required(false).default_value(*first),
                None => cloud,
            }
        })
    };
    tools.mut_subcommands(|tool| match tool.get_name() {
        "crds" | "permissions" => of_cloud(tool),
        _ => tool,
    })
}

/// Tools that decide as the controller does, by its settings. Their help shows those that matter to a decision.
const DECIDING: &[&str] = &[
    "top",
    "plan",
    "report",
    #[cfg(feature = "lab")]
    "replay",
    "disrupt",
    "lint",
    "compat",
    "explain",
];

/// Calls that the help shows.
const EXAMPLES: [(&str, &str); 8] = [
    ("demo", "a cluster and a cloud on this computer"),
    ("top", "the fleet of the cluster of the kubeconfig, live"),
    ("plan", "the nodes that the cluster of the kubeconfig needs now"),
    ("plan -f manifests/ --fail-if 'unschedulable>0'", "a check in CI"),
    ("plan --what-if nodepool.yaml", "what a change would do to the cluster"),
    ("explain pod web-0", "why a pod is pending, and what would help"),
    ("disrupt", "the nodes that would be disrupted, and what blocks the others"),
    ("report -o report.html", "where the money goes, and what blocks a saving, as a page"),
];

/// The settings of the innermost command, where it takes them.
fn settings_of(matches: &ArgMatches, interface: &Interface<'_>) -> BTreeMap<String, String> {
    match matches.subcommand() {
        Some((_, inner)) => settings_of(inner, interface),
        None => flags(matches, interface),
    }
}

/// The settings that were given as flags.
fn flags(matches: &ArgMatches, interface: &Interface<'_>) -> BTreeMap<String, String> {
    let given = interface.settings.iter().filter_map(|setting| {
        let value = matches.try_get_one::<String>(&setting.flag()).ok().flatten()?;
        Some((setting.flag(), value.clone()))
    });
    given.collect()
}

/// The controller's own command: a flag for each setting; the tools are listed in its help.
fn controller_command(tools: Command, interface: &Interface<'_>) -> Command {
    let name = interface.name;
    let mut listed = format!("Tools (see `{name} help TOOL`):\n");
    for tool in tools.get_subcommands() {
        let about = tool.get_about().map(ToString::to_string).unwrap_or_default();
        listed.push_str(&format!("  {:<12} {about}\n", tool.get_name()));
    }
    let examples =
        EXAMPLES.map(|(args, what)| format!("  {:<62} # {what}\n", format!("{name} {args}"))).concat();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n       {name} TOOL [OPTIONS]\n\n{listed}\nExamples:\n{examples}\nOptions of the controller:\n{{options}}"
    );
    let about = tools.get_about().cloned().unwrap_or_default();
    let command =
        Command::new(name).bin_name(name).version(interface.version).about(about).help_template(template);
    with_settings(command, interface, &|_| true)
}

/// A command with a flag for each setting, or its subcommands where it does nothing by itself; the help has those that are `shown`.
fn with_settings(command: Command, interface: &Interface<'_>, shown: &dyn Fn(&Setting) -> bool) -> Command {
    if command.is_subcommand_required_set() {
        return command.mut_subcommands(|inner| with_settings(inner, interface, shown));
    }
    interface.settings.iter().fold(command, |command, setting| {
        let mut arg = Arg::new(setting.flag()).long(setting.flag()).value_name("VALUE");
        if setting.kind == SettingKind::Bool {
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
        let arg = arg.hide(!shown(setting));
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

    /// The command line of a binary with two clouds and a setting of its own.
    fn parse(args: &[&str]) -> Result<Invocation, clap::Error> {
        let own = Setting::new("ACME_TOKEN", SettingKind::Text, "", "Token");
        let settings: Vec<Setting> = SETTINGS.iter().copied().chain([own]).collect();
        let tools: [Box<dyn CloudTool>; 1] = [Box::new(Quota)];
        let described = vec!["acme", "aws"];
        let interface =
            Interface { name: "test", version: "1", settings: &settings, tools: &tools, described };
        super::parse(["test"].iter().chain(args).map(OsString::from), &interface)
    }

    /// A tool of a cloud with a subcommand.
    struct Quota;

    impl CloudTool for Quota {
        fn command(&self) -> Command {
            let check = Command::new("check").arg(Arg::new("role").long("role").required(true));
            Command::new("quota").subcommand_required(true).subcommand(check)
        }

        fn settings(&self) -> &'static [&'static str] {
            &["ACME_TOKEN"]
        }

        fn run(&self, _: &ArgMatches, _: &crate::settings::Values) -> anyhow::Result<()> {
            Ok(())
        }
    }

    fn flags(args: &[&str]) -> BTreeMap<String, String> {
        match parse(args).unwrap() {
            Invocation::Controller(flags) => flags,
            other => panic!("{other:?}"),
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
        #[cfg(feature = "lab")]
        assert!(matches!(parse(&["demo", "--speed", "1"]), Ok(Invocation::Tool(Tool::Demo(_), _))));
        for bad in [
            &["demo", "--speed", "0"][..],
            &["nonsense"],
            &["--no-such-flag"],
            &["demo", "--for", "5"],
            &["quota"],
            &["quota", "check"],
            &["iam", "check", "--role", "a"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        <Tools as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_binary_adds_clouds_and_settings() {
        for (args, expected) in [(&["crds"][..], "acme"), (&["crds", "--cloud", "aws"], "aws")] {
            let Ok(Invocation::Tool(Tool::Crds { cloud }, _)) = parse(args) else { panic!("{args:?}") };
            assert_eq!(cloud, expected);
        }
        assert!(parse(&["crds", "--cloud", "other"]).is_err());
        assert_eq!(flags(&["--acme-token=a"]).get("acme-token").map(String::as_str), Some("a"));
    }

    #[test]
    fn tools_take_the_controller_s_settings() {
        for args in [
            &["plan", "--acme-token", "a"][..],
            &["explain", "node", "n", "--acme-token=a"],
            &["catalog", "export", "--acme-token", "a"],
            &["compat", "--acme-token", "a"],
        ] {
            let Ok(Invocation::Tool(_, flags)) = parse(args) else { panic!("{args:?}") };
            assert_eq!(flags.get("acme-token").map(String::as_str), Some("a"), "{args:?}");
        }
        assert!(parse(&["compat", "clean", "--acme-token", "a"]).is_err());
    }

    #[test]
    fn a_cloud_adds_tools_that_take_the_settings() {
        let args = ["quota", "check", "--role", "r", "--acme-token=a", "--color", "never"];
        let Ok(Invocation::CloudTool(0, arguments, flags)) = parse(&args) else { panic!("{args:?}") };
        let (_, check) = arguments.subcommand().unwrap();
        assert_eq!(check.get_one::<String>("role").map(String::as_str), Some("r"));
        assert_eq!(flags.get("acme-token").map(String::as_str), Some("a"));
        let help = parse(&["quota", "check", "--help"]).unwrap_err().to_string();
        assert!(help.contains("--acme-token") && !help.contains("--metrics-port"), "{help}");
        let listed = parse(&["--help"]).unwrap_err().to_string();
        let places = ["  top ", "  plan ", "  crds ", "  quota "].map(|tool| listed.find(tool));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{listed}");
    }
}
