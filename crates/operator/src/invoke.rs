//! [`Operator::main`]: the controller and the tools, as the command line asks for them.

use std::{collections::BTreeMap, ffi::OsString, io::Write as _, process::ExitCode};

use anyhow::Context as _;
use clap::ArgMatches;

use crate::{
    Operator,
    cli::{self, CatalogTool, CompatTool, Explain, Invocation, ShadowTool, Tool, house},
    compat, controller, crds, decisions, disrupt, dump, explain, export, lint,
    outcome::Outcome,
    permissions, plan, report,
    settings::Values,
    shadow,
    sheet::{self, Page},
    top,
};

impl Operator {
    /// Runs the command line and returns the exit status. Errors go to standard error, with their causes.
    pub fn main(&self, args: impl IntoIterator<Item = OsString>) -> ExitCode {
        let invocation = match cli::parse(args, &self.interface()) {
            Ok(invocation) => invocation,
            Err(error) => {
                // Help and version are errors of clap, too, which knows their stream and status.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
        let done = match invocation {
            Invocation::Controller(flags) => self
                .values(&flags)
                .and_then(|values| match values.bool("SHADOW") {
                    true => shadow::run(self, values),
                    false => controller::run(self, values),
                })
                .map(|()| Outcome::Complete),
            Invocation::Tool(tool, flags) => self.run(&tool, &flags),
            Invocation::CloudTool(at, arguments, flags) => {
                self.run_of_cloud(at, &arguments, &flags).map(|()| Outcome::Complete)
            }
        };
        match done {
            Ok(outcome) => outcome.into(),
            // The reader has what it wanted.
            Err(error) if house::is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                let error = sheet::plain_lines(&format!("{error:#}"));
                let _ = writeln!(anstream::stderr(), "{}: {error}", self.name());
                ExitCode::FAILURE
            }
        }
    }

    fn explain(&self, what: &Explain, values: &Values) -> anyhow::Result<Outcome> {
        let catalogues = self.catalogues();
        match what {
            Explain::Node(options) => disrupt::explain(options, catalogues, values),
            Explain::Pod(options) => explain::pod(options, catalogues, values),
            Explain::Type(options) => explain::instance_type(options, catalogues, values),
            Explain::NodePool(options) => explain::node_pool(options, catalogues, values),
            Explain::Decision(options) => explain::decision(options, catalogues, values),
        }
    }

    /// The settings of a tool, with their warnings on standard error.
    fn values_of_tool(&self, flags: &BTreeMap<String, String>) -> anyhow::Result<Values> {
        let values = self.values(flags)?;
        for warning in values.all_warnings() {
            writeln!(anstream::stderr(), "warning: {}", sheet::plain(&warning))?;
        }
        Ok(values)
    }

    fn run_of_cloud(
        &self,
        at: usize,
        arguments: &ArgMatches,
        flags: &BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let tool = self.tools().get(at).context("a tool that this binary does not have")?;
        tool.run(arguments, &self.values_of_tool(flags)?)
    }

    fn run(&self, tool: &Tool, flags: &BTreeMap<String, String>) -> anyhow::Result<Outcome> {
        let catalogues = self.catalogues();
        match tool {
            Tool::Top(options) => return top::run(options, catalogues, &self.values_of_tool(flags)?),
            Tool::Plan(options) => return plan::run(options, catalogues, &self.values_of_tool(flags)?),
            Tool::Disrupt(options) => return disrupt::run(options, catalogues, &self.values_of_tool(flags)?),
            Tool::Report(options) => return report::run(options, catalogues, &self.values_of_tool(flags)?),
            Tool::Compat(options) => {
                return match &options.tool {
                    Some(CompatTool::Clean(options)) => compat::clean::run(options, self.compats()),
                    None => compat::run(options, &self.build(flags)?, flags),
                };
            }
            Tool::Shadow(ShadowTool::Report(options)) => return shadow::run_tool(options),
            Tool::Decisions(options) => return decisions::run(options),
            Tool::Lint(options) => return lint::run(options, catalogues, &self.values_of_tool(flags)?),
            Tool::Dump(options) => dump::run(options, catalogues, self.settings()),
            #[cfg(feature = "lab")]
            Tool::Replay(options) => {
                return crate::replay::run(options, catalogues, flags, |flags| self.values_of_tool(flags));
            }
            Tool::Explain(what) => return self.explain(what, &self.values_of_tool(flags)?),
            Tool::Catalog(CatalogTool::Export(options)) => {
                export::run(options, catalogues, &self.values_of_tool(flags)?)
            }
            Tool::Version(options) => {
                let version = house::Version::new(self.name(), self.version(), self.cloud_names());
                sheet::print(options.output, &version, |_| {
                    let mut page = Page::default();
                    for line in version.lines() {
                        page.line(line);
                    }
                    page
                })
            }
            Tool::Completion(options) => house::completion(cli::command(&self.interface()), options.shell),
            Tool::Man(options) => house::man(cli::command(&self.interface()), options.folder.as_deref()),
            Tool::Crds { cloud } => crds::print(self.catalogues().definitions_of(cloud)),
            Tool::Permissions(options) => {
                let name = options.name.as_deref().unwrap_or_else(|| self.name());
                let namespace = options.namespace.as_deref().unwrap_or(name);
                let definitions = catalogues.definitions_of(&options.cloud);
                let text = permissions::manifest(name, namespace, &definitions);
                Ok(anstream::stdout().lock().write_all(text.as_bytes())?)
            }
            #[cfg(feature = "lab")]
            Tool::Demo(options) => crate::lab::demo(options),
            #[cfg(feature = "lab")]
            Tool::FakeCloud(options) => crate::lab::serve_cloud(options),
            #[cfg(feature = "lab")]
            Tool::FakeKube(options) => crate::lab::serve_kube(options),
        }
        .map(|()| Outcome::Complete)
    }
}
