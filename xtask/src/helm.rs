//! Helm, built once per version into `target/tools/` from the Go module proxy, and what it renders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::shell;

/// The version that renders `deploy/` and the charts in CI.
const VERSION: &str = "v3.19.0";
/// The versions that Helm assumes of the cluster, because it renders without one.
const CLUSTER: [&str; 4] = ["--kube-version", "1.34.0", "--api-versions", "monitoring.coreos.com/v1"];

/// A Helm that is there.
pub(crate) struct Helm {
    program: PathBuf,
}

impl Helm {
    /// The Helm of [`VERSION`], which is built if it is not there: four minutes on two cores, once.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let folder =
            shell::workspace()?.target_directory.into_std_path_buf().join("tools/helm").join(VERSION);
        let program = folder.join(format!("helm{}", std::env::consts::EXE_SUFFIX));
        if !program.is_file() {
            anstream::println!(
                "building Helm {VERSION} in {} (4 minutes on two cores, once)",
                folder.display()
            );
            install(&folder)?;
        }
        Ok(Self { program })
    }

    /// What `helm template karpenter` prints for `chart` in `namespace` with further arguments.
    ///
    /// # Errors
    /// Helm refuses the chart or the values; the error has its words.
    pub(crate) fn template(&self, chart: &Path, namespace: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut helm = Command::new(&self.program);
        helm.args(["template", "karpenter"])
            .arg(chart)
            .args(["--namespace", namespace])
            .args(CLUSTER)
            .args(args);
        shell::capture(&mut helm)
    }

    /// `helm lint`, warnings denied.
    pub(crate) fn lint(&self, chart: &Path, args: &[&str]) -> anyhow::Result<()> {
        shell::capture(Command::new(&self.program).args(["lint", "--strict"]).arg(chart).args(args))?;
        Ok(())
    }
}

fn install(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let module = format!("helm.sh/helm/v3/cmd/helm@{VERSION}");
    // Not `run`, so that a missing Go is named as what it is.
    let status = Command::new("go")
        .args(["install", "-p", "2", &module])
        .env("GOBIN", folder)
        .env("GOTOOLCHAIN", "local")
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("go install {module} failed: {status}"),
        Err(error) => bail!(
            "the charts are rendered by Helm, which is built with Go 1.24 or newer (https://go.dev/dl): {error}"
        ),
    }
}

/// The objects of a rendered chart; empty documents do not count.
pub(crate) fn objects(rendered: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(rendered).context("Helm rendered no YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
