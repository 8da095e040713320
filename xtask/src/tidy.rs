//! `cargo xtask tidy`: the rules that hold the shape of the repository, as small functions over plain inputs.
//!
//! - [`edges`]: which of our crates may use which, who may use the AWS SDK, what `cargo test` covers;
//! - [`features`]: tests and programs are built from one dependency graph;
//! - [`purity`]: `core` and `state` know no clock, client, chance or environment;
//! - [`source`]: how a file opens, how long it and its functions are, words and attributes that have no place;
//! - [`manifests`]: every crate has the workspace's lints, the pure crates the strict ones;
//! - [`rights`]: what `deploy/` grants;
//! - [`architecture`]: ARCHITECTURE.md names what there is, and all of it;
//! - [`signs`]: no text writes the sign of a currency;
//! - [`words`]: private words that have a public name do not come back;
//! - [`bare`]: no type has a name that says nothing alone;
//! - [`impls`], [`circles`], [`floors`], [`indices`]: what stands where inside a crate, with the lists of [`house`] of what
//!   breaks these rules today.
//!
//! `cargo test` runs the same check. A rule that cannot fail is a defect: each has a test with a planted violation.

mod architecture;
mod bare;
mod circles;
mod edges;
mod features;
mod floors;
mod house;
mod impls;
mod indices;
mod manifests;
mod modules;
mod purity;
mod rights;
mod signs;
mod source;
#[cfg(test)]
mod tests;
mod tokens;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::shell;
use house::House;
use modules::Crate;

/// Crates that decide and do nothing else, by folder name.
const PURE: [&str; 2] = ["core", "state"];

/// A rule that is broken, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    /// A file, with the line if known, or a crate.
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
    let mut sources = Vec::new();
    for file in files(root)? {
        let bytes = fs::read(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        found.extend(words::check(&file, &text));
        if !["rs", "toml", "yaml", "yml"].iter().any(|end| file.ends_with(&format!(".{end}"))) {
            continue;
        }
        found.extend(source::check(&file, &text));
        found.extend(bare::check(&file, &text));
        found.extend(signs::check(&file, &text));
        if file.starts_with("deploy/") && file.ends_with(".yaml") {
            found.extend(rights::check(&file, &text));
        }
        if PURE.iter().any(|name| file.starts_with(&format!("crates/{name}/"))) {
            found.extend(purity::check_source(&file, &text));
        }
        sources.push((file, text));
    }
    found.extend(structure(&sources)?);
    let page = fs::read_to_string(root.join(architecture::FILE)).context("cannot read ARCHITECTURE.md")?;
    let packages = workspace.workspace_packages();
    let folders = packages.iter().filter_map(|package| package.manifest_path.parent());
    let members: Vec<String> = folders
        .filter_map(|folder| {
            Some(folder.as_std_path().strip_prefix(root).ok()?.to_string_lossy().into_owned())
        })
        .collect();
    found.extend(architecture::check(&page, &members, &sources, |path| root.join(path).exists()));
    Ok(found)
}

/// The rules of what stands where inside a crate.
fn structure(sources: &[(String, String)]) -> anyhow::Result<Vec<Violation>> {
    let listed = sources.iter().find(|(file, _)| file == house::FILE);
    let (_, listed) = listed.with_context(|| format!("{} is missing", house::FILE))?;
    let house: House = toml::from_str(listed).with_context(|| format!("cannot read {}", house::FILE))?;
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.ends_with(".rs")) {
        if let Some((folder, _)) = file.split_once("/src/") {
            crates.entry(folder).or_default().push((file, text));
        }
    }
    let named = |folder: &str| folder.rsplit('/').next().unwrap_or(folder).to_owned();
    let crates: Vec<(String, Crate)> =
        crates.into_iter().map(|(folder, files)| (named(folder), Crate::read(files))).collect();
    let files: Vec<String> = sources.iter().map(|(file, _)| file.clone()).collect();
    let mut found = impls::check(&crates, &house);
    found.extend(circles::check(&crates, &house));
    found.extend(floors::check(&crates, &house, &files));
    found.extend(indices::check(sources, &house));
    Ok(found)
}

/// Our files below `root`, as sorted paths relative to it. Folders that are hidden or built are not ours.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = root.join(&folder).read_dir();
        for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                // What a link names is read where it is.
                continue;
            }
            if kind.is_dir() {
                if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if !name.starts_with('.') {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
