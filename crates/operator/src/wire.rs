//! From the command line to the part that does it.

use std::{collections::BTreeMap, ffi::OsString, process::ExitCode};

use crate::{
    cli::{self, Explain, Iam, Invocation, Prices, Tool},
    controller, crds, demo, disrupt, fake, plan, settings,
};

/// Does what the command line says. Failures go to standard error, with their causes.
pub(crate) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let invocation = match cli::parse(args) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and version come this way too; clap knows which stream and status they have.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = match invocation {
        Invocation::Controller(flags) => controller::run(&flags),
        Invocation::Tool(tool, flags) => run(&tool, &flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(anstream::stderr(), "fleetwright: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(tool: &Tool, flags: &BTreeMap<String, String>) -> anyhow::Result<()> {
    match tool {
        Tool::Demo(options) => demo::run(options),
        Tool::Plan(options) => plan::run(options, &settings::from_environment(flags)?),
        Tool::Disrupt(options) => disrupt::run(options, &settings::from_environment(flags)?),
        Tool::Explain(Explain::Node(options)) => {
            disrupt::explain(options, &settings::from_environment(flags)?)
        }
        #[cfg(feature = "aws")]
        Tool::Audit(options) => crate::account::audit(options, &settings::from_environment(flags)?),
        #[cfg(feature = "aws")]
        Tool::Iam(Iam::Check(options)) => {
            crate::account::iam_check(options, &settings::from_environment(flags)?)
        }
        #[cfg(feature = "aws")]
        Tool::Prices(Prices::Export(options)) => {
            crate::account::prices_export(options, &settings::from_environment(flags)?)
        }
        #[cfg(not(feature = "aws"))]
        Tool::Audit(_) | Tool::Iam(Iam::Check(_)) | Tool::Prices(Prices::Export(_)) => anyhow::bail!(
            "this binary is built without AWS: build it with `cargo build --release -p fleetwright-operator --features aws`"
        ),
        Tool::Crds { cloud } => crds::print(*cloud),
        Tool::FakeCloud(options) => fake::serve_cloud(options),
        Tool::FakeKube(options) => fake::serve_kube(options),
    }
}
