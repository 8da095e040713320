//! Where lists of decisions are read from: a running controller, or a file that `fleetwright decisions -o json` has written.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use fleetwright_core::decisions::record::VERSION;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::client::Endpoint;

/// The most that is read of standard input: a list has at most 4 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// Decisions that a view reads: more than anyone scrolls through.
pub(crate) const SHOWN: usize = 200;

/// Where a view reads the last decisions from.
pub(crate) enum DecisionSource {
    /// The metrics port of a controller.
    Controller { runtime: Runtime, endpoint: Box<Endpoint> },
    /// A list in a file.
    File(PathBuf),
}

impl DecisionSource {
    /// The controller of a URL, or a file.
    ///
    /// # Errors
    /// The URL is not one.
    pub(crate) fn new(url_or_file: &str) -> anyhow::Result<Self> {
        if !url_or_file.contains("://") {
            return Ok(Self::File(url_or_file.into()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // A client is made inside of its runtime.
        let endpoint = runtime.block_on(async { Endpoint::new(url_or_file) })?;
        Ok(Self::Controller { runtime, endpoint: Box::new(endpoint) })
    }

    /// The last records, oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<Value>> {
        let text = match self {
            Self::Controller { runtime, endpoint } => {
                runtime.block_on(endpoint.list(&format!("limit={SHOWN}")))?
            }
            Self::File(path) => text_of(path)?,
        };
        let mut list = parse(&text)?;
        let mut records = list["decisions"].as_array_mut().map(std::mem::take).unwrap_or_default();
        records.drain(..records.len().saturating_sub(SHOWN));
        Ok(records)
    }
}

/// The text of a file; `-` is standard input.
///
/// # Errors
/// It cannot be read.
pub(super) fn text_of(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().take(MAX_BYTES).read_to_string(&mut text).context("standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Reads a list.
///
/// # Errors
/// It is not one, or of another version.
pub(super) fn parse(text: &str) -> anyhow::Result<Value> {
    let list: Value = serde_json::from_str(text).context("this is not a list of decisions")?;
    ensure!(list["decisions"].is_array(), "this is not a list of decisions: it has no field decisions");
    let version = list["version"].as_u64();
    if version != Some(u64::from(VERSION)) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        bail!("the list has version {found}; this binary reads version {VERSION}");
    }
    Ok(list)
}
