//! Programs of others that tasks need: found on the `PATH`, or installed under `target/tools`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::shell;

/// A program, the version that is installed if none is found, and the Python package that has the binary, if one has it.
pub(crate) struct Program {
    /// The name of the program and of its crate.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) prebuilt: Option<&'static str>,
}

impl Program {
    /// The program on the `PATH`, or the installed one.
    pub(crate) fn find_or_install(&self) -> anyhow::Result<PathBuf> {
        let (name, version) = (self.name, self.version);
        let folder = shell::workspace()?.target_directory.join("tools").join(name).into_std_path_buf();
        let installed = folder.join("bin").join(name);
        if let Some(found) = [PathBuf::from(name), installed.clone()].into_iter().find(|path| works(path)) {
            return Ok(found);
        }
        anstream::println!("{name} is missing: installing {version} under target/");
        if let Err(prebuilt) = self.install_prebuilt(&folder) {
            anstream::println!("no prebuilt {name} ({prebuilt:#}): compiling it, which takes minutes");
            self.install_from_source(&folder)?;
        }
        Ok(installed)
    }

    /// A virtual environment leaves the system's Python as it is.
    fn install_prebuilt(&self, folder: &Path) -> anyhow::Result<()> {
        let package = self.prebuilt.context("no package has it")?;
        shell::capture(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        shell::capture(
            Command::new(folder.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check"])
                .arg(format!("{package}=={}", self.version)),
        )?;
        anyhow::ensure!(works(&folder.join("bin").join(self.name)), "the prebuilt program does not start");
        Ok(())
    }

    fn install_from_source(&self, folder: &Path) -> anyhow::Result<()> {
        let mut command =
            shell::cargo(&["install", self.name, "--locked", "--version", self.version, "--root"]);
        // It runs seldom and briefly: optimising it is most of the time.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        // Our lints are not theirs.
        command.env_remove("RUSTC_WORKSPACE_WRAPPER");
        shell::run(command.arg(folder))
            .with_context(|| format!("install {} by hand and put it on the PATH", self.name))
    }
}

/// Whether a program starts.
pub(crate) fn works(program: &Path) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
