//! What is published: packages of the public crates, and a registry of them on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use serde_json::{Value, json};

use crate::shell;

/// `cargo publish` of all public crates, up to the upload. Nothing is compiled: the example of a provider is built from what this
/// packages.
pub(crate) fn check() -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&[
        "publish",
        "--workspace",
        "--dry-run",
        "--no-verify",
        "--locked",
        "--allow-dirty",
    ]))
}

/// Fills `folder` with a local registry: the public crates of the workspace as packaged, and every crate that the workspace is locked to.
pub(crate) fn registry(folder: &Path) -> anyhow::Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(shell::root().join("Cargo.toml"))
        .other_options(vec!["--locked".to_owned()])
        .exec()
        .context("cannot read the dependencies with cargo metadata")?;
    let mut package = shell::cargo(&["package", "--workspace", "--no-verify", "--locked", "--allow-dirty"]);
    let private = metadata.workspace_packages().into_iter().filter(|package| is_private(package));
    for name in private.map(|package| package.name.to_string()) {
        package.args(["--exclude", &name]);
    }
    shell::run(&mut package)?;
    let packaged = metadata.target_directory.join("package").into_std_path_buf();
    let mut index: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| !is_private(package)) {
        let file = archive(package, &packaged)?;
        let name = file.file_name().context("an archive has a name")?;
        let copy = folder.join(name);
        fs::create_dir_all(folder)?;
        fs::copy(&file, &copy).with_context(|| format!("cannot copy {}", file.display()))?;
        let line = index_line(package, &sha256(&copy)?);
        index.entry(index_path(&package.name)).or_default().push(line.to_string());
    }
    for (path, lines) in index {
        let path = folder.join("index").join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, lines.join("\n") + "\n")?;
    }
    anstream::println!("{} is a registry of {} crates", folder.display(), count(&metadata));
    Ok(())
}

fn count(metadata: &Metadata) -> usize {
    metadata.packages.iter().filter(|package| !is_private(package)).count()
}

/// Whether a crate of the workspace is not published.
fn is_private(package: &Package) -> bool {
    package.source.is_none() && package.publish.as_ref().is_some_and(Vec::is_empty)
}

/// The archive of a crate: as just packaged, or as cargo downloaded it.
fn archive(package: &Package, packaged: &Path) -> anyhow::Result<PathBuf> {
    let name = format!("{}-{}.crate", package.name, package.version);
    if package.source.is_none() {
        return Ok(packaged.join(name));
    }
    // .../registry/src/REGISTRY/NAME-VERSION/Cargo.toml
    let mut parts = package.manifest_path.as_std_path().ancestors().skip(2);
    let registry = parts.next().and_then(Path::file_name).context("a crate is in a registry's folder")?;
    let home = parts.nth(1).context("a registry is in cargo's folder")?;
    let file = home.join("cache").join(registry).join(name);
    ensure!(file.is_file(), "{} is missing: cargo fetch", file.display());
    Ok(file)
}

fn sha256(file: &Path) -> anyhow::Result<String> {
    let printed = shell::capture(Command::new("sha256sum").arg(file))?;
    Ok(printed.split_whitespace().next().context("sha256sum prints a sum")?.to_owned())
}

/// Where the index has a crate: as in every registry of cargo.
fn index_path(name: &str) -> PathBuf {
    let name = name.to_ascii_lowercase();
    match name.len() {
        1 | 2 => PathBuf::from(name.len().to_string()).join(&name),
        3 => Path::new("3").join(&name[..1]).join(&name),
        _ => Path::new(&name[..2]).join(&name[2..4]).join(&name),
    }
}

/// The entry of a version in the index. It has what only the tests of the version use, because features may name that: cargo refuses an
/// entry whose features name an unknown dependency.
fn index_line(package: &Package, checksum: &str) -> Value {
    json!({
        "name": package.name, "vers": package.version.to_string(), "cksum": checksum, "yanked": false,
        "deps": package.dependencies.iter().map(index_dependency).collect::<Vec<_>>(),
        "features": {}, "features2": package.features, "v": 2, "links": package.links,
    })
}

fn index_dependency(dependency: &Dependency) -> Value {
    let kind = match dependency.kind {
        DependencyKind::Build => "build",
        DependencyKind::Development => "dev",
        _ => "normal",
    };
    json!({
        "name": dependency.rename.as_ref().unwrap_or(&dependency.name),
        "package": dependency.rename.as_ref().map(|_| &dependency.name),
        "req": dependency.req.to_string(), "features": dependency.features, "optional": dependency.optional,
        "default_features": dependency.uses_default_features, "kind": kind,
        "target": dependency.target.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As hashbrown 0.17.1, whose feature `nightly` is about a dependency of its tests.
    #[test]
    fn every_dependency_that_a_feature_names_is_in_the_index() {
        let dependency = |name: &str, kind: Option<&str>, rename: Option<&str>| {
            json!({"name": name, "source": null, "req": "^1", "kind": kind, "rename": rename, "optional": false,
                "uses_default_features": true, "features": [], "target": null, "registry": null})
        };
        let package = json!({"name": "some", "version": "1.0.0", "id": "some", "source": null,
            "dependencies": [dependency("bumpalo", Some("dev"), None), dependency("cc", Some("build"), None),
                dependency("rustc-std-workspace-core", None, Some("core"))],
            "features": {"nightly": ["bumpalo/allocator_api"]}, "targets": [], "manifest_path": "/some/Cargo.toml"});
        let line = index_line(&serde_json::from_value(package).unwrap(), "sum");
        let deps: Vec<_> =
            line["deps"].as_array().unwrap().iter().map(|dep| (&dep["name"], &dep["kind"])).collect();
        let expected = json!([["bumpalo", "dev"], ["cc", "build"], ["core", "normal"]]);
        assert_eq!(json!(deps), expected);
        assert_eq!(line["deps"][2]["package"], "rustc-std-workspace-core");
        assert_eq!(line["features2"]["nightly"], json!(["bumpalo/allocator_api"]));
    }

    #[test]
    fn crates_are_where_cargo_looks_for_them() {
        for (name, path) in [
            ("a", "1/a"),
            ("cc", "2/cc"),
            ("syn", "3/s/syn"),
            ("serde", "se/rd/serde"),
            ("fleetwright-core", "fl/ee/fleetwright-core"),
        ] {
            assert_eq!(index_path(name), Path::new(path));
        }
    }
}
