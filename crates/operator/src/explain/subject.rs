//! What explanations are asked about: a node or a pod.

use fleetwright_controllers::settings::SolveEffort;
use jiff::Timestamp;

use super::pod_answer;
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::ExplainOptions,
    disrupt,
    input::{Item, select::InputOptions},
    settings::Values,
    sheet::{Answer, Format},
};

/// An object that can be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A Node or NodeClaim, by name.
    Node(String),
    /// A pod, as `namespace/name`.
    Pod(String),
}

impl Subject {
    /// The command that explains it.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Node(name) => format!("explain node {name}"),
            Self::Pod(name) => format!("explain pod {name}"),
        }
    }

    /// What `explain` says of it, in the input as of `at`.
    ///
    /// # Errors
    /// If the input is invalid, or has no such object.
    pub(crate) fn answer(
        &self,
        items: Vec<Item>,
        at: Timestamp,
        (catalogue, budget): (&CatalogueOptions, SolveEffort),
        (catalogues, values): (&Catalogues, &Values),
    ) -> anyhow::Result<Answer> {
        match self {
            Self::Node(name) => disrupt::answer(items, name, catalogue, (catalogues, values), at),
            Self::Pod(name) => {
                let options = ExplainOptions {
                    name: name.clone(),
                    input: InputOptions::default(),
                    namespace: None,
                    at: Some(at),
                    budget,
                    output: Format::Table,
                    catalogue: catalogue.clone(),
                };
                pod_answer(items, &options, catalogues, values)
            }
        }
    }
}
