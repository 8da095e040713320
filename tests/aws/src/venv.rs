//! moto in a virtual environment of its own below `target/`, made once and used again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::process::Command;

/// The version whose deviations `fleetwright-aws-emulator` makes up for.
const MOTO: &str = "moto[server]==5.2.5";

/// The folder's name carries the version, so that a newer one is not taken for it.
const FOLDER: &str = "tools/moto-5.2.5";

/// The Python that has moto, which is installed below `target` if missing.
pub(crate) async fn python(target: &Path) -> anyhow::Result<PathBuf> {
    let folder = target.join(FOLDER);
    let program = folder.join("bin/python");
    // Written last: an installation that was interrupted is begun again.
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(program);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut python = Command::new("python3");
    run(python.args(["-m", "venv"]).arg(&folder)).await.context(
        "the AWS tier needs python3 with its venv module (Debian: python3-venv), for a moto server",
    )?;
    let mut pip = Command::new(folder.join("bin/pip"));
    let args = ["install", "--quiet", "--disable-pip-version-check", MOTO];
    run(pip.args(args)).await.with_context(|| format!("cannot install {MOTO}"))?;
    std::fs::write(&complete, MOTO)?;
    Ok(program)
}

async fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.kill_on_drop(true).output().await;
    let output = output.context("cannot be started")?;
    if !output.status.success() {
        bail!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
