//! Builds the control plane from the Go module in `tests/e2e/controlplane/`, once per version, into `target/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{PARTS, is_complete, program};
use crate::e2e::arguments::Environment;

/// What the module's go.mod asks for: the toolchain of Kubernetes itself.
const GO_MINIMUM: (u32, u32) = (1, 25);

const HOW_ELSE: &str = "Or set KUBEBUILDER_ASSETS to a folder that has etcd, kube-apiserver, \
     kube-controller-manager, kube-scheduler and kubectl.";

/// The file that holds the sources a folder was built from: equal means up to date.
const STAMP: &str = "built-from";

/// The folder of an earlier build of the current sources.
pub(crate) fn built(environment: &Environment) -> anyhow::Result<Option<PathBuf>> {
    let module = Module::read(environment)?;
    let current =
        std::fs::read_to_string(module.folder.join(STAMP)).is_ok_and(|stamp| stamp == module.sources);
    Ok((current && is_complete(&module.folder, &PARTS)).then_some(module.folder))
}

/// The folder of the current sources' build, which is made if it is not there.
pub(crate) fn build(environment: &Environment, out: &mut dyn Write) -> anyhow::Result<PathBuf> {
    if let Some(folder) = built(environment)? {
        return Ok(folder);
    }
    check_go(&module_folder(environment))?;
    let module = Module::read(environment)?;
    writeln!(
        out,
        "building Kubernetes {} in {} (about 6 minutes on two cores, once)",
        module.version,
        module.folder.display()
    )?;
    std::fs::create_dir_all(&module.folder)?;
    let binary = program(&module.folder, "controlplane");
    compile(&module, &module_folder(environment), &binary)?;
    for part in PARTS {
        let link = program(&module.folder, part);
        if link.exists() {
            std::fs::remove_file(&link)?;
        }
        // A hard link: the binary looks at the name it was called by, and every file system of a target folder has them.
        std::fs::hard_link(&binary, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    // Written last: an interrupted build is not taken for a finished one.
    std::fs::write(module.folder.join(STAMP), &module.sources)?;
    Ok(module.folder)
}

fn module_folder(environment: &Environment) -> PathBuf {
    environment.root.join("tests/e2e/controlplane")
}

/// The Go module: which Kubernetes it builds, and where to.
struct Module {
    /// With the leading `v`.
    version: String,
    /// `target/controlplane/<version>/`
    folder: PathBuf,
    /// go.mod and main.go; go.sum follows from go.mod.
    sources: String,
}

impl Module {
    fn read(environment: &Environment) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = module_folder(environment).join(file);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let manifest = read("go.mod")?;
        let version =
            kubernetes_version(&manifest).context("go.mod does not require k8s.io/kubernetes")?.to_owned();
        let folder = environment.target.join("controlplane").join(&version);
        Ok(Self { version, folder, sources: manifest + &read("main.go")? })
    }
}

/// The version of Kubernetes that a go.mod requires.
fn kubernetes_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes ")).map(str::trim)
}

fn compile(module: &Module, source: &Path, binary: &Path) -> anyhow::Result<()> {
    let mut parts = module.version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let version = "k8s.io/component-base/version";
    // Without the three versions the server calls itself v0.0.0-master and clients refuse to guess what it can do.
    let link = format!(
        "-s -w -X {version}.gitVersion={} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}",
        module.version
    );
    let status = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-p", "2", "-ldflags", &link, "-o"])
        .args([binary.as_os_str(), ".".as_ref()])
        .current_dir(source)
        .env("GOTOOLCHAIN", "local")
        // The compiler's peak is 2 GiB without a limit; a soft one keeps small instances out of trouble.
        .env("GOMEMLIMIT", "3GiB")
        .status()
        .context("cannot start go")?;
    if !status.success() {
        bail!("go build of the control plane failed: {status}. {HOW_ELSE}");
    }
    Ok(())
}

/// Fails when no Go of a sufficient version is there.
pub(crate) fn check_go(folder: &Path) -> anyhow::Result<()> {
    let (major, minor) = GO_MINIMUM;
    let wanted = format!("building the control plane needs Go {major}.{minor} or newer (https://go.dev/dl)");
    let output = Command::new("go").arg("version").current_dir(folder).env("GOTOOLCHAIN", "local").output();
    let Ok(output) = output else { bail!("{wanted}; there is no `go` on the PATH. {HOW_ELSE}") };
    let text = String::from_utf8_lossy(&output.stdout);
    match go_version(&text) {
        Some(found) if found >= GO_MINIMUM => Ok(()),
        _ => bail!("{wanted}; `go version` says: {}. {HOW_ELSE}", text.trim()),
    }
}

/// Major and minor of `go version go1.26.8 linux/amd64`; release candidates (`go1.26rc1`) count as their release.
fn go_version(text: &str) -> Option<(u32, u32)> {
    let version =
        text.split_whitespace().find_map(|word| word.strip_prefix("go1.").map(|minor| (1, minor)))?;
    let digits: String = version.1.chars().take_while(char::is_ascii_digit).collect();
    Some((version.0, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(go_version("go version go1.26.8 linux/amd64\n"), Some((1, 26)));
        assert_eq!(go_version("go version go1.25rc2 darwin/arm64"), Some((1, 25)));
        assert_eq!(go_version("go version devel go1.27-abc linux/amd64"), Some((1, 27)));
        assert_eq!(go_version("command not found"), None);
        assert!(go_version("go version go1.9 linux/amd64").is_some_and(|found| found < GO_MINIMUM));
    }

    #[test]
    fn the_modules_own_version_is_found() {
        let manifest = include_str!("../../../e2e/controlplane/go.mod");
        let version = kubernetes_version(manifest).expect("go.mod requires Kubernetes");
        assert!(version.starts_with("v1."), "{version}");
        // The staging modules are published as v0.<minor>.<patch> of the same release.
        let staging = version.replacen("v1.", "v0.", 1);
        let replaced: Vec<&str> = manifest.lines().filter(|line| line.contains(" => k8s.io/")).collect();
        assert!(replaced.len() > 30, "{}", replaced.len());
        assert!(replaced.iter().all(|line| line.ends_with(&staging)), "{replaced:#?}");
    }
}
