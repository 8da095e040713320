//! [`Operator`] and what binaries register with it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fleetwright_controllers::{
    classes::follow,
    runtime::{Controller, Ctx},
};
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CloudProvider, NodeClasses},
    model::Currency,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::{
    catalogue::{Catalogues, OfflineCatalogue},
    cli::Interface,
    compat::{Build, CloudCompat},
    settings::{
        self, Values,
        table::{SETTINGS, Setting},
    },
    tool::CloudTool,
};

/// Input of a connector.
#[non_exhaustive]
pub struct Environment {
    /// Client of the cluster's API server.
    pub client: kube::Client,
    /// The clock.
    pub clock: SharedClock,
    /// UID of the namespace `kube-system`, which identifies the cluster.
    pub cluster_uid: String,
    /// The settings: flags and environment variables.
    pub values: Values,
    /// They end with the environment, unless the connector succeeds.
    watches: Mutex<JoinSet<()>>,
}

impl Environment {
    pub(crate) fn new(client: kube::Client, clock: SharedClock, cluster_uid: String, values: Values) -> Self {
        Self { client, clock, cluster_uid, values, watches: Mutex::default() }
    }

    /// Keeps `classes` current for as long as the operator runs: their objects are listed and watched. An object that `T` cannot read is
    /// left out, and logged.
    pub fn follow<T>(&self, classes: NodeClasses<T>) -> NodeClasses<T>
    where
        T: DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        let watch = follow(self.client.clone(), classes.clone(), self.clock.clone());
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).spawn(watch);
        classes
    }

    /// Leaves the watches to the process: the connector succeeded.
    pub(crate) fn keep_watches(self) {
        self.watches.into_inner().unwrap_or_else(PoisonError::into_inner).detach_all();
    }
}

/// Connects to a cloud.
#[async_trait]
pub trait CloudConnector: Send + Sync + 'static {
    /// What prices are in: those that the provider gives, those of instance types that the tools read, and the setting
    /// `NODE_OVERHEAD_PRICE`. By default US dollars. Where regions differ, [`ProviderInfo::currency`] and [`ClassOffer::currency`] say it
    /// for theirs.
    ///
    /// [`ProviderInfo::currency`]: fleetwright_core::cloud::ProviderInfo::currency
    /// [`ClassOffer::currency`]: crate::ClassOffer::currency
    fn currency(&self) -> Currency {
        Currency::USD
    }

    /// Its settings: flags and environment variables, which [`Environment::values`] has beside those of the operator.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Connects, and returns the provider. Called again after an error, for up to five minutes.
    ///
    /// # Errors
    /// If the settings, the credentials or the cloud cannot be used.
    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>>;

    /// The custom resource definitions of a cluster on this cloud, which `crds` prints. By default none beside those of
    /// [`Operator::definitions`].
    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        Vec::new()
    }
}

/// Makes a controller.
type MakeController = Box<dyn Fn(&Ctx) -> Arc<dyn Controller> + Send + Sync>;

/// An operator: the controller and the tools around it.
pub struct Operator {
    name: &'static str,
    version: &'static str,
    clouds: Vec<(&'static str, Arc<dyn CloudConnector>)>,
    default_cloud: Option<&'static str>,
    catalogues: Catalogues,
    compats: Vec<Box<dyn CloudCompat>>,
    settings: Vec<Setting>,
    tools: Vec<Box<dyn CloudTool>>,
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
            default_cloud: None,
            catalogues: Catalogues::default(),
            compats: Vec::new(),
            settings: SETTINGS.to_vec(),
            tools: Vec::new(),
            controllers: Vec::new(),
        }
    }

    /// Registers a cloud under the name that `--cloud` takes.
    #[must_use]
    pub fn cloud(mut self, name: &'static str, connector: impl CloudConnector) -> Self {
        let connector = Arc::new(connector);
        self.clouds.push((name, connector.clone()));
        let settings = connector.settings();
        settings.into_iter().fold(self, Self::setting).definitions(name, move || connector.definitions())
    }

    /// The cloud without `--cloud`, where this binary has it. Without a default the controller starts with `--cloud` alone.
    #[must_use]
    pub fn default_cloud(self, name: &'static str) -> Self {
        Self { default_cloud: Some(name), ..self }
    }

    /// Registers the instance types of a cloud for the tools, which decide without a connection to it.
    #[must_use]
    pub fn catalogue(mut self, catalogue: impl OfflineCatalogue) -> Self {
        let settings = catalogue.settings();
        self.catalogues = self.catalogues.with(catalogue);
        settings.into_iter().fold(self, Self::setting)
    }

    /// Registers further custom resource definitions of a cloud: `crds --cloud NAME` prints them, and `lint` checks objects by them.
    #[must_use]
    pub fn definitions(
        mut self,
        cloud: &'static str,
        definitions: impl Fn() -> Vec<CustomResourceDefinition> + Send + Sync + 'static,
    ) -> Self {
        self.catalogues = self.catalogues.with_definitions(cloud, definitions);
        self
    }

    /// Registers the checks of a cloud for `compat`, beyond its definitions and its catalogue.
    #[must_use]
    pub fn compat(mut self, compat: impl CloudCompat) -> Self {
        self.compats.push(Box::new(compat));
        self
    }

    /// Adds a setting: a flag and an environment variable, which [`Values`] has under the variable's name. The first one of a name counts.
    #[must_use]
    pub fn setting(mut self, setting: Setting) -> Self {
        if self.settings.iter().all(|known| known.env != setting.env) {
            self.settings.push(setting);
        }
        self
    }

    /// Adds a tool: a subcommand.
    #[must_use]
    pub fn tool(mut self, tool: impl CloudTool) -> Self {
        self.tools.push(Box::new(tool));
        self
    }

    /// Adds a controller, which runs after those of the operator.
    #[must_use]
    pub fn controller(mut self, make: impl Fn(&Ctx) -> Arc<dyn Controller> + Send + Sync + 'static) -> Self {
        self.controllers.push(Box::new(make));
        self
    }

    /// The catalogues of the tools.
    pub(crate) fn catalogues(&self) -> &Catalogues {
        &self.catalogues
    }

    /// The registered checks of clouds.
    pub(crate) fn compats(&self) -> &[Box<dyn CloudCompat>] {
        &self.compats
    }

    /// The tools of its clouds.
    pub(crate) fn tools(&self) -> &[Box<dyn CloudTool>] {
        &self.tools
    }

    /// The settings: those of every operator, then those of its clouds.
    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The parts of this binary that `compat` uses.
    pub(crate) fn build(&self, flags: &BTreeMap<String, String>) -> anyhow::Result<Build<'_>> {
        let clouds = self.catalogues.defined().into_iter();
        Ok(Build {
            catalogues: &self.catalogues,
            definitions: clouds.map(|cloud| self.catalogues.definitions_of(cloud)).collect(),
            clouds: &self.compats,
            settings: &self.settings,
            values: self.values(flags)?,
        })
    }

    /// The command line.
    pub(crate) fn interface(&self) -> Interface<'_> {
        let mut described = self.catalogues.defined();
        described.sort_by_key(|cloud| Some(*cloud) != self.default_cloud);
        Interface {
            name: self.name,
            version: self.version,
            settings: &self.settings,
            tools: &self.tools,
            described,
        }
    }

    /// The settings: those of `flags`, then those of the environment.
    pub(crate) fn values(&self, flags: &BTreeMap<String, String>) -> anyhow::Result<Values> {
        let values = settings::from_environment(&self.settings, flags)?;
        let currency = self.currency(values.text("CLOUD"));
        Ok(values.priced_in(currency))
    }

    /// What prices are in: in the currency of the chosen cloud, and without a choice in that of the first one, as the tools need none.
    fn currency(&self, chosen: &str) -> Currency {
        let cloud = self.connector(self.chosen(chosen));
        let cloud = cloud.or_else(|| self.clouds.first().map(|(_, connector)| connector.clone()));
        cloud.map_or_else(Currency::default, |connector| connector.currency())
    }

    /// The name of the cloud that a value of `--cloud` means; empty without a value and a default.
    pub(crate) fn chosen<'a>(&self, cloud: &'a str) -> &'a str {
        let default = self.default_cloud.filter(|name| cloud.is_empty() && self.connector(name).is_some());
        default.unwrap_or(cloud)
    }

    /// The name of the binary.
    pub(crate) fn name(&self) -> &'static str {
        self.name
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
}
