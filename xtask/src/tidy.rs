//! `cargo xtask tidy`: the rules that hold the shape of the repository, as small functions over plain inputs.
//!
//! - [`edges`]: which of our crates may use which, who may use the AWS SDK, what `cargo test` covers;
//! - [`features`]: tests and programs are built from one dependency graph;
//! - [`purity`]: `core` and `state` know no clock, client, chance or environment;
//! - [`source`]: how a file opens, how long it and its functions are, words and attributes that have no place;
//! - [`manifests`]: every crate has the workspace's lints, the pure crates the strict ones;
//! - [`rights`]: what `deploy/` grants.
//!
//! `cargo test` runs the same check. A rule that cannot fail is a defect: each has a test with a planted violation.

mod edges;
mod features;
mod manifests;
mod purity;
mod rights;
mod source;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::shell;

/// Crates that decide and do nothing else, by folder name.
const PURE: [&str; 2] = ["core", "state"];

/// A rule that is broken, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    /// A file, with a line where one is known, or a crate.
    place: String,
    message: String,
}

impl Violation {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Checks the repository; prints each violation and fails if there is one.
pub(crate) fn run() -> anyhow::Result<()> {
    let violations = check(&shell::root())?;
    for violation in &violations {
        anstream::eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => bail!("the repository's rules (STYLE.md) are broken in {count} places"),
    }
}

/// Every violation of every rule, in a stable order.
fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let workspace = shell::workspace()?;
    let mut found = edges::check(&workspace);
    found.extend(features::check()?);
    for name in PURE {
        found.extend(purity::check_closure(name)?);
    }
    found.extend(manifests::check(root, &workspace)?);
    for file in files(root)? {
        let text = fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        found.extend(source::check(&file, &text));
        if file.starts_with("deploy/") && file.ends_with(".yaml") {
            found.extend(rights::check(&file, &text));
        }
        if PURE.iter().any(|name| file.starts_with(&format!("crates/{name}/"))) {
            found.extend(purity::check_source(&file, &text));
        }
    }
    Ok(found)
}

/// Our text files below `root`, as sorted paths relative to it. Folders that are hidden or built are not ours.
fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = root.join(&folder).read_dir();
        for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if ["rs", "toml", "yaml", "yml"]
                .iter()
                .any(|end| path.extension().is_some_and(|e| e == *end))
            {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
