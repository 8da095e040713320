//! Clusters as files that `fleetwright plan -f` and `cargo xtask oracle --file` take.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::generator::Cluster;
use super::planner::Planner;
use crate::e2e::judge::parse;

/// Writes a cluster with `notes` and the commands that replay it at its head.
pub(super) fn write(
    folder: &Path,
    cluster: &Cluster,
    notes: &[String],
    planner: &Planner,
) -> anyhow::Result<PathBuf> {
    let path = path(folder, cluster);
    let replay = format!("cargo xtask oracle --file {}", path.display());
    let commands = [planner.command(&path), replay];
    write_with(&path, cluster, notes.iter().chain(&commands))?;
    Ok(path)
}

/// Where a cluster is written.
pub(super) fn path(folder: &Path, cluster: &Cluster) -> PathBuf {
    folder.join(format!("{}.yaml", cluster.name))
}

/// Writes a cluster with `notes` at its head.
pub(super) fn write_with<'a>(
    path: &Path,
    cluster: &Cluster,
    notes: impl IntoIterator<Item = &'a String>,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for note in notes {
        writeln!(text, "# {note}")?;
    }
    for object in &cluster.objects {
        writeln!(text, "---\n{}", serde_saphyr::to_string(object)?.trim_end())?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a cluster from a file; its name is that of the file.
pub(super) fn read(path: &Path) -> anyhow::Result<Cluster> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let objects = parse(&text).with_context(|| format!("{} is no manifest", path.display()))?;
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("cluster").to_owned();
    Ok(Cluster { name, features: std::collections::BTreeSet::new(), objects })
}
