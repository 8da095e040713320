//! [`CloudTool`]: subcommands that come with a cloud.

use clap::{ArgMatches, Command};

use crate::settings::Values;

/// A tool of a cloud: a subcommand beside those that every operator has.
pub trait CloudTool: Send + Sync + 'static {
    /// Its name, help and arguments. It takes the settings of the operator as flags; where it requires a subcommand, its subcommands do.
    fn command(&self) -> Command;

    /// The settings that its help shows, by their variables. The others are taken too, and hidden.
    fn settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs it with the arguments of [`CloudTool::command`].
    ///
    /// # Errors
    /// The exit status is 1, and standard error has the error with its causes.
    fn run(&self, arguments: &ArgMatches, values: &Values) -> anyhow::Result<()>;
}
