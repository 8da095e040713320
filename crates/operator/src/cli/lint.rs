//! Options of `lint`.

use clap::ValueEnum;

use super::duration;
use crate::{catalogue::CatalogueOptions, input::select::InputOptions};

/// Options of `lint`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LintOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// Print what disruption budgets allow for so long (such as 168h for a week), by reason and hour, instead of findings.
    #[arg(long, value_name = "DURATION", value_parser = days)]
    pub(crate) calendar: Option<std::time::Duration>,
    /// The start of the calendar, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME", requires = "calendar")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// The findings that end with another status than 0: 5 for errors, 4 for warnings.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub(crate) fail_on: FailOn,
    /// Instance types and prices.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = LintFormat::Text)]
    pub(crate) output: LintFormat,
}

/// Which findings fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors.
    Error,
    /// Errors and warnings.
    Warning,
    /// None.
    Never,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// For people: `file:line:column: severity code: message`.
    Text,
    /// For programs.
    Json,
    /// For code scanning.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

/// A duration that may be in days.
fn days(text: &str) -> Result<std::time::Duration, String> {
    match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days)) => Ok(std::time::Duration::from_secs(u64::from(days) * 86_400)),
        _ => duration(text),
    }
}
