//! What every crate's manifest and lint files have in common.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::Metadata;

use super::{PURE, Violation};

/// Checks each member's manifest, and that the pure crates are held to the same strict lints.
pub(super) fn check(root: &Path, workspace: &Metadata) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for package in workspace.workspace_packages() {
        let text = read(package.manifest_path.as_std_path())?;
        found.extend(without_lints(&package.name, &text));
    }
    let strict = PURE.map(|name| root.join("crates").join(name).join("clippy.toml"));
    let copies = [read(&strict[0])?, read(&strict[1])?];
    found.extend(differing_copies(&copies[0], &copies[1]));
    found.extend(laxer(&read(&root.join("clippy.toml"))?, &copies[0]));
    Ok(found)
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn without_lints(name: &str, manifest: &str) -> Option<Violation> {
    let table = manifest.parse::<toml::Table>().ok();
    let inherited = table.as_ref().and_then(|table| table.get("lints")?.get("workspace")?.as_bool());
    (inherited != Some(true))
        .then(|| Violation::new(name, "lacks `[lints] workspace = true` in its Cargo.toml"))
}

fn differing_copies(core: &str, state: &str) -> Option<Violation> {
    (core != state).then(|| {
        Violation::new(
            "crates/state/clippy.toml",
            "differs from crates/core/clippy.toml: run `cargo xtask generate`",
        )
    })
}

/// A crate's own clippy.toml replaces the root's, so the strict one has to repeat what the root forbids.
fn laxer(root: &str, strict: &str) -> Vec<Violation> {
    let strict = forbidden_methods(strict);
    let missing = forbidden_methods(root).into_iter().filter(|path| !strict.contains(path));
    missing
        .map(|path| {
            Violation::new(
                "crates/core/clippy.toml",
                format!("does not forbid {path}, which clippy.toml does"),
            )
        })
        .collect()
}

fn forbidden_methods(clippy: &str) -> Vec<String> {
    let table = clippy.parse::<toml::Table>().unwrap_or_default();
    let methods = table.get("disallowed-methods").and_then(toml::Value::as_array);
    let path = |entry: &toml::Value| Some(entry.get("path")?.as_str()?.to_owned());
    methods.into_iter().flatten().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_the_lints_is_named() {
        assert_eq!(without_lints("a", "[package]\nname = \"a\"\n[lints]\nworkspace = true\n"), None);
        for manifest in
            ["[package]\nname = \"a\"\n", "[lints]\nworkspace = false\n", "[lints.rust]\n", "no toml"]
        {
            assert!(without_lints("a", manifest).is_some(), "{manifest}");
        }
    }

    #[test]
    fn strict_lints_are_one_text_and_no_laxer_than_the_root() {
        assert_eq!(differing_copies("a", "a"), None);
        assert!(differing_copies("a", "b").is_some());
        let now = "disallowed-methods = [{ path = \"a::now\", reason = \"r\" }]";
        assert_eq!(laxer(now, now), []);
        assert_eq!(laxer(now, "").len(), 1);
    }
}
