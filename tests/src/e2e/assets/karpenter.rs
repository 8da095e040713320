//! Builds Karpenter with its kwok provider from the Go module in `tests/e2e/karpenter/`, once per version, into `target/`.
//!
//! The module has no source of its own: it names the package as a tool, and go.sum fixes what the module proxy answers.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use tokio::time::Instant;

use super::{go, program};
use crate::e2e::arguments::Environment;

/// The package that is built.
const PACKAGE: &str = "sigs.k8s.io/karpenter/kwok";

/// The program of the current version, which is built if it is not there.
pub(crate) fn build(environment: &Environment, out: &mut dyn Write) -> anyhow::Result<PathBuf> {
    let module = environment.root.join("tests/e2e/karpenter");
    let path = module.join("go.mod");
    let manifest =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let version = version(&manifest).context("go.mod does not require sigs.k8s.io/karpenter")?;
    let folder = environment.target.join("karpenter").join(version);
    let binary = program(&folder, "karpenter");
    if binary.is_file() {
        return Ok(binary);
    }
    go::check_go(&module)?;
    writeln!(out, "building Karpenter {version} in {}, once", folder.display())?;
    std::fs::create_dir_all(&folder)?;
    let begin = Instant::now();
    // Under another name until it is whole: an interrupted build is not taken for a finished one.
    let draft = program(&folder, "draft");
    // The version that a release of Karpenter reports of itself.
    let link =
        format!("-s -w -X sigs.k8s.io/karpenter/pkg/operator.Version={}", version.trim_start_matches('v'));
    let status = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-p", "2", "-ldflags", &link, "-o"])
        .args([draft.as_os_str(), PACKAGE.as_ref()])
        .current_dir(&module)
        .env("GOTOOLCHAIN", "local")
        .env("GOMEMLIMIT", "3GiB")
        .status()
        .context("cannot start go")?;
    if !status.success() {
        bail!("go build of Karpenter failed: {status}");
    }
    std::fs::rename(&draft, &binary)?;
    writeln!(out, "built Karpenter {version} in {:.0} s", begin.elapsed().as_secs_f64())?;
    Ok(binary)
}

/// The version of Karpenter that a go.mod requires.
fn version(manifest: &str) -> Option<&str> {
    let required = manifest.lines().map(|line| line.trim().trim_start_matches("require "));
    let mut versions = required.filter_map(|line| line.strip_prefix("sigs.k8s.io/karpenter "));
    versions.next()?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_names_the_version_that_the_compatibility_pages_are_about() {
        let manifest = include_str!("../../../e2e/karpenter/go.mod");
        assert_eq!(version(manifest), Some("v1.14.1"));
        assert!(manifest.contains(&format!("tool {PACKAGE}\n")));
        assert_eq!(version("require sigs.k8s.io/karpenter v1.2.3 // indirect"), Some("v1.2.3"));
        assert_eq!(version("module sigs.k8s.io/karpenter\n"), None);
    }
}
