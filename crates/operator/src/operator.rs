//! [`Operator`]: the controller and the tools, for the clouds that are registered.

use std::{collections::BTreeMap, ffi::OsString, io::Write as _, process::ExitCode, sync::Arc};

use async_trait::async_trait;
use fleetwright_controllers::runtime::{Controller, Ctx};
use fleetwright_core::{clock::SharedClock, cloud::CloudProvider};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::{
    cli::{self, Explain, Iam, Interface, Invocation, Prices, Tool},
    controller, crds, disrupt, plan,
    settings::{self, Values, table::Setting},
};

/// What a cloud needs to connect.
pub struct Environment {
    /// Client of the cluster's API server.
    pub client: kube::Client,
    /// The time.
    pub clock: SharedClock,
    /// UID of the namespace `kube-system`, which identifies the cluster.
    pub cluster_uid: String,
    /// The settings: flags and environment variables.
    pub values: Values,
}

/// Connects to a cloud.
#[async_trait]
pub trait CloudConnector: Send + Sync + 'static {
    /// Connects, and returns the provider. Called again after an error, for up to five minutes.
    ///
    /// # Errors
    /// The settings, the credentials or the cloud cannot be used.
    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>>;

    /// The custom resource definitions of a cluster on this cloud, which `crds` prints. By default none beside those of
    /// [`Operator::definitions`].
    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        Vec::new()
    }
}

/// Returns the custom resource definitions of a cloud.
type Definitions = Box<dyn Fn() -> Vec<CustomResourceDefinition> + Send + Sync>;
/// Makes a controller.
type MakeController = Box<dyn Fn(&Ctx) -> Arc<dyn Controller> + Send + Sync>;

/// An operator: the controller and the tools around it.
pub struct Operator {
    name: &'static str,
    version: &'static str,
    clouds: Vec<(&'static str, Arc<dyn CloudConnector>)>,
    definitions: Vec<(&'static str, Definitions)>,
    settings: Vec<Setting>,
    controllers: Vec<MakeController>,
}

impl Operator {
    /// An operator without a cloud. `name` is the name of the binary.
    #[must_use]
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self {
            name,
            version,
            clouds: Vec::new(),
            definitions: Vec::new(),
            settings: Vec::new(),
            controllers: Vec::new(),
        }
    }

    /// Registers a cloud under the name that `--cloud` takes.
    #[must_use]
    pub fn cloud(mut self, name: &'static str, connector: impl CloudConnector) -> Self {
        let connector = Arc::new(connector);
        self.clouds.push((name, connector.clone()));
        self.definitions(name, move || connector.definitions())
    }

    /// Registers further custom resource definitions that `crds --cloud NAME` prints.
    #[must_use]
    pub fn definitions(
        mut self,
        cloud: &'static str,
        definitions: impl Fn() -> Vec<CustomResourceDefinition> + Send + Sync + 'static,
    ) -> Self {
        self.definitions.push((cloud, Box::new(definitions)));
        self
    }

    /// Adds a setting: a flag and an environment variable, which [`Values`] has under the variable's name.
    #[must_use]
    pub fn setting(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }

    /// Adds a controller, which runs after those of the operator.
    #[must_use]
    pub fn controller(mut self, make: impl Fn(&Ctx) -> Arc<dyn Controller> + Send + Sync + 'static) -> Self {
        self.controllers.push(Box::new(make));
        self
    }

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
            Invocation::Controller(flags) => {
                self.values(&flags).and_then(|values| controller::run(self, values))
            }
            Invocation::Tool(tool, flags) => self.run(&tool, &flags),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(anstream::stderr(), "{}: {error:#}", self.name);
                ExitCode::FAILURE
            }
        }
    }

    fn interface(&self) -> Interface<'_> {
        let mut described: Vec<&'static str> = Vec::new();
        for (name, _) in &self.definitions {
            if !described.contains(name) {
                described.push(name);
            }
        }
        Interface { name: self.name, version: self.version, settings: &self.settings, described }
    }

    fn values(&self, flags: &BTreeMap<String, String>) -> anyhow::Result<Values> {
        Ok(settings::from_environment(&self.settings, flags)?)
    }

    /// The version of the binary.
    pub(crate) fn version(&self) -> &'static str {
        self.version
    }

    /// The names of the registered clouds.
    pub(crate) fn cloud_names(&self) -> Vec<&'static str> {
        self.clouds.iter().map(|(name, _)| *name).collect()
    }

    /// The registered cloud of this name.
    pub(crate) fn connector(&self, name: &str) -> Option<Arc<dyn CloudConnector>> {
        self.clouds.iter().find(|(known, _)| *known == name).map(|(_, connector)| connector.clone())
    }

    /// The added controllers.
    pub(crate) fn own_controllers(&self, ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
        self.controllers.iter().map(|make| make(ctx)).collect()
    }

    fn definitions_of(&self, cloud: &str) -> Vec<CustomResourceDefinition> {
        let of_cloud = self.definitions.iter().filter(|(name, _)| *name == cloud);
        of_cloud.flat_map(|(_, definitions)| definitions()).collect()
    }

    fn run(&self, tool: &Tool, flags: &BTreeMap<String, String>) -> anyhow::Result<()> {
        match tool {
            Tool::Plan(options) => plan::run(options, &self.values(flags)?),
            Tool::Disrupt(options) => disrupt::run(options, &self.values(flags)?),
            Tool::Explain(Explain::Node(options)) => disrupt::explain(options, &self.values(flags)?),
            #[cfg(feature = "aws")]
            Tool::Audit(options) => crate::account::audit(options, &self.values(flags)?),
            #[cfg(feature = "aws")]
            Tool::Iam(Iam::Check(options)) => crate::account::iam_check(options, &self.values(flags)?),
            #[cfg(feature = "aws")]
            Tool::Prices(Prices::Export(options)) => {
                crate::account::prices_export(options, &self.values(flags)?)
            }
            #[cfg(not(feature = "aws"))]
            Tool::Audit(_) | Tool::Iam(Iam::Check(_)) | Tool::Prices(Prices::Export(_)) => anyhow::bail!(
                "this binary is built without AWS: build it with `cargo build --release -p fleetwright-operator --features aws`"
            ),
            Tool::Crds { cloud } => crds::print(self.definitions_of(cloud)),
            #[cfg(feature = "lab")]
            Tool::Demo(options) => crate::lab::demo(options),
            #[cfg(feature = "lab")]
            Tool::FakeCloud(options) => crate::lab::serve_cloud(options),
            #[cfg(feature = "lab")]
            Tool::FakeKube(options) => crate::lab::serve_kube(options),
        }
    }
}
