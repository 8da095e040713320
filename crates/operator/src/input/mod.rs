//! The input of the tools `plan` and `disrupt`: manifests and dumps, or a live cluster.
//!
//! - [`files`]: parses YAML and JSON into [`Item`]s with their file and line.
//! - [`cluster`]: the same from a live cluster, read-only.
//! - [`load`]: applies items to the controller's index, as watch events.
//! - [`evaluate`]: the conditions that controllers would have set on NodeClaims by now.
//! - [`prepare`]: defaults and validation of the API server, and what the controller adds.
//! - [`admission`]: what admission plugins write into new pods and claims.
//! - [`class_drift`]: the NodeClaims that drift because their NodeClass changes.
//! - [`invalid`]: a field that the API server refuses, with what to write.
//! - [`definition`]: what custom resource definitions refuse, and what to write instead.
//! - [`workloads`]: the pods of workloads that the input does not have.
//! - [`lacking`]: what a dump does not have although decisions read it.
//! - [`validation`]: what the API server refuses of manifests of its own kinds.
//! - [`retired`]: API versions that are not served any more.
//! - [`select`]: the options that choose the input and the objects to report on.

mod admission;
pub(crate) mod autoscalers;
pub(crate) mod class_drift;
pub(crate) mod cluster;
pub(crate) mod definition;
pub(crate) mod evaluate;
mod files;
pub(crate) mod invalid;
pub(crate) mod lacking;
pub(crate) mod load;
pub(crate) mod object;
pub(crate) mod prepare;
mod refused;
pub(crate) mod retired;
pub(crate) mod select;
pub(crate) mod static_pools;
mod template;
#[cfg(test)]
mod tests;
pub(crate) mod validation;
pub(crate) mod workloads;

use std::{
    collections::BTreeSet,
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

#[cfg(any(test, feature = "lab"))]
pub(crate) use self::files::parse;
#[cfg(feature = "lab")]
pub(crate) use self::files::read as read_files;
pub(crate) use self::files::{json_reason, yaml};
use self::select::InputOptions;
pub(crate) use self::template::selects_labels;
use crate::{kube_client, sheet::plain};

/// The objects of files, or of the cluster if no file is named.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Item>> {
    read_from(&InputOptions { files: paths.to_vec(), ..InputOptions::default() })
}

/// The objects of files, or of the cluster that the options name. Notes on what may not be listed go to standard error.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn read_from(options: &InputOptions) -> anyhow::Result<Vec<Item>> {
    let (items, notes) = read_noted(options)?;
    for note in notes {
        writeln!(anstream::stderr(), "note: {}", plain(&note))?;
    }
    Ok(items)
}

/// The same, with the notes.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn read_noted(options: &InputOptions) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    if !options.files.is_empty() {
        return Ok((files::read(&options.files)?, Vec::new()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(options).await.context("without -f the cluster is read")?;
        let (items, denied) = cluster::read(&client).await?;
        Ok((items, denied.iter().map(|plural| lacking::denied(plural)).collect()))
    })
}

/// A client of the cluster that the options name.
///
/// # Errors
/// If there is none, or its configuration is invalid.
pub(crate) async fn connect(options: &InputOptions) -> anyhow::Result<kube::Client> {
    kube_client::connect_to(options.kubeconfig.as_deref(), options.context.as_deref()).await
}

/// The objects that `compat` reads: the same with definitions, permissions, webhooks and leases; and the kinds of the cluster that may not
/// be listed.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn read_all(options: &InputOptions) -> anyhow::Result<(Vec<Item>, Vec<String>)> {
    if !options.files.is_empty() {
        return Ok((files::read(&options.files)?, Vec::new()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(options).await.context("without -f the cluster is read")?;
        let (mut items, mut denied) = cluster::read_permitted(&client).await?;
        let (further, denied_further) = cluster::read_further(&client).await?;
        items.extend(further);
        denied.extend(denied_further);
        Ok((items, denied))
    })
}

/// The config maps of the cluster of the options that `wanted` names by namespace and name, without those that do not exist or may not be read.
///
/// # Errors
/// If the cluster cannot be reached.
pub(crate) fn read_config_maps(
    options: &InputOptions,
    wanted: &BTreeSet<(String, String)>,
) -> anyhow::Result<Vec<Item>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(options).await?;
        cluster::read_config_maps(&client, wanted).await
    })
}

/// One Kubernetes object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// The position of an object in the input.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In a file.
    File {
        path: Arc<Path>,
        /// Its document.
        document: Arc<Document>,
        /// Its index in the `items` of the document.
        item: Option<usize>,
    },
    /// In the cluster.
    Cluster,
}

/// One document of a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) text: String,
    /// Line of the file on which it starts, from 1.
    pub(crate) line: u64,
}

/// `path:line`, or `cluster`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::File { path, document, item } => {
                let line = match item {
                    None => document.first_line(),
                    Some(item) => document.line_of_item(*item).unwrap_or(document.line),
                };
                write!(f, "{}:{line}", path.display())
            }
        }
    }
}

impl Document {
    /// The line of its first token.
    fn first_line(&self) -> u64 {
        let blank = |line: &&str| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        };
        let before = self.text.lines().take_while(blank).count();
        self.line.saturating_add(u64::try_from(before).unwrap_or(0))
    }

    /// The line on which an entry of `items` starts. Computed for messages only.
    fn line_of_item(&self, item: usize) -> Option<u64> {
        #[derive(Deserialize)]
        struct Items {
            items: Vec<Spanned<serde::de::IgnoredAny>>,
        }
        let read: Items = yaml(&self.text).ok()?;
        Some(self.line + read.items.get(item)?.referenced.line().saturating_sub(1))
    }
}
