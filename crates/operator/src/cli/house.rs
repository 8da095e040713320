//! `help`, `version`, `completion`, `man`, colors, suggestions for mistyped tools, and the name as a kubectl plugin.

use std::{ffi::OsString, io::Write as _, path::Path};

use clap::{Command, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use fleetwright_core::suggest::did_you_mean;
use serde::Serialize;

use crate::sheet::Format;

/// The level of Karpenter whose API and behavior this build has.
pub(crate) const KARPENTER: &str = "1.14";

/// Options of `version`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VersionOptions {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Options of `completion`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompletionOptions {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Options of `man`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ManOptions {
    /// The folder for one page per tool. Without it, the page of the binary goes to standard output.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<std::path::PathBuf>,
}

/// When output has colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Makes it the choice of the process.
    fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// What `version` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    name: &'static str,
    version: &'static str,
    commit: &'static str,
    karpenter: &'static str,
    features: Vec<&'static str>,
    clouds: Vec<&'static str>,
}

impl Version {
    pub(crate) fn new(name: &'static str, version: &'static str, clouds: Vec<&'static str>) -> Self {
        let features = [
            ("lab", cfg!(feature = "lab")),
            ("ec2", cfg!(feature = "ec2")),
            ("aws", cfg!(feature = "aws")),
            ("otel", cfg!(feature = "otel")),
        ];
        let features = features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        Self { name, version, commit: crate::logging::COMMIT, karpenter: KARPENTER, features, clouds }
    }

    /// One line each.
    pub(crate) fn lines(&self) -> [String; 4] {
        let list = |all: &[&str]| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        [
            format!("{} {} ({})", self.name, self.version, self.commit),
            format!("Karpenter API and behavior: {}", self.karpenter),
            format!("features: {}", list(&self.features)),
            format!("clouds: {}", list(&self.clouds)),
        ]
    }
}

/// Writes a completion script.
///
/// # Errors
/// If standard output cannot be written to.
pub(crate) fn completion(mut command: Command, shell: Shell) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    Ok(anstream::stdout().lock().write_all(&script)?)
}

/// Writes manual pages.
///
/// # Errors
/// If a page cannot be written.
pub(crate) fn man(command: Command, folder: Option<&Path>) -> anyhow::Result<()> {
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            Ok(clap_mangen::generate_to(command, folder)?)
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            Ok(anstream::stdout().lock().write_all(&page)?)
        }
    }
}

/// Applies `--color WHEN` before the rest is read, because help and errors have colors too. In front of the tool it is taken out; where its
/// value is none, clap says so.
pub(super) fn colored(mut args: Vec<OsString>) -> Vec<OsString> {
    let value = |text: &str| Color::from_str(text, false).ok();
    let found = args.iter().enumerate().skip(1).find_map(|(at, arg)| {
        let arg = arg.to_str()?;
        if let Some(inline) = arg.strip_prefix("--color=") {
            return Some((at..at + 1, value(inline)?));
        }
        let next = args.get(at + 1).filter(|_| arg == "--color")?;
        Some((at..at + 2, value(next.to_str()?)?))
    });
    let Some((place, color)) = found else { return args };
    color.apply();
    if place.start == 1 {
        args.drain(place);
    }
    args
}

/// Rewrites `help [TOOL…]` to `[TOOL…] --help`; a plugin without arguments shows its help instead of running the controller.
pub(super) fn normalized(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.remove(1);
        args.push("--help".into());
    } else if args.len() == 1 && is_plugin(&args) {
        args.push("--help".into());
    }
    args
}

/// Whether kubectl runs the binary: plugins are called `kubectl-NAME`.
fn is_plugin(args: &[OsString]) -> bool {
    let name = args.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("kubectl-"))
}

/// The error for a first argument that is neither a tool nor a flag.
pub(super) fn unknown_tool(tools: &mut Command, name: &str) -> clap::Error {
    let known: Vec<String> = tools.get_subcommands().map(|tool| tool.get_name().to_owned()).collect();
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    let message = format!("unknown tool {name:?}{meant}; `{} help` lists the tools", tools.get_name());
    tools.error(ErrorKind::InvalidSubcommand, message)
}

/// Whether an error says that the reader closed the pipe, which ends a tool without a message.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_closed = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(is_closed)
}
