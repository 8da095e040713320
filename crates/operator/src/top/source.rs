//! Where `top` reads fleets and explanations from: a cluster, with lists alone, or files.

use anyhow::Context as _;
use fleetwright_controllers::{runtime::ReadOnlyClient, settings::SolveEffort};
use fleetwright_core::clock::Clock as _;
use jiff::Timestamp;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::Subject;
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::TopOptions,
    clock::SystemClock,
    decisions::DecisionSource,
    fleet::{
        FleetReport,
        read::{self, FleetRequest},
    },
    input::{self, Item, cluster, lacking},
    kube_client,
    settings::Values,
    sheet::Page,
};

/// The rounds in which the plan of an explanation is improved: seconds would keep the reader waiting.
const ROUNDS: u32 = 50;

/// What the pane of decisions says without a source of them.
const NO_DECISIONS: &str = "--decisions URL shows those of a controller with DECISIONS_ENDPOINT=true, --decisions FILE those of a list";

/// What is read.
enum Origin {
    /// The objects of files, which do not change.
    Files(Vec<Item>),
    /// A cluster.
    Cluster { runtime: Runtime, client: ReadOnlyClient },
}

/// A reader of fleets.
pub(super) struct TopSource {
    origin: Origin,
    decisions: Option<DecisionSource>,
    options: TopOptions,
    explainer: Explainer,
}

/// What explanations need beside the objects.
pub(crate) struct Explainer {
    /// The catalogues of the binary.
    pub(crate) catalogues: Catalogues,
    /// The settings.
    pub(crate) values: Values,
    /// Region and prices.
    pub(crate) catalogue: CatalogueOptions,
}

impl Explainer {
    /// The explanation of an object of an input, as `explain` prints it.
    ///
    /// # Errors
    /// If the input is invalid, or has no such object.
    pub(crate) fn explain(&self, items: Vec<Item>, subject: &Subject, at: Timestamp) -> anyhow::Result<Page> {
        let options = (&self.catalogue, SolveEffort::Iterations(ROUNDS));
        Ok(subject.answer(items, at, options, (&self.catalogues, &self.values))?.page)
    }
}

impl TopSource {
    /// Reads the files, or connects to the cluster.
    ///
    /// # Errors
    /// If there are no such files, or there is no such cluster.
    pub(super) fn new(
        options: &TopOptions,
        catalogues: &Catalogues,
        values: &Values,
    ) -> anyhow::Result<Self> {
        let input = &options.input;
        let origin = if input.files.is_empty() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let connected = runtime.block_on(async {
                let client = kube_client::connect_to(input.kubeconfig.as_deref(), input.context.as_deref());
                // A client is made inside of its runtime.
                client.await.map(ReadOnlyClient::new)
            });
            let client = connected.context("without -f the cluster is read")?;
            Origin::Cluster { runtime, client }
        } else {
            Origin::Files(input::read_from(input)?)
        };
        let decisions = options.decisions.as_deref().map(DecisionSource::new).transpose()?;
        let explainer = Explainer {
            catalogues: catalogues.clone(),
            values: values.clone(),
            catalogue: options.catalogue.clone(),
        };
        Ok(Self { origin, decisions, options: options.clone(), explainer })
    }

    /// Whether another reading may differ.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.origin, Origin::Cluster { .. })
    }

    /// What is read, in a few words.
    pub(super) fn name(options: &TopOptions) -> String {
        let input = &options.input;
        match (input.files.as_slice(), &input.context) {
            ([], Some(context)) => format!("context {context}"),
            ([], None) => "cluster".to_owned(),
            ([one], _) => one.display().to_string(),
            (many, _) => format!("{} files", many.len()),
        }
    }

    fn items(&self) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
        match &self.origin {
            Origin::Files(items) => Ok((items.clone(), Vec::new())),
            Origin::Cluster { runtime, client } => {
                runtime.block_on(cluster::read_permitted(&client.client()))
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.options.at.unwrap_or_else(|| SystemClock.now())
    }

    /// The fleet now.
    ///
    /// # Errors
    /// If the cluster cannot be read, or the input is invalid.
    pub(super) fn read(&self) -> anyhow::Result<FleetReport> {
        let (items, denied) = self.items()?;
        let request = FleetRequest {
            catalogue: &self.options.catalogue,
            select: &self.options.select,
            live: self.options.input.files.is_empty(),
            at: self.now(),
        };
        let tools = (&self.explainer.catalogues, &self.explainer.values);
        let mut report = read::of_items(items, &request, tools)?.report;
        let denied = denied.iter().map(|plural| lacking::denied(plural));
        report.notes.splice(0..0, denied);
        Ok(report)
    }

    /// The last decisions of the controller, as JSON, or why there are none.
    pub(super) fn decisions(&self) -> Result<Vec<Value>, String> {
        match &self.decisions {
            Some(source) => source.read().map_err(|error| format!("{error:#}")),
            None => Err(NO_DECISIONS.to_owned()),
        }
    }

    /// The explanation of an object, as `explain` prints it.
    ///
    /// # Errors
    /// If the cluster cannot be read, or has no such object.
    pub(super) fn explain(&self, subject: &Subject) -> anyhow::Result<Page> {
        let (items, _) = self.items()?;
        self.explainer.explain(items, subject, self.now())
    }
}
